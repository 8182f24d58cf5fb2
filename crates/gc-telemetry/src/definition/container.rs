//! What the container of a process may use and does use: told with the process's resource.
//!
//! Processes in one container tell the same; such values are not to be added up over processes. A process in no container tells those of
//! its control group. They are read every quarter of a minute.

use super::metrics;

metrics! { METRICS
    MEMORY_LIMIT "gcwatch.container.memory.limit" "By" UpDownCounter [] Own
        "Most memory that the container may use: the smallest limit within it. Absent without a limit."
        from "memory.max; version 1: memory.limit_in_bytes"
    MEMORY_USAGE "container.memory.usage" "By" UpDownCounter [] Development
        "Memory that the container uses, with the pages of files that it read."
        from "memory.current; version 1: memory.usage_in_bytes"
    MEMORY_WORKING_SET "container.memory.working_set" "By" UpDownCounter [] Development
        "The same without the pages of files that were not used lately: what counts when the limit is met."
        from "memory.stat inactive_file; version 1: total_inactive_file"
    OOM_KILLS "gcwatch.container.memory.oom_kills" "{process}" Counter [] Own
        "Processes of the container that were killed because its limit was met, since the first attach."
        from "memory.events oom_kill; version 1: memory.oom_control"
    LIMIT_HITS "gcwatch.container.memory.limit_hits" "{hit}" Counter [] Own
        "How often the container met its memory limit, so that something had to be freed, since the first attach."
        from "memory.events max; version 1: memory.failcnt"
    HIGH_EVENTS "gcwatch.container.memory.high_events" "{event}" Counter [] Own
        "How often processes of the container were slowed down because it was over memory.high, since the first attach."
        from "memory.events high; version 1: absent"
    CPU_LIMIT "gcwatch.container.cpu.limit" "{cpu}" UpDownCounter [] Own
        "CPUs that the container may use: the smallest quota within it. Absent without one."
        from "cpu.max; version 1: cpu.cfs_quota_us, cpu.cfs_period_us"
    CPU_PERIODS "gcwatch.container.cpu.periods" "{period}" Counter [] Own
        "Periods of the quota in which the container ran, since the first attach. Absent without a quota."
        from "cpu.stat nr_periods"
    CPU_THROTTLED_PERIODS "gcwatch.container.cpu.throttled.periods" "{period}" Counter [] Own
        "Those of them in which it stood still because the quota was used up."
        from "cpu.stat nr_throttled"
    CPU_THROTTLED_TIME "gcwatch.container.cpu.throttled.time" "s" Counter [] Own
        "For how long it stood still, summed over its CPUs."
        from "cpu.stat throttled_usec; version 1: throttled_time"
}
