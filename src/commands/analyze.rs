//! `gcwatch analyze`: the collections and anomalies in recordings.

use std::cmp::Reverse;
use std::fs::File;
use std::io::{self, Cursor, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clr_gc::gc::Collection;
use clr_gc::stream::Scope;
use nettrace::TraceHeader;
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::commands::cli::{AnalyzeArgs, AnalyzeFormat, Format, FormatArgs, Sort};
use crate::commands::output::{Output, say};
use crate::config::rule_files;
use crate::recording::source::{Source, SourceError};
use crate::recording::{ProcessHistory, Recording};
use crate::records::gc::{GcRecord, Subject, SummaryRecord, SuspensionRecord};
use crate::records::request::RequestRecord;
use crate::report::detail::{Detail, DetailRecord};
use crate::report::intervals::{Interval, Intervals};
use crate::report::units::{Bytes, plural};
use crate::report::{anomalies, collections, csv, detail, memory, requests, summary, view};
use crate::web;
use gc_rules::alert::RunKey;
use gc_rules::field::ProcessFacts;
use gc_rules::incident::{Incident, IncidentRecord, IncidentSubject};
use gc_rules::load::{load, shipped};
use gc_rules::record::AnomalyRecord;
use gc_rules::review::Review;
use gc_rules::rule::RuleSet;
use gc_rules::time::TimeBase;

/// Limit of standard input that is kept in memory to be read twice.
const MAX_KEPT_BYTES: u64 = 1 << 30;

/// Runs the command. `false`: a recording could not be read, which was reported, or an alert is as severe as
/// `--fail-on`.
///
/// # Errors
///
/// When standard output cannot be written.
pub fn run(args: &AnalyzeArgs) -> anyhow::Result<bool> {
    let is_csv = args.format == Some(AnalyzeFormat::Csv);
    let format = match args.format {
        Some(AnalyzeFormat::Table) => Some(Format::Table),
        Some(AnalyzeFormat::Ndjson | AnalyzeFormat::Csv) => Some(Format::Ndjson),
        None => None,
    };
    let mut output = Output::stdout(FormatArgs { format });
    let Some(rules) = rules(args) else {
        return Ok(false);
    };
    let mut fine = true;
    let files = expanded(&args.files, &mut fine);
    if let Some(to) = &args.html {
        return Ok(html(&files, to, args, rules.as_ref())? && fine);
    }
    if is_csv {
        csv::header(output.text())?;
    }
    for (index, file) in files.iter().enumerate() {
        if index > 0 && output.format() == Format::Table {
            writeln!(output.text())?;
        }
        fine &= match args.gc {
            _ if is_csv => rows(file, args, &mut output)?,
            Some(number) => one(file, number, &mut output)?,
            None => all(file, args, rules.as_ref(), &mut output)?,
        };
    }
    output.finish()?;
    Ok(fine)
}

/// The files, and those in directories, in the order of their names; what is no recording by its name is left out.
fn expanded(paths: &[PathBuf], fine: &mut bool) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let mut inside: Vec<PathBuf> = match std::fs::read_dir(path) {
            Ok(entries) => entries.filter_map(|entry| Some(entry.ok()?.path())).collect(),
            Err(error) => {
                say(format_args!(
                    "{}: the directory cannot be read: {error}",
                    path.display()
                ));
                *fine = false;
                continue;
            }
        };
        inside.retain(|file| is_recording(file) && file.is_file());
        inside.sort();
        if inside.is_empty() {
            let names = RECORDINGS.join(", ");
            say(format_args!(
                "{}: the directory has no file named {names}",
                path.display()
            ));
            *fine = false;
        }
        files.extend(inside);
    }
    files
}

/// How recordings are named.
const RECORDINGS: [&str; 3] = ["*.nettrace", "*.nettrace.gz", "*.nettrace.zip"];

fn is_recording(file: &Path) -> bool {
    let name = file
        .file_name()
        .map(|name| name.to_string_lossy().to_lowercase())
        .unwrap_or_default();
    RECORDINGS
        .iter()
        .any(|ending| name.ends_with(ending.trim_start_matches('*')))
}

/// A line of CSV for each collection.
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

