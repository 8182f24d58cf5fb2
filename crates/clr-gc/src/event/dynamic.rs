//! GCDynamicEvent: events that the collector sends outside the manifest, distinguished by name.
//!
//! The data starts with its own version, which is 1 in every recording. Data with another version or an unknown name is
//! kept as bytes. Fields have the names from TraceEvent if TraceEvent names them.

use super::fields::{Fields, Value};
use super::reader::{Cursor, PayloadTooShort, Wire};
use super::record::{Record, record};
use super::text::Utf16;
use nettrace::PointerSize;

/// GCDynamicEvent (39): a name and bytes. Version 0 (8 bytes + name + data). .NET Core 3.1 defines the event but never
/// sends it.
///
/// The [`Fields`] are `Name`, `DataSize`, then the fields of [`DynamicEvent::dynamic`] (`Data` if the data is opaque),
/// and `ClrInstanceID`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DynamicEvent<'a> {
    /// Kind of the data, case-sensitive.
    pub name: Utf16<'a>,
    /// The data: a 16-bit version and the fields of that version.
    pub data: &'a [u8],
    /// Number of the runtime within its process.
    pub clr_instance: u16,
}

impl<'a> Record<'a> for DynamicEvent<'a> {
    const FIXED: bool = false;

    #[inline]
    fn least(_: PointerSize) -> usize {
        8
    }

    #[inline]
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, PayloadTooShort> {
        let name = Utf16::read(cursor, "Name")?;
        let size = u32::read(cursor, "DataSize")?;
        let data = cursor.take(size.into(), "Data")?;
        let clr_instance = u16::read(cursor, "ClrInstanceID")?;
        Ok(Self {
            name,
            data,
            clr_instance,
        })
    }

    #[inline]
    fn clr_instance(&self) -> Option<u16> {
        Some(self.clr_instance)
    }
}

impl Fields for DynamicEvent<'_> {
    fn fields<'v>(&'v self, visit: &mut dyn FnMut(&'static str, Value<'v>)) {
        visit("Name", Value::Text(self.name));
        visit("DataSize", Value::U64(self.data.len() as u64));
        self.dynamic().fields(visit);
        visit("ClrInstanceID", Value::U64(self.clr_instance.into()));
    }
}

/// The data of a [`DynamicEvent`]. DATAS (dynamic adaptation to application sizes) is the mode of server GC in which
/// the number of heaps changes at run time.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum DynamicData<'a> {
    /// Committed memory.
    CommittedUsage(CommittedUsage),
    /// A DATAS measurement.
    SizeAdaptationSample(SizeAdaptationSample),
    /// A DATAS decision about the number of heaps.
    SizeAdaptationTuning(SizeAdaptationTuning),
    /// A DATAS decision after full collections.
    SizeAdaptationFullGcTuning(SizeAdaptationFullGcTuning),
    /// A DATAS decision about the number of heaps, as sent by .NET 8.
    HeapCountTuning(HeapCountTuning),
    /// A DATAS measurement, as sent by .NET 8.
    HeapCountSample(HeapCountSample),
    /// Data with an unknown name or version, or data that is too short.
    Opaque(&'a [u8]),
}

impl<'a> DynamicEvent<'a> {
    /// Decodes the fields of the data. Returns [`DynamicData::Opaque`] if the name or the version is unknown, or if the
    /// data is too short.
    pub fn dynamic(&self) -> DynamicData<'a> {
        let Some([1, 0]) = self.data.first_chunk() else {
            return DynamicData::Opaque(self.data);
        };
        // The layouts have no pointers.
        let mut cursor = Cursor::new(self.data, 0, PointerSize::Eight);
        let is = |name| self.name.eq_str(name);
        let known = if is("CommittedUsage") {
            CommittedUsage::read(&mut cursor).map(DynamicData::CommittedUsage)
        } else if is("SizeAdaptationSample") {
            SizeAdaptationSample::read(&mut cursor).map(DynamicData::SizeAdaptationSample)
        } else if is("SizeAdaptationTuning") {
            SizeAdaptationTuning::read(&mut cursor).map(DynamicData::SizeAdaptationTuning)
        } else if is("SizeAdaptationFullGCTuning") {
            SizeAdaptationFullGcTuning::read(&mut cursor).map(DynamicData::SizeAdaptationFullGcTuning)
        } else if is("HeapCountTuning") {
            HeapCountTuning::read(&mut cursor).map(DynamicData::HeapCountTuning)
        } else if is("HeapCountSample") {
            HeapCountSample::read(&mut cursor).map(DynamicData::HeapCountSample)
        } else {
            Ok(DynamicData::Opaque(self.data))
        };
        known.unwrap_or(DynamicData::Opaque(self.data))
    }
}

