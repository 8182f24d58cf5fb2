//! Metrics of gcwatch's own work: with the resource of the process that it reads, and with its own resource.

use super::anomaly::{INCIDENT_SEVERITY, INCIDENT_SYMPTOM, RULE_ID, SEVERITY};
use super::{attributes, metrics};

attributes! {
    STATE "gcwatch.target.state" Text Own
        "State of a process: `attached`, `unattachable`, `excluded`, `held_elsewhere`, `over_limit` ..."
        from "gcwatch"
    REASON "gcwatch.target.reason" Text Own
        "Why gcwatch does not read a process, as in `gcwatch doctor` and `gcwatch ps`: `permission`, `no-socket`, `silent` ..., or `excluded`, `held-elsewhere`, `over-limit`, `over-memory`."
        from "gcwatch"
    SIGNAL "gcwatch.signal" Text Own
        "`traces`, `metrics` or `logs`."
        from "gcwatch"
    BURST_KIND "gcwatch.evidence.kind" Text Own
        "What is gathered for an incident: `callers`, `allocations`, `stacks`, `census`."
        from "gcwatch"
    OUTCOME "gcwatch.outcome" Text Own
        "Outcome of a request: `accepted`, `partial`, `unavailable`, `timed_out`, `unreachable`, `refused`, `too_large`, `unsupported`; of a reload: `accepted`, `refused`."
        from "gcwatch"
    ERROR_TYPE "error.type" Text Stable
        "Why an item was dropped: `queue_full`, `expired`, `refused`, `too_large`, `unsupported`, `disabled`, `shutdown`. Why a request failed: `unreachable`, `timed_out`, `unavailable`, `refused`."
        from "gcwatch"
    RECEIVER "gcwatch.receiver" Text Own
        "Receiver of alert notifications: `alertmanager HOST:PORT`, `webhook HOST:PORT`, `stdout`. Where several would have the same name, their place in the configuration is added."
        from "configuration"
    CPU_MODE "cpu.mode" Text Development
        "`user` or `system`."
        from "/proc/self/stat"
}

/// With the resource of the process that is read.
pub mod target {
    use super::{INCIDENT_SEVERITY, INCIDENT_SYMPTOM, RULE_ID, SEVERITY, attributes, metrics};

    attributes! {
        LINE "gcwatch.memory.line" Text Own
            "A line of the memory ledger: `live`, `not_looked_at` (objects since the last full collection), `free`, `unused` (committed beyond the objects), `bookkeeping`, `native`, `other_processes` (of the container), `files_in_memory` (tmpfs), `page_cache` (pages of files on disk), `kernel`, `kernel_reclaimable` (as cached directory entries; an estimate with control groups of version 1), `unknown`."
            from "the ledger"
    }