/// Writes recordings as a page. One that cannot be read was reported, and the page has the others.
fn html(files: &[PathBuf], to: &Path, args: &AnalyzeArgs, rules: Option<&Arc<RuleSet>>) -> anyhow::Result<bool> {
    anyhow::ensure!(
        files.len() <= view::MOST_RECORDINGS,
        "--html makes a page of at most {} recordings; {} are named",
        view::MOST_RECORDINGS,
        files.len()
    );
    match std::fs::symlink_metadata(to) {
        Ok(known) if !known.is_file() => anyhow::bail!("{} is no regular file; name another one", to.display()),
        Ok(_) if !args.force => anyhow::bail!("{} exists; --force overwrites it", to.display()),
        _ => {}
    }
    let mut fine = true;
    let mut recordings = Vec::new();
    for file in files {
        let recording = read(file, SCOPE);
        fine &= recording.as_ref().is_some_and(complain);
        let Some(recording) = recording.filter(|recording| recording.header.is_some()) else {
            fine = false;
            continue;
        };
        let reviews = reviews(rules, &recording);
        fine &= reviews.iter().flatten().all(|review| passes(args, review));
        let incidents = reviews.as_deref().map(|reviews| incidents(reviews, &recording));
        let base = time_base(&recording);
        recordings.push(view::recorded(
            &recording,
            base,
            incidents,
            args.with_command_line,
            files.len(),
        ));
    }
    if recordings.is_empty() {
        return Ok(false);
    }
    let page = web::report::page(&view::page(recordings))?;
    put(to, page.as_bytes(), args.force)?;
    say(format_args!("{}: {}", to.display(), Bytes(page.len() as u64)));
    Ok(fine)
}

/// What the rules found in each process, the most severe first.
fn incidents(reviews: &[Review], recording: &Recording) -> Vec<Vec<IncidentRecord>> {
    let each = reviews.iter().zip(&recording.processes);
    each.map(|(review, (subject, _))| {
        let subject = incident_subject(recording, *subject);
        let mut incidents: Vec<&Arc<Incident>> = review.incidents().collect();
        incidents.sort_by_key(|incident| (Reverse(incident.severity), incident.number));
        let record = |incident: &Arc<Incident>| IncidentRecord::new(incident, &subject);
        incidents.into_iter().map(record).collect()
    })
    .collect()
}

/// Writes a file that appears under its name when it is complete. What is there under the other name is nobody's to
/// overwrite: it may be a link to something else.
fn put(to: &Path, bytes: &[u8], force: bool) -> anyhow::Result<()> {
    let mut partial = to.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let mut file = File::create_new(&partial)
        .with_context(|| format!("cannot make {}; remove it if it is left over", partial.display()))?;
    let flags = if force {
        RenameFlags::empty()
    } else {
        RenameFlags::NOREPLACE
    };
    let written = file
        .write_all(bytes)
        .and_then(|()| Ok(renameat_with(CWD, &partial, CWD, to, flags)?));
    if written.is_err() {
        // It was made here.
        let _gone = std::fs::remove_file(&partial);
    }
    written.with_context(|| format!("cannot write {}", to.display()))
}

/// The built-in rules and those of the arguments; `Some(None)` with `--no-rules`. `None`: they are invalid, which was
/// reported.
fn rules(args: &AnalyzeArgs) -> Option<Option<Arc<RuleSet>>> {
    if args.no_rules || args.gc.is_some() {
        return Some(None);
    }
    let mut files = shipped();
    let read = rule_files::read(&args.rules).map(|more| files.extend(more));
    match read.and_then(|()| load(&files)) {
        Ok(loaded) => Some(Some(Arc::new(loaded.rules))),
        Err(problems) => {
            problems.iter().for_each(say);
            None
        }
    }
}

/// Evaluates the rules over one process of a recording.
fn review(rules: &Arc<RuleSet>, recording: &Recording, subject: Subject, history: &ProcessHistory) -> Review {
    let pid = subject.pid.and_then(|pid| u32::try_from(pid).ok());
    let facts = ProcessFacts::new(pid, None, recording.stream.runtime.as_deref(), []);
    let base = time_base(recording);
    // The losses of a stream with several processes cannot be attributed to one of them.
    let lost = recording.stream.lost_events.filter(|_| recording.processes.len() == 1);
    Review::of(
        Arc::clone(rules),
        facts,
        base,
        history.history(),
        recording.observed_ns,
        lost,
    )
}

