//! Recordings as a page: for `--html`, for recordings of incidents that the daemon serves, and for answers to agents.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;

use super::input::{SCOPE, complain, read};
use super::judged::{found, passes, reviews, time_base};
use crate::commands::cli::AnalyzeArgs;
use crate::commands::output::say;
use crate::view;
use api::view::{ReportedRecording, UnobservedFact};
use base::time::Wall;
use processes::files::AtomicFile;
use recording::Recording;
use recording::source::Source;
use report::units::Bytes;
use rule_engine::rule_set::RuleSet;
use rule_language::load::{load, shipped};

/// Writes recordings as a page. A recording that cannot be read is reported, and the page contains the other
/// recordings. Returns `false` if a recording could not be read to its end, or if an alert is at least as severe as
/// `--fail-on`.
pub(super) fn html(
    files: &[PathBuf],
    to: &Path,
    args: &AnalyzeArgs,
    rules: Option<&Arc<RuleSet>>,
) -> anyhow::Result<bool> {
    anyhow::ensure!(
        files.len() <= view::MAX_RECORDINGS,
        "--html supports at most {} recordings; {} were given",
        view::MAX_RECORDINGS,
        files.len()
    );
    match std::fs::symlink_metadata(to) {
        Ok(known) if !known.is_file() => anyhow::bail!("{} is not a regular file; choose another file", to.display()),
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
        let found = reviews.as_deref().map(|reviews| found(reviews, &recording));
        let base = time_base(&recording).unix(Wall::UNIX);
        let reported = view::recorded(&recording, base, found, args.with_command_line, files.len());
        recordings.push(reported);
    }
    if recordings.is_empty() {
        return Ok(false);
    }
    let page = web::report::page(&view::page(recordings))?;
    let written = AtomicFile::new(to, args.force).and_then(|mut file| {
        file.write_all(page.as_bytes())?;
        file.complete()
    });
    written.with_context(|| format!("cannot write {}", to.display()))?;
    say(format_args!("{}: {}", to.display(), Bytes(page.len() as u64)));
    Ok(fine)
}

/// Reads a recording from standard input and writes its page to standard output, evaluated with the shipped rules and
/// without the command line. [`rendered`](evidence::black_box::page::rendered) starts this function in a child process.
pub(crate) fn render_standard_input(name: &str) -> ExitCode {
    match rendered(name) {
        Ok(page) if std::io::stdout().write_all(page.as_bytes()).is_ok() => ExitCode::SUCCESS,
        // The parent no longer reads the page.
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            say(error);
            ExitCode::FAILURE
        }
    }
}

fn rendered(name: &str) -> anyhow::Result<String> {
    let source = Source::from_reader(name.to_owned(), Box::new(std::io::stdin()))?;
    let reported = reported(source).map_err(anyhow::Error::msg)?;
    Ok(web::report::page(&view::page(vec![reported]))?)
}

/// Returns the record of a recording, with the findings of the shipped rules and without its command line, or a
/// sentence if the input is not a recording.
pub(crate) fn reported(mut source: Source) -> Result<ReportedRecording, String> {
    let recording = Recording::read(&mut source, SCOPE, |_| ());
    if recording.header.is_none() {
        let error = recording.error.map(|error| error.to_string());
        return Err(error.unwrap_or_else(|| format!("{} was cut before the start of its stream", source.name())));
    }
    let rules = load(&shipped()).map_err(|problems| problems.iter().map(ToString::to_string).collect::<String>())?;
    let reviews = reviews(Some(&Arc::new(rules.rules)), &recording);
    let found = reviews.as_deref().map(|reviews| found(reviews, &recording));
    let mut record = view::recorded(&recording, time_base(&recording).unix(Wall::UNIX), found, false, 1);
    let rest = recording.error.map(|error| error.to_string()).or(recording.cut);
    record.unseen.extend(rest.map(|why| UnobservedFact {
        what: "the rest of the stream".to_owned(),
        why,
    }));
    Ok(record)
}
