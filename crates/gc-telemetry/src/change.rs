//! Changes of a service's configuration in the OpenTelemetry model: log records.

use gc_advice::change::{ChangeRecord, Outcome};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, SeverityNumber};

use super::anomaly::record as log_record;
use super::definition::change as row;
use super::value::{Attributes, key_value, list};

/// Returns the log record of a change that has verdicts. The severity is always `INFO`: a change is not an alert.
pub fn change_record(change: &ChangeRecord, observed_unix_ns: u64) -> LogRecord {
    let mut attributes = Attributes::with_capacity(9);
    attributes
        .text(&row::ID, change.id.as_deref())
        .text(&row::AT, change.at.as_deref())
        .int(&row::MINUTES_BEFORE, Some(change.before_side.minutes))
        .int(&row::MINUTES_AFTER, Some(change.after_side.minutes));
    let mut attributes = attributes.into_list();
    let settings = change.differences.iter();
    let settings = settings.map(|one| format!("{}: {} -> {}", one.name, one.before, one.after));
    attributes.push(key_value(row::SETTINGS.name, list(settings)));
    for (attribute, outcome) in [
        (&row::WORSE, Outcome::Worse),
        (&row::BETTER, Outcome::Better),
        (&row::SAME, Outcome::Same),
        (&row::UNKNOWN, Outcome::Unknown),
    ] {
        let meant = change.measures.iter().filter(|one| one.verdict == Some(outcome));
        let names: Vec<String> = meant
            .map(|one| match &one.reason {
                Some(reason) => format!("{}: {reason}", one.measure),
                None => one.measure.to_string(),
            })
            .collect();
        if !names.is_empty() {
            attributes.push(key_value(attribute.name, list(names)));
        }
    }
    LogRecord {
        time_unix_nano: observed_unix_ns,
        observed_time_unix_nano: observed_unix_ns,
        attributes,
        ..log_record(row::EVENT, SeverityNumber::Info, change.summary(), None)
    }
}

#[cfg(test)]
mod tests {
    use gc_advice::change::compare_profiles;
    use gc_advice::configuration::Configuration;
    use gc_advice::profile::{Minute, Profile};
    use opentelemetry_proto::tonic::common::v1::any_value::Value;

    use super::*;

    fn profile(version: &str, live: u64) -> Profile {
        let configuration = Configuration {
            version: Some(version.to_owned()),
            ..Configuration::default()
        };
        let mut profile = Profile::new("shop", configuration);
        for at in 0..25 {
            let minute = Minute {
                at,
                observed_ns: 60_000_000_000,
                collections: 100,
                allocated: Some(6_000_000_000),
                stopped_ns: Some(600_000_000),
                median_pause_ns: Some(2_000_000),
                full: 2,
                live: Some(live),
                ..Minute::default()
            };
            profile.push(minute).unwrap();
        }
        profile
    }

    /// Scenario: a second version keeps 50 % more live objects, and its other measures are the same.
    /// Guarantee: the record is information, names the versions and the verdicts, and lists the measures by verdict.
    #[test]
    fn change_is_information() {
        let change = compare_profiles(&profile("1", 100 << 20), &profile("2", 150 << 20));
        let record = change_record(&change, 7);
        assert_eq!(
            (record.severity_text.as_str(), record.event_name.as_str()),
            ("INFO", row::EVENT)
        );
        let body = record.body.unwrap().value.unwrap();
        let text = "version 1 -> 2: live worse; stopped share, median pause, allocated, full collections same";
        assert_eq!(body, Value::StringValue(text.to_owned()));
        let value = |name: &str| {
            let found = record.attributes.iter().find(|attribute| attribute.key == name);
            found.and_then(|attribute| attribute.value.clone()?.value)
        };
        assert_eq!(value(row::WORSE.name), Some(list(["live".to_owned()])));
        assert_eq!(value(row::SETTINGS.name), Some(list(["version: 1 -> 2".to_owned()])));
        assert_eq!(value(row::MINUTES_AFTER.name), Some(Value::IntValue(25)));
        assert_eq!(value(row::UNKNOWN.name), None);
    }
}
