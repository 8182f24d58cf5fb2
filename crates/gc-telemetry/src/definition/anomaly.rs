//! Attributes of anomalies on the collection's span, in its events, in log records and in metrics.

use super::attributes;

/// Name of the span event and `event_name` of the log record.
pub const EVENT: &str = "gcwatch.anomaly";

/// `event_name` of the log record of an incident.
pub const INCIDENT_EVENT: &str = "gcwatch.incident";

/// Prefix of alert labels in the attributes of a log record.
pub const LABEL_PREFIX: &str = "gcwatch.anomaly.label.";

/// Prefix of alert annotations in the attributes of a log record.
pub const ANNOTATION_PREFIX: &str = "gcwatch.anomaly.annotation.";

/// Prefix of rule window values in the attributes of a log record.
pub const VALUE_PREFIX: &str = "gcwatch.anomaly.value.";

attributes! {
    RULES "gcwatch.anomaly.rules" Texts Own
        "On the span of a collection: ids of the rules whose condition holds on the collection. Absent if no condition holds."
        from "rules"
    RULE_ID "gcwatch.rule.id" Text Own
        "Id of the rule."
        from "rule file"
    RULE_TITLE "gcwatch.rule.title" Text Own
        "Title of the rule: the detected problem in a few words."
        from "rule file"
    RULE_GROUP "gcwatch.rule.group" Text Own
        "Group of the rule. Only the most severe alert of a group is reported."
        from "rule file"
    DESCRIPTION "gcwatch.rule.description" Text Own
        "Meaning and causes of the anomaly. On firing records."
        from "rule file"
    REMEDY "gcwatch.rule.remedy" Text Own
        "Recommended action. On firing records."
        from "rule file"
    SEVERITY "gcwatch.anomaly.severity" Text Own
        "`info`, `warning`, `error` or `critical`."
        from "rule file"
    STATE "gcwatch.anomaly.state" Text Own
        "`firing` at the start of the alert, `ended` at its end."
        from "rules"
    ENDING "gcwatch.anomaly.ending" Text Own
        "Reason for the end of the alert: `cleared`, `superseded`, `unknown`, `process-ended`, `rule-changed`."
        from "rules"
    SUMMARY "gcwatch.anomaly.summary" Text Own
        "Summary of the anomaly in one sentence. On the event of a span only if the alert started on this collection."
        from "rule file, with the values of the collection"
    STARTED "gcwatch.anomaly.started" Text Own
        "Start time of the alert, RFC 3339."
        from "rules"
    COUNT "gcwatch.anomaly.count" Int Own
        "Number of times that the condition held while the alert fired."
        from "rules"
    INCIDENT_ID "gcwatch.incident.id" Text Own
        "Id of the incident, the same in all records of the incident."
        from "process and rules"
    INCIDENT_STATE "gcwatch.incident.state" Text Own
        "`began`, `worse` (the severity rose), `explained` (the main cause became known or changed) or `ended`."
        from "rules"
    INCIDENT_ENDING "gcwatch.incident.ending" Text Own
        "Reason for the end of the incident: `cleared`, `unknown`, `process-ended`, `recovered`, `unwatched`, `merged`, `rule-changed`."
        from "rules"
    INCIDENT_SYMPTOM "gcwatch.incident.symptom" Text Own
        "Id of the symptom that names the incident: the `alertname` of receivers."
        from "rules"
    INCIDENT_CAUSE "gcwatch.incident.cause" Text Own
        "Id of the cause that explains the largest share of the symptom. The share is at least 30 %; absent without such a cause."
        from "rules"
    INCIDENT_CAUSE_TITLE "gcwatch.incident.cause.title" Text Own
        "Title of the main cause."
        from "rule file"
    INCIDENT_SEVERITY "gcwatch.incident.severity" Text Own
        "Highest severity so far: `info`, `warning`, `error` or `critical`."
        from "rules"
    INCIDENT_STARTED "gcwatch.incident.started" Text Own
        "Start time of the harm, RFC 3339."
        from "rules"
    INCIDENT_TITLE "gcwatch.incident.title" Text Own
        "Title of the most severe harm of the incident."
        from "rule file"
    INCIDENT_COMMAND "gcwatch.incident.command" Text Own
        "Next command for the investigation."
        from "process"
    INCIDENT_MEMBERS "gcwatch.incident.members" Texts Own
        "Rules of the incident with the number of times that each rule held, most severe harm first."
        from "rules"
    BLACK_BOX_STORED "gcwatch.incident.black_box.stored" Text Own
        "Address of that recording outside the host (`evidence.store`). The object exists as soon as the store has accepted it."
        from "gcwatch"
    INCIDENT_STORED "gcwatch.incident.stored" Text Own
        "Address of the incident's record outside the host, with all evidence that is text (`evidence.store`)."
        from "gcwatch"
    BLACK_BOX "gcwatch.incident.black_box" Text Own
        "Address of the recording of the process's events around the start of the incident. For severity `error` and `critical`, and for rules with `evidence: [black-box]`."
        from "EventPipe"
    INCIDENT_CALLERS "gcwatch.incident.callers" Text Own
        "Callers of the collections during an observation of a few seconds, at most three, in one clause; without an observation, the reason. For rules with `evidence: [callers]` if `evidence.bursts` is on."
        from "EventPipe"
    INCIDENT_ALLOCATIONS "gcwatch.incident.allocations" Text Own
        "Sites with the largest allocations during an observation of a few seconds, at most three with 95 % intervals, in one clause; without an observation, the reason. For rules with `evidence: [allocations]` if `evidence.bursts` is on."
        from "EventPipe"
    INCIDENT_STACKS "gcwatch.incident.stacks" Text Own
        "Activity of the threads during an observation of a fraction of a second, the finalizer thread first, in one clause; without an observation, the reason. For rules with `evidence: [stacks]` if `evidence.bursts` is on."
        from "EventPipe"
    INCIDENT_CENSUS "gcwatch.incident.census" Text Own
        "Live types and roots, and their growth between two heap dumps, in one clause; without a heap dump, the reason. For rules with `evidence: [census]` if `evidence.census` is on."
        from "EventPipe"
    INCIDENT_LEDGER "gcwatch.incident.ledger" Text Own
        "Memory breakdown of the process in one clause. For rules with `evidence: [ledger]`."
        from "control group, /proc and GC events"
    LEDGER_VERDICT "gcwatch.incident.ledger.verdict" Text Own
        "Largest part of the memory: `live-heap`, `not-looked-at`, `fragmentation`, `committed-unused`, `native`, `other-processes`, `files-in-memory`, `kernel`, `not-known`. Memory that the kernel reclaims automatically is not counted."
        from "the largest line"
    LEDGER_GROWTH "gcwatch.incident.ledger.growth_per_minute" Int Own
        "Growth of the largest part, bytes per minute; absent while the part shrinks."
        from "two readings"
    LEDGER_LIMIT "gcwatch.incident.ledger.limit" Int Own
        "Memory limit of the container, bytes."
        from "control group"
    LEDGER_USAGE "gcwatch.incident.ledger.usage" Int Own
        "Memory usage of the container, bytes; for a process without a container, resident bytes."
        from "control group, /proc"
    LEDGER_LIVE "gcwatch.incident.ledger.live" Int Own
        "Bytes of live objects; old objects as of the newest full collection."
        from "GCHeapStats, per-heap histories"
    LEDGER_NOT_LOOKED_AT "gcwatch.incident.ledger.not_looked_at" Int Own
        "Bytes of old objects that no full collection has looked at."
        from "GCHeapStats, per-heap histories"
    LEDGER_FREE "gcwatch.incident.ledger.free" Int Own
        "Free bytes between objects."
        from "per-heap histories"
    LEDGER_UNUSED "gcwatch.incident.ledger.committed_unused" Int Own
        "Resident bytes that the collector has committed beyond its objects."
        from "smaps, GCDynamicEvent CommittedUsage"
    LEDGER_BOOKKEEPING "gcwatch.incident.ledger.bookkeeping" Int Own
        "Bytes of the collector's internal tables."
        from "GCDynamicEvent CommittedUsage"
    LEDGER_NATIVE "gcwatch.incident.ledger.native" Int Own
        "Bytes of the process that belong to neither the collector nor files."
        from "smaps"
    LEDGER_OTHERS "gcwatch.incident.ledger.other_processes" Int Own
        "Bytes of other processes in the container."
        from "control group"
    LEDGER_LARGEST_OTHER "gcwatch.incident.ledger.largest_other" Text Own
        "Name of the other process in the container with the most private memory. Absent without other processes."
        from "/proc/PID/status"
    LEDGER_FILES_IN_MEMORY "gcwatch.incident.ledger.files_in_memory" Int Own
        "Bytes of files in memory (tmpfs, shared memory) that the process has not mapped."
        from "control group"
    LEDGER_PAGE_CACHE "gcwatch.incident.ledger.page_cache" Int Own
        "Bytes of pages of files on disk."
        from "control group"
    LEDGER_KERNEL "gcwatch.incident.ledger.kernel" Int Own
        "Bytes of kernel memory for the container that cannot be reclaimed."
        from "control group"
    LEDGER_KERNEL_RECLAIMABLE "gcwatch.incident.ledger.kernel_reclaimable" Int Own
        "Bytes of reclaimable kernel memory for the container. With control groups version 1, an estimate."
        from "control group; version 1: /proc/meminfo"
    LEDGER_UNKNOWN "gcwatch.incident.ledger.unknown" Int Own
        "Bytes in use that no other line explains."
        from "difference between the usage and the sum of the lines"
    SUPPRESSED "gcwatch.anomaly.suppressed" Int Own
        "Alerts suppressed by the cooldown since the previous one."
        from "rules"
}
