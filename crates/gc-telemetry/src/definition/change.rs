//! Attributes of the log record of a change of a service's configuration.

use super::attributes;

/// `event_name` of the log record.
pub const EVENT: &str = "gcwatch.change";

attributes! {
    ID "gcwatch.change.id" Text Own
        "Id of the change, the same in all records of the change."
        from "gcwatch"
    AT "gcwatch.change.at" Text Own
        "Start of the first minute after the change, RFC 3339."
        from "gcwatch"
    SETTINGS "gcwatch.change.settings" Texts Own
        "Settings that differ: `version: 1 -> 2`."
        from "gcwatch, as in the record of the API"
    WORSE "gcwatch.change.worse" Texts Own
        "Measures that got worse: `stopped_share`, `median_pause`, `allocated`, `live`, `full_collections`."
        from "comparison of the profiles"
    BETTER "gcwatch.change.better" Texts Own
        "Measures that improved."
        from "comparison of the profiles"
    SAME "gcwatch.change.same" Texts Own
        "Measures without a difference beyond their margin."
        from "comparison of the profiles"
    UNKNOWN "gcwatch.change.unknown" Texts Own
        "Measures without a verdict, with the reason: `stopped_share: the load is unknown`."
        from "comparison of the profiles"
    MINUTES_BEFORE "gcwatch.change.minutes_before" Int Own
        "Number of compared minutes before the change."
        from "profile"
    MINUTES_AFTER "gcwatch.change.minutes_after" Int Own
        "Number of compared minutes after the change."
        from "profile"
}