/// What the rules find in each process; `None`: there are no rules.
fn reviews(rules: Option<&Arc<RuleSet>>, recording: &Recording) -> Option<Vec<Review>> {
    rules.map(|rules| {
        let processes = recording.processes.iter();
        processes
            .map(|(subject, history)| review(rules, recording, *subject, history))
            .collect()
    })
}

/// Whose incidents they are: a recording names the pid at most.
fn incident_subject(recording: &Recording, subject: Subject) -> IncidentSubject {
    let start_time = time_base(recording).unix_ns(0);
    let pid = subject.pid.and_then(|pid| u32::try_from(pid).ok());
    IncidentSubject {
        run: pid.map(|pid| RunKey { pid, start_time }),
        ..IncidentSubject::default()
    }
}

fn time_base(recording: &Recording) -> TimeBase {
    let header = recording.header.as_ref();
    TimeBase::at(header.and_then(|header| header.unix_ns_of_offset(0)).unwrap_or(0))
}

/// No alert is as severe as `--fail-on`.
fn passes(args: &AnalyzeArgs, review: &Review) -> bool {
    let below = |least| review.alerts().all(|reviewed| reviewed.alert.severity() < least);
    args.fail_on.is_none_or(below)
}

/// Collections, and requests where they were recorded.
const SCOPE: Scope = Scope::CollectionsAnd(gc_requests::session::PROVIDER);

/// Opens and reads a recording; reports its errors.
pub(crate) fn read(file: &Path, scope: Scope) -> Option<Recording> {
    let mut source = match Source::open(file) {
        Ok(source) => source,
        Err(error) => {
            say(error);
            return None;
        }
    };
    Some(Recording::read(&mut source, scope, |_| ()))
}

/// Reports what a recording lacks. `false`: it could not be read to its end.
pub(crate) fn complain(recording: &Recording) -> bool {
    if let Some(cut) = &recording.cut {
        say(cut);
    }
    if recording.stream.undecodable > 0 {
        let events = plural(recording.stream.undecodable, "event");
        say(format_args!(
            "{}: {events} skipped, because they are too short for their layout",
            recording.stream.file
        ));
    }
    match &recording.error {
        Some(error) => say(error),
        None => return true,
    }
    false
}

