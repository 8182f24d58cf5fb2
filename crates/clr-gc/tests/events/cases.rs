//! One payload for each event and version, given field by field, with its sizes and its expected values.

use std::sync::LazyLock;

use clr_gc::event::{EVENTPIPE_PROVIDER, PRIVATE_PROVIDER, PointerSize, RUNDOWN_PROVIDER, RUNTIME_PROVIDER};

/// A payload and its expected decoding.
pub(crate) struct Case {
    pub(crate) provider: &'static str,
    pub(crate) id: u32,
    pub(crate) name: &'static str,
    pub(crate) version: u32,
    /// Size of the payload in a 64-bit and in a 32-bit process, in bytes.
    pub(crate) sizes: (usize, usize),
    /// Fields as text.
    pub(crate) fields: String,
    /// Fields as text, with their types on the wire; the payload is built from this text.
    text: String,
}

impl Case {
    pub(crate) fn payload(&self, pointer: PointerSize) -> Vec<u8> {
        read(&self.text, pointer).0
    }
}

pub(crate) static CASES: LazyLock<Vec<Case>> = LazyLock::new(|| {
    let mut cases: Vec<Case> = Vec::new();
    let mut provider = RUNTIME_PROVIDER;
    let mut rows = TABLE.lines().peekable();
    while let Some(row) = rows.next() {
        provider = match row {
            "runtime" => RUNTIME_PROVIDER,
            "private" => PRIVATE_PROVIDER,
            "rundown" => RUNDOWN_PROVIDER,
            "eventpipe" => EVENTPIPE_PROVIDER,
            _ => provider,
        };
        let Some((head, fields)) = row.split_once(':') else {
            continue;
        };
        let mut fields = fields.to_owned();
        while let Some(more) = rows.next_if(|row| row.starts_with(' ')) {
            fields = format!("{fields} {}", more.trim_start());
        }
        let (event, versions) = head.split_once(" v").unwrap();
        let (id, name) = event.split_once(' ').unwrap();
        for version in versions.split(", v") {
            let (version, sizes) = version.split_once(' ').unwrap();
            let (wide, narrow) = sizes.split_once('/').unwrap_or((sizes, sizes));
            let version = version.parse().unwrap();
            let text = select_fields(&fields, version);
            cases.push(Case {
                provider,
                id: id.parse().unwrap(),
                name,
                version,
                sizes: (wide.parse().unwrap(), narrow.parse().unwrap()),
                fields: read(&text, PointerSize::Eight).1,
                text,
            });
        }
    }
    cases
});

