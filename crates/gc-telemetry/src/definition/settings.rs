//! Configuration of a process's GC: read once per run in a short session of its own, and added to the resource.
//!
//! The rundown provider's GCSettingsRundown (10, keyword 0x1) carries eight fields: HardLimit, LOHThreshold,
//! PhysicalMemoryConfig, Gen0MinBudgetConfig, Gen0MaxBudgetConfig, HighMemPercentConfig, BitSettings, ClrInstanceID;
//! RuntimeDCStart beside it the flags of the start. Runtimes before 9 and NativeAOT send neither: their processes have
//! none of these.

use super::attributes;

attributes! {
    SERVER "gcwatch.gc.settings.server" Bool Own
        "Server GC: one heap per core."
        from "RuntimeDCStart StartupFlags bit 0x1000"
    CONCURRENT "gcwatch.gc.settings.concurrent" Bool Own
        "Background collections are enabled."
        from "GCSettingsRundown BitSettings bit 0; RuntimeDCStart StartupFlags bit 0x1"
    LARGE_PAGES "gcwatch.gc.settings.large_pages" Bool Own
        "The heap uses large pages."
        from "GCSettingsRundown BitSettings bit 1"
    AFFINITIZED "gcwatch.gc.settings.affinitized" Bool Own
        "Server heaps are bound to cores (false: GCNoAffinitize)."
        from "GCSettingsRundown BitSettings bit 4, inverted"
    HARD_LIMIT "gcwatch.gc.settings.hard_limit" Int Own
        "Maximum of bytes that the heap may commit; absent without a limit."
        from "GCSettingsRundown HardLimit"
    LOH_THRESHOLD "gcwatch.gc.settings.loh_threshold" Int Own
        "Size in bytes from which objects are allocated in the large object heap."
        from "GCSettingsRundown LOHThreshold"
    PHYSICAL_MEMORY "gcwatch.gc.settings.physical_memory" Int Own
        "Configured bytes of physical memory (GCTotalPhysicalMemory); absent when not configured."
        from "GCSettingsRundown PhysicalMemoryConfig"
    GEN0_MIN_BUDGET "gcwatch.gc.settings.gen0_min_budget" Int Own
        "Configured minimum of the budget of generation 0 in bytes (GCgen0size); absent when not configured."
        from "GCSettingsRundown Gen0MinBudgetConfig"
    GEN0_MAX_BUDGET "gcwatch.gc.settings.gen0_max_budget" Int Own
        "Configured maximum of the budget of generation 0 in bytes (GCgen0MaxBudget); absent when not configured."
        from "GCSettingsRundown Gen0MaxBudgetConfig"
    HIGH_MEMORY_PERCENT "gcwatch.gc.settings.high_memory_percent" Int Own
        "Configured memory load in percent from which the GC collects more aggressively (GCHighMemPercent); absent when not configured."
        from "GCSettingsRundown HighMemPercentConfig"
    DYNAMIC_ADAPTATION "gcwatch.gc.settings.dynamic_adaptation" Bool Own
        "True once the number of heaps was observed to adapt to the size of the application (DATAS)."
        from "GCDynamicEvent SizeAdaptationSample, HeapCountSample"
}