fn all(file: &Path, args: &AnalyzeArgs, rules: Option<&Arc<RuleSet>>, output: &mut Output) -> anyhow::Result<bool> {
    let Some(recording) = read(file, SCOPE) else {
        return Ok(false);
    };
    // Without a header there was no stream; a recording that was cut before it is reported as such.
    let is_stream = recording.header.is_some() || recording.error.is_none();
    let reviews = reviews(rules, &recording);
    let passes = reviews.iter().flatten().all(|review| passes(args, review));
    match output.format() {
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
                for reviewed in reviews
                    .iter()
                    .filter_map(|reviews| reviews.get(place))
                    .flat_map(Review::alerts)
                {
                    let pid = subject.pid.and_then(|pid| u32::try_from(pid).ok());
                    let group = rules.and_then(|rules| reviewed.group(rules));
                    output.record(&AnomalyRecord::new(pid, None, group, &reviewed.transition()))?;
                }
                for incident in reviews
                    .iter()
                    .filter_map(|reviews| reviews.get(place))
                    .flat_map(Review::incidents)
                {
                    output.record(&IncidentRecord::new(incident, &incident_subject(&recording, *subject)))?;
                }
                if let Some(review) = reviews.as_deref().and_then(|reviews| reviews.get(place)) {
                    output.record(&anomalies::JudgedRecord::new(*subject, review, recording.observed_ns))?;
                }
                let observed = recording.observed_ns;
                let summary = SummaryRecord::new(*subject, &history.totals, &history.other_stops, observed);
                let ledger = memory::newest(&history.collections).map(|(_, ledger)| ledger);
                output.record(&summary.with(ledger))?;
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
        if history.collections.is_empty() {
            writeln!(out, "no collections")?;
        } else {
            collections::write(out, chosen(history, args))?;
        }
        summary::write(out, &history.totals, &history.other_stops, recording.observed_ns)?;
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

/// The collections selected by the arguments, in the requested order.
fn chosen<'h>(history: &'h ProcessHistory, args: &AnalyzeArgs) -> Vec<(&'h Collection, Interval)> {
    let mut chosen: Vec<(&Collection, Interval)> = Intervals::of(&history.collections)
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
    // A collection without a start is only reported without --from and --to.
    args.from.is_none_or(|from| at.is_some_and(|at| at >= ns(from)))
        && args.to.is_none_or(|to| at.is_some_and(|at| at < ns(to)))
}

/// GCStart as RFC 3339.
fn start_time(recording: &Recording, collection: &Collection) -> Option<String> {
    rfc3339(recording.header.as_ref()?, collection.start?)
}

/// An instant of the stream as RFC 3339.
pub(crate) fn rfc3339(header: &TraceHeader, at: i64) -> Option<String> {
    let ns = header.unix_ns_of_offset(at)?;
    jiff::Timestamp::from_nanosecond(ns).ok().map(|time| time.to_string())
}

/// A recording that is read twice; standard input is kept in memory for it.
enum Twice<'f> {
    File(&'f Path),
    Kept(Arc<[u8]>),
}

impl<'f> Twice<'f> {
    fn of(file: &'f Path) -> io::Result<Self> {
        if file != Path::new("-") {
            return Ok(Self::File(file));
        }
        let mut bytes = Vec::new();
        io::stdin().lock().take(MAX_KEPT_BYTES).read_to_end(&mut bytes)?;
        Ok(Self::Kept(bytes.into()))
    }

    fn open(&self) -> Result<Source, SourceError> {
        match self {
            Self::File(file) => Source::open(file),
            Self::Kept(bytes) => {
                Source::from_reader("standard input".to_owned(), Box::new(Cursor::new(Arc::clone(bytes))))
            }
        }
    }
}

/// One collection in full. The first pass finds it, the second collects its events.
fn one(file: &Path, number: u32, output: &mut Output) -> anyhow::Result<bool> {
    let input = Twice::of(file).context("cannot read standard input")?;
    let mut source = match input.open() {
        Ok(source) => source,
        Err(error) => {
            say(error);
            return Ok(false);
        }
    };
    let recording = Recording::read(&mut source, Scope::Collections, |_| ());
    let mut fine = complain(&recording);
    if recording.header.is_none() {
        return Ok(false);
    }
    let mut found = false;
    for (subject, history) in &recording.processes {
        for (place, collection) in history.collections.iter().enumerate() {
            if collection.number != number {
                continue;
            }
            found = true;
            let mut wanted = Detail::of(*subject, collection, &history.collections, place);
            let mut again = match input.open() {
                Ok(source) => source,
                Err(error) => {
                    say(error);
                    return Ok(false);
                }
            };
            let _same_as_before = Recording::read(&mut again, Scope::Everything, |observed| wanted.observe(observed));
            wanted.finish();
            let start = start_time(&recording, collection);
            match output.format() {
                Format::Table => detail::write(output.text(), collection, &wanted, start.as_deref())?,
                Format::Ndjson => {
                    output.record(&GcRecord::new(*subject, collection, start))?;
                    output.record(&DetailRecord::new(
                        *subject,
                        number,
                        &wanted,
                        memory::ledger(collection),
                    ))?;
                }
            }
        }
    }
    if !found {
        let numbers = recording.processes.iter().flat_map(|(_, history)| &history.collections);
        let (first, last) = numbers.fold((None, None), |(first, _): (Option<u32>, Option<u32>), collection| {
            (first.or(Some(collection.number)), Some(collection.number))
        });
        let range = first
            .zip(last)
            .map(|(first, last)| format!("; it contains {first} to {last}"))
            .unwrap_or_default();
        say(format_args!(
            "{} has no collection with the number {number}{range}",
            recording.stream.file
        ));
        fine = false;
    }
    Ok(fine)
}
