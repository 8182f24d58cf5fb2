//! What is told of anomalies: on the collection's span, in its events, in log records and in metrics.

use super::attributes;

/// The name of the span event and of the log record.
pub const EVENT: &str = "gcwatch.anomaly";

/// Before a label's name, as attribute of a log record.
pub const LABEL_PREFIX: &str = "gcwatch.anomaly.label.";

/// Before an annotation's name.
pub const ANNOTATION_PREFIX: &str = "gcwatch.anomaly.annotation.";

/// Before a window's name.
pub const VALUE_PREFIX: &str = "gcwatch.anomaly.value.";

attributes! {
    RULES "gcwatch.anomaly.rules" Texts Own
        "On the span of a collection: ids of the rules whose condition holds on it. Absent when there is none."
        from "rules"
    RULE_ID "gcwatch.rule.id" Text Own
        "Id of the rule."
        from "rule file"
    RULE_TITLE "gcwatch.rule.title" Text Own
        "What the rule finds, a few words."
        from "rule file"
    RULE_GROUP "gcwatch.rule.group" Text Own
        "The group of rules of which only the worst is told."
        from "rule file"
    DESCRIPTION "gcwatch.rule.description" Text Own
        "What it means and how it comes about. On records that it fires."
        from "rule file"
    REMEDY "gcwatch.rule.remedy" Text Own
        "What to do. On records that it fires."
        from "rule file"
    SEVERITY "gcwatch.anomaly.severity" Text Own
        "`info`, `warning`, `error` or `critical`."
        from "rule file"
    STATE "gcwatch.anomaly.state" Text Own
        "`firing`: it began; `ended`."
        from "rules"
    ENDING "gcwatch.anomaly.ending" Text Own
        "Why it ended: `cleared`, `superseded`, `unknown`, `process-ended`, `rule-changed`."
        from "rules"
    SUMMARY "gcwatch.anomaly.summary" Text Own
        "What happened, one sentence. On a span's event: when the alert began on this very collection."
        from "rule file, with the values of the collection"
    STARTED "gcwatch.anomaly.started" Text Own
        "When it began to fire, RFC 3339."
        from "rules"
    COUNT "gcwatch.anomaly.count" Int Own
        "How often the condition held while it fired."
        from "rules"
    SUPPRESSED "gcwatch.anomaly.suppressed" Int Own
        "Alerts that the cooldown left out since the one before this."
        from "rules"
}