impl DynamicData<'_> {
    /// Visits the fields of the data. The visited values are copied numbers or bytes of the payload, so they do not
    /// borrow from `self`.
    fn fields<'v>(self, visit: &mut dyn FnMut(&'static str, Value<'v>))
    where
        Self: 'v,
    {
        match self {
            Self::CommittedUsage(it) => numbers(&it, visit),
            Self::SizeAdaptationSample(it) => numbers(&it, visit),
            Self::SizeAdaptationTuning(it) => numbers(&it, visit),
            Self::SizeAdaptationFullGcTuning(it) => numbers(&it, visit),
            Self::HeapCountTuning(it) => numbers(&it, visit),
            Self::HeapCountSample(it) => numbers(&it, visit),
            Self::Opaque(data) => visit("Data", Value::Bytes(data)),
        }
    }
}

/// Visits the numeric fields of a record. The visited values do not borrow from the record.
fn numbers<'v>(record: &impl Fields, visit: &mut dyn FnMut(&'static str, Value<'v>)) {
    record.fields(&mut |name, value| match value {
        Value::U64(number) => visit(name, Value::U64(number)),
        Value::I64(number) => visit(name, Value::I64(number)),
        Value::F32(number) => visit(name, Value::F32(number)),
        _ => {}
    });
}

record! {
    /// CommittedUsage (42 bytes; .NET 8 and later): committed memory, in bytes. Sent right after GCStart, and for
    /// blocking collections also right before GCEnd.
    CommittedUsage {
        /// Version of the data: 1.
        version: u16 = "Version",
        /// Bytes in use by the heaps.
        total_committed_in_use: u64 = "TotalCommittedInUse",
        /// Bytes that wait to be decommitted.
        total_committed_in_global_decommit: u64 = "TotalCommittedInGlobalDecommit",
        /// Bytes of free regions that belong to a heap.
        total_committed_in_free: u64 = "TotalCommittedInFree",
        /// Bytes of free regions that belong to no heap.
        total_committed_in_global_free: u64 = "TotalCommittedInGlobalFree",
        /// Bytes of the collector's own tables.
        total_bookkeeping_committed: u64 = "TotalBookkeepingCommitted",
    }

    /// SizeAdaptationSample (38 bytes; DATAS of .NET 9 and later): a measurement of one collection. Times are in
    /// microseconds.
    ///
    /// .NET 9 and 10 send 0 for both waits even if threads wait, so 0 means unknown. .NET 11 sends the waits (in 182 of
    /// 192 samples with eight allocating threads, at most 2,111 microseconds). A 0 therefore counts only in a stream
    /// that has shown a wait.
    SizeAdaptationSample {
        /// Version of the data: 1.
        version: u16 = "Version",
        /// Number of the collection.
        gc_index: u64 = "GCIndex",
        /// Time since the previous collection.
        elapsed_between_gcs: u32 = "ElapsedBetweenGCs",
        /// Pause of the collection.
        gc_pause: u32 = "GCPause",
        /// Time for which threads waited for the lock of the small object heap; 0 can mean unknown, see above.
        soh_msl_wait: u32 = "SohMslWait",
        /// Time for which threads waited for the locks of the large and the pinned object heap; 0 can mean unknown, see
        /// above.
        uoh_msl_wait: u32 = "UohMslWait",
        /// Size of the small object heap when stable, in bytes.
        total_soh_stable_size: u64 = "TotalSohStableSize",
        /// Budget of generation 0 of one heap, in bytes.
        gen0_budget: u32 = "Gen0BudgetPerHeap",
    }

