//! Typed CLR events: decodes provider, event id, version and payload into a struct with the fields of the manifest.
//!
//! # Layers
//!
//! [`Layout::find`] classifies an event, once per metadata definition. [`decode`] converts a payload of that layout to
//! a [`ClrEvent`], which borrows from the payload and does not allocate. [`ClrEvent::fields`] visits the fields of any
//! event as names and values, so that JSON or text can be written without code for each event.
//!
//! Each event has one table in the source (`record!`) with the name, wire type, manifest name and first version of each
//! field. The tables follow the manifest of the runtime (ClrEtwAll.man), corrected where recorded bytes disagree: rows
//! of GCLOHCompact and GCFitBucketInfo are padded C structs, and the manifest has no dynamic events. The doc comment of
//! each event states its sizes and the versions that were never recorded ("manifest only"). Of the 32-bit layouts,
//! GCPerHeapHistory, GCGenerationRange and GCBulkMovedObjectRanges were checked against a real 32-bit process (.NET
//! Core 3.1). The other 32-bit layouts follow from the manifest and, for padded rows, from the alignment rules of C.
//!
//! # Invariants
//!
//! * Payloads grow at the end. Bytes after the known fields are ignored, and a version newer than all known versions is
//!   read as the newest known version. (Version 0 of GCStart, GCEnd and GCSuspendEEBegin is not a prefix of version 1.)
//! * A payload that is too short causes a [`PayloadError`] for that event only. No payload causes a panic or an
//!   allocation. A count in a payload is checked against the available bytes before it is used.
//! * A field that does not exist in the version of the payload is `None`. A value without a known name keeps its
//!   number.
//! * If the version is missing (nettrace V6 of one-collect), the newest version for which the payload is long enough is
//!   used. This version is exact for complete payloads of known versions because their sizes differ. A longer payload
//!   of an older version, or a payload truncated to the exact size of an older version, cannot be distinguished from
//!   another version.
//!
//! # Example
//!
//! ```
//! use clr_gc::event::{self, ClrEvent, GcReason, Layout, PointerSize};
//!
//! let layout = Layout::find(event::RUNTIME_PROVIDER, 35, Some(0)).expect("GCTriggered is known");
//! let event = event::decode(layout, &[1, 0, 0, 0, 0, 0], PointerSize::Eight)?;
//! assert!(matches!(event, ClrEvent::GcTriggered(triggered) if triggered.reason == GcReason::INDUCED));
//!
//! let mut line = event.name().to_owned();
//! event.fields(&mut |name, value| line += &format!(" {name}={value}"));
//! assert_eq!(line, "GCTriggered Reason=1 ClrInstanceID=0");
//! # Ok::<(), event::PayloadError>(())
//! ```

mod allocation;
mod bulk;
mod dynamic;
mod enums;
mod fields;
mod flags;
mod handles;
mod heap;
mod history;
mod lifecycle;
mod number;
mod private;
mod process;
mod reader;
mod record;
mod rows;
mod text;

pub use self::allocation::*;
pub use self::bulk::*;
pub use self::dynamic::*;
pub use self::enums::*;
pub use self::fields::{Fields, Numbers, Table, Value};
pub use self::flags::*;
pub use self::handles::*;
pub use self::heap::*;
pub use self::history::*;
pub use self::lifecycle::*;
pub use self::private::*;
pub use self::process::*;
pub use self::rows::{Iter, Row, Rows};
pub use self::text::Utf16;
pub use nettrace::PointerSize;

use self::reader::{Cursor, PayloadTooShort};
use self::record::Record;

/// Name of the public provider of the runtime.
pub const RUNTIME_PROVIDER: &str = "Microsoft-Windows-DotNETRuntime";
/// Name of the private provider of the runtime, which sends unstable internals.
pub const PRIVATE_PROVIDER: &str = "Microsoft-Windows-DotNETRuntimePrivate";
/// Name of the rundown provider, which sends events at the end of a session.
pub const RUNDOWN_PROVIDER: &str = "Microsoft-Windows-DotNETRuntimeRundown";
/// Name of the provider of EventPipe itself.
pub const EVENTPIPE_PROVIDER: &str = "Microsoft-DotNETCore-EventPipe";

