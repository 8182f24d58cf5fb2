//! Metrics of gcwatch's work, exported with the resource of the observed process and with the resource of gcwatch.

use super::anomaly::{INCIDENT_SEVERITY, INCIDENT_SYMPTOM, RULE_ID, SEVERITY};
use super::{attributes, metrics};

attributes! {
    STATE "gcwatch.target.state" Text Own
        "State of a process: `attached`, `unattachable`, `excluded`, `held_elsewhere`, `over_limit`, and others."
        from "gcwatch"
    REASON "gcwatch.target.reason" Text Own
        "Reason why gcwatch does not read a process, as in `gcwatch doctor` and `gcwatch ps`: `permission`, `no-socket`, `silent`, and others; or `excluded`, `held-elsewhere`, `over-limit`, `over-memory`."
        from "gcwatch"
    NAMESPACE "gcwatch.target.namespace" Text Own
        "Kubernetes namespace of the process that is not read; absent outside Kubernetes."
        from "Kubernetes"
    WORKLOAD "gcwatch.target.workload" Text Own
        "Workload of the process that is not read, with its kind: `deployment/shop`; without an owner `pod/shop-1`; outside Kubernetes the name of its service or program. Absent for `excluded` and `held-elsewhere`, and beyond 200 workloads."
        from "Kubernetes, as service.name"
    SIGNAL "gcwatch.signal" Text Own
        "`traces`, `metrics` or `logs`."
        from "gcwatch"
    BURST_KIND "gcwatch.evidence.kind" Text Own
        "Kind of evidence gathered for an incident: `callers`, `allocations`, `stacks`, `census`."
        from "gcwatch"
    OUTCOME "gcwatch.outcome" Text Own
        "Outcome of a request: `accepted`, `partial`, `unavailable`, `timed_out`, `unreachable`, `refused`, `too_large`, `unsupported`; outcome of a reload: `accepted`, `refused`."
        from "gcwatch"
    ERROR_TYPE "error.type" Text Stable
        "Reason why an item was dropped: `queue_full`, `expired`, `refused`, `too_large`, `unsupported`, `disabled`, `shutdown`. Reason why a request failed: `unreachable`, `timed_out`, `unavailable`, `refused`."
        from "gcwatch"
    RECEIVER "gcwatch.receiver" Text Own
        "Receiver of alert notifications: `alertmanager HOST:PORT`, `webhook HOST:PORT`, `stdout`. If several receivers have the same name, the name contains the position in the configuration."
        from "configuration"
    PROFILE_PART "gcwatch.profiles.part" Text Own
        "Part of the profiles: `service`, `period` (the time of one configuration), `block` (five minutes), `change`, `comparison`."
        from "gcwatch"
    CPU_MODE "cpu.mode" Text Development
        "`user` or `system`."
        from "/proc/self/stat"
}

/// Metrics with the resource of the observed process.
pub mod target {
    use super::{INCIDENT_SEVERITY, INCIDENT_SYMPTOM, RULE_ID, SEVERITY, attributes, metrics};

    attributes! {
        LINE "gcwatch.memory.line" Text Own
            "Line of the memory ledger: `live`, `not_looked_at` (objects since the last full collection), `free`, `unused` (committed but not used by objects), `bookkeeping`, `native`, `other_processes` (in the container), `files_in_memory` (tmpfs), `page_cache` (pages of files on disk), `kernel`, `kernel_reclaimable` (such as cached directory entries; an estimate with control groups version 1), `unknown`."
            from "the ledger"
    }

