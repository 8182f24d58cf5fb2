//! Anomalies in the data model of OpenTelemetry: events and status of the span of a collection, and log records.

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, SeverityNumber};
use opentelemetry_proto::tonic::trace::v1::Status;
use opentelemetry_proto::tonic::trace::v1::span::Event;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;

use super::definition::anomaly as row;
use super::definition::span::NUMBER;
use super::ids::SpanIds;
use super::value::{Attributes, key_value, list};
use base::time::{Moment, Wall};
use rule_engine::alert::{Alert, Transition};
use rule_engine::rule::{Rule, Severity};

/// A rule whose condition holds on a collection.
#[derive(Debug, Clone, Copy)]
pub struct Anomaly<'a> {
    pub rule: &'a Rule,
    /// Severity of the alert that started on this collection; otherwise severity of the rule.
    pub severity: Severity,
    /// Summary of the alert that started on this collection; `None` if no alert started.
    pub summary: Option<&'a str>,
    /// Time of the collection, Unix nanoseconds.
    pub at_unix_ns: u64,
}

/// Attribute, events and status that anomalies add to the root span of a collection.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Marks {
    /// Attribute `gcwatch.anomaly.rules`; `None` if there are no anomalies.
    pub(crate) attribute: Option<KeyValue>,
    /// One event `gcwatch.anomaly` per rule.
    pub(crate) events: Vec<Event>,
    /// Error status with the title of the most severe rule; `None` below severity `error`.
    pub(crate) status: Option<Status>,
}

impl Marks {
    /// Creates the marks of the rules.
    pub(crate) fn from_anomalies(anomalies: &[Anomaly<'_>]) -> Self {
        let mut ids = anomalies.iter().map(|anomaly| anomaly.rule.id.to_string()).peekable();
        let array = ids.peek().is_some().then(|| list(ids));
        // Reverse the order, because `max_by_key` returns the last of several rules with the highest severity.
        let worst = anomalies.iter().rev().max_by_key(|anomaly| anomaly.severity);
        let worst = worst.filter(|anomaly| anomaly.severity >= Severity::Error);
        Self {
            attribute: array.map(|array| key_value(row::RULES.name, array)),
            events: anomalies.iter().map(event).collect(),
            status: worst.map(|anomaly| Status {
                message: anomaly.rule.title.to_string(),
                code: StatusCode::Error.into(),
            }),
        }
    }
}

fn event(anomaly: &Anomaly<'_>) -> Event {
    let rule = anomaly.rule;
    let mut attributes = Attributes::default();
    attributes
        .text(&row::RULE_ID, Some(&*rule.id))
        .text(&row::RULE_TITLE, Some(&*rule.title))
        .text(&row::SEVERITY, Some(anomaly.severity.name()))
        .text(&row::SUMMARY, anomaly.summary);
    Event {
        time_unix_nano: anomaly.at_unix_ns,
        name: row::EVENT.to_owned(),
        attributes: attributes.into_list(),
        ..Event::default()
    }
}

/// Returns the log record of a transition; `span` is the root span of the collection on which the alert started.
pub fn log_record(
    transition: &Transition,
    group: Option<&str>,
    span: Option<SpanIds>,
    wall: Wall,
    observed_unix_ns: u64,
) -> LogRecord {
    let alert = transition.alert();
    let severity = match transition {
        Transition::Fired(_) => severity_number(alert.severity),
        Transition::Ended(..) => SeverityNumber::Info,
    };
    LogRecord {
        time_unix_nano: wall.unix_ns(time(transition)),
        observed_time_unix_nano: observed_unix_ns,
        attributes: log_attributes(transition, group, wall),
        ..record(row::EVENT, severity, alert.summary.to_string(), span)
    }
}

/// Returns a log record with a text, linked to a span.
pub(crate) fn record(event: &str, severity: SeverityNumber, text: String, span: Option<SpanIds>) -> LogRecord {
    let value = Some(Value::StringValue(text));
    LogRecord {
        severity_number: severity.into(),
        // SDKs write `INFO`, `WARN`, `ERROR`, `ERROR4`.
        severity_text: severity.as_str_name().trim_start_matches("SEVERITY_NUMBER_").to_owned(),
        body: Some(AnyValue { value }),
        // Set the sampled flag, because the span of an anomaly is always exported.
        flags: u32::from(span.is_some()),
        trace_id: span.map_or_else(Vec::new, |span| span.trace_id.to_vec()),
        span_id: span.map_or_else(Vec::new, |span| span.span_id.to_vec()),
        event_name: event.to_owned(),
        ..LogRecord::default()
    }
}

/// Returns the time of the transition on the clock of the events.
fn time(transition: &Transition) -> Moment {
    let alert = transition.alert();
    match transition {
        Transition::Fired(_) => alert.started,
        Transition::Ended(..) => alert.ended.unwrap_or(alert.last),
    }
}

fn log_attributes(transition: &Transition, group: Option<&str>, wall: Wall) -> Vec<KeyValue> {
    let alert: &Alert = transition.alert();
    let rule = &alert.rule;
    let (firing, ending) = match transition {
        Transition::Fired(_) => (true, None),
        Transition::Ended(_, ending) => (false, Some(ending.name())),
    };
    let given = |text: &str| (firing && !text.is_empty()).then(|| text.to_owned());
    let mut attributes = Attributes::with_capacity(24);
    attributes
        .text(&row::RULE_ID, Some(&*rule.id))
        .text(&row::RULE_TITLE, Some(&*rule.title))
        .text(&row::RULE_GROUP, group)
        .text(&row::STATE, Some(if firing { "firing" } else { "ended" }))
        .text(&row::ENDING, ending)
        .text(&row::SEVERITY, Some(alert.severity.name()))
        .text(&row::STARTED, wall.rfc3339(alert.started))
        .int(&NUMBER, alert.collection)
        .int(&row::COUNT, Some(alert.count))
        .int(&row::SUPPRESSED, Some(alert.suppressed))
        .text(&row::DESCRIPTION, given(&rule.description))
        .text(&row::REMEDY, given(&rule.remedy));
    let mut list = attributes.into_list();
    let text = |prefix: &str, name: &str, text: &str| {
        key_value(&format!("{prefix}{name}"), Value::StringValue(text.to_owned()))
    };
    list.extend(
        alert
            .labels
            .iter()
            .map(|(name, value)| text(row::LABEL_PREFIX, name, value)),
    );
    if firing {
        let annotations = alert.annotations.iter();
        list.extend(annotations.map(|(name, value)| text(row::ANNOTATION_PREFIX, name, value)));
        let values = alert.values.iter().filter_map(|(name, value)| {
            let name = format!("{}{name}", row::VALUE_PREFIX);
            value.map(|value| key_value(&name, Value::DoubleValue(value)))
        });
        list.extend(values);
    }
    list
}

/// Returns INFO, WARN or ERROR. Critical is the highest ERROR, because FATAL means the end of a program.
pub(crate) fn severity_number(severity: Severity) -> SeverityNumber {
    match severity {
        Severity::Info => SeverityNumber::Info,
        Severity::Warning => SeverityNumber::Warn,
        Severity::Error => SeverityNumber::Error,
        Severity::Critical => SeverityNumber::Error4,
    }
}
