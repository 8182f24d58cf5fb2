//! What gcwatch tells of its own work: with the resource of the process that it reads, and with its own.

use super::anomaly::{RULE_ID, SEVERITY};
use super::{attributes, metrics};

attributes! {
    STATE "gcwatch.target.state" Text Own
        "What is done with a process: `attached`, `unattachable`, `excluded`, `held_elsewhere`, `over_limit` ..."
        from "gcwatch"
    REASON "gcwatch.target.reason" Text Own
        "Why nothing is read from a process, as `gcwatch doctor` and `gcwatch ps` say it: `permission`, `no-socket`, `silent` ..., or `excluded`, `held-elsewhere`, `over-limit`."
        from "gcwatch"
    SIGNAL "gcwatch.signal" Text Own
        "`traces`, `metrics` or `logs`."
        from "gcwatch"
    OUTCOME "gcwatch.outcome" Text Own
        "What came of it: of a request `accepted`, `partial`, `unavailable`, `timed_out`, `unreachable`, `refused`, `too_large`, `unsupported`; of a reload `accepted`, `refused`."
        from "gcwatch"
    ERROR_TYPE "error.type" Text Stable
        "Why an item was dropped: `queue_full`, `expired`, `refused`, `too_large`, `unsupported`, `disabled`, `shutdown`. Why a request failed: `unreachable`, `timed_out`, `unavailable`, `refused`."
        from "gcwatch"
    RECEIVER "gcwatch.receiver" Text Own
        "Where notifications of alerts go: `alertmanager HOST:PORT`, `webhook HOST:PORT`, `stdout`; of several that read alike the place in the configuration is added."
        from "configuration"
    CPU_MODE "cpu.mode" Text Development
        "`user` or `system`."
        from "/proc/self/stat"
}

/// With the resource of the process that is read.
pub mod target {
    use super::{RULE_ID, SEVERITY, metrics};

    metrics! { METRICS
        EVENTS "gcwatch.events" "{event}" Counter [] Own
            "Events that were read."
            from "gcwatch"
        UNDECODABLE "gcwatch.events.undecodable" "{event}" Counter [] Own
            "Events of a known kind whose payload was too short."
            from "gcwatch"
        SIZE "gcwatch.stream.size" "By" Counter [] Own
            "Bytes of the process's streams that were read."
            from "gcwatch"
        SESSIONS "gcwatch.sessions" "{session}" Counter [] Own
            "Sessions begun in the process: more than one means that it was attached to again."
            from "gcwatch"
        LAG "gcwatch.lag" "s" Gauge [] Own
            "How long after its end the newest collection was told. Up to 0.2 s are waited for events that come late."
            from "GCEnd, the host's clock"
        ALERTS_ACTIVE "gcwatch.alerts.active" "{alert}" UpDownCounter [RULE_ID, SEVERITY] Own
            "Alerts that fire now: 1 or 0 for each rule that has fired on the process."
            from "rules"
        ANOMALIES "gcwatch.anomalies" "{alert}" Counter [RULE_ID, SEVERITY] Own
            "Alerts that began to fire."
            from "rules"
    }
}