    metrics! { METRICS
        EVENTS "gcwatch.events" "{event}" Counter [] Own
            "Number of events read."
            from "gcwatch"
        UNDECODABLE "gcwatch.events.undecodable" "{event}" Counter [] Own
            "Events of a known type with a payload that was too short."
            from "gcwatch"
        SIZE "gcwatch.stream.size" "By" Counter [] Own
            "Bytes read from the process's event streams."
            from "gcwatch"
        SESSIONS "gcwatch.sessions" "{session}" Counter [] Own
            "Sessions started in the process. A value above 1 means that gcwatch reattached."
            from "gcwatch"
        HEALINGS "gcwatch.sessions.healing" "{session}" Counter [] Own
            "Sessions that restored the event state of the process after another tool's session ended. Without such a session, the runtime would continue to create the events of that tool's session."
            from "gcwatch"
        LAG "gcwatch.lag" "s" Gauge [] Own
            "Time from the end of the newest collection until gcwatch processed the collection. Includes up to 0.2 s of wait for late events."
            from "GCEnd, host clock"
        ALERTS_ACTIVE "gcwatch.alerts.active" "{alert}" UpDownCounter [RULE_ID, SEVERITY] Own
            "Firing alerts: 1 or 0 for each rule that fired on the process."
            from "rules"
        ANOMALIES "gcwatch.anomalies" "{alert}" Counter [RULE_ID, SEVERITY] Own
            "Alerts that started to fire."
            from "rules"
        INCIDENTS "gcwatch.incidents" "{incident}" Counter [INCIDENT_SYMPTOM, INCIDENT_SEVERITY] Own
            "Incidents that started with this severity or rose to this severity."
            from "rules"
        INCIDENTS_OPEN "gcwatch.incidents.open" "{incident}" UpDownCounter [INCIDENT_SYMPTOM, INCIDENT_SEVERITY] Own
            "Open incidents of the process, by the highest severity so far; 0 for series without an open incident."
            from "rules"
        MEMORY "gcwatch.memory.usage" "By" UpDownCounter [LINE] Own
            "Memory breakdown of the process and its container: the sum of the lines is the usage. Processes in one container all have the lines of the container (`other_processes`, `files_in_memory`, `page_cache`, `kernel`, `kernel_reclaimable`). An estimate; the collector's lines are as of the newest collection."
            from "control group, /proc/PID/status, GCHeapStats, GCPerHeapHistory, GCDynamicEvent CommittedUsage"
        MEMORY_PEAK "gcwatch.memory.peak" "By" UpDownCounter [] Own
            "Highest usage since the first attach, from one reading every 15 s."
            from "control group, /proc/PID/status"
        MEMORY_LIMIT "gcwatch.memory.limit" "By" UpDownCounter [] Own
            "Smallest memory limit that applies to the process. Absent without a limit."
            from "control group"
        MEMORY_BEYOND "gcwatch.memory.beyond_working_room" "By" UpDownCounter [] Own
            "The part of the lines `free` and `unused` that no cycle between two full collections used, in the cycles that ended in the hour before the newest full collection. The rest of these lines is the room in which the collector works. Absent before the second full collection, and on runtimes that do not report committed memory."
            from "GCHeapStats, GCPerHeapHistory, GCDynamicEvent CommittedUsage"
    }
}

/// Names for the resource of a service, with `metrics.aggregate: service`.
pub mod service {
    use super::metrics;

    metrics! { METRICS
        PROCESSES "gcwatch.service.processes" "{process}" UpDownCounter [] Own
            "Number of processes that the series of the service add up. Only with `metrics.aggregate: service`."
            from "gcwatch"
    }
}

