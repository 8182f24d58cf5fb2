//! Attributes of anomalies: on the collection's span, in its events, in log records and in metrics.

use super::attributes;

/// Name of the span event, and `event_name` of the log record.
pub const EVENT: &str = "gcwatch.anomaly";

/// `event_name` of the log record of an incident.
pub const INCIDENT_EVENT: &str = "gcwatch.incident";

/// Prefix of an alert's label as attribute of a log record.
pub const LABEL_PREFIX: &str = "gcwatch.anomaly.label.";

/// Prefix of an alert's annotation as attribute of a log record.
pub const ANNOTATION_PREFIX: &str = "gcwatch.anomaly.annotation.";

/// Prefix of the value of a rule's window as attribute of a log record.
pub const VALUE_PREFIX: &str = "gcwatch.anomaly.value.";

attributes! {
    RULES "gcwatch.anomaly.rules" Texts Own
        "On the span of a collection: ids of the rules whose condition holds on it. Absent when there are none."
        from "rules"
    RULE_ID "gcwatch.rule.id" Text Own
        "Id of the rule."
        from "rule file"
    RULE_TITLE "gcwatch.rule.title" Text Own
        "What the rule detects, in a few words."
        from "rule file"
    RULE_GROUP "gcwatch.rule.group" Text Own
        "Group of the rule; of the alerts of a group only the most severe is reported."
        from "rule file"
    DESCRIPTION "gcwatch.rule.description" Text Own
        "What the anomaly means and what causes it. On firing records."
        from "rule file"
    REMEDY "gcwatch.rule.remedy" Text Own
        "What to do about it. On firing records."
        from "rule file"
    SEVERITY "gcwatch.anomaly.severity" Text Own
        "`info`, `warning`, `error` or `critical`."
        from "rule file"
    STATE "gcwatch.anomaly.state" Text Own
        "`firing` when the alert starts, `ended` when it ends."
        from "rules"
    ENDING "gcwatch.anomaly.ending" Text Own
        "Why the alert ended: `cleared`, `superseded`, `unknown`, `process-ended`, `rule-changed`."
        from "rules"
    SUMMARY "gcwatch.anomaly.summary" Text Own
        "What happened, in one sentence. On a span's event: only when the alert started on this collection."
        from "rule file, with the values of the collection"
    STARTED "gcwatch.anomaly.started" Text Own
        "When the alert started to fire, RFC 3339."
        from "rules"
    COUNT "gcwatch.anomaly.count" Int Own
        "How often the condition held while the alert fired."
        from "rules"
    INCIDENT_ID "gcwatch.incident.id" Text Own
        "Id of the incident, the same in all its records."
        from "process and rules"
    INCIDENT_STATE "gcwatch.incident.state" Text Own
        "`began`, `worse` when its severity rose, `explained` when its main cause is known or another one, or `ended`."
        from "rules"
    INCIDENT_ENDING "gcwatch.incident.ending" Text Own
        "Why the incident ended: `cleared`, `unknown`, `process-ended`, `recovered`, `unwatched`, `merged`, `rule-changed`."
        from "rules"
    INCIDENT_SYMPTOM "gcwatch.incident.symptom" Text Own
        "Id of the symptom that the incident is named by: the `alertname` of receivers."
        from "rules"
    INCIDENT_CAUSE "gcwatch.incident.cause" Text Own
        "Id of the cause that explains most of it, and at least 30 %; absent while nothing does."
        from "rules"
    INCIDENT_CAUSE_TITLE "gcwatch.incident.cause.title" Text Own
        "That cause in a few words."
        from "rule file"
    INCIDENT_SEVERITY "gcwatch.incident.severity" Text Own
        "The highest severity so far: `info`, `warning`, `error` or `critical`."
        from "rules"
    INCIDENT_STARTED "gcwatch.incident.started" Text Own
        "When the harm began, RFC 3339."
        from "rules"
    INCIDENT_TITLE "gcwatch.incident.title" Text Own
        "What its gravest harm is, in a few words."
        from "rule file"
    INCIDENT_COMMAND "gcwatch.incident.command" Text Own
        "The next command to type."
        from "process"
    INCIDENT_MEMBERS "gcwatch.incident.members" Texts Own
        "The rules of the incident, the gravest harm first, with how often each held."
        from "rules"
    BLACK_BOX_STORED "gcwatch.incident.black_box.stored" Text Own
        "Address of that recording outside of the host (`evidence.store`). The object is there as soon as the store has accepted it."
        from "gcwatch"
    INCIDENT_STORED "gcwatch.incident.stored" Text Own
        "Address of the incident's record outside of the host, with all evidence that is text (`evidence.store`)."
        from "gcwatch"
    BLACK_BOX "gcwatch.incident.black_box" Text Own
        "Where gcwatch serves the recording of the process's events around the beginning of the incident; of severity error and worse, or of rules with `evidence: [black-box]`."
        from "EventPipe"
    INCIDENT_CALLERS "gcwatch.incident.callers" Text Own
        "Who made the process collect while gcwatch watched it for seconds, at most three, in one clause; or why it did not watch. Of rules with `evidence: [callers]`, where `evidence.bursts` is on."
        from "EventPipe"
    INCIDENT_ALLOCATIONS "gcwatch.incident.allocations" Text Own
        "What allocated most while gcwatch watched it for seconds, at most three sites with their 95 % intervals, in one clause; or why it did not watch. Of rules with `evidence: [allocations]`, where `evidence.bursts` is on."
        from "EventPipe"
    INCIDENT_STACKS "gcwatch.incident.stacks" Text Own
        "What threads did while gcwatch watched the process for a fraction of a second, the finalizer thread first, in one clause; or why it did not watch. Of rules with `evidence: [stacks]`, where `evidence.bursts` is on."
        from "EventPipe"
    INCIDENT_CENSUS "gcwatch.incident.census" Text Own
        "What lives and what grew between two heap dumps, types and roots, in one clause; or why there was none. Of rules with `evidence: [census]`, where `evidence.census` is on."
        from "EventPipe"
    INCIDENT_LEDGER "gcwatch.incident.ledger" Text Own
        "Where the memory of the process is, in one clause; of rules with `evidence: [ledger]`."
        from "control group, /proc and GC events"
    LEDGER_VERDICT "gcwatch.incident.ledger.verdict" Text Own
        "Where most of it is: `live-heap`, `not-looked-at`, `fragmentation`, `committed-unused`, `native`, `other-processes`, `files-in-memory`, `kernel`, `not-known`. Memory that the kernel reclaims by itself does not count."
        from "the largest line"
    LEDGER_GROWTH "gcwatch.incident.ledger.growth_per_minute" Int Own
        "How fast that grows, bytes a minute; absent while it shrinks."
        from "two readings"
    LEDGER_LIMIT "gcwatch.incident.ledger.limit" Int Own
        "Memory limit of the container, bytes."
        from "control group"
    LEDGER_USAGE "gcwatch.incident.ledger.usage" Int Own
        "Bytes that the container uses; of a process in none, that are resident."
        from "control group, /proc"
    LEDGER_LIVE "gcwatch.incident.ledger.live" Int Own
        "Bytes of live objects: old ones as of the newest full collection."
        from "GCHeapStats, per-heap histories"
    LEDGER_NOT_LOOKED_AT "gcwatch.incident.ledger.not_looked_at" Int Own
        "Bytes of old objects that no full collection has looked at."
        from "GCHeapStats, per-heap histories"
    LEDGER_FREE "gcwatch.incident.ledger.free" Int Own
        "Free bytes between them."
        from "per-heap histories"
    LEDGER_UNUSED "gcwatch.incident.ledger.committed_unused" Int Own
        "Resident bytes that the collector has committed beyond its objects."
        from "smaps, GCDynamicEvent CommittedUsage"
    LEDGER_BOOKKEEPING "gcwatch.incident.ledger.bookkeeping" Int Own
        "Bytes of the collector's own tables."
        from "GCDynamicEvent CommittedUsage"
    LEDGER_NATIVE "gcwatch.incident.ledger.native" Int Own
        "Bytes of the process that are neither the collector's nor of files."
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
        "Bytes of kernel memory for the container that the kernel reclaims. With control groups of version 1 an estimate."
        from "control group; version 1: /proc/meminfo"
    LEDGER_UNKNOWN "gcwatch.incident.ledger.unknown" Int Own
        "Bytes in use that no line explains."
        from "what does not add up"
    SUPPRESSED "gcwatch.anomaly.suppressed" Int Own
        "Alerts suppressed by the cooldown since the previous one."
        from "rules"
}
