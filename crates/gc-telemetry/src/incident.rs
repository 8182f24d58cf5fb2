//! Incidents in the OpenTelemetry model: log records.

use base::time::Wall;
use incidents::{IncidentChange, IncidentRecord, IncidentSubject, MemberRecord, key_of_record};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, SeverityNumber};
use rule_engine::field::CommandName;
use rule_engine::rule::Evidence;

use super::anomaly::{record as log_record, severity_number};
use super::definition::anomaly as row;
use super::definition::span::NUMBER;
use super::ids::SpanIds;
use super::value::{Attributes, key_value, list};

/// Returns the log record of a change. `store` is the address of this host's evidence outside the host; `span` is the
/// root span of the collection on which the incident started.
pub fn incident_record(
    change: &IncidentChange,
    subject: &IncidentSubject,
    store: Option<&str>,
    wall: Wall,
    span: Option<SpanIds>,
    observed_unix_ns: u64,
) -> LogRecord {
    let incident = change.incident();
    let record = IncidentRecord::new(incident, subject, wall).in_store(store);
    let of_record = store.filter(|_| !record.evidence.is_empty());
    let of_record = of_record.map(|base| format!("{base}/{}", key_of_record(&record.id)));
    let time = match change {
        IncidentChange::Began(_) => wall.unix_ns(incident.began),
        IncidentChange::Ended(_) => incident.ended.map_or(observed_unix_ns, |at| wall.unix_ns(at)),
        IncidentChange::Gathered(..) | IncidentChange::Explained(_) => observed_unix_ns,
        IncidentChange::Worse(..) | IncidentChange::Refreshed(_) => {
            let newest = incident.members.iter().map(|member| member.since);
            newest.max().map_or(observed_unix_ns, |at| wall.unix_ns(at))
        }
    };
    let members = list(record.members.iter().map(MemberRecord::line));
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let cause = record.causes.first();
    let severity = match change {
        // The end of an incident is not harmful.
        IncidentChange::Ended(_) => SeverityNumber::Info,
        _ => severity_number(record.severity),
    };
    let mut attributes = Attributes::with_capacity(24);
    attributes
        .text(&row::INCIDENT_ID, Some(record.id.as_str()))
        .text(&row::INCIDENT_STATE, Some(change.name()))
        .text(&row::INCIDENT_ENDING, record.ending.map(|ending| ending.name()))
        .text(&row::INCIDENT_SEVERITY, Some(record.severity.name()))
        .text(&row::INCIDENT_TITLE, Some(record.title.as_str()))
        .text(&row::INCIDENT_SYMPTOM, Some(record.symptom.as_str()))
        .text(&row::INCIDENT_CAUSE, cause.map(|cause| cause.rule.as_str()))
        .text(&row::INCIDENT_CAUSE_TITLE, cause.map(|cause| cause.title.as_str()))
        .text(&row::RULE_ID, Some(record.rule.as_str()))
        .text(&row::INCIDENT_STARTED, record.since.as_deref())
        .text(&row::BLACK_BOX, record.evidence_place(Evidence::BlackBox))
        .text(&row::BLACK_BOX_STORED, record.evidence_stored(Evidence::BlackBox))
        .text(&row::INCIDENT_STORED, of_record)
        .text(&row::INCIDENT_CALLERS, record.evidence_text(Evidence::Callers))
        .text(&row::INCIDENT_ALLOCATIONS, record.evidence_text(Evidence::Allocations))
        .text(&row::INCIDENT_STACKS, record.evidence_text(Evidence::Stacks))
        .text(&row::INCIDENT_CENSUS, record.evidence_text(Evidence::Census))
        .text(&row::INCIDENT_COMMAND, record.command.as_deref())
        .int(&NUMBER, record.gc_number)
        .text(&row::DESCRIPTION, given(&record.description))
        .text(&row::REMEDY, given(&record.remedy));
    if let Some(ledger) = &record.ledger {
        attributes
            .text(&row::INCIDENT_LEDGER, record.evidence_text(Evidence::Ledger))
            .text(&row::LEDGER_VERDICT, Some(ledger.verdict.name()))
            .int(
                &row::LEDGER_GROWTH,
                ledger.growth_per_minute.and_then(|bytes| u64::try_from(bytes).ok()),
            )
            .int(&row::LEDGER_LIMIT, ledger.limit)
            .int(&row::LEDGER_USAGE, ledger.usage)
            .int(&row::LEDGER_LIVE, ledger.live)
            .int(&row::LEDGER_NOT_LOOKED_AT, ledger.not_looked_at)
            .int(&row::LEDGER_FREE, ledger.free)
            .int(&row::LEDGER_UNUSED, ledger.committed_unused)
            .int(&row::LEDGER_BOOKKEEPING, ledger.bookkeeping)
            .int(&row::LEDGER_NATIVE, ledger.native)
            .int(&row::LEDGER_OTHERS, ledger.other_processes)
            .text(
                &row::LEDGER_LARGEST_OTHER,
                ledger.largest_other.as_ref().map(CommandName::as_str),
            )
            .int(&row::LEDGER_FILES_IN_MEMORY, ledger.files_in_memory)
            .int(&row::LEDGER_PAGE_CACHE, ledger.page_cache)
            .int(&row::LEDGER_KERNEL, ledger.kernel)
            .int(&row::LEDGER_KERNEL_RECLAIMABLE, ledger.kernel_reclaimable)
            .int(&row::LEDGER_UNKNOWN, ledger.unknown);
    }
    let mut attributes = attributes.into_list();
    attributes.push(key_value(row::INCIDENT_MEMBERS.name, members));
    LogRecord {
        time_unix_nano: time,
        observed_time_unix_nano: observed_unix_ns,
        attributes,
        ..log_record(row::INCIDENT_EVENT, severity, line(&record), span)
    }
}

