//! How the collector of a process is configured: read once per run, by a short session of its own, and added to the
//! resource.
//!
//! The rundown provider's GCSettingsRundown (10, keyword 0x1) carries eight fields: HardLimit, LOHThreshold,
//! PhysicalMemoryConfig, Gen0MinBudgetConfig, Gen0MaxBudgetConfig, HighMemPercentConfig, BitSettings, ClrInstanceID. Sizes of
//! segments are in the private provider's GCSettings (2). A process whose runtime sends neither has none of these.

use super::attributes;

attributes! {
    SERVER "dotnet.gc.settings.server" Bool Own
        "Server GC: one heap per core."
        from "private GCSettings ServerGC; RuntimeStart StartupFlags bit 0x1000"
    CONCURRENT "dotnet.gc.settings.concurrent" Bool Own
        "Background collections are allowed."
        from "GCSettingsRundown BitSettings bit 0; RuntimeStart StartupFlags bit 0x1"
    LARGE_PAGES "dotnet.gc.settings.large_pages" Bool Own
        "The heap uses large pages."
        from "GCSettingsRundown BitSettings bit 1"
    FROZEN_SEGMENTS "dotnet.gc.settings.frozen_segments" Bool Own
        "Frozen segments are in use."
        from "GCSettingsRundown BitSettings bit 2"
    HARD_LIMIT_CONFIGURED "dotnet.gc.settings.hard_limit_configured" Bool Own
        "The hard limit was configured (GCHeapHardLimit), not derived from the container's limit."
        from "GCSettingsRundown BitSettings bit 3"
    AFFINITIZED "dotnet.gc.settings.affinitized" Bool Own
        "Server heaps are bound to cores (false: GCNoAffinitize)."
        from "GCSettingsRundown BitSettings bit 4, inverted"
    HARD_LIMIT "dotnet.gc.settings.hard_limit" Int Own
        "Most bytes that the heap may commit; absent without a limit."
        from "GCSettingsRundown HardLimit"
    LOH_THRESHOLD "dotnet.gc.settings.loh_threshold" Int Own
        "Bytes from which on an object goes to the large object heap."
        from "GCSettingsRundown LOHThreshold"
    PHYSICAL_MEMORY "dotnet.gc.settings.physical_memory" Int Own
        "Bytes of physical memory that the collector was told to reckon with (GCTotalPhysicalMemory); absent when it was not."
        from "GCSettingsRundown PhysicalMemoryConfig"
    GEN0_MIN_BUDGET "dotnet.gc.settings.gen0_min_budget" Int Own
        "Configured least budget of generation 0 in bytes (GCgen0size); absent when it was not configured."
        from "GCSettingsRundown Gen0MinBudgetConfig"
    GEN0_MAX_BUDGET "dotnet.gc.settings.gen0_max_budget" Int Own
        "Configured largest budget of generation 0 in bytes (GCgen0MaxBudget); absent when it was not configured."
        from "GCSettingsRundown Gen0MaxBudgetConfig"
    HIGH_MEMORY_PERCENT "dotnet.gc.settings.high_memory_percent" Int Own
        "Memory load in percent from which on the collector works harder (GCHighMemPercent); absent when it was not configured."
        from "GCSettingsRundown HighMemPercentConfig"
    SEGMENT_SIZE "dotnet.gc.settings.segment_size" Int Own
        "Bytes of a segment of the small object heap; of the reserved range where the heap is made of regions."
        from "private GCSettings SegmentSize"
    LARGE_SEGMENT_SIZE "dotnet.gc.settings.large_segment_size" Int Own
        "Bytes of a segment of the large object heap."
        from "private GCSettings LargeObjectSegmentSize"
    DYNAMIC_ADAPTATION "dotnet.gc.settings.dynamic_adaptation" Bool Own
        "The number of server heaps follows the application's size (DATAS)."
        from "GCDynamicEvent SizeAdaptationSample, SizeAdaptationTuning; the process's environment and runtimeconfig.json"
}