    /// SizeAdaptationTuning (56 bytes; DATAS of .NET 9 and later): an evaluation of the number of heaps. "Tcp" is the
    /// throughput cost: the percentage of time spent on collections and on waiting for allocation.
    SizeAdaptationTuning {
        /// Version of the data: 1.
        version: u16 = "Version",
        /// New number of heaps.
        new_heap_count: u16 = "NewHeapCount",
        /// Maximum useful number of heaps; can exceed the maximum of the process.
        max_heap_count: u16 = "MaxHeapCount",
        /// Minimum useful number of heaps.
        min_heap_count: u16 = "MinHeapCount",
        /// Number of the collection.
        gc_index: u64 = "GCIndex",
        /// Size of the small object heap when stable, in bytes.
        total_soh_stable_size: u64 = "TotalSohStableSize",
        /// Median cost of the most recent samples, in percent.
        median_tcp: f32 = "MedianThroughputCostPercent",
        /// Cost that was compared with the target, in percent.
        tcp_to_consider: f32 = "TcpToConsider",
        /// Cost recorded around the target, in percent.
        recorded_tcp_around_target: f32 = "RecordedTcpAroundTarget",
        /// Number of recorded costs.
        recorded_count: u16 = "RecordedCount",
        /// Slope of the recorded costs.
        slope: f32 = "Slope",
        /// Collections since the number of heaps last changed.
        gcs_since_last_change: u32 = "GCsSinceLastChange",
        /// Permitted aggressiveness of the change.
        agg_factor: u8 = "AggFactor",
        /// Decision about the number of heaps.
        change_decision: u16 = "ChangeDecision",
        /// Reason for the adjustment.
        adj_reason: u16 = "AdjReason",
        /// Factor that limits how often changes are allowed.
        hc_change_freq_factor: u16 = "HcChangeFreqFactor",
        /// Reason for the factor in `HcChangeFreqFactor`.
        hc_freq_reason: u16 = "HcFreqReason",
        /// Metric that the adjustment is based on.
        adj_metric: u8 = "AdjMetric",
    }

    /// SizeAdaptationFullGCTuning (44 bytes; DATAS of .NET 9 and later): an evaluation after generation 2 collections.
    SizeAdaptationFullGcTuning {
        /// Version of the data: 1.
        version: u16 = "Version",
        /// New number of heaps.
        new_heap_count: u16 = "NewHeapCount",
        /// Number of the collection.
        gc_index: u64 = "GCIndex",
        /// Median cost of generation 2 collections, in percent.
        median_gen2_tcp: f32 = "MedianGen2Tcp",
        /// Generation 2 collections since the number of heaps last changed.
        gen2s_since_last_change: u32 = "Gen2sSinceLastChange",
        /// Collections between sample 0 and the previous sample.
        gc_distance0: u32 = "GCDistance0",
        /// Cost of sample 0 in percent.
        gc_percent0: f32 = "GCPercent0",
        /// Collections between sample 1 and the previous sample.
        gc_distance1: u32 = "GCDistance1",
        /// Cost of sample 1 in percent.
        gc_percent1: f32 = "GCPercent1",
        /// Collections between sample 2 and the previous sample.
        gc_distance2: u32 = "GCDistance2",
        /// Cost of sample 2 in percent.
        gc_percent2: f32 = "GCPercent2",
    }

    /// HeapCountTuning (36 bytes; DATAS of .NET 8). All costs are in percent.
    HeapCountTuning {
        /// Version of the data: 1.
        version: u16 = "Version",
        /// New number of heaps.
        new_heap_count: i16 = "NewHeapCount",
        /// Number of the collection.
        gc_index: i64 = "GCIndex",
        /// Median throughput cost.
        median_tcp: f32 = "MedianThroughputCostPercent",
        /// Smoothed median throughput cost.
        smoothed_median_tcp: f32 = "SmoothedMedianThroughputCostPercent",
        /// Throughput cost that more heaps would save.
        tcp_reduction_per_step_up: f32 = "ThroughputCostPercentReductionPerStepUp",
        /// Throughput cost that fewer heaps would add.
        tcp_increase_per_step_down: f32 = "ThroughputCostPercentIncreasePerStepDown",
        /// Space cost that more heaps would add.
        space_increase_per_step_up: f32 = "SpaceCostPercentIncreasePerStepUp",
        /// Space cost that fewer heaps would save.
        space_decrease_per_step_down: f32 = "SpaceCostPercentDecreasePerStepDown",
    }

    /// HeapCountSample (34 bytes; DATAS of .NET 8). Times are in microseconds.
    HeapCountSample {
        /// Version of the data: 1.
        version: u16 = "Version",
        /// Number of the collection.
        gc_index: i64 = "GCIndex",
        /// Time since the previous collection.
        elapsed_between_gcs: i64 = "ElapsedTimeBetweenGCs",
        /// Pause of the collection.
        gc_pause: i64 = "GCPauseTime",
        /// Time for which threads waited for locks.
        msl_wait: i64 = "MslWaitTime",
    }
}
