//! Selection of the events of a stream that are decoded. The selection happens once per event definition, and the
//! stream only counts all other events.

use nettrace::Metadata;

use crate::event::{Kind, Layout};

/// Tag of events without a known layout. No layout has this tag.
const UNKNOWN_TAG: u32 = u32::MAX;

/// Selection of the events to decode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Events that are needed to rebuild collections, and the few events that identify the runtime or describe the
    /// configuration of its collector. All other events are only counted, which takes a few nanoseconds each.
    Collections,
    /// Like [`Collections`](Self::Collections), plus the events of this provider without a known layout. The observer
    /// receives these events undecoded.
    CollectionsAnd(&'static str),
    /// Every event of the stream, decoded if its layout is known.
    Everything,
}

impl Scope {
    /// Returns the tag of events with this definition, or `None` if the stream only counts them.
    pub(super) fn tag(self, metadata: &Metadata) -> Option<u32> {
        let layout = Layout::find(&metadata.provider, metadata.event_id, metadata.version);
        match (self, layout) {
            (Self::Everything, layout) => Some(layout.map_or(UNKNOWN_TAG, Layout::to_tag)),
            (_, Some(layout)) if rebuilds(layout.kind) || names_runtime(layout.kind) => Some(layout.to_tag()),
            (Self::CollectionsAnd(provider), None) if metadata.provider == provider => Some(UNKNOWN_TAG),
            (Self::Collections | Self::CollectionsAnd(_), _) => None,
        }
    }
}

/// Returns whether events of this kind contribute values to a collection.
pub(super) fn rebuilds(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::GcStart
            | Kind::GcEnd
            | Kind::HeapStats
            | Kind::SuspendEeBegin
            | Kind::SuspendEeEnd
            | Kind::RestartEeBegin
            | Kind::RestartEeEnd
            | Kind::GcTriggered
            | Kind::MarkWithType
            | Kind::GlobalHeapHistory
            | Kind::PerHeapHistory
            | Kind::DynamicEvent
            | Kind::CreateConcurrentThread
            | Kind::FinalizersBegin
            | Kind::FinalizersEnd
            | Kind::BulkRootEdge
    )
}

/// Returns whether events of this kind identify the runtime and its program, or describe the configuration of the
/// collector. A stream has few of these events.
fn names_runtime(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::RuntimeStart | Kind::RuntimeDcStart | Kind::RundownSettings | Kind::ProcessInfo
    )
}