    metrics! { METRICS
        EVENTS "gcwatch.events" "{event}" Counter [] Own
            "Events read."
            from "gcwatch"
        UNDECODABLE "gcwatch.events.undecodable" "{event}" Counter [] Own
            "Events of a known kind whose payload was too short."
            from "gcwatch"
        SIZE "gcwatch.stream.size" "By" Counter [] Own
            "Bytes read from the process's event streams."
            from "gcwatch"
        SESSIONS "gcwatch.sessions" "{session}" Counter [] Own
            "Sessions started in the process; more than one means that gcwatch attached to it again."
            from "gcwatch"
        HEALINGS "gcwatch.sessions.healing" "{session}" Counter [] Own
            "Sessions by which gcwatch healed the process after another tool's session had ended there: the runtime would have gone on making that one's events."
            from "gcwatch"
        LAG "gcwatch.lag" "s" Gauge [] Own
            "Lag: time from the end of the newest collection until gcwatch processed it. Includes up to 0.2 s of waiting for late events."
            from "GCEnd, the host's clock"
        ALERTS_ACTIVE "gcwatch.alerts.active" "{alert}" UpDownCounter [RULE_ID, SEVERITY] Own
            "Firing alerts: 1 or 0 for each rule that has fired on the process."
            from "rules"
        ANOMALIES "gcwatch.anomalies" "{alert}" Counter [RULE_ID, SEVERITY] Own
            "Alerts that started to fire."
            from "rules"
        INCIDENTS "gcwatch.incidents" "{incident}" Counter [INCIDENT_SYMPTOM, INCIDENT_SEVERITY] Own
            "Incidents that began with this severity or rose to it."
            from "rules"
        INCIDENTS_OPEN "gcwatch.incidents.open" "{incident}" UpDownCounter [INCIDENT_SYMPTOM, INCIDENT_SEVERITY] Own
            "Open incidents of the process, by the highest severity so far; 0 for those that were open."
            from "rules"
        MEMORY "gcwatch.memory.usage" "By" UpDownCounter [LINE] Own
            "Where the memory of the process and its container is: the lines add up to the usage. Processes in one container have its lines (`other_processes`, `files_in_memory`, `page_cache`, `kernel`, `kernel_reclaimable`) each. An estimate, as of the newest collection for what is the collector's."
            from "control group, /proc/PID/status, GCHeapStats, GCPerHeapHistory, GCDynamicEvent CommittedUsage"
        MEMORY_PEAK "gcwatch.memory.peak" "By" UpDownCounter [] Own
            "The highest usage since the first attach, of one reading in 15 s."
            from "control group, /proc/PID/status"
        MEMORY_LIMIT "gcwatch.memory.limit" "By" UpDownCounter [] Own
            "The smallest memory limit that applies to the process. Absent without a limit."
            from "control group"
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
    NOT_ATTACHED "gcwatch.targets.not_attached" "{process}" Gauge [REASON] Own
        ".NET processes on the host that gcwatch does not read, by reason."
        from "gcwatch"
    TARGETS_REFUSED "gcwatch.targets.refused" "{process}" Counter [] Own
        "Attempts to start the telemetry of a process while the limit of processes was reached."
        from "gcwatch"
    TARGETS_OVER_MEMORY "gcwatch.targets.over_memory" "{session}" Counter [] Own
        "Sessions that gcwatch ended because a process's event stream took more memory than it may. The process is attached to again after a pause that grows up to an hour."
        from "gcwatch"
    COLLECTIONS "gcwatch.collections" "{collection}" Counter [] Own
        "Collections reported, of all processes."
        from "gcwatch"
    SPANS "gcwatch.spans" "{span}" Counter [] Own
        "Spans created, of all processes."
        from "gcwatch"
    GUARD_RUNNING "gcwatch.guard.running" "{guard}" Gauge [] Own
        "1 while gcwatch's guard runs: the process that closes sessions when gcwatch itself is stopped or hangs, so that no process waits for it."
        from "gcwatch"
    GUARD_CLOSED "gcwatch.guard.releases" "{session}" Counter [] Own
        "Sessions that the guard closed because gcwatch read nothing for more than 5 s. Collections since then are missing; gcwatch attaches again."
        from "gcwatch"
    GUARD_RESTARTS "gcwatch.guard.restarts" "{restart}" Counter [] Own
        "Guards that were started in place of one that ended."
        from "gcwatch"
    GUARD_NOT_HELD "gcwatch.guard.unguarded" "{session}" Counter [] Own
        "Sessions that no guard could hold, for lack of file descriptors."
        from "gcwatch"
    STALLS "gcwatch.stalls" "{stall}" Counter [] Own
        "How often gcwatch itself stalled for more than 5 s: stopped, without CPU, swapped out. Nothing is said of processes from that time."
        from "gcwatch"
    STALL_DURATION "gcwatch.stall.duration" "s" Counter [] Own
        "How long gcwatch itself stalled, in all."
        from "gcwatch"
    LOG_DROPPED "gcwatch.log.dropped" "{line}" Counter [] Own
        "Log lines dropped because standard error was not read fast enough."
        from "gcwatch"
    RECORDINGS "gcwatch.black_box.recordings" "{recording}" Counter [OUTCOME] Own
        "Recordings of severe incidents: written; failed, the disk took none; dropped, the disk was too slow."
        from "gcwatch"
    BURSTS "gcwatch.evidence.bursts" "{burst}" Counter [BURST_KIND, OUTCOME] Own
        "Bursts and heap dumps for incidents (`evidence.bursts: on`, `evidence.census: on`): gathered; cut, the process exited or its stream broke; failed, the runtime refused; refused, the incident says why."
        from "gcwatch"
    STORE_OBJECTS "gcwatch.evidence.store.objects" "{object}" Counter [OUTCOME] Own
        "Objects of evidence for the store outside of the host (`evidence.store`): stored; failed, attempts that are repeated; dropped, too many waited or the disk was too slow. Absent without a store."
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
        "Bytes on disk of what waits there, compressed."
        from "gcwatch"
    DISK_USABLE "gcwatch.export.disk.usable" "{directory}" Gauge [] Own
        "1 while the queue on disk can be used; absent without `state.directory`."
        from "gcwatch"
    EXPORTED "gcwatch.export.items" "{item}" Counter [SIGNAL] Own
        "Items accepted by the receiver."
        from "gcwatch"
    REJECTED "gcwatch.export.rejected" "{item}" Counter [SIGNAL] Own
        "Items that the receiver rejected while it accepted others of the same request."
        from "OTLP's partial success"
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
        "Rules in force, without disabled ones."
        from "rule files"
    RULE_EVALUATIONS "gcwatch.rules.evaluations" "{evaluation}" Counter [RULE_ID] Own
        "Evaluations of a rule, over all processes."
        from "rules"
    RULE_FAILURES "gcwatch.rules.failures" "{evaluation}" Counter [RULE_ID] Own
        "Evaluations that failed although all values were known: a division by zero, a number out of range. The API shows the newest failure."
        from "rules"
    RULE_RELOADS "gcwatch.rules.reloads" "{reload}" Counter [OUTCOME] Own
        "Reloads of the rule files."
        from "gcwatch"
    RULES_CURRENT "gcwatch.rules.current" "{rule_set}" Gauge [] Own
        "1 while the rules in force are those of the files; 0 while the files are invalid and the previous rules stay in force."
        from "gcwatch"
    RULES_LOADED "gcwatch.rules.loaded" "s" Gauge [] Own
        "When the rules in force were read, in seconds since 1970."
        from "gcwatch"
    PODS "gcwatch.kubernetes.pods" "{pod}" Gauge [] Own
        "Pods with known metadata; like the following metrics, absent unless Kubernetes metadata is configured."
        from "Kubernetes"
    PODS_CURRENT "gcwatch.kubernetes.current" "{source}" Gauge [] Own
        "1 while the metadata of pods is current; 0 while Kubernetes does not respond and the last known metadata is used."
        from "Kubernetes"
    POD_LISTS "gcwatch.kubernetes.lists" "{list}" Counter [] Own
        "Complete lists of pods that were read: at startup, after a watch expired, and on each request to the kubelet."
        from "Kubernetes"
    POD_EVENTS "gcwatch.kubernetes.events" "{event}" Counter [] Own
        "Changes of pods received from the API server."
        from "Kubernetes"
    POD_FAILURES "gcwatch.kubernetes.failures" "{failure}" Counter [] Own
        "Failed requests to Kubernetes, and broken watches."
        from "gcwatch"
    PODS_LEFT_OUT "gcwatch.kubernetes.left_out" "{pod}" Counter [] Own
        "Pods and events that were ignored: over the limit, or unreadable."
        from "gcwatch"
    NOTIFICATIONS "gcwatch.notifications.sent" "{alert}" Counter [RECEIVER] Own
        "Notifications of alerts that a receiver accepted, repeated ones included."
        from "gcwatch"
    NOTIFICATION_FAILURES "gcwatch.notifications.failed" "{request}" Counter [RECEIVER, ERROR_TYPE] Own
        "Failed requests to a receiver of alerts: `unreachable`, `timed_out` and `unavailable` are retried, `refused` is unless it is for the content."
        from "gcwatch"
    NOTIFICATIONS_DROPPED "gcwatch.notifications.dropped" "{alert}" Counter [RECEIVER, ERROR_TYPE] Own
        "Changes of alerts dropped before a receiver was notified: `queue_full`, `expired`, `refused`, `disabled`, `shutdown`."
        from "gcwatch"
    NOTIFICATION_QUEUE "gcwatch.notifications.queue" "{alert}" Gauge [RECEIVER] Own
        "Alerts waiting to be sent to a receiver."
        from "gcwatch"
}
