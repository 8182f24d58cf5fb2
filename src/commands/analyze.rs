//! `gcwatch analyze`: the collections and anomalies in recordings.

mod input;
mod judged;
pub(super) mod page;
mod single;

use std::cmp::Reverse;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clr_gc::gc::Collection;
use nettrace::TraceHeader;

use self::input::{SCOPE, expanded};
pub(crate) use self::input::{complain, opened, read};
use self::judged::{incident_subject, passes, reviews, rules, time_base};
use self::page::html;
pub(crate) use self::page::reported;
use self::single::one;
use crate::commands::cli::{AnalyzeArgs, AnalyzeFormat, Format, FormatArgs, Sort};
use crate::commands::output::Output;
use crate::view;
use api::gc::{GcRecord, SummaryRecord, SuspensionRecord};
use api::request::RequestRecord;
use base::time::Wall;
use incidents::IncidentRecord;
use incidents::review::Review;
use recording::{ProcessHistory, Recording};
use report::intervals::{Interval, Intervals};
use report::table::wrapped;
use report::{account, anomalies, collections, csv, memory, requests, summary};
use rule_engine::account::AccountRecord;
use rule_engine::record::AnomalyRecord;
use rule_engine::rule_set::RuleSet;

/// Runs the command. Returns `false` if a recording could not be read, which was reported, or if an alert is at least
/// as severe as `--fail-on`.
pub(crate) fn run(args: &AnalyzeArgs) -> anyhow::Result<bool> {
    let is_csv = args.format == Some(AnalyzeFormat::Csv);
    let format = match args.format {
        Some(AnalyzeFormat::Table) => Some(Format::Table),
        Some(AnalyzeFormat::Ndjson | AnalyzeFormat::Csv) => Some(Format::Ndjson),
        None => None,
    };
    let Some(rules) = rules(args) else {
        return Ok(false);
    };
    let mut fine = true;
    let files = expanded(&args.files, &mut fine);
    if let Some(to) = &args.html {
        return Ok(html(&files, to, args, rules.as_ref())? && fine);
    }
    let mut output = Output::stdout(FormatArgs { format });
    if is_csv {
        csv::header(output.text())?;
    }
    for (index, file) in files.iter().enumerate() {
        if index > 0 && output.format == Format::Table {
            writeln!(output.text())?;
        }
        fine &= match args.gc {
            _ if is_csv => rows(file, args, &mut output)?,
            Some(number) => one(file, number, args.events, &mut output)?,
            None => all(file, args, rules.as_ref(), &mut output)?,
        };
    }
    output.finish()?;
    Ok(fine)
}

/// Writes a line of CSV for each collection.
fn rows(file: &Path, args: &AnalyzeArgs, output: &mut Output) -> anyhow::Result<bool> {
    let Some(recording) = read(file, SCOPE) else {
        return Ok(false);
    };
    for (subject, history) in &recording.processes {
        let mut chosen = chosen(history, args);
        chosen.retain(|(collection, _)| args.gc.is_none_or(|number| collection.number == number));
        for (collection, interval) in chosen {
            let record = GcRecord::new(*subject, collection, start_time(&recording, collection));
            csv::row(output.text(), &recording.stream.file, &record, interval)?;
        }
    }
    Ok(complain(&recording))
}

fn all(file: &Path, args: &AnalyzeArgs, rules: Option<&Arc<RuleSet>>, output: &mut Output) -> anyhow::Result<bool> {
    let Some(recording) = read(file, SCOPE) else {
        return Ok(false);
    };
    // Without a header, there is no stream. A recording that was cut before its header is reported as cut.
    let is_stream = recording.header.is_some() || recording.error.is_none();
    let reviews = reviews(rules, &recording);
    let passes = reviews.iter().flatten().all(|review| passes(args, review));
    match output.format {
        Format::Table if is_stream => table(&recording, reviews.as_deref(), args, output)?,
        Format::Table => {}
        Format::Ndjson => {
            for (place, (subject, history)) in recording.processes.iter().enumerate() {
                for (collection, _) in chosen(history, args) {
                    output.record(&GcRecord::new(*subject, collection, start_time(&recording, collection)))?;
                }
                for suspension in &history.suspensions {
                    if within(suspension.edges.suspend_begin, args) {
                        output.record(&SuspensionRecord::new(*subject, suspension))?;
                    }
                }
                if let Some(review) = reviews.as_ref().and_then(|reviews| reviews.get(place)) {
                    let pid = subject.pid.and_then(|pid| u32::try_from(pid).ok());
                    for reviewed in review.alerts() {
                        let group = rules.and_then(|rules| reviewed.group(rules));
                        let change = reviewed.transition();
                        output.record(&AnomalyRecord::new(pid, None, group, &change, Wall::UNIX))?;
                    }
                    let whose = incident_subject(&recording, *subject);
                    for incident in review.incidents() {
                        output.record(&IncidentRecord::new(incident, &whose, Wall::UNIX))?;
                    }
                    output.record(&anomalies::JudgedRecord::new(*subject, review, recording.observed_ns))?;
                }
                output.record(&SummaryRecord {
                    subject: *subject,
                    totals: &history.totals,
                    others: &history.other_stops,
                    observed_ns: recording.observed_ns,
                    ledger: memory::newest(&history.collections).map(|(_, ledger)| ledger),
                    is_known: recording.has_gc_events,
                })?;
            }
            for request in recording.requests.iter().flatten() {
                output.record(&RequestRecord::new(request, recording.header.as_ref()))?;
            }
            if is_stream {
                output.record(&recording.stream)?;
            }
        }
    }
    Ok(complain(&recording) && passes)
}