metrics! { METRICS
    CPU_TIME "process.cpu.time" "s" Counter [CPU_MODE] Development
        "CPU time used by gcwatch."
        from "/proc/self/stat"
    MEMORY "process.memory.usage" "By" UpDownCounter [] Development
        "Physical memory used by gcwatch."
        from "/proc/self/stat"
    THREADS "process.thread.count" "{thread}" UpDownCounter [] Development
        "Threads of gcwatch."
        from "/proc/self/stat"
    DESCRIPTORS "process.unix.file_descriptor.count" "{file_descriptor}" UpDownCounter [] Development
        "Open file descriptors of gcwatch."
        from "/proc/self/fd"
    TARGETS "gcwatch.targets" "{process}" Gauge [STATE] Own
        ".NET processes on the host, by state."
        from "gcwatch"
    NOT_ATTACHED "gcwatch.targets.not_attached" "{process}" Gauge [REASON, NAMESPACE, WORKLOAD] Own
        ".NET processes on the host that gcwatch does not read, by reason, namespace and workload."
        from "gcwatch"
    TARGETS_REFUSED "gcwatch.targets.refused" "{process}" Counter [] Own
        "Failed attempts to start the telemetry of a process at the process limit."
        from "gcwatch"
    TARGETS_OVER_MEMORY "gcwatch.targets.over_memory" "{session}" Counter [] Own
        "Sessions that gcwatch ended because a process's event stream exceeded its memory limit. gcwatch reattaches to the process after a delay that grows to one hour."
        from "gcwatch"
    COLLECTIONS "gcwatch.collections" "{collection}" Counter [] Own
        "Reported collections of all processes."
        from "gcwatch"
    SPANS "gcwatch.spans" "{span}" Counter [] Own
        "Created spans of all processes."
        from "gcwatch"
    GUARD_RUNNING "gcwatch.guard.running" "{guard}" Gauge [] Own
        "1 while the guard of gcwatch runs. The guard is the process that closes sessions if gcwatch stops or hangs, so that no process waits for gcwatch."
        from "gcwatch"
    GUARD_CLOSED "gcwatch.guard.releases" "{session}" Counter [] Own
        "Sessions that the guard closed because gcwatch read nothing for more than 5 s. Collections until gcwatch reattaches are missing."
        from "gcwatch"
    GUARD_RESTARTS "gcwatch.guard.restarts" "{restart}" Counter [] Own
        "Guards started as replacement for an exited guard."
        from "gcwatch"
    GUARD_NOT_HELD "gcwatch.guard.unguarded" "{session}" Counter [] Own
        "Sessions without a guard because of a lack of file descriptors."
        from "gcwatch"
    STALLS "gcwatch.stalls" "{stall}" Counter [] Own
        "Number of times that gcwatch stalled for more than 5 s: stopped, without CPU, or swapped out. gcwatch reports nothing about processes for these times."
        from "gcwatch"
    STALL_DURATION "gcwatch.stall.duration" "s" Counter [] Own
        "Total time that gcwatch stalled."
        from "gcwatch"
    LOG_DROPPED "gcwatch.log.dropped" "{line}" Counter [] Own
        "Log lines dropped because standard error was not read fast enough."
        from "gcwatch"
    PROFILE_MINUTES "gcwatch.profiles.minutes" "{minute}" Counter [OUTCOME] Own
        "Minutes of processes for the profiles of their services: `added`, `unconfigured` (the configuration of the process is unknown), `refused` (too many services) or `late` (a later minute exists)."
        from "gcwatch"
    PROFILE_EVICTED "gcwatch.profiles.evicted" "{item}" Counter [PROFILE_PART] Own
        "Parts of profiles that were evicted because of a limit. A `comparison` was dropped because too many were waiting."
        from "gcwatch"
    CHANGES "gcwatch.changes" "{change}" Counter [] Own
        "Changes of the configurations of services that gcwatch noticed."
        from "gcwatch"
    RECORDINGS "gcwatch.black_box.recordings" "{recording}" Counter [OUTCOME] Own
        "Recordings of severe incidents: `written`, `failed` (the write to disk failed) or `dropped` (the disk was too slow)."
        from "gcwatch"
    BURSTS "gcwatch.evidence.bursts" "{burst}" Counter [BURST_KIND, OUTCOME] Own
        "Bursts and heap dumps for incidents (`evidence.bursts: on`, `evidence.census: on`): `gathered`, `cut` (the process exited or its stream broke), `failed` (the runtime refused) or `refused` (the incident contains the reason)."
        from "gcwatch"
    STORE_OBJECTS "gcwatch.evidence.store.objects" "{object}" Counter [OUTCOME] Own
        "Objects of evidence for the store outside the host (`evidence.store`): stored; failed, attempts that are repeated; dropped, too many waited or the disk was too slow. Absent without a store."
        from "gcwatch"
    STORE_FILES "gcwatch.evidence.store.files" "{file}" Gauge [] Own
        "Files of evidence that wait on disk for the store."
        from "gcwatch"
    STORE_SIZE "gcwatch.evidence.store.size" "By" Gauge [] Own
        "Size of the files of evidence that wait on disk for the store."
        from "gcwatch"
    POD_EVENTS_CREATED "gcwatch.kubernetes.events" "{event}" Counter [OUTCOME] Own
        "Kubernetes Events on pods (`kubernetes.events: on`): created; dropped, the API server refused or too many waited."
        from "gcwatch"
    RELOADS "gcwatch.config.reloads" "{reload}" Counter [OUTCOME] Own
        "Reloads of the configuration."
        from "gcwatch"
    QUEUE_ITEMS "gcwatch.export.queue.items" "{item}" Gauge [SIGNAL] Own
        "Spans, data points and log records waiting to be sent."
        from "gcwatch"
    QUEUE_SIZE "gcwatch.export.queue.size" "By" Gauge [SIGNAL] Own
        "Encoded bytes waiting to be sent."
        from "gcwatch"
    DISK_ITEMS "gcwatch.export.disk.items" "{item}" Gauge [SIGNAL] Own
        "Spans, data points and log records waiting on disk."
        from "gcwatch"
    DISK_SIZE "gcwatch.export.disk.size" "By" Gauge [SIGNAL] Own
        "Compressed bytes that wait on disk."
        from "gcwatch"
    DISK_USABLE "gcwatch.export.disk.usable" "{directory}" Gauge [] Own
        "1 while the queue on disk is usable. Absent without `state.directory`."
        from "gcwatch"
    EXPORTED "gcwatch.export.items" "{item}" Counter [SIGNAL] Own
        "Items accepted by the receiver."
        from "gcwatch"
    REJECTED "gcwatch.export.rejected" "{item}" Counter [SIGNAL] Own
        "Items that the receiver rejected from a partially accepted request."
        from "partial success of OTLP"
    DROPPED "gcwatch.export.dropped" "{item}" Counter [SIGNAL, ERROR_TYPE] Own
        "Items dropped before delivery."
        from "gcwatch"
    REQUESTS "gcwatch.export.requests" "{request}" Counter [SIGNAL, OUTCOME] Own
        "Requests to receivers, by outcome."
        from "gcwatch"
    RETRIES "gcwatch.export.retries" "{request}" Counter [SIGNAL] Own
        "Retried requests."
        from "gcwatch"
    EXPORTED_SIZE "gcwatch.export.size" "By" Counter [SIGNAL] Own
        "Encoded bytes of accepted requests, before compression."
        from "gcwatch"
    UNSUPPORTED "gcwatch.export.unsupported" "{signal}" Gauge [SIGNAL] Own
        "1 while the receiver does not support the signal."
        from "gcwatch"
    RULES "gcwatch.rules" "{rule}" Gauge [] Own
        "Active rules, without disabled rules."
        from "rule files"
    RULE_EVALUATIONS "gcwatch.rules.evaluations" "{evaluation}" Counter [RULE_ID] Own
        "Rule evaluations over all processes."
        from "rules"
    RULE_FAILURES "gcwatch.rules.failures" "{evaluation}" Counter [RULE_ID] Own
        "Rule evaluations that failed although all values were known: division by zero, or a number out of range. The API shows the newest failure."
        from "rules"
    RULE_RELOADS "gcwatch.rules.reloads" "{reload}" Counter [OUTCOME] Own
        "Reloads of the rule files."
        from "gcwatch"
    RULES_CURRENT "gcwatch.rules.current" "{rule_set}" Gauge [] Own
        "1 while the active rules match the rule files; 0 while the files are invalid and the previous rules stay active, or \
         while rules are left out."
        from "gcwatch"
    RULES_LOADED "gcwatch.rules.loaded" "s" Gauge [] Own
        "Time when the active rules were read, seconds since 1970."
        from "gcwatch"
    PODS "gcwatch.kubernetes.pods" "{pod}" Gauge [] Own
        "Pods with known metadata. Like the following metrics, absent without configured Kubernetes metadata."
        from "Kubernetes"
    PODS_CURRENT "gcwatch.kubernetes.current" "{source}" Gauge [] Own
        "1 while the pod metadata is current; 0 while Kubernetes does not respond and gcwatch uses the last known metadata."
        from "Kubernetes"
    POD_LISTS "gcwatch.kubernetes.lists" "{list}" Counter [] Own
        "Complete pod lists read: at startup, after a watch expired, and on each request to the kubelet."
        from "Kubernetes"
    POD_EVENTS "gcwatch.kubernetes.events" "{event}" Counter [] Own
        "Pod changes received from the API server."
        from "Kubernetes"
    POD_FAILURES "gcwatch.kubernetes.failures" "{failure}" Counter [] Own
        "Failed requests to Kubernetes and broken watches."
        from "gcwatch"
    PODS_LEFT_OUT "gcwatch.kubernetes.left_out" "{pod}" Counter [] Own
        "Ignored pods and events: over the limit, or unreadable."
        from "gcwatch"
    NOTIFICATIONS "gcwatch.notifications.sent" "{alert}" Counter [RECEIVER] Own
        "Alert notifications accepted by a receiver, including repeated notifications."
        from "gcwatch"
    NOTIFICATION_FAILURES "gcwatch.notifications.failed" "{request}" Counter [RECEIVER, ERROR_TYPE] Own
        "Failed requests to an alert receiver. `unreachable`, `timed_out` and `unavailable` are retried; `refused` is retried unless the content was refused."
        from "gcwatch"
    NOTIFICATIONS_DROPPED "gcwatch.notifications.dropped" "{alert}" Counter [RECEIVER, ERROR_TYPE] Own
        "Alert changes dropped before a receiver was notified: `queue_full`, `expired`, `refused`, `disabled`, `shutdown`."
        from "gcwatch"
    NOTIFICATIONS_SUMMED_UP "gcwatch.notifications.summed_up" "{alert}" Counter [RECEIVER] Own
        "Changes of alerts of tenants beyond their share of messages: a receiver gets one message of each tenant and rule instead."
        from "gcwatch"
    NOTIFICATION_QUEUE "gcwatch.notifications.queue" "{alert}" Gauge [RECEIVER] Own
        "Alerts that wait to be sent to a receiver."
        from "gcwatch"
}