/// Returns the title and the summary, such as `No space for a large object: a full collection was forced (...)`, with
/// the memory breakdown if it was gathered.
fn line(record: &IncidentRecord) -> String {
    let mut line = record.title.clone();
    let memory = record.evidence_text(Evidence::Ledger).map(|text| ("; memory: ", text));
    let summary = Some((": ", record.summary.as_str())).filter(|(_, text)| !text.is_empty());
    for (between, text) in summary.into_iter().chain(memory) {
        line.push_str(between);
        line.push_str(text);
    }
    line
}

/// Returns an incident's members as one line of text.
pub fn members(members: &[MemberRecord]) -> String {
    let members = members.iter().map(MemberRecord::line);
    members.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use opentelemetry_proto::tonic::common::v1::any_value::Value;
    use rule_engine::ledger::{Ledger, MemoryVerdict};

    use super::*;
    use crate::value;

    /// Scenario: one incident has a memory ledger; another incident has no ledger.
    /// Guarantee: the log record contains the ledger as a clause in its text and as attributes; unknown values are
    /// absent. The record without a ledger contains no ledger text and no ledger attributes.
    #[test]
    fn ledger_is_in_record() {
        let record = |ledger: Option<Ledger>| {
            let IncidentChange::Began(incident) =
                incidents::sample(Wall::UNIX.moment(1_800_000_000_000_000_000)).remove(0)
            else {
                panic!("expected the start of an incident");
            };
            let mut incident = (*incident).clone();
            incident.ledger = ledger.map(Arc::new);
            let change = IncidentChange::Began(Arc::new(incident));
            incident_record(&change, &IncidentSubject::default(), None, Wall::UNIX, None, 1)
        };
        let body = |record: &LogRecord| match record.body.clone().and_then(|body| body.value) {
            Some(Value::StringValue(text)) => text,
            other => panic!("{other:?}"),
        };
        let with = record(Some(Ledger {
            verdict: MemoryVerdict::Native,
            growth_per_minute: Some(4 << 20),
            limit: Some(512 << 20),
            native: Some(290 << 20),
            ..Ledger::default()
        }));
        let clause = "limit 512 MiB: native 290 and growing 4 MiB per minute";
        assert!(body(&with).ends_with(&format!("; memory: {clause}")), "{}", body(&with));
        let text = |name: &str| value::text(&with.attributes, name);
        assert_eq!(text("gcwatch.incident.ledger").as_deref(), Some(clause));
        assert_eq!(text("gcwatch.incident.ledger.verdict").as_deref(), Some("native"));
        let int = |name: &str| with.attributes.iter().find(|attribute| attribute.key == name).cloned();
        let native = int("gcwatch.incident.ledger.native").and_then(|attribute| attribute.value?.value);
        assert_eq!(native, Some(Value::IntValue(290 << 20)));
        assert_eq!(int("gcwatch.incident.ledger.live"), None);
        let without = record(None);
        assert!(!body(&without).contains("memory:"), "{}", body(&without));
        let named = without
            .attributes
            .iter()
            .any(|attribute| attribute.key.contains("ledger"));
        assert!(!named);
    }
}
