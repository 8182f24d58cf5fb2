//! GC configuration of a process, read once per run in a short separate session and added to the resource.
//!
//! The event GCSettingsRundown (10, keyword 0x1) of the rundown provider has eight fields: HardLimit, LOHThreshold,
//! PhysicalMemoryConfig, Gen0MinBudgetConfig, Gen0MaxBudgetConfig, HighMemPercentConfig, BitSettings, ClrInstanceID.
//! The event RuntimeDCStart contains the startup flags. Runtimes before .NET 9 and NativeAOT send neither event:
//! processes with these runtimes have no configuration attributes.

use super::attributes;

attributes! {
    SERVER "gcwatch.gc.settings.server" Bool Own
        "Whether server GC is in use: one heap per core."
        from "RuntimeDCStart StartupFlags bit 0x1000"
    CONCURRENT "gcwatch.gc.settings.concurrent" Bool Own
        "Whether background collections are enabled."
        from "GCSettingsRundown BitSettings bit 0; RuntimeDCStart StartupFlags bit 0x1"
    LARGE_PAGES "gcwatch.gc.settings.large_pages" Bool Own
        "Whether the heap uses large pages."
        from "GCSettingsRundown BitSettings bit 1"
    AFFINITIZED "gcwatch.gc.settings.affinitized" Bool Own
        "Whether server heaps are bound to cores (`false`: GCNoAffinitize)."
        from "GCSettingsRundown BitSettings bit 4, inverted"
    HARD_LIMIT "gcwatch.gc.settings.hard_limit" Int Own
        "Maximum number of bytes that the heap can commit. Absent without a limit."
        from "GCSettingsRundown HardLimit"
    LOH_THRESHOLD "gcwatch.gc.settings.loh_threshold" Int Own
        "Minimum size of objects that are allocated in the large object heap, bytes."
        from "GCSettingsRundown LOHThreshold"
    PHYSICAL_MEMORY "gcwatch.gc.settings.physical_memory" Int Own
        "Configured physical memory (GCTotalPhysicalMemory), bytes. Absent if not configured."
        from "GCSettingsRundown PhysicalMemoryConfig"
    GEN0_MIN_BUDGET "gcwatch.gc.settings.gen0_min_budget" Int Own
        "Configured minimum budget of generation 0 (GCgen0size), bytes. Absent if not configured."
        from "GCSettingsRundown Gen0MinBudgetConfig"
    GEN0_MAX_BUDGET "gcwatch.gc.settings.gen0_max_budget" Int Own
        "Configured maximum budget of generation 0 (GCgen0MaxBudget), bytes. Absent if not configured."
        from "GCSettingsRundown Gen0MaxBudgetConfig"
    HIGH_MEMORY_PERCENT "gcwatch.gc.settings.high_memory_percent" Int Own
        "Configured memory load from which the GC collects more aggressively (GCHighMemPercent), percent. Absent if not configured."
        from "GCSettingsRundown HighMemPercentConfig"
    DYNAMIC_ADAPTATION "gcwatch.gc.settings.dynamic_adaptation" Bool Own
        "`true` after the number of heaps adapted to the size of the application (DATAS)."
        from "GCDynamicEvent SizeAdaptationSample, HeapCountSample"
}