/// Error returned if a payload is shorter than its layout. The event cannot be decoded; later events can.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{event}{}: field {field} needs a payload of {needed} bytes, this one has {got}",
    .version.map(|version| format!(" version {version}")).unwrap_or_default()
)]
#[non_exhaustive]
pub struct PayloadError {
    /// Name of the event.
    pub event: &'static str,
    /// Version that the writer states; `None` if the writer states no version.
    pub version: Option<u8>,
    /// Name of the first incomplete field.
    pub field: &'static str,
    /// Minimum number of bytes in the payload for this field.
    pub needed: u64,
    /// Actual number of bytes in the payload.
    pub got: usize,
}

/// Kind and version of an event, classified once per metadata definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Layout {
    /// Kind of the event.
    pub kind: Kind,
    /// Version of the payload, at most 254; `None` if the writer states no version, in which case the length of each
    /// payload decides.
    pub version: Option<u8>,
}

impl Layout {
    /// Returns the layout of an event, or `None` if the event or its version is unknown.
    pub fn find(provider: &str, event_id: u32, version: Option<u32>) -> Option<Self> {
        let known = |kind: &&Kind| kind.id() == event_id && kind.provider() == provider;
        let kind = *Kind::ALL.iter().find(known)?;
        let version = version.map(|version| version.min(254) as u8);
        if version.is_some_and(|version| version < kind.versions().0) {
            return None;
        }
        Some(Self { kind, version })
    }

    /// Encodes the layout as a number, for use as the tag of a decoder's events.
    #[inline]
    pub const fn to_tag(self) -> u32 {
        let version = match self.version {
            Some(version) => version as u32 + 1,
            None => 0,
        };
        version << 8 | self.kind as u32
    }

    /// Returns the layout with this tag, or `None` if the number is not a valid tag.
    #[inline]
    pub fn from_tag(tag: u32) -> Option<Self> {
        let kind = *Kind::ALL.get((tag & 0xFF) as usize)?;
        let version = match tag >> 8 {
            0 => None,
            version => Some(u8::try_from(version - 1).ok().filter(|version| *version < 255)?),
        };
        Some(Self { kind, version })
    }

    /// Returns the name of the event in the manifest, for example `GCStart`.
    pub const fn name(self) -> &'static str {
        self.kind.name()
    }

    /// Returns the id of the event within its provider.
    pub const fn id(self) -> u32 {
        self.kind.id()
    }

    /// Returns the provider of the event.
    pub const fn provider(self) -> &'static str {
        self.kind.provider()
    }
}

macro_rules! events {
    ($($provider:ident {
        $($id:literal $kind:ident($record:ty) $name:literal $oldest:literal..=$newest:literal,)+
    })+) => {
        /// Kind of an event: one per provider and id.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        #[non_exhaustive]
        pub enum Kind {
            $($(
                #[doc = concat!($name, " (", $id, ")")]
                $kind,
            )+)+
        }

        impl Kind {
            /// All kinds.
            pub const ALL: &'static [Self] = &[$($(Self::$kind),+),+];

            /// Returns the name of the event in the manifest.
            pub const fn name(self) -> &'static str {
                match self {
                    $($(Self::$kind => $name,)+)+
                }
            }

            /// Returns the id of the event within its provider.
            pub const fn id(self) -> u32 {
                match self {
                    $($(Self::$kind => $id,)+)+
                }
            }

            /// Returns the provider of the event.
            pub const fn provider(self) -> &'static str {
                match self {
                    $($(Self::$kind => $provider,)+)+
                }
            }

            /// Returns the oldest and the newest version with a known layout.
            pub const fn versions(self) -> (u8, u8) {
                match self {
                    $($(Self::$kind => ($oldest, $newest),)+)+
                }
            }
        }

        /// An event, borrowed from its payload.
        #[derive(Debug, Clone, Copy, PartialEq)]
        #[non_exhaustive]
        pub enum ClrEvent<'a> {
            $($(
                #[doc = concat!($name, " (", $id, ")")]
                $kind($record),
            )+)+
        }

        impl ClrEvent<'_> {
            /// Returns the kind of the event.
            pub const fn kind(&self) -> Kind {
                match self {
                    $($(Self::$kind(_) => Kind::$kind,)+)+
                }
            }

            /// Returns the number of the runtime that sent the event, or `None` if the payload does not contain it.
            pub fn clr_instance(&self) -> Option<u16> {
                match self {
                    $($(Self::$kind(record) => Record::clr_instance(record),)+)+
                }
            }
        }

        impl Fields for ClrEvent<'_> {
            fn fields<'v>(&'v self, visit: &mut dyn FnMut(&'static str, Value<'v>)) {
                match self {
                    $($(Self::$kind(record) => record.fields(visit),)+)+
                }
            }
        }

        #[inline]
        fn read<'a>(layout: Layout, cursor: Cursor<'a>) -> Result<ClrEvent<'a>, PayloadError> {
            match layout.kind {
                $($(Kind::$kind => read_as(layout, cursor, ClrEvent::$kind),)+)+
            }
        }
    };
}

