//! One payload for each event and version, byte by byte, with its sizes and with what must come out of it.

use clr_gc::event::{EVENTPIPE_PROVIDER, PRIVATE_PROVIDER, RUNDOWN_PROVIDER, RUNTIME_PROVIDER};

use crate::payload::Payload;

/// A payload and what it must decode to.
pub(crate) struct Case {
    pub(crate) provider: &'static str,
    pub(crate) id: u32,
    pub(crate) version: u32,
    pub(crate) build: fn(Payload) -> Payload,
    /// Bytes of the payload in a 64-bit and in a 32-bit process.
    pub(crate) sizes: (usize, usize),
    /// The fields as text.
    pub(crate) fields: &'static str,
}

const R: &str = RUNTIME_PROVIDER;
const P: &str = PRIVATE_PROVIDER;

/// A payload without pointers: of the same size in both.
const fn plain(
    provider: &'static str,
    id: u32,
    version: u32,
    size: usize,
    build: fn(Payload) -> Payload,
    fields: &'static str,
) -> Case {
    case(provider, id, version, (size, size), build, fields)
}

const fn case(
    provider: &'static str,
    id: u32,
    version: u32,
    sizes: (usize, usize),
    build: fn(Payload) -> Payload,
    fields: &'static str,
) -> Case {
    Case {
        provider,
        id,
        version,
        build,
        sizes,
        fields,
    }
}

/// GCHeapStats version 0: 92 bytes.
fn heap_stats(payload: Payload) -> Payload {
    (1..=10)
        .fold(payload, |payload, number| payload.u64(number << 33))
        .u32(11)
        .u32(12)
        .u32(13)
}

/// GCGlobalHeapHistory version 2: 38 bytes.
fn global(payload: Payload) -> Payload {
    payload
        .u64(1 << 40)
        .u32(2)
        .u32(1)
        .u32(3)
        .u32(0x11)
        .u32(0x16)
        .u16(9)
        .u32(3)
        .u32(60)
}

/// RuntimeStart as dotnet-trace records it.
fn runtime(payload: Payload) -> Payload {
    let versions = [9, 2, 10, 0, 14, 0, 10, 0, 1426, 52326];
    let numbers = versions.into_iter().fold(payload, Payload::u16).u32(0x1001).u8(2);
    numbers.text("app.dll").raw(&[0xAB; 16]).text("/x.so")
}

const RUNTIME_FIELDS: &str = "ClrInstanceID=9 Sku=2 BclMajorVersion=10 BclMinorVersion=0 BclBuildNumber=14 BclQfeNumber=0 \
    VMMajorVersion=10 VMMinorVersion=0 VMBuildNumber=1426 VMQfeNumber=52326 StartupFlags=4097 StartupMode=2 \
    CommandLine=app.dll ComObjectGuid=abababababababababababababababab RuntimeDllPath=/x.so";