/// Returns the fields in `fields` that exist in this version.
fn select_fields(fields: &str, version: u32) -> String {
    let (first, later) = fields.split_once('|').unwrap_or((fields, ""));
    let later = later.split('|').filter_map(|part| part.split_once(' '));
    let later = later.filter(|(since, _)| version >= since.parse().unwrap());
    let parts = [first].into_iter().chain(later.map(|(_, part)| part));
    parts
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Returns the bytes of these fields, and the fields as text without their types on the wire. This function does not
/// use the decoder's tables, so that tests compare two independent implementations.
fn read(text: &str, pointer: PointerSize) -> (Vec<u8>, String) {
    let (mut bytes, mut shown) = (Vec::new(), String::new());
    let mut quoted = false;
    let ends = |letter: char| {
        quoted ^= letter == '"';
        !quoted && " ,[]{}".contains(letter)
    };
    for piece in text.split_inclusive(ends) {
        let word = piece.trim_end_matches([' ', ',', '[', ']', '{', '}']);
        let (name, value) = word
            .rsplit_once('=')
            .map_or(("", word), |(_, value)| word.split_at(word.len() - value.len()));
        let mut plain = value;
        if let Some(filling) = value.strip_prefix('~') {
            // A C compiler leaves arbitrary bytes before an aligned field.
            bytes.extend(number(filling, "3735928559", pointer));
            continue;
        } else if let Some(text) = value.strip_prefix('"') {
            plain = text.trim_end_matches('"');
            bytes.extend(plain.encode_utf16().chain([0]).flat_map(u16::to_le_bytes));
        } else if let Some(digits) = value.strip_prefix('#') {
            plain = digits;
            let pair = |at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
            bytes.extend((0..digits.len()).step_by(2).map(pair));
        } else if let Some(kind) = value.find(char::is_alphabetic) {
            plain = &value[..kind];
            bytes.extend(number(&value[kind..], plain, pointer));
        }
        shown.extend([name, plain, &piece[word.len()..]]);
    }
    (bytes, shown)
}

fn number(kind: &str, number: &str, pointer: PointerSize) -> Vec<u8> {
    let width = match (kind, pointer) {
        ("f32", _) => return number.parse::<f32>().unwrap().to_le_bytes().to_vec(),
        ("pad", PointerSize::Four) => 0,
        ("u8", _) => 1,
        ("u16" | "i16", _) => 2,
        ("u32" | "i32" | "pad", _) | ("ptr", PointerSize::Four) => 4,
        ("u64" | "i64" | "ptr", _) => 8,
        _ => panic!("{kind}"),
    };
    number.parse::<i128>().unwrap().to_le_bytes()[..width].to_vec()
}

/// `ID NAME vVERSION BYTES, vVERSION BYTES/BYTES ON 32 BITS: FIELDS`, continued on lines that start with a space. A
/// field is `Name=value` with its type on the wire; `ptr` has the width of a pointer. Fields after `|2` exist since
/// version 2; `~u16` is padding of 2 bytes. `~pad` is padding of 4 bytes that exists only if pointers have 8 bytes. `#`
/// starts bytes in hexadecimal digits.
const TABLE: &str = r#"runtime
0 EventSourceMessage v0 12: message="ERROR"
1 GCStart v0 8: Count=7u32 Reason=4u32
1 GCStart v1 18, v2 26: Count=7u32 Depth=2u32 Reason=4u32 Type=1u32 ClrInstanceID=9u16
    |2 ClientSequenceNumber=1099511627776u64
2 GCEnd v0 6: Count=7u32 Depth=1u16
2 GCEnd v1 10: Count=7u32 Depth=1u32 ClrInstanceID=9u16
3 GCRestartEEEnd v0 0, v1 2: |1 ClrInstanceID=9u16
4 GCHeapStats v0 92, v1 94, v2 110: GenerationSize0=8589934592u64 TotalPromotedSize0=17179869184u64
    GenerationSize1=25769803776u64 TotalPromotedSize1=34359738368u64 GenerationSize2=42949672960u64
    TotalPromotedSize2=51539607552u64 GenerationSize3=60129542144u64 TotalPromotedSize3=68719476736u64
    FinalizationPromotedSize=77309411328u64 FinalizationPromotedCount=85899345920u64 PinnedObjectCount=11u32
    SinkBlockCount=12u32 GCHandleCount=13u32 |1 ClrInstanceID=9u16 |2 GenerationSize4=14u64
    TotalPromotedSize4=15u64
5 GCCreateSegment v0 20, v1 22: Address=1u64 Size=4194264u64 Type=3u32 |1 ClrInstanceID=9u16
6 GCFreeSegment v0 8, v1 10: Address=1u64 |1 ClrInstanceID=9u16
7 GCRestartEEBegin v0 0, v1 2: |1 ClrInstanceID=9u16
8 GCSuspendEEEnd v0 0, v1 2: |1 ClrInstanceID=9u16
9 GCSuspendEEBegin v0 2: Reason=6u16
9 GCSuspendEEBegin v1 10: Reason=6u32 Count=4294967295u32 ClrInstanceID=9u16
10 GCAllocationTick v0 8, v1 10, v2 34/30, v3 42/34: AllocationAmount=102400u32 AllocationKind=1u32
    |1 ClrInstanceID=9u16 |2 AllocationAmount64=4294967296u64 TypeID=5ptr TypeName="T" HeapIndex=3u32
    |3 Address=6ptr
10 GCAllocationTick v4 74/66: AllocationAmount=102400u32 AllocationKind=1u32 ClrInstanceID=9u16
    AllocationAmount64=4294967296u64 TypeID=5ptr TypeName="System.Byte[]" HeapIndex=3u32 Address=6ptr
    ObjectSize=8016u64
11 GCCreateConcurrentThread v0 0, v1 2: |1 ClrInstanceID=9u16
12 GCTerminateConcurrentThread v0 0, v1 2: |1 ClrInstanceID=9u16
13 GCFinalizersEnd v0 4, v1 6: Count=70u32 |1 ClrInstanceID=9u16
14 GCFinalizersBegin v0 0, v1 2: |1 ClrInstanceID=9u16
15 BulkType v0 86: Count=2u32 ClrInstanceID=9u16 Values=[{TypeID=1u64, ModuleID=2u64, TypeNameID=3u32, Flags=8u32,
    CorElementType=29u8, Name="L", TypeParameterCount=2u32, TypeParameters=[77u64, 78u64]}, {TypeID=4u64,
    ModuleID=5u64, TypeNameID=6u32, Flags=0u32, CorElementType=18u8, Name="", TypeParameterCount=0u32,
    TypeParameters=[]}]
16 GCBulkRootEdge v0 52/36: Index=4u32 Count=2u32 ClrInstanceID=9u16 Values=[{RootedNodeAddress=1ptr, GCRootKind=2u8,
    GCRootFlag=5u32, GCRootID=3ptr}, {RootedNodeAddress=4ptr, GCRootKind=0u8, GCRootFlag=0u32, GCRootID=5ptr}]
17 GCBulkRootConditionalWeakTableElementEdge v0 34/22: Index=4u32 Count=1u32 ClrInstanceID=9u16
    Values=[{GCKeyNodeID=1ptr, GCValueNodeID=2ptr, GCRootID=3ptr}]
18 GCBulkNode v0 42/38: Index=4u32 Count=1u32 ClrInstanceID=9u16 Values=[{Address=1ptr, Size=24u64, TypeID=3u64,
    EdgeCount=0u64}]
19 GCBulkEdge v0 34/26: Index=4u32 Count=2u32 ClrInstanceID=9u16 Values=[{Value=1ptr, ReferencingFieldID=2u32},
    {Value=3ptr, ReferencingFieldID=4u32}]
20 GCSampledObjectAllocationHigh v0 30/22: Address=1ptr TypeID=2ptr ObjectCountForTypeSample=3u32
    TotalSizeForTypeSample=4u64 ClrInstanceID=9u16
21 GCBulkSurvivingObjectRanges v0 26/22: Index=4u32 Count=1u32 ClrInstanceID=9u16 Values=[{RangeBase=1ptr,
    RangeLength=2u64}]
22 GCBulkMovedObjectRanges v0 34/26: Index=4u32 Count=1u32 ClrInstanceID=9u16 Values=[{OldRangeBase=1ptr,
    NewRangeBase=2ptr, RangeLength=3u64}]
23 GCGenerationRange v0 27/23: Generation=2u8 RangeStart=1ptr RangeUsedLength=3u64 RangeReservedLength=4u64
    ClrInstanceID=9u16
25 GCMarkStackRoots v0 6: HeapNum=1u32 ClrInstanceID=9u16
26 GCMarkFinalizeQueueRoots v0 6: HeapNum=1u32 ClrInstanceID=9u16
27 GCMarkHandles v0 6: HeapNum=1u32 ClrInstanceID=9u16
28 GCMarkOlderGenerationRoots v0 6: HeapNum=1u32 ClrInstanceID=9u16
29 FinalizeObject v0 18/10: TypeID=1ptr ObjectID=2ptr ClrInstanceID=9u16
30 SetGCHandle v0 34/26: HandleID=1ptr ObjectID=2ptr Kind=3u32 Generation=2u32 AppDomainID=18446744073709551615u64
    ClrInstanceID=9u16
31 DestroyGCHandle v0 10/6: HandleID=1ptr ClrInstanceID=9u16
32 GCSampledObjectAllocationLow v0 30/22: Address=1ptr TypeID=2ptr ObjectCountForTypeSample=3u32
    TotalSizeForTypeSample=4u64 ClrInstanceID=9u16
33 PinObjectAtGCTime v0 54/46: HandleID=1ptr ObjectID=2ptr ObjectSize=24u64 TypeName="System.Object"
    ClrInstanceID=9u16
35 GCTriggered v0 6: Reason=17u32 ClrInstanceID=9u16
36 GCBulkRootCCW v0 50: Count=1u32 ClrInstanceID=9u16 Values=[{GCRootID=1u64, ObjectID=2u64, TypeID=3u64,
    IUnknown=4u64, RefCount=5u32, PeggedRefCount=6u32, Flags=7u32}]
37 GCBulkRCW v0 46: Count=1u32 ClrInstanceID=9u16 Values=[{ObjectID=1u64, TypeID=2u64, IUnknown=3u64, VTable=4u64,
    RefCount=5u32, Flags=6u32}]
38 GCBulkRootStaticVar v0 76: Count=2u32 AppDomainID=8u64 ClrInstanceID=9u16 Values=[{GCRootID=1u64, ObjectID=2u64,
    TypeID=3u64, Flags=0u32, FieldName=""}, {GCRootID=4u64, ObjectID=5u64, TypeID=6u64, Flags=1u32, FieldName="f"}]
39 GCDynamicEvent v0 78: Name="CommittedUsage" DataSize=42u32 Version=1u16 TotalCommittedInUse=17179869184u64
    TotalCommittedInGlobalDecommit=2u64 TotalCommittedInFree=3u64 TotalCommittedInGlobalFree=4u64
    TotalBookkeepingCommitted=5u64 ClrInstanceID=9u16
39 GCDynamicEvent v0 86: Name="SizeAdaptationSample" DataSize=38u32 Version=1u16 GCIndex=12u64 ElapsedBetweenGCs=1u32
    GCPause=2u32 SohMslWait=3u32 UohMslWait=4u32 TotalSohStableSize=8589934592u64 Gen0BudgetPerHeap=5u32
    ClrInstanceID=9u16
39 GCDynamicEvent v0 104: Name="SizeAdaptationTuning" DataSize=56u32 Version=1u16 NewHeapCount=2u16
    MaxHeapCount=50u16 MinHeapCount=1u16 GCIndex=12u64 TotalSohStableSize=8589934592u64
    MedianThroughputCostPercent=1.5f32 TcpToConsider=2.5f32 RecordedTcpAroundTarget=-0.25f32 RecordedCount=3u16
    Slope=0.125f32 GCsSinceLastChange=4u32 AggFactor=5u8 ChangeDecision=6u16 AdjReason=7u16 HcChangeFreqFactor=8u16
    HcFreqReason=10u16 AdjMetric=11u8 ClrInstanceID=9u16
39 GCDynamicEvent v0 104: Name="SizeAdaptationFullGCTuning" DataSize=44u32 Version=1u16 NewHeapCount=2u16
    GCIndex=12u64 MedianGen2Tcp=1.5f32 Gen2sSinceLastChange=3u32 GCDistance0=1u32 GCPercent0=0.5f32 GCDistance1=2u32
    GCPercent1=0.75f32 GCDistance2=3u32 GCPercent2=1f32 ClrInstanceID=9u16
39 GCDynamicEvent v0 74: Name="HeapCountTuning" DataSize=36u32 Version=1u16 NewHeapCount=-1i16 GCIndex=12u64
    MedianThroughputCostPercent=0.5f32 SmoothedMedianThroughputCostPercent=1f32
    ThroughputCostPercentReductionPerStepUp=1.5f32 ThroughputCostPercentIncreasePerStepDown=2f32
    SpaceCostPercentIncreasePerStepUp=2.5f32 SpaceCostPercentDecreasePerStepDown=3f32 ClrInstanceID=9u16
39 GCDynamicEvent v0 72: Name="HeapCountSample" DataSize=34u32 Version=1u16 GCIndex=12u64 ElapsedTimeBetweenGCs=1u64
    GCPauseTime=2u64 MslWaitTime=-1i64 ClrInstanceID=9u16
39 GCDynamicEvent v0 20: Name="OOM" DataSize=6u32 Data=#010001020304 ClrInstanceID=9u16
187 RuntimeStart v0 69: ClrInstanceID=9u16 Sku=2u16 BclMajorVersion=10u16 BclMinorVersion=0u16 BclBuildNumber=14u16
    BclQfeNumber=0u16 VMMajorVersion=10u16 VMMinorVersion=0u16 VMBuildNumber=1426u16 VMQfeNumber=52326u16
    StartupFlags=4097u32 StartupMode=2u8 CommandLine="app.dll" ComObjectGuid=#abababababababababababababababab
    RuntimeDllPath="/x.so"
200 IncreaseMemoryPressure v0 10: BytesAllocated=1u64 ClrInstanceID=9u16
201 DecreaseMemoryPressure v0 10: BytesFreed=1u64 ClrInstanceID=9u16
202 GCMarkWithType v0 18: HeapNum=1u32 ClrInstanceID=9u16 Type=6u32 Bytes=34359738368u64
203 GCJoin v2 18: Heap=100u32 JoinTime=1u32 JoinType=2u32 ClrInstanceID=9u16 JoinID=-1i32
204 GCPerHeapHistory v3 246/138: ClrInstanceID=9u16 FreeListAllocated=1ptr FreeListRejected=2ptr
    EndOfSegAllocated=3ptr CondemnedAllocated=4ptr PinnedAllocated=5ptr PinnedAllocatedAdvance=6ptr
    RunningFreeListEfficiency=70u32 CondemnReasons0=85u32 CondemnReasons1=4u32 CompactMechanisms=2147483650u32
    ExpandMechanisms=0u32 HeapIndex=1u32 ExtraGen0Commit=8ptr Count=2u32 Values=[{SizeBefore=10ptr,
    FreeListBefore=11ptr, FreeObjBefore=12ptr, SizeAfter=13ptr, FreeListAfter=14ptr, FreeObjAfter=15ptr, In=16ptr,
    PinnedSurv=17ptr, NonePinnedSurv=18ptr, NewAllocation=19ptr}, {SizeBefore=20ptr, FreeListBefore=21ptr,
    FreeObjBefore=22ptr, SizeAfter=23ptr, FreeListAfter=24ptr, FreeObjAfter=25ptr, In=26ptr, PinnedSurv=27ptr,
    NonePinnedSurv=28ptr, NewAllocation=29ptr}]
205 GCGlobalHeapHistory v2 38, v3 46, v4 58: FinalYoungestDesired=1099511627776u64 NumHeaps=2u32
    CondemnedGeneration=1u32 Gen0ReductionCount=3u32 Reason=17u32 GlobalMechanisms=22u32 ClrInstanceID=9u16
    PauseMode=3u32 MemoryPressure=60u32 |3 CondemnReasons0=85u32 CondemnReasons1=4u32 |4 Count=2u32
    Values=[{Time=100u32}, {Time=4294967295u32}]
206 GenAwareBegin v0 6: Count=7u32 ClrInstanceID=9u16
207 GenAwareEnd v0 6: Count=7u32 ClrInstanceID=9u16
208 GCLOHCompact v0 68/44: ClrInstanceID=9u16 Count=2u16 Values=[{TimePlan=5u32, TimeCompact=9783u32,
    TimeRelocate=1u32, ~pad TotalRefs=30ptr, ZeroRefs=10ptr}, {TimePlan=6u32, TimeCompact=7u32, TimeRelocate=8u32,
    ~pad TotalRefs=31ptr, ZeroRefs=11ptr}]
209 GCFitBucketInfo v0 46/38: ClrInstanceID=9u16 BucketKind=1u16 TotalSize=8589934592u64 Count=2u16
    Values=[{Index=2u16, ~u16 Count=23u32, Size=600ptr}, {Index=3u16, ~u16 Count=41u32, Size=700ptr}]
303 AllocationSampled v0 42/34: AllocationKind=2u32 ClrInstanceID=9u16 TypeID=1ptr TypeName="T" Address=3ptr
    ObjectSize=24u64 SampledByteOffset=8u64
private
0 EventSourceMessage v0 12: message="ERROR"
1 GCDecision v0 4, v1 6: DoCompact=1u32 |1 ClrInstanceID=9u16
2 GCSettings v0 20, v1 22: SegmentSize=1u64 LargeObjectSegmentSize=2u64 ServerGC=1u32 |1 ClrInstanceID=9u16
3 GCOptimized v0 20, v1 22: DesiredAllocation=1u64 NewAllocation=2u64 GenerationNumber=1u32 |1 ClrInstanceID=9u16
5 GCGlobalHeapHistory v0 28, v1 30: FinalYoungestDesired=1u64 NumHeaps=2u32 CondemnedGeneration=1u32
    Gen0ReductionCount=3u32 Reason=4u32 GlobalMechanisms=5u32 |1 ClrInstanceID=9u16
6 GCJoin v0 12, v1 14: Heap=1u32 JoinTime=0u32 JoinType=2u32 |1 ClrInstanceID=9u16
7 PrvGCMarkStackRoots v0 4, v1 6: HeapNum=1u32 |1 ClrInstanceID=9u16
8 PrvGCMarkFinalizeQueueRoots v0 4, v1 6: HeapNum=1u32 |1 ClrInstanceID=9u16
9 PrvGCMarkHandles v0 4, v1 6: HeapNum=1u32 |1 ClrInstanceID=9u16
10 PrvGCMarkCards v0 4, v1 6: HeapNum=1u32 |1 ClrInstanceID=9u16
11 BGCBegin v0 2: ClrInstanceID=9u16
12 BGC1stNonConEnd v0 2: ClrInstanceID=9u16
13 BGC1stConEnd v0 2: ClrInstanceID=9u16
14 BGC2ndNonConBegin v0 2: ClrInstanceID=9u16
15 BGC2ndNonConEnd v0 2: ClrInstanceID=9u16
16 BGC2ndConBegin v0 2: ClrInstanceID=9u16
17 BGC2ndConEnd v0 2: ClrInstanceID=9u16
18 BGCPlanEnd v0 2: ClrInstanceID=9u16
19 BGCSweepEnd v0 2: ClrInstanceID=9u16
20 BGCDrainMark v0 10: Objects=35u64 ClrInstanceID=9u16
21 BGCRevisit v0 22: Pages=1u64 Objects=2u64 IsLarge=1u32 ClrInstanceID=9u16
22 BGCOverflow v0 30, v1 34: Min=1u64 Max=2u64 Objects=3u64 IsLarge=0u32 ClrInstanceID=9u16 |1 GenNumber=4u32
23 BGCAllocWaitBegin v0 6: Reason=11u32 ClrInstanceID=9u16
24 BGCAllocWaitEnd v0 6: Reason=11u32 ClrInstanceID=9u16
25 GCFullNotify v0 8, v1 10: GenNumber=2u32 IsAlloc=1u32 |1 ClrInstanceID=9u16
26 BGC1stSweepEnd v0 6: GenNumber=2u32 ClrInstanceID=9u16
192 PrvFinalizeObject v0 22/14: TypeID=1ptr ObjectID=2ptr ClrInstanceID=9u16 TypeName="T"
194 PrvSetGCHandle v0 34/26: HandleID=1ptr ObjectID=2ptr Kind=3u32 Generation=2u32 AppDomainID=8u64
    ClrInstanceID=9u16
195 PrvDestroyGCHandle v0 10/6: HandleID=1ptr ClrInstanceID=9u16
199 PinPlugAtGCTime v0 26/14: PlugStart=1ptr PlugEnd=2ptr GapBeforeSize=3ptr ClrInstanceID=9u16
rundown
10 GCSettingsRundown v0 50: HardLimit=201326592u64 LOHThreshold=85000u64 PhysicalMemoryConfig=3u64
    Gen0MinBudgetConfig=4u64 Gen0MaxBudgetConfig=5u64 HighMemPercentConfig=80u32 BitSettings=29u32 ClrInstanceID=9u16
187 RuntimeDCStart v0 69: ClrInstanceID=9u16 Sku=2u16 BclMajorVersion=10u16 BclMinorVersion=0u16 BclBuildNumber=14u16
    BclQfeNumber=0u16 VMMajorVersion=10u16 VMMinorVersion=0u16 VMBuildNumber=1426u16 VMQfeNumber=52326u16
    StartupFlags=4097u32 StartupMode=2u8 CommandLine="app.dll" ComObjectGuid=#abababababababababababababababab
    RuntimeDllPath="/x.so"
eventpipe
1 ProcessInfo v0 4, v1 24: CommandLine="a" |1 OSInformation="Linux" ArchInformation="x64""#;