metrics! { METRICS
    CPU_TIME "process.cpu.time" "s" Counter [CPU_MODE] Development
        "CPU time that gcwatch used."
        from "/proc/self/stat"
    MEMORY "process.memory.usage" "By" UpDownCounter [] Development
        "Physical memory that gcwatch uses."
        from "/proc/self/stat"
    THREADS "process.thread.count" "{thread}" UpDownCounter [] Development
        "Threads of gcwatch."
        from "/proc/self/stat"
    DESCRIPTORS "process.unix.file_descriptor.count" "{file_descriptor}" UpDownCounter [] Development
        "Open file descriptors of gcwatch."
        from "/proc/self/fd"
    TARGETS "gcwatch.targets" "{process}" Gauge [STATE] Own
        "The .NET processes of the host, by what is done with them."
        from "gcwatch"
    NOT_ATTACHED "gcwatch.targets.not_attached" "{process}" Gauge [REASON] Own
        "The .NET processes of the host from which nothing is read, by the reason."
        from "gcwatch"
    TARGETS_REFUSED "gcwatch.targets.refused" "{process}" Counter [] Own
        "Attempts to tell of a process when there were as many as may be."
        from "gcwatch"
    COLLECTIONS "gcwatch.collections" "{collection}" Counter [] Own
        "Collections told, of all processes."
        from "gcwatch"
    SPANS "gcwatch.spans" "{span}" Counter [] Own
        "Spans made, of all processes."
        from "gcwatch"
    RELOADS "gcwatch.config.reloads" "{reload}" Counter [OUTCOME] Own
        "Reloads of the configuration."
        from "gcwatch"
    QUEUE_ITEMS "gcwatch.export.queue.items" "{item}" Gauge [SIGNAL] Own
        "Spans, data points and log records that wait to be sent."
        from "gcwatch"
    QUEUE_SIZE "gcwatch.export.queue.size" "By" Gauge [SIGNAL] Own
        "Encoded bytes of what waits to be sent."
        from "gcwatch"
    EXPORTED "gcwatch.export.items" "{item}" Counter [SIGNAL] Own
        "Items that a receiver accepted."
        from "gcwatch"
    REJECTED "gcwatch.export.rejected" "{item}" Counter [SIGNAL] Own
        "Items that a receiver rejected while it accepted others of the same request."
        from "OTLP's partial success"
    DROPPED "gcwatch.export.dropped" "{item}" Counter [SIGNAL, ERROR_TYPE] Own
        "Items that no receiver had."
        from "gcwatch"
    REQUESTS "gcwatch.export.requests" "{request}" Counter [SIGNAL, OUTCOME] Own
        "Requests to receivers, by what came of them."
        from "gcwatch"
    RETRIES "gcwatch.export.retries" "{request}" Counter [SIGNAL] Own
        "Requests that repeated one before."
        from "gcwatch"
    EXPORTED_SIZE "gcwatch.export.size" "By" Counter [SIGNAL] Own
        "Encoded bytes of the requests that were accepted, before compression."
        from "gcwatch"
    UNSUPPORTED "gcwatch.export.unsupported" "1" Gauge [SIGNAL] Own
        "1 while the receiver does not take the signal."
        from "gcwatch"
    RULES "gcwatch.rules" "{rule}" Gauge [] Own
        "Rules in force, those aside that are switched off."
        from "rule files"
    RULE_EVALUATIONS "gcwatch.rules.evaluations" "{evaluation}" Counter [RULE_ID] Own
        "Evaluations of a rule, over all processes."
        from "rules"
    RULE_FAILURES "gcwatch.rules.failures" "{evaluation}" Counter [RULE_ID] Own
        "Evaluations that failed, though all values were known: a division by zero, a number too large. The API tells the newest failure."
        from "rules"
    RULE_RELOADS "gcwatch.rules.reloads" "{reload}" Counter [OUTCOME] Own
        "Reloads of the rule files."
        from "gcwatch"
    RULES_CURRENT "gcwatch.rules.current" "1" Gauge [] Own
        "1 while the rules in force are those of the files; 0 when the files are wrong and the rules before them run on."
        from "gcwatch"
    RULES_LOADED "gcwatch.rules.loaded" "s" Gauge [] Own
        "When the rules in force were read, seconds since 1970."
        from "gcwatch"
    PODS "gcwatch.kubernetes.pods" "{pod}" Gauge [] Own
        "Pods of which metadata is known; as the following, absent where Kubernetes is not asked."
        from "Kubernetes"
    PODS_CURRENT "gcwatch.kubernetes.current" "1" Gauge [] Own
        "1 while what is known of pods is current; 0 while Kubernetes does not answer and what was known last stays."
        from "Kubernetes"
    POD_LISTS "gcwatch.kubernetes.lists" "{list}" Counter [] Own
        "Lists of pods that were read to the end: at the start, after a watch that went too far back, and each time that the kubelet was asked."
        from "Kubernetes"
    POD_EVENTS "gcwatch.kubernetes.events" "{event}" Counter [] Own
        "Changes of pods that the API server told."
        from "Kubernetes"
    POD_FAILURES "gcwatch.kubernetes.failures" "{failure}" Counter [] Own
        "Requests to Kubernetes that failed, and watches that broke."
        from "gcwatch"
    PODS_LEFT_OUT "gcwatch.kubernetes.left_out" "{pod}" Counter [] Own
        "Pods and events that were not used: more than may be kept, or not readable."
        from "gcwatch"
    NOTIFICATIONS "gcwatch.notifications.sent" "{alert}" Counter [RECEIVER] Own
        "Alerts that a receiver took, each time that it was told of one."
        from "gcwatch"
    NOTIFICATION_FAILURES "gcwatch.notifications.failed" "{request}" Counter [RECEIVER, ERROR_TYPE] Own
        "Requests to a receiver of alerts that failed: `unreachable`, `timed_out`, `unavailable` are tried again, `refused` is not."
        from "gcwatch"
    NOTIFICATIONS_DROPPED "gcwatch.notifications.dropped" "{alert}" Counter [RECEIVER, ERROR_TYPE] Own
        "Changes of alerts that a receiver was not told of: `queue_full`, `expired`, `refused`, `disabled`, `shutdown`."
        from "gcwatch"
    NOTIFICATION_QUEUE "gcwatch.notifications.queue" "{alert}" Gauge [RECEIVER] Own
        "Alerts of which a receiver has to be told now and was not yet."
        from "gcwatch"
}
