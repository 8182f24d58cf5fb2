//! Limits and usage of a process's container, exported with the process's resource.
//!
//! Processes in one container export the same values; do not sum the values over processes. Processes without a known
//! container have no values. The values are read every 15 s.

use super::metrics;

metrics! { METRICS
    MEMORY_LIMIT "gcwatch.container.memory.limit" "By" UpDownCounter [] Own
        "Memory limit of the container: the smallest limit that applies. Absent without a limit."
        from "memory.max; version 1: memory.limit_in_bytes"
    MEMORY_USAGE "container.memory.usage" "By" UpDownCounter [] Development
        "Memory used by the container, including page cache."
        from "memory.current; version 1: memory.usage_in_bytes"
    MEMORY_WORKING_SET "container.memory.working_set" "By" UpDownCounter [] Development
        "Memory used by the container without inactive page cache. The kernel compares this value with the limit."
        from "memory.stat inactive_file; version 1: total_inactive_file"
    OOM_KILLS "gcwatch.container.memory.oom_kills" "{process}" Counter [] Own
        "Processes in the container that were killed because the memory limit was reached, since the first attach."
        from "memory.events oom_kill; version 1: memory.oom_control"
    LIMIT_HITS "gcwatch.container.memory.limit_hits" "{hit}" Counter [] Own
        "Number of times that the container reached its memory limit and memory had to be reclaimed, since the first attach."
        from "memory.events max; version 1: memory.failcnt"
    HIGH_EVENTS "gcwatch.container.memory.high_events" "{event}" Counter [] Own
        "Number of times that processes in the container were throttled because usage exceeded memory.high, since the first attach."
        from "memory.events high; version 1: absent"
    CPU_LIMIT "gcwatch.container.cpu.limit" "{cpu}" UpDownCounter [] Own
        "CPU limit of the container: the smallest quota that applies. Absent without a quota."
        from "cpu.max; version 1: cpu.cfs_quota_us, cpu.cfs_period_us"
    CPU_PERIODS "gcwatch.container.cpu.periods" "{period}" Counter [] Own
        "Periods of the CPU quota during which the container ran, since the first attach. Absent without a quota."
        from "cpu.stat nr_periods"
    CPU_THROTTLED_PERIODS "gcwatch.container.cpu.throttled.periods" "{period}" Counter [] Own
        "Periods of the CPU quota during which the container was CPU-throttled."
        from "cpu.stat nr_throttled"
    CPU_THROTTLED_TIME "gcwatch.container.cpu.throttled.time" "s" Counter [] Own
        "Time during which the container was CPU-throttled, summed over its CPUs."
        from "cpu.stat throttled_usec; version 1: throttled_time"
}