pub(crate) const CASES: &[Case] = &[
    plain(R, 0, 0, 12, |p| p.text("ERROR"), "message=ERROR"),
    plain(R, 1, 0, 8, |p| p.u32(7).u32(4), "Count=7 Reason=4"),
    plain(
        R,
        1,
        1,
        18,
        |p| p.u32(7).u32(2).u32(4).u32(1).u16(9),
        "Count=7 Depth=2 Reason=4 Type=1 ClrInstanceID=9",
    ),
    plain(
        R,
        1,
        2,
        26,
        |p| p.u32(7).u32(2).u32(4).u32(1).u16(9).u64(1 << 40),
        "Count=7 Depth=2 Reason=4 Type=1 ClrInstanceID=9 ClientSequenceNumber=1099511627776",
    ),
    plain(R, 2, 0, 6, |p| p.u32(7).u16(1), "Count=7 Depth=1"),
    plain(
        R,
        2,
        1,
        10,
        |p| p.u32(7).u32(1).u16(9),
        "Count=7 Depth=1 ClrInstanceID=9",
    ),
    plain(R, 3, 0, 0, |p| p, ""),
    plain(R, 3, 1, 2, |p| p.u16(9), "ClrInstanceID=9"),
    plain(
        R,
        4,
        0,
        92,
        heap_stats,
        "GenerationSize0=8589934592 TotalPromotedSize0=17179869184 GenerationSize1=25769803776 \
         TotalPromotedSize1=34359738368 GenerationSize2=42949672960 TotalPromotedSize2=51539607552 \
         GenerationSize3=60129542144 TotalPromotedSize3=68719476736 FinalizationPromotedSize=77309411328 \
         FinalizationPromotedCount=85899345920 PinnedObjectCount=11 SinkBlockCount=12 GCHandleCount=13",
    ),
    plain(
        R,
        4,
        1,
        94,
        |p| heap_stats(p).u16(9),
        "GenerationSize0=8589934592 TotalPromotedSize0=17179869184 GenerationSize1=25769803776 \
         TotalPromotedSize1=34359738368 GenerationSize2=42949672960 TotalPromotedSize2=51539607552 \
         GenerationSize3=60129542144 TotalPromotedSize3=68719476736 FinalizationPromotedSize=77309411328 \
         FinalizationPromotedCount=85899345920 PinnedObjectCount=11 SinkBlockCount=12 GCHandleCount=13 ClrInstanceID=9",
    ),
    plain(
        R,
        4,
        2,
        110,
        |p| heap_stats(p).u16(9).u64(14).u64(15),
        "GenerationSize0=8589934592 TotalPromotedSize0=17179869184 GenerationSize1=25769803776 \
         TotalPromotedSize1=34359738368 GenerationSize2=42949672960 TotalPromotedSize2=51539607552 \
         GenerationSize3=60129542144 TotalPromotedSize3=68719476736 FinalizationPromotedSize=77309411328 \
         FinalizationPromotedCount=85899345920 PinnedObjectCount=11 SinkBlockCount=12 GCHandleCount=13 ClrInstanceID=9 \
         GenerationSize4=14 TotalPromotedSize4=15",
    ),
    plain(
        R,
        5,
        0,
        20,
        |p| p.u64(1).u64(4_194_264).u32(3),
        "Address=1 Size=4194264 Type=3",
    ),
    plain(
        R,
        5,
        1,
        22,
        |p| p.u64(1).u64(4_194_264).u32(3).u16(9),
        "Address=1 Size=4194264 Type=3 ClrInstanceID=9",
    ),
    plain(R, 6, 0, 8, |p| p.u64(1), "Address=1"),
    plain(R, 6, 1, 10, |p| p.u64(1).u16(9), "Address=1 ClrInstanceID=9"),
    plain(R, 7, 0, 0, |p| p, ""),
    plain(R, 7, 1, 2, |p| p.u16(9), "ClrInstanceID=9"),
    plain(R, 8, 0, 0, |p| p, ""),
    plain(R, 8, 1, 2, |p| p.u16(9), "ClrInstanceID=9"),
    plain(R, 9, 0, 2, |p| p.u16(6), "Reason=6"),
    plain(
        R,
        9,
        1,
        10,
        |p| p.u32(6).u32(u32::MAX).u16(9),
        "Reason=6 Count=4294967295 ClrInstanceID=9",
    ),
    plain(
        R,
        10,
        0,
        8,
        |p| p.u32(102_400).u32(1),
        "AllocationAmount=102400 AllocationKind=1",
    ),
    plain(
        R,
        10,
        1,
        10,
        |p| p.u32(102_400).u32(1).u16(9),
        "AllocationAmount=102400 AllocationKind=1 ClrInstanceID=9",
    ),
    case(
        R,
        10,
        2,
        (30 + 4, 26 + 4),
        |p| p.u32(102_400).u32(1).u16(9).u64(1 << 32).ptr(5).text("T").u32(3),
        "AllocationAmount=102400 AllocationKind=1 ClrInstanceID=9 AllocationAmount64=4294967296 TypeID=5 TypeName=T \
         HeapIndex=3",
    ),
    case(
        R,
        10,
        3,
        (38 + 4, 30 + 4),
        |p| p.u32(102_400).u32(1).u16(9).u64(1 << 32).ptr(5).text("T").u32(3).ptr(6),
        "AllocationAmount=102400 AllocationKind=1 ClrInstanceID=9 AllocationAmount64=4294967296 TypeID=5 TypeName=T \
         HeapIndex=3 Address=6",
    ),
    case(
        R,
        10,
        4,
        (74, 66),
        |p| {
            p.u32(102_400)
                .u32(1)
                .u16(9)
                .u64(1 << 32)
                .ptr(5)
                .text("System.Byte[]")
                .u32(3)
                .ptr(6)
                .u64(8016)
        },
        "AllocationAmount=102400 AllocationKind=1 ClrInstanceID=9 AllocationAmount64=4294967296 TypeID=5 \
         TypeName=System.Byte[] HeapIndex=3 Address=6 ObjectSize=8016",
    ),
    plain(R, 11, 0, 0, |p| p, ""),
    plain(R, 11, 1, 2, |p| p.u16(9), "ClrInstanceID=9"),
    plain(R, 12, 0, 0, |p| p, ""),
    plain(R, 12, 1, 2, |p| p.u16(9), "ClrInstanceID=9"),
    plain(R, 13, 0, 4, |p| p.u32(70), "Count=70"),
    plain(R, 13, 1, 6, |p| p.u32(70).u16(9), "Count=70 ClrInstanceID=9"),
    plain(R, 14, 0, 0, |p| p, ""),
    plain(R, 14, 1, 2, |p| p.u16(9), "ClrInstanceID=9"),
    plain(
        R,
        15,
        0,
        6 + (29 + 4 + 16) + (29 + 2),
        |p| {
            let first = p
                .u32(2)
                .u16(9)
                .u64(1)
                .u64(2)
                .u32(3)
                .u32(8)
                .u8(29)
                .text("L")
                .u32(2)
                .u64(77)
                .u64(78);
            first.u64(4).u64(5).u32(6).u32(0).u8(18).text("").u32(0)
        },
        "Count=2 ClrInstanceID=9 Values=[{TypeID=1, ModuleID=2, TypeNameID=3, Flags=8, CorElementType=29, Name=L, \
         TypeParameterCount=2, TypeParameters=[77, 78]}, {TypeID=4, ModuleID=5, TypeNameID=6, Flags=0, \
         CorElementType=18, Name=, TypeParameterCount=0, TypeParameters=[]}]",
    ),
    case(
        R,
        16,
        0,
        (10 + 42, 10 + 26),
        |p| {
            p.u32(4)
                .u32(2)
                .u16(9)
                .ptr(1)
                .u8(2)
                .u32(5)
                .ptr(3)
                .ptr(4)
                .u8(0)
                .u32(0)
                .ptr(5)
        },
        "Index=4 Count=2 ClrInstanceID=9 Values=[{RootedNodeAddress=1, GCRootKind=2, GCRootFlag=5, GCRootID=3}, \
         {RootedNodeAddress=4, GCRootKind=0, GCRootFlag=0, GCRootID=5}]",
    ),
    case(
        R,
        17,
        0,
        (10 + 24, 10 + 12),
        |p| p.u32(4).u32(1).u16(9).ptrs(1, 3),
        "Index=4 Count=1 ClrInstanceID=9 Values=[{GCKeyNodeID=1, GCValueNodeID=2, GCRootID=3}]",
    ),
    case(
        R,
        18,
        0,
        (10 + 32, 10 + 28),
        |p| p.u32(4).u32(1).u16(9).ptr(1).u64(24).u64(3).u64(0),
        "Index=4 Count=1 ClrInstanceID=9 Values=[{Address=1, Size=24, TypeID=3, EdgeCount=0}]",
    ),
    case(
        R,
        19,
        0,
        (10 + 24, 10 + 16),
        |p| p.u32(4).u32(2).u16(9).ptr(1).u32(2).ptr(3).u32(4),
        "Index=4 Count=2 ClrInstanceID=9 Values=[{Value=1, ReferencingFieldID=2}, {Value=3, ReferencingFieldID=4}]",
    ),
    case(
        R,
        20,
        0,
        (30, 22),
        |p| p.ptrs(1, 2).u32(3).u64(4).u16(9),
        "Address=1 TypeID=2 ObjectCountForTypeSample=3 TotalSizeForTypeSample=4 ClrInstanceID=9",
    ),
    case(
        R,
        21,
        0,
        (10 + 16, 10 + 12),
        |p| p.u32(4).u32(1).u16(9).ptr(1).u64(2),
        "Index=4 Count=1 ClrInstanceID=9 Values=[{RangeBase=1, RangeLength=2}]",
    ),
    case(
        R,
        22,
        0,
        (10 + 24, 10 + 16),
        |p| p.u32(4).u32(1).u16(9).ptrs(1, 2).u64(3),
        "Index=4 Count=1 ClrInstanceID=9 Values=[{OldRangeBase=1, NewRangeBase=2, RangeLength=3}]",
    ),
    case(
        R,
        23,
        0,
        (27, 23),
        |p| p.u8(2).ptr(1).u64(3).u64(4).u16(9),
        "Generation=2 RangeStart=1 RangeUsedLength=3 RangeReservedLength=4 ClrInstanceID=9",
    ),
    plain(R, 25, 0, 6, |p| p.u32(1).u16(9), "HeapNum=1 ClrInstanceID=9"),
    plain(R, 26, 0, 6, |p| p.u32(1).u16(9), "HeapNum=1 ClrInstanceID=9"),
    plain(R, 27, 0, 6, |p| p.u32(1).u16(9), "HeapNum=1 ClrInstanceID=9"),
    plain(R, 28, 0, 6, |p| p.u32(1).u16(9), "HeapNum=1 ClrInstanceID=9"),
    case(
        R,
        29,
        0,
        (18, 10),
        |p| p.ptrs(1, 2).u16(9),
        "TypeID=1 ObjectID=2 ClrInstanceID=9",
    ),
    case(
        R,
        30,
        0,
        (34, 26),
        |p| p.ptrs(1, 2).u32(3).u32(2).u64(u64::MAX).u16(9),
        "HandleID=1 ObjectID=2 Kind=3 Generation=2 AppDomainID=18446744073709551615 ClrInstanceID=9",
    ),
    case(R, 31, 0, (10, 6), |p| p.ptr(1).u16(9), "HandleID=1 ClrInstanceID=9"),
    case(
        R,
        32,
        0,
        (30, 22),
        |p| p.ptrs(1, 2).u32(3).u64(4).u16(9),
        "Address=1 TypeID=2 ObjectCountForTypeSample=3 TotalSizeForTypeSample=4 ClrInstanceID=9",
    ),
    case(
        R,
        33,
        0,
        (54, 46),
        |p| p.ptrs(1, 2).u64(24).text("System.Object").u16(9),
        "HandleID=1 ObjectID=2 ObjectSize=24 TypeName=System.Object ClrInstanceID=9",
    ),
    plain(R, 35, 0, 6, |p| p.u32(17).u16(9), "Reason=17 ClrInstanceID=9"),
    plain(
        R,
        36,
        0,
        6 + 44,
        |p| p.u32(1).u16(9).u64(1).u64(2).u64(3).u64(4).u32(5).u32(6).u32(7),
        "Count=1 ClrInstanceID=9 Values=[{GCRootID=1, ObjectID=2, TypeID=3, IUnknown=4, RefCount=5, PeggedRefCount=6, \
         Flags=7}]",
    ),
    plain(
        R,
        37,
        0,
        6 + 40,
        |p| p.u32(1).u16(9).u64(1).u64(2).u64(3).u64(4).u32(5).u32(6),
        "Count=1 ClrInstanceID=9 Values=[{ObjectID=1, TypeID=2, IUnknown=3, VTable=4, RefCount=5, Flags=6}]",
    ),
    plain(
        R,
        38,
        0,
        14 + 30 + 32,
        |p| {
            let first = p.u32(2).u64(8).u16(9).u64(1).u64(2).u64(3).u32(0).text("");
            first.u64(4).u64(5).u64(6).u32(1).text("f")
        },
        "Count=2 AppDomainID=8 ClrInstanceID=9 Values=[{GCRootID=1, ObjectID=2, TypeID=3, Flags=0, FieldName=}, \
         {GCRootID=4, ObjectID=5, TypeID=6, Flags=1, FieldName=f}]",
    ),
    plain(
        R,
        39,
        0,
        78,
        |p| {
            p.text("CommittedUsage")
                .u32(42)
                .u16(1)
                .u64(1 << 34)
                .u64(2)
                .u64(3)
                .u64(4)
                .u64(5)
                .u16(9)
        },
        "Name=CommittedUsage DataSize=42 Version=1 TotalCommittedInUse=17179869184 TotalCommittedInGlobalDecommit=2 \
         TotalCommittedInFree=3 TotalCommittedInGlobalFree=4 TotalBookkeepingCommitted=5 ClrInstanceID=9",
    ),
    plain(
        R,
        39,
        0,
        86,
        |p| {
            let data = p
                .text("SizeAdaptationSample")
                .u32(38)
                .u16(1)
                .u64(12)
                .u32(1)
                .u32(2)
                .u32(3)
                .u32(4);
            data.u64(1 << 33).u32(5).u16(9)
        },
        "Name=SizeAdaptationSample DataSize=38 Version=1 GCIndex=12 ElapsedBetweenGCs=1 GCPause=2 SohMslWait=3 \
         UohMslWait=4 TotalSohStableSize=8589934592 Gen0BudgetPerHeap=5 ClrInstanceID=9",
    ),
    plain(
        R,
        39,
        0,
        104,
        |p| {
            let data = p
                .text("SizeAdaptationTuning")
                .u32(56)
                .u16(1)
                .u16(2)
                .u16(50)
                .u16(1)
                .u64(12)
                .u64(1 << 33);
            let data = data
                .f32(1.5)
                .f32(2.5)
                .f32(-0.25)
                .u16(3)
                .f32(0.125)
                .u32(4)
                .u8(5)
                .u16(6)
                .u16(7);
            data.u16(8).u16(10).u8(11).u16(9)
        },
        "Name=SizeAdaptationTuning DataSize=56 Version=1 NewHeapCount=2 MaxHeapCount=50 MinHeapCount=1 GCIndex=12 \
         TotalSohStableSize=8589934592 MedianThroughputCostPercent=1.5 TcpToConsider=2.5 RecordedTcpAroundTarget=-0.25 \
         RecordedCount=3 Slope=0.125 GCsSinceLastChange=4 AggFactor=5 ChangeDecision=6 AdjReason=7 \
         HcChangeFreqFactor=8 HcFreqReason=10 AdjMetric=11 ClrInstanceID=9",
    ),
    plain(
        R,
        39,
        0,
        104,
        |p| {
            let data = p
                .text("SizeAdaptationFullGCTuning")
                .u32(44)
                .u16(1)
                .u16(2)
                .u64(12)
                .f32(1.5)
                .u32(3);
            data.u32(1).f32(0.5).u32(2).f32(0.75).u32(3).f32(1.0).u16(9)
        },
        "Name=SizeAdaptationFullGCTuning DataSize=44 Version=1 NewHeapCount=2 GCIndex=12 MedianGen2Tcp=1.5 \
         Gen2sSinceLastChange=3 GCDistance0=1 GCPercent0=0.5 GCDistance1=2 GCPercent1=0.75 GCDistance2=3 GCPercent2=1 \
         ClrInstanceID=9",
    ),
    plain(
        R,
        39,
        0,
        74,
        |p| {
            let data = p.text("HeapCountTuning").u32(36).u16(1).u16(u16::MAX).u64(12);
            (1..=6).fold(data, |data, number| data.f32(number as f32 / 2.0)).u16(9)
        },
        "Name=HeapCountTuning DataSize=36 Version=1 NewHeapCount=-1 GCIndex=12 MedianThroughputCostPercent=0.5 \
         SmoothedMedianThroughputCostPercent=1 ThroughputCostPercentReductionPerStepUp=1.5 \
         ThroughputCostPercentIncreasePerStepDown=2 SpaceCostPercentIncreasePerStepUp=2.5 \
         SpaceCostPercentDecreasePerStepDown=3 ClrInstanceID=9",
    ),
    plain(
        R,
        39,
        0,
        72,
        |p| {
            p.text("HeapCountSample")
                .u32(34)
                .u16(1)
                .u64(12)
                .u64(1)
                .u64(2)
                .u64(u64::MAX)
                .u16(9)
        },
        "Name=HeapCountSample DataSize=34 Version=1 GCIndex=12 ElapsedTimeBetweenGCs=1 GCPauseTime=2 MslWaitTime=-1 \
         ClrInstanceID=9",
    ),
    plain(
        R,
        39,
        0,
        20,
        |p| p.text("OOM").u32(6).u16(1).u32(0x0403_0201).u16(9),
        "Name=OOM DataSize=6 Data=010001020304 ClrInstanceID=9",
    ),
    plain(R, 187, 0, 41 + 16 + 12, runtime, RUNTIME_FIELDS),
    plain(R, 200, 0, 10, |p| p.u64(1).u16(9), "BytesAllocated=1 ClrInstanceID=9"),
    plain(R, 201, 0, 10, |p| p.u64(1).u16(9), "BytesFreed=1 ClrInstanceID=9"),
    plain(
        R,
        202,
        0,
        18,
        |p| p.u32(1).u16(9).u32(6).u64(1 << 35),
        "HeapNum=1 ClrInstanceID=9 Type=6 Bytes=34359738368",
    ),
    plain(
        R,
        203,
        2,
        18,
        |p| p.u32(100).u32(1).u32(2).u16(9).u32(u32::MAX),
        "Heap=100 JoinTime=1 JoinType=2 ClrInstanceID=9 JoinID=-1",
    ),
    case(
        R,
        204,
        3,
        (86 + 80 * 2, 58 + 40 * 2),
        |p| {
            let heap = p
                .u16(9)
                .ptrs(1, 6)
                .u32(70)
                .u32(0x55)
                .u32(4)
                .u32(0x8000_0002)
                .u32(0)
                .u32(1)
                .ptr(8)
                .u32(2);
            heap.ptrs(10, 10).ptrs(20, 10)
        },
        "ClrInstanceID=9 FreeListAllocated=1 FreeListRejected=2 EndOfSegAllocated=3 CondemnedAllocated=4 \
         PinnedAllocated=5 PinnedAllocatedAdvance=6 RunningFreeListEfficiency=70 CondemnReasons0=85 CondemnReasons1=4 \
         CompactMechanisms=2147483650 ExpandMechanisms=0 HeapIndex=1 ExtraGen0Commit=8 Count=2 Values=[{SizeBefore=10, \
         FreeListBefore=11, FreeObjBefore=12, SizeAfter=13, FreeListAfter=14, FreeObjAfter=15, In=16, PinnedSurv=17, \
         NonePinnedSurv=18, NewAllocation=19}, {SizeBefore=20, FreeListBefore=21, FreeObjBefore=22, SizeAfter=23, \
         FreeListAfter=24, FreeObjAfter=25, In=26, PinnedSurv=27, NonePinnedSurv=28, NewAllocation=29}]",
    ),
    plain(
        R,
        205,
        2,
        38,
        global,
        "FinalYoungestDesired=1099511627776 NumHeaps=2 CondemnedGeneration=1 Gen0ReductionCount=3 Reason=17 \
         GlobalMechanisms=22 ClrInstanceID=9 PauseMode=3 MemoryPressure=60",
    ),
    plain(
        R,
        205,
        3,
        46,
        |p| global(p).u32(0x55).u32(4),
        "FinalYoungestDesired=1099511627776 NumHeaps=2 CondemnedGeneration=1 Gen0ReductionCount=3 Reason=17 \
         GlobalMechanisms=22 ClrInstanceID=9 PauseMode=3 MemoryPressure=60 CondemnReasons0=85 CondemnReasons1=4",
    ),
    plain(
        R,
        205,
        4,
        50 + 4 * 2,
        |p| global(p).u32(0x55).u32(4).u32(2).u32(100).u32(u32::MAX),
        "FinalYoungestDesired=1099511627776 NumHeaps=2 CondemnedGeneration=1 Gen0ReductionCount=3 Reason=17 \
         GlobalMechanisms=22 ClrInstanceID=9 PauseMode=3 MemoryPressure=60 CondemnReasons0=85 CondemnReasons1=4 Count=2 \
         Values=[{Time=100}, {Time=4294967295}]",
    ),
    plain(R, 206, 0, 6, |p| p.u32(7).u16(9), "Count=7 ClrInstanceID=9"),
    plain(R, 207, 0, 6, |p| p.u32(7).u16(9), "Count=7 ClrInstanceID=9"),
    case(
        R,
        208,
        0,
        (4 + 32 * 2, 4 + 20 * 2),
        |p| {
            let first = p.u16(9).u16(2).u32(5).u32(9783).u32(1).padding_to_ptr().ptr(30).ptr(10);
            first.u32(6).u32(7).u32(8).padding_to_ptr().ptr(31).ptr(11)
        },
        "ClrInstanceID=9 Count=2 Values=[{TimePlan=5, TimeCompact=9783, TimeRelocate=1, TotalRefs=30, ZeroRefs=10}, \
         {TimePlan=6, TimeCompact=7, TimeRelocate=8, TotalRefs=31, ZeroRefs=11}]",
    ),
    case(
        R,
        209,
        0,
        (14 + 16 * 2, 14 + 12 * 2),
        |p| {
            let first = p.u16(9).u16(1).u64(1 << 33).u16(2).u16(2).u16(0xBEEF).u32(23).ptr(600);
            first.u16(3).u16(0xBEEF).u32(41).ptr(700)
        },
        "ClrInstanceID=9 BucketKind=1 TotalSize=8589934592 Count=2 Values=[{Index=2, Count=23, Size=600}, {Index=3, \
         Count=41, Size=700}]",
    ),
    case(
        R,
        303,
        0,
        (42, 34),
        |p| p.u32(2).u16(9).ptr(1).text("T").ptr(3).u64(24).u64(8),
        "AllocationKind=2 ClrInstanceID=9 TypeID=1 TypeName=T Address=3 ObjectSize=24 SampledByteOffset=8",
    ),
    plain(P, 0, 0, 12, |p| p.text("ERROR"), "message=ERROR"),
    plain(P, 1, 0, 4, |p| p.u32(1), "DoCompact=1"),
    plain(P, 1, 1, 6, |p| p.u32(1).u16(9), "DoCompact=1 ClrInstanceID=9"),
    plain(
        P,
        2,
        0,
        20,
        |p| p.u64(1).u64(2).u32(1),
        "SegmentSize=1 LargeObjectSegmentSize=2 ServerGC=1",
    ),
    plain(
        P,
        2,
        1,
        22,
        |p| p.u64(1).u64(2).u32(1).u16(9),
        "SegmentSize=1 LargeObjectSegmentSize=2 ServerGC=1 ClrInstanceID=9",
    ),
    plain(
        P,
        3,
        0,
        20,
        |p| p.u64(1).u64(2).u32(1),
        "DesiredAllocation=1 NewAllocation=2 GenerationNumber=1",
    ),
    plain(
        P,
        3,
        1,
        22,
        |p| p.u64(1).u64(2).u32(1).u16(9),
        "DesiredAllocation=1 NewAllocation=2 GenerationNumber=1 ClrInstanceID=9",
    ),
    plain(
        P,
        5,
        0,
        28,
        |p| p.u64(1).u32(2).u32(1).u32(3).u32(4).u32(5),
        "FinalYoungestDesired=1 NumHeaps=2 CondemnedGeneration=1 Gen0ReductionCount=3 Reason=4 GlobalMechanisms=5",
    ),
    plain(
        P,
        5,
        1,
        30,
        |p| p.u64(1).u32(2).u32(1).u32(3).u32(4).u32(5).u16(9),
        "FinalYoungestDesired=1 NumHeaps=2 CondemnedGeneration=1 Gen0ReductionCount=3 Reason=4 GlobalMechanisms=5 \
         ClrInstanceID=9",
    ),
    plain(P, 6, 0, 12, |p| p.u32(1).u32(0).u32(2), "Heap=1 JoinTime=0 JoinType=2"),
    plain(
        P,
        6,
        1,
        14,
        |p| p.u32(1).u32(0).u32(2).u16(9),
        "Heap=1 JoinTime=0 JoinType=2 ClrInstanceID=9",
    ),
    plain(P, 7, 0, 4, |p| p.u32(1), "HeapNum=1"),
    plain(P, 7, 1, 6, |p| p.u32(1).u16(9), "HeapNum=1 ClrInstanceID=9"),
    plain(P, 8, 0, 4, |p| p.u32(1), "HeapNum=1"),
    plain(P, 8, 1, 6, |p| p.u32(1).u16(9), "HeapNum=1 ClrInstanceID=9"),
    plain(P, 9, 0, 4, |p| p.u32(1), "HeapNum=1"),
    plain(P, 9, 1, 6, |p| p.u32(1).u16(9), "HeapNum=1 ClrInstanceID=9"),
    plain(P, 10, 0, 4, |p| p.u32(1), "HeapNum=1"),
    plain(P, 10, 1, 6, |p| p.u32(1).u16(9), "HeapNum=1 ClrInstanceID=9"),
    plain(P, 11, 0, 2, |p| p.u16(9), "ClrInstanceID=9"),
    plain(P, 12, 0, 2, |p| p.u16(9), "ClrInstanceID=9"),
    plain(P, 13, 0, 2, |p| p.u16(9), "ClrInstanceID=9"),
    plain(P, 14, 0, 2, |p| p.u16(9), "ClrInstanceID=9"),
    plain(P, 15, 0, 2, |p| p.u16(9), "ClrInstanceID=9"),
    plain(P, 16, 0, 2, |p| p.u16(9), "ClrInstanceID=9"),
    plain(P, 17, 0, 2, |p| p.u16(9), "ClrInstanceID=9"),
    plain(P, 18, 0, 2, |p| p.u16(9), "ClrInstanceID=9"),
    plain(P, 19, 0, 2, |p| p.u16(9), "ClrInstanceID=9"),
    plain(P, 20, 0, 10, |p| p.u64(35).u16(9), "Objects=35 ClrInstanceID=9"),
    plain(
        P,
        21,
        0,
        22,
        |p| p.u64(1).u64(2).u32(1).u16(9),
        "Pages=1 Objects=2 IsLarge=1 ClrInstanceID=9",
    ),
    plain(
        P,
        22,
        0,
        30,
        |p| p.u64(1).u64(2).u64(3).u32(0).u16(9),
        "Min=1 Max=2 Objects=3 IsLarge=0 ClrInstanceID=9",
    ),
    plain(
        P,
        22,
        1,
        34,
        |p| p.u64(1).u64(2).u64(3).u32(0).u16(9).u32(4),
        "Min=1 Max=2 Objects=3 IsLarge=0 ClrInstanceID=9 GenNumber=4",
    ),
    plain(P, 23, 0, 6, |p| p.u32(11).u16(9), "Reason=11 ClrInstanceID=9"),
    plain(P, 24, 0, 6, |p| p.u32(11).u16(9), "Reason=11 ClrInstanceID=9"),
    plain(P, 25, 0, 8, |p| p.u32(2).u32(1), "GenNumber=2 IsAlloc=1"),
    plain(
        P,
        25,
        1,
        10,
        |p| p.u32(2).u32(1).u16(9),
        "GenNumber=2 IsAlloc=1 ClrInstanceID=9",
    ),
    plain(P, 26, 0, 6, |p| p.u32(2).u16(9), "GenNumber=2 ClrInstanceID=9"),
    case(
        P,
        192,
        0,
        (22, 14),
        |p| p.ptrs(1, 2).u16(9).text("T"),
        "TypeID=1 ObjectID=2 ClrInstanceID=9 TypeName=T",
    ),
    case(
        P,
        194,
        0,
        (34, 26),
        |p| p.ptrs(1, 2).u32(3).u32(2).u64(8).u16(9),
        "HandleID=1 ObjectID=2 Kind=3 Generation=2 AppDomainID=8 ClrInstanceID=9",
    ),
    case(P, 195, 0, (10, 6), |p| p.ptr(1).u16(9), "HandleID=1 ClrInstanceID=9"),
    case(
        P,
        199,
        0,
        (26, 14),
        |p| p.ptrs(1, 3).u16(9),
        "PlugStart=1 PlugEnd=2 GapBeforeSize=3 ClrInstanceID=9",
    ),
    plain(
        RUNDOWN_PROVIDER,
        10,
        0,
        50,
        |p| {
            p.u64(0xC00_0000)
                .u64(85_000)
                .u64(3)
                .u64(4)
                .u64(5)
                .u32(80)
                .u32(0x1D)
                .u16(9)
        },
        "HardLimit=201326592 LOHThreshold=85000 PhysicalMemoryConfig=3 Gen0MinBudgetConfig=4 Gen0MaxBudgetConfig=5 \
        HighMemPercentConfig=80 BitSettings=29 ClrInstanceID=9",
    ),
    plain(RUNDOWN_PROVIDER, 187, 0, 69, runtime, RUNTIME_FIELDS),
    plain(EVENTPIPE_PROVIDER, 1, 0, 4, |p| p.text("a"), "CommandLine=a"),
    plain(
        EVENTPIPE_PROVIDER,
        1,
        1,
        24,
        |p| p.text("a").text("Linux").text("x64"),
        "CommandLine=a OSInformation=Linux ArchInformation=x64",
    ),
];
