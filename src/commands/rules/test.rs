//! `gcwatch rules test`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clr_gc::stream::Scope;
use serde::Serialize;

use crate::commands::cli::{Format, RulesTestArgs};
use crate::commands::output::{Output, say};
use config::rule_files;
use recording::source::Source;
use recording::{ProcessHistory, Recording};
use report::units::plural;
use rule_engine::rule_set::RuleSet;
use rule_language::load::{Level, Problem, SourceFile, load};
use rule_language::test_file::document::Test;
use rule_language::test_file::{TestFile, run as run_test};

/// Suffix of test file names.
const ENDING: &str = ".test.yaml";

/// The record of one test, `kind: "rules_test"`.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename = "rules_test")]
struct TestRecord<'a> {
    file: &'a str,
    line: usize,
    name: &'a str,
    ok: bool,
    differences: Vec<&'a str>,
}

/// Totals over all files.
#[derive(Debug, Default)]
struct Tally {
    files: u64,
    tests: u64,
    failed: u64,
    problems: u64,
}

/// Runs the tests of rule files. Returns `false` if a test failed or could not be run, or if there are no tests.
pub(super) fn test(args: &RulesTestArgs) -> anyhow::Result<bool> {
    let mut output = Output::stdout(args.format);
    let mut tally = Tally::default();
    for path in test_files(&args.files, &mut tally) {
        tally.files += 1;
        one_file(&path, &mut output, &mut tally)?;
    }
    if tally.tests == 0 && tally.problems == 0 {
        say(format_args!("no tests found; names of test files end with {ENDING}"));
        tally.problems += 1;
    }
    if output.format == Format::Table && tally.tests > 0 {
        let passed = tally.tests - tally.failed;
        let (tests, files) = (plural(tally.tests, "test"), plural(tally.files, "file"));
        writeln!(
            output.text(),
            "{tests} in {files}: {passed} passed, {} failed",
            tally.failed
        )?;
    }
    output.finish()?;
    Ok(tally.failed == 0 && tally.problems == 0)
}

/// Returns the given files, and the test files in the given directories.
fn test_files(paths: &[PathBuf], tally: &mut Tally) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let listed = std::fs::read_dir(path).and_then(|entries| {
            let mut found = Vec::new();
            for entry in entries {
                let file = entry?.path();
                if rule_files::is_test(&file) {
                    found.push(file);
                }
            }
            found.sort();
            Ok(found)
        });
        match listed {
            Ok(found) => files.extend(found),
            Err(error) => {
                tally.problems += 1;
                say(format_args!(
                    "{}:1:1: the directory cannot be read: {error}",
                    path.display()
                ));
            }
        }
    }
    files
}

fn one_file(path: &Path, output: &mut Output, tally: &mut Tally) -> anyhow::Result<()> {
    let text = match rule_files::text(path) {
        Ok(text) => text,
        Err(problem) => return complain(&[problem], tally, output),
    };
    let file = match TestFile::read(&text.name, &text.text) {
        Ok(file) => file,
        Err(problems) => return complain(&problems, tally, output),
    };
    let folder = path.parent().unwrap_or(Path::new("."));
    let (rules, left_out) = match rules_of(&file, folder) {
        Ok(loaded) => loaded,
        Err(problems) => return complain(&problems, tally, output),
    };
    complain(&left_out, tally, output)?;
    for (place, test) in file.document.tests.iter().enumerate() {
        tally.tests += 1;
        let at = file.place_of_test(place);
        let differences = match played(test, folder) {
            Ok(Some(recording)) => {
                let (history, start, observed) = (&recording.0, recording.1, recording.2);
                run_test(test, &rules, Some((history.history(), start, observed)))
            }
            Ok(None) => run_test(test, &rules, None),
            Err(message) => {
                tally.failed += 1;
                complain(&[file.problem(at, format!("{}: {message}", test.name))], tally, output)?;
                continue;
            }
        };
        let ok = differences.is_empty();
        tally.failed += u64::from(!ok);
        match output.format {
            Format::Ndjson => output.record(&TestRecord {
                file: &file.name,
                line: at.line,
                name: &test.name,
                ok,
                differences: differences.iter().map(|one| one.message.as_str()).collect(),
            })?,
            Format::Table => {
                for difference in &differences {
                    let at = difference
                        .expectation
                        .map_or(at, |expectation| file.place_of_expectation(place, expectation));
                    let problem = file.problem(at, format!("{}: {}", test.name, difference.message));
                    writeln!(output.text(), "{problem}")?;
                }
            }
        }
    }
    Ok(())
}

/// Counts and reports problems. In a table, problems are on standard output, because they are part of the result. With
/// ndjson, problems are on standard error.
fn complain(problems: &[Problem], tally: &mut Tally, output: &mut Output) -> anyhow::Result<()> {
    for problem in problems {
        if problem.severity == Level::Error {
            tally.problems += 1;
        }
        match output.format {
            Format::Table => writeln!(output.text(), "{problem}")?,
            Format::Ndjson => say(problem),
        }
    }
    Ok(())
}

/// Loads the rule files of a test file as one set, and returns the errors of the rules that are left out.
fn rules_of(file: &TestFile, folder: &Path) -> Result<(Arc<RuleSet>, Vec<Problem>), Vec<Problem>> {
    let paths: Vec<PathBuf> = file.document.rule_files.iter().map(|name| folder.join(name)).collect();
    let sources: Vec<SourceFile> = rule_files::read(&paths)?;
    let loaded = load(&sources)?;
    Ok((Arc::new(loaded.rules), loaded.left_out))
}

/// Returns the process of a test's recording, its sync time in Unix nanoseconds and the observed duration in
/// nanoseconds, or `None` if the test has no recording.
fn played(test: &Test, folder: &Path) -> Result<Option<(ProcessHistory, i128, i64)>, String> {
    let Some(name) = &test.recording else {
        return Ok(None);
    };
    let mut source = Source::open(&folder.join(name)).map_err(|error| error.to_string())?;
    let recording = Recording::read(&mut source, Scope::Collections, |_| ());
    if let Some(error) = recording.error {
        return Err(error.to_string());
    }
    let start = recording
        .header
        .as_ref()
        .and_then(|header| header.unix_ns_of_offset(0))
        .unwrap_or(0);
    let wanted = |pid: Option<u64>| test.pid.is_none_or(|wanted| pid == Some(u64::from(wanted)));
    let mut found = recording
        .processes
        .into_iter()
        .filter(|(subject, _)| wanted(subject.pid));
    match (found.next(), found.next()) {
        (Some((_, history)), None) => Ok(Some((history, start, recording.observed_ns))),
        (None, _) => Err(format!("{name} has no matching process")),
        (Some(_), Some(_)) => Err(format!("{name} has several processes; select one with `pid`")),
    }
}
