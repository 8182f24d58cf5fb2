//! GCDynamicEvent: events that the collector adds without the manifest, distinguished by name.
//!
//! Their data begins with a version of its own, 1 in every recording. Data with another version, or with a name that is
//! not known, stays bytes. The names of the fields are those of TraceEvent where it has them.

use super::fields::{Fields, Value};
use super::reader::{Cursor, Short, Wire};
use super::record::{Record, record};
use super::text::Utf16;
use nettrace::PointerSize;

/// GCDynamicEvent (39): a name and bytes. Version 0 (8 bytes + name + data). .NET Core 3.1 has the event and never sent
/// it.
///
/// Its [`Fields`] are `Name`, `DataSize`, then the fields of [`DynamicEvent::dynamic`] (`Data` where it is opaque),
/// and `ClrInstanceID`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DynamicEvent<'a> {
    /// What the data is; case counts.
    pub name: Utf16<'a>,
    /// The data: a 16-bit version and what belongs to it.
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
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, Short> {
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

/// The data of a [`DynamicEvent`].
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum DynamicData<'a> {
    /// Memory committed.
    CommittedUsage(CommittedUsage),
    /// DATAS: a measurement.
    SizeAdaptationSample(SizeAdaptationSample),
    /// DATAS: a decision about the number of heaps.
    SizeAdaptationTuning(SizeAdaptationTuning),
    /// DATAS: a decision after full collections.
    SizeAdaptationFullGcTuning(SizeAdaptationFullGcTuning),
    /// DATAS of .NET 8: a decision about the number of heaps.
    HeapCountTuning(HeapCountTuning),
    /// DATAS of .NET 8: a measurement.
    HeapCountSample(HeapCountSample),
    /// The name or the version is not known, or the data is too short.
    Opaque(&'a [u8]),
}

impl<'a> DynamicEvent<'a> {
    /// The fields of the data, where the name and the version are known.
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
    /// The fields of the data. Every value is a copy, so that `visit` may keep it no longer than this value lives.
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

/// Passes on fields that borrow nothing: numbers.
fn numbers<'v>(record: &impl Fields, visit: &mut dyn FnMut(&'static str, Value<'v>)) {
    record.fields(&mut |name, value| match value {
        Value::U64(number) => visit(name, Value::U64(number)),
        Value::I64(number) => visit(name, Value::I64(number)),
        Value::F32(number) => visit(name, Value::F32(number)),
        _ => {}
    });
}

record! {
    /// CommittedUsage (42 bytes; .NET 8 and later): memory committed, in bytes. Right after GCStart and right before
    /// GCEnd of a blocking collection, only at the start of a background one.
    CommittedUsage {
        /// Version of the data: 1.
        version: u16 = "Version",
        /// In use by the heaps.
        total_committed_in_use: u64 = "TotalCommittedInUse",
        /// Waiting to be decommitted.
        total_committed_in_global_decommit: u64 = "TotalCommittedInGlobalDecommit",
        /// Free regions of the heaps.
        total_committed_in_free: u64 = "TotalCommittedInFree",
        /// Free regions of no heap.
        total_committed_in_global_free: u64 = "TotalCommittedInGlobalFree",
        /// The collector's own tables.
        total_bookkeeping_committed: u64 = "TotalBookkeepingCommitted",
    }

    /// SizeAdaptationSample (38 bytes; DATAS of .NET 9 and later): every collection. Times in microseconds.
    ///
    /// 9 and 10 send 0 for both waits, whatever threads wait: unknown, not nothing. 11 sends them (182 of 192 samples
    /// under eight allocating threads, at most 2,111). So a 0 counts only in a stream that has shown a wait.
    SizeAdaptationSample {
        /// Version of the data: 1.
        version: u16 = "Version",
        /// Number of the collection.
        gc_index: u64 = "GCIndex",
        /// Time since the previous collection.
        elapsed_between_gcs: u32 = "ElapsedBetweenGCs",
        /// Pause.
        gc_pause: u32 = "GCPause",
        /// Threads' wait for the lock of the small object heap; see above.
        soh_msl_wait: u32 = "SohMslWait",
        /// Threads' wait for the locks of the other heaps; see above.
        uoh_msl_wait: u32 = "UohMslWait",
        /// Size of the small object heap when stable, in bytes.
        total_soh_stable_size: u64 = "TotalSohStableSize",
        /// Budget of generation 0 of one heap, in bytes.
        gen0_budget: u32 = "Gen0BudgetPerHeap",
    }

    /// SizeAdaptationTuning (56 bytes; DATAS of .NET 9 and later): is the number of heaps right? "Tcp" is the
    /// throughput cost: the percentage of time that collections and waiting for allocation cost.
    SizeAdaptationTuning {
        /// Version of the data: 1.
        version: u16 = "Version",
        /// New number of heaps.
        new_heap_count: u16 = "NewHeapCount",
        /// Most heaps worth having; may exceed what the process can have.
        max_heap_count: u16 = "MaxHeapCount",
        /// Fewest heaps worth having.
        min_heap_count: u16 = "MinHeapCount",
        /// Number of the collection.
        gc_index: u64 = "GCIndex",
        /// Size of the small object heap when stable, in bytes.
        total_soh_stable_size: u64 = "TotalSohStableSize",
        /// Median cost of the last samples, in percent.
        median_tcp: f32 = "MedianThroughputCostPercent",
        /// Cost that was compared with the target, in percent.
        tcp_to_consider: f32 = "TcpToConsider",
        /// Cost recorded around the target, in percent.
        recorded_tcp_around_target: f32 = "RecordedTcpAroundTarget",
        /// How many costs were recorded.
        recorded_count: u16 = "RecordedCount",
        /// Slope of the recorded costs.
        slope: f32 = "Slope",
        /// Collections since the number of heaps last changed.
        gcs_since_last_change: u32 = "GCsSinceLastChange",
        /// How aggressive the change may be.
        agg_factor: u8 = "AggFactor",
        /// What was decided.
        change_decision: u16 = "ChangeDecision",
        /// Why it was adjusted.
        adj_reason: u16 = "AdjReason",
        /// How often changes are allowed.
        hc_change_freq_factor: u16 = "HcChangeFreqFactor",
        /// Why so often.
        hc_freq_reason: u16 = "HcFreqReason",
        /// By which measure.
        adj_metric: u8 = "AdjMetric",
    }

    /// SizeAdaptationFullGCTuning (44 bytes; DATAS of .NET 9 and later): after generation 2.
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
        /// Collections between this sample and the one before: sample 0.
        gc_distance0: u32 = "GCDistance0",
        /// Cost of sample 0 in percent.
        gc_percent0: f32 = "GCPercent0",
        /// Distance of sample 1.
        gc_distance1: u32 = "GCDistance1",
        /// Cost of sample 1 in percent.
        gc_percent1: f32 = "GCPercent1",
        /// Distance of sample 2.
        gc_distance2: u32 = "GCDistance2",
        /// Cost of sample 2 in percent.
        gc_percent2: f32 = "GCPercent2",
    }

    /// HeapCountTuning (36 bytes; DATAS of .NET 8). All costs in percent.
    HeapCountTuning {
        /// Version of the data: 1.
        version: u16 = "Version",
        /// New number of heaps.
        new_heap_count: i16 = "NewHeapCount",
        /// Number of the collection.
        gc_index: i64 = "GCIndex",
        /// Median throughput cost.
        median_tcp: f32 = "MedianThroughputCostPercent",
        /// The same, smoothed.
        smoothed_median_tcp: f32 = "SmoothedMedianThroughputCostPercent",
        /// What more heaps would save.
        tcp_reduction_per_step_up: f32 = "ThroughputCostPercentReductionPerStepUp",
        /// What fewer heaps would cost.
        tcp_increase_per_step_down: f32 = "ThroughputCostPercentIncreasePerStepDown",
        /// Space that more heaps would cost.
        space_increase_per_step_up: f32 = "SpaceCostPercentIncreasePerStepUp",
        /// Space that fewer heaps would save.
        space_decrease_per_step_down: f32 = "SpaceCostPercentDecreasePerStepDown",
    }

    /// HeapCountSample (34 bytes; DATAS of .NET 8). Times in microseconds.
    HeapCountSample {
        /// Version of the data: 1.
        version: u16 = "Version",
        /// Number of the collection.
        gc_index: i64 = "GCIndex",
        /// Time since the previous collection.
        elapsed_between_gcs: i64 = "ElapsedTimeBetweenGCs",
        /// Pause.
        gc_pause: i64 = "GCPauseTime",
        /// Threads' wait for locks.
        msl_wait: i64 = "MslWaitTime",
    }
}