fn table(
    recording: &Recording,
    reviews: Option<&[Review]>,
    args: &AnalyzeArgs,
    output: &mut Output,
) -> anyhow::Result<()> {
    let out = output.text();
    writeln!(out, "{}", summary::title(&recording.stream))?;
    for (place, (subject, history)) in recording.processes.iter().enumerate() {
        let several = recording.processes.len() > 1;
        let title = [
            Some(view::name(recording, *subject, several)),
            view::collector(recording, &history.collections),
        ];
        let title: Vec<String> = title.into_iter().flatten().collect();
        writeln!(out, "\n{}", title.join(" · "))?;
        if !recording.has_gc_events {
            let text = "no collection events: no collection took place, or the session did not request such events \
                        (provider Microsoft-Windows-DotNETRuntime, keyword 0x1)";
            writeln!(out, "{}", wrapped(text, 0))?;
            continue;
        }
        if history.collections.is_empty() {
            writeln!(out, "no collections")?;
        } else {
            collections::write(out, chosen(history, args))?;
        }
        summary::write(out, &history.totals, &history.other_stops, recording.observed_ns)?;
        let stopped = &history.totals.stopped;
        let account = AccountRecord::from_stopped_time(stopped, Some(recording.observed_ns));
        account::write(out, "stopped time by cause", &account)?;
        summary::write_figures(out, &history.collections)?;
        if let Some((number, ledger)) = memory::newest(&history.collections) {
            memory::write(out, &format!("after GC {number}"), &ledger)?;
        }
        if let Some(review) = reviews.and_then(|reviews| reviews.get(place)) {
            anomalies::write(out, review, time_base(recording))?;
            anomalies::write_judged(out, review, recording.observed_ns)?;
        }
    }
    if let Some(requests) = &recording.requests {
        writeln!(out)?;
        requests::write(out, requests)?;
    }
    Ok(())
}

/// Returns the collections that the arguments select, in the requested order.
fn chosen<'h>(history: &'h ProcessHistory, args: &AnalyzeArgs) -> Vec<(&'h Collection, Interval)> {
    let mut chosen: Vec<(&Collection, Interval)> = Intervals::for_collections(&history.collections)
        .filter(|(collection, _)| within(collection.start, args))
        .collect();
    match args.sort {
        Sort::Time => {}
        Sort::Pause => chosen.sort_by_key(|(one, _)| Reverse(one.pause_ns)),
        Sort::Suspend => chosen.sort_by_key(|(one, _)| Reverse(one.suspend_ns)),
        Sort::Duration => chosen.sort_by_key(|(one, _)| Reverse(one.duration_ns())),
        Sort::Promoted => chosen.sort_by_key(|(one, _)| Reverse(one.promoted())),
    }
    chosen.truncate(args.top.unwrap_or(usize::MAX));
    chosen
}

fn within(at: Option<i64>, args: &AnalyzeArgs) -> bool {
    let ns = |time: Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
    // A collection without a start is reported only without --from and --to.
    args.from.is_none_or(|from| at.is_some_and(|at| at >= ns(from)))
        && args.to.is_none_or(|to| at.is_some_and(|at| at < ns(to)))
}

/// Returns the time of GCStart in RFC 3339, or `None` if the stream has no header or the start is unknown.
fn start_time(recording: &Recording, collection: &Collection) -> Option<String> {
    rfc3339(recording.header.as_ref()?, collection.start?)
}

/// Converts an instant of the stream to RFC 3339. Returns `None` if the time is not representable.
pub(crate) fn rfc3339(header: &TraceHeader, at: i64) -> Option<String> {
    let ns = header.unix_ns_of_offset(at)?;
    jiff::Timestamp::from_nanosecond(ns).ok().map(|time| time.to_string())
}
