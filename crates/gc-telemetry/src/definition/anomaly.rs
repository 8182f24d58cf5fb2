//! Attributes of anomalies: on the collection's span, in its events, in log records and in metrics.

use super::attributes;

/// Name of the span event, and `event_name` of the log record.
pub const EVENT: &str = "gcwatch.anomaly";

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
    SUPPRESSED "gcwatch.anomaly.suppressed" Int Own
        "Alerts suppressed by the cooldown since the previous one."
        from "rules"
}