events! {
    RUNTIME_PROVIDER {
        0 EventSourceMessage(EventSourceMessage<'a>) "EventSourceMessage" 0..=0,
        1 GcStart(GcStart) "GCStart" 0..=2,
        2 GcEnd(GcEnd) "GCEnd" 0..=1,
        3 RestartEeEnd(NoUserData) "GCRestartEEEnd" 0..=1,
        4 HeapStats(HeapStats) "GCHeapStats" 0..=2,
        5 CreateSegment(CreateSegment) "GCCreateSegment" 0..=1,
        6 FreeSegment(FreeSegment) "GCFreeSegment" 0..=1,
        7 RestartEeBegin(NoUserData) "GCRestartEEBegin" 0..=1,
        8 SuspendEeEnd(NoUserData) "GCSuspendEEEnd" 0..=1,
        9 SuspendEeBegin(SuspendEeBegin) "GCSuspendEEBegin" 0..=1,
        10 AllocationTick(AllocationTick<'a>) "GCAllocationTick" 0..=4,
        11 CreateConcurrentThread(NoUserData) "GCCreateConcurrentThread" 0..=1,
        12 TerminateConcurrentThread(NoUserData) "GCTerminateConcurrentThread" 0..=1,
        13 FinalizersEnd(FinalizersEnd) "GCFinalizersEnd" 0..=1,
        14 FinalizersBegin(NoUserData) "GCFinalizersBegin" 0..=1,
        15 BulkType(BulkType<'a>) "BulkType" 0..=0,
        16 BulkRootEdge(BulkRootEdge<'a>) "GCBulkRootEdge" 0..=0,
        17 BulkRootConditionalWeakTableElementEdge(BulkRootConditionalWeakTableElementEdge<'a>)
            "GCBulkRootConditionalWeakTableElementEdge" 0..=0,
        18 BulkNode(BulkNode<'a>) "GCBulkNode" 0..=0,
        19 BulkEdge(BulkEdge<'a>) "GCBulkEdge" 0..=0,
        20 SampledObjectAllocationHigh(SampledObjectAllocation) "GCSampledObjectAllocationHigh" 0..=0,
        21 BulkSurvivingObjectRanges(BulkSurvivingObjectRanges<'a>) "GCBulkSurvivingObjectRanges" 0..=0,
        22 BulkMovedObjectRanges(BulkMovedObjectRanges<'a>) "GCBulkMovedObjectRanges" 0..=0,
        23 GenerationRange(GenerationRange) "GCGenerationRange" 0..=0,
        25 MarkStackRoots(MarkRoots) "GCMarkStackRoots" 0..=0,
        26 MarkFinalizeQueueRoots(MarkRoots) "GCMarkFinalizeQueueRoots" 0..=0,
        27 MarkHandles(MarkRoots) "GCMarkHandles" 0..=0,
        28 MarkOlderGenerationRoots(MarkRoots) "GCMarkOlderGenerationRoots" 0..=0,
        29 FinalizeObject(FinalizeObject) "FinalizeObject" 0..=0,
        30 SetGcHandle(SetGcHandle) "SetGCHandle" 0..=0,
        31 DestroyGcHandle(DestroyGcHandle) "DestroyGCHandle" 0..=0,
        32 SampledObjectAllocationLow(SampledObjectAllocation) "GCSampledObjectAllocationLow" 0..=0,
        33 PinObjectAtGcTime(PinObjectAtGcTime<'a>) "PinObjectAtGCTime" 0..=0,
        35 GcTriggered(GcTriggered) "GCTriggered" 0..=0,
        36 BulkRootCcw(BulkRootCcw<'a>) "GCBulkRootCCW" 0..=0,
        37 BulkRcw(BulkRcw<'a>) "GCBulkRCW" 0..=0,
        38 BulkRootStaticVar(BulkRootStaticVar<'a>) "GCBulkRootStaticVar" 0..=0,
        39 DynamicEvent(DynamicEvent<'a>) "GCDynamicEvent" 0..=0,
        187 RuntimeStart(RuntimeInformation<'a>) "RuntimeStart" 0..=0,
        200 IncreaseMemoryPressure(IncreaseMemoryPressure) "IncreaseMemoryPressure" 0..=0,
        201 DecreaseMemoryPressure(DecreaseMemoryPressure) "DecreaseMemoryPressure" 0..=0,
        202 MarkWithType(MarkWithType) "GCMarkWithType" 0..=0,
        203 Join(Join) "GCJoin" 2..=2,
        204 PerHeapHistory(PerHeapHistory<'a>) "GCPerHeapHistory" 3..=3,
        205 GlobalHeapHistory(GlobalHeapHistory<'a>) "GCGlobalHeapHistory" 2..=4,
        206 GenAwareBegin(GenAware) "GenAwareBegin" 0..=0,
        207 GenAwareEnd(GenAware) "GenAwareEnd" 0..=0,
        208 LohCompact(LohCompact<'a>) "GCLOHCompact" 0..=0,
        209 FitBucketInfo(FitBucketInfo<'a>) "GCFitBucketInfo" 0..=0,
        303 AllocationSampled(AllocationSampled<'a>) "AllocationSampled" 0..=0,
    }
    PRIVATE_PROVIDER {
        0 PrvEventSourceMessage(EventSourceMessage<'a>) "EventSourceMessage" 0..=0,
        1 PrvDecision(PrvDecision) "GCDecision" 0..=1,
        2 PrvSettings(PrvSettings) "GCSettings" 0..=1,
        3 PrvOptimized(PrvOptimized) "GCOptimized" 0..=1,
        5 PrvGlobalHeapHistory(PrvGlobalHeapHistory) "GCGlobalHeapHistory" 0..=1,
        6 PrvJoin(PrvJoin) "GCJoin" 0..=1,
        7 PrvMarkStackRoots(PrvMark) "PrvGCMarkStackRoots" 0..=1,
        8 PrvMarkFinalizeQueueRoots(PrvMark) "PrvGCMarkFinalizeQueueRoots" 0..=1,
        9 PrvMarkHandles(PrvMark) "PrvGCMarkHandles" 0..=1,
        10 PrvMarkCards(PrvMark) "PrvGCMarkCards" 0..=1,
        11 BgcBegin(BgcStep) "BGCBegin" 0..=0,
        12 Bgc1stNonConEnd(BgcStep) "BGC1stNonConEnd" 0..=0,
        13 Bgc1stConEnd(BgcStep) "BGC1stConEnd" 0..=0,
        14 Bgc2ndNonConBegin(BgcStep) "BGC2ndNonConBegin" 0..=0,
        15 Bgc2ndNonConEnd(BgcStep) "BGC2ndNonConEnd" 0..=0,
        16 Bgc2ndConBegin(BgcStep) "BGC2ndConBegin" 0..=0,
        17 Bgc2ndConEnd(BgcStep) "BGC2ndConEnd" 0..=0,
        18 BgcPlanEnd(BgcStep) "BGCPlanEnd" 0..=0,
        19 BgcSweepEnd(BgcStep) "BGCSweepEnd" 0..=0,
        20 BgcDrainMark(BgcDrainMark) "BGCDrainMark" 0..=0,
        21 BgcRevisit(BgcRevisit) "BGCRevisit" 0..=0,
        22 BgcOverflow(BgcOverflow) "BGCOverflow" 0..=1,
        23 BgcAllocWaitBegin(BgcAllocWait) "BGCAllocWaitBegin" 0..=0,
        24 BgcAllocWaitEnd(BgcAllocWait) "BGCAllocWaitEnd" 0..=0,
        25 FullNotify(FullNotify) "GCFullNotify" 0..=1,
        26 Bgc1stSweepEnd(Bgc1stSweepEnd) "BGC1stSweepEnd" 0..=0,
        192 PrvFinalizeObject(PrvFinalizeObject<'a>) "PrvFinalizeObject" 0..=0,
        194 PrvSetGcHandle(SetGcHandle) "PrvSetGCHandle" 0..=0,
        195 PrvDestroyGcHandle(DestroyGcHandle) "PrvDestroyGCHandle" 0..=0,
        199 PinPlugAtGcTime(PinPlugAtGcTime) "PinPlugAtGCTime" 0..=0,
    }
    RUNDOWN_PROVIDER {
        10 RundownSettings(RundownSettings) "GCSettingsRundown" 0..=0,
        187 RuntimeDcStart(RuntimeInformation<'a>) "RuntimeDCStart" 0..=0,
    }
    EVENTPIPE_PROVIDER {
        1 ProcessInfo(ProcessInfo<'a>) "ProcessInfo" 0..=1,
    }
}

/// Reads an event of one kind. The function is not inlined: in one function for all kinds, the optimizer computes the
/// offsets of all kinds for each event, which is three times as slow. The result is constructed in its final location,
/// because a move costs as much as reading the event.
#[inline(never)]
fn read_as<'a, R: Record<'a>>(
    layout: Layout,
    mut cursor: Cursor<'a>,
    event: impl FnOnce(R) -> ClrEvent<'a>,
) -> Result<ClrEvent<'a>, PayloadError> {
    match R::read(&mut cursor) {
        Ok(record) => Ok(event(record)),
        Err(short) => Err(payload_error(layout, cursor.total(), short)),
    }
}

#[cold]
fn payload_error(layout: Layout, got: usize, short: PayloadTooShort) -> PayloadError {
    PayloadError {
        event: layout.name(),
        version: layout.version,
        field: short.field,
        needed: short.needed,
        got,
    }
}

/// Decodes a payload.
///
/// # Errors
///
/// Returns an error if the payload is shorter than its layout. If the layout has no version, the error refers to the
/// oldest version.
#[inline]
pub fn decode<'a>(layout: Layout, payload: &'a [u8], pointer_size: PointerSize) -> Result<ClrEvent<'a>, PayloadError> {
    let (oldest, newest) = layout.kind.versions();
    let read_version = |version| read(layout, Cursor::new(payload, version, pointer_size));
    match layout.version {
        Some(version) => read_version(version.clamp(oldest, newest)),
        None => {
            let newer = (oldest + 1..=newest)
                .rev()
                .find_map(|version| read_version(version).ok());
            newer.map_or_else(|| read_version(oldest), Ok)
        }
    }
}

impl ClrEvent<'_> {
    /// Returns the name of the event in the manifest.
    pub const fn name(&self) -> &'static str {
        self.kind().name()
    }

    /// Calls `visit` with each field of the payload, by its name in the manifest of the runtime and in manifest order.
    /// Enumerations are numbers. Fields that do not exist in this version are omitted.
    pub fn fields<'v>(&'v self, visit: &mut dyn FnMut(&'static str, Value<'v>)) {
        Fields::fields(self, visit);
    }
}
