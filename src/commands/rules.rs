//! `gcwatch rules`: check, list, show, catalogue, test, schema.

mod show;
mod test;

use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use crate::commands::cli::{Format, RulesArgs, RulesCheckArgs, RulesCommand, RulesListArgs};
use crate::commands::output::{Output, say};
use base::clock::now_unix_ns;
use config::rule_files;
use report::rules::{self, CheckRecord, ProblemRecord, RuleRecord};
use rule_language::document::schema;
use rule_language::load::{Level, LoadedRules, Problem, SourceFile, load, shipped};
use rule_language::page::catalogue;
use rule_language::test_file;

/// Standard input, as an argument and in messages.
const STANDARD_INPUT: &str = "-";

pub(crate) fn run(args: &RulesArgs) -> anyhow::Result<bool> {
    match &args.command {
        RulesCommand::Check(args) => check(args),
        RulesCommand::List(args) => list(args),
        RulesCommand::Show(args) => show::show(args),
        RulesCommand::Test(args) => test::test(args),
        RulesCommand::Catalogue => print(&catalogue::text()),
        RulesCommand::Schema(args) if args.tests => print(&test_file::schema_text()),
        RulesCommand::Schema(_) => print(&schema::text()),
    }
}

fn print(text: &str) -> anyhow::Result<bool> {
    io::stdout().write_all(text.as_bytes())?;
    Ok(true)
}

/// The result of loading the files.
struct LoadedFiles {
    files: usize,
    loaded: Result<LoadedRules, Vec<Problem>>,
}

impl LoadedFiles {
    /// Returns the rules, or `None` if the files are invalid. Reports the problems, also those of rules that are left
    /// out.
    fn valid(self) -> Option<LoadedRules> {
        let loaded = self.loaded.map_err(|problems| problems.iter().for_each(say)).ok()?;
        loaded.left_out.iter().for_each(say);
        Some(loaded)
    }
}

fn read(paths: &[PathBuf], with_shipped: bool) -> LoadedFiles {
    let mut files = if paths.is_empty() || with_shipped {
        shipped()
    } else {
        Vec::new()
    };
    let mut problems = Vec::new();
    for path in paths {
        let read = if path == Path::new(STANDARD_INPUT) {
            standard_input().map(|file| vec![file]).map_err(|problem| vec![problem])
        } else {
            rule_files::read(std::slice::from_ref(path))
        };
        match read {
            Ok(read) => files.extend(read),
            Err(found) => problems.extend(found),
        }
    }
    let loaded = match (load(&files), problems.is_empty()) {
        (loaded, true) => loaded,
        // Files that can be read are checked as well, so that all problems are reported.
        (Ok(loaded), false) => {
            problems.extend(loaded.left_out);
            problems.extend(loaded.warnings);
            Err(problems)
        }
        (Err(found), false) => {
            problems.extend(found);
            Err(problems)
        }
    };
    LoadedFiles {
        files: files.len(),
        loaded,
    }
}

fn standard_input() -> Result<SourceFile, Problem> {
    let problem = |message: String| Problem {
        file: STANDARD_INPUT.into(),
        line: 1,
        column: 1,
        message,
        severity: Level::Error,
    };
    let mut bytes = Vec::new();
    let limit = rule_files::MAX_BYTES.saturating_add(1);
    io::stdin()
        .lock()
        .take(limit)
        .read_to_end(&mut bytes)
        .map_err(|error| problem(format!("standard input cannot be read: {error}")))?;
    // `load` rejects a text that exceeds the limit.
    rule_files::decode(STANDARD_INPUT.to_owned(), bytes)
}

fn check(args: &RulesCheckArgs) -> anyhow::Result<bool> {
    let run = read(&args.files, args.with_shipped);
    let (problems, rules) = match &run.loaded {
        Ok(loaded) => {
            // The daemon leaves out rules with removed words. For their author they are errors.
            let errors = loaded.left_out.iter().chain(&loaded.warnings).cloned();
            let late = loaded.expired(now_unix_ns()).cloned();
            (errors.chain(late).collect(), loaded.rules.rules.len())
        }
        Err(problems) => (problems.clone(), 0),
    };
    let count = |level| problems.iter().filter(|problem| problem.severity == level).count();
    let (errors, warnings) = (count(Level::Error), count(Level::Warning));
    let ok = errors == 0 && run.loaded.is_ok() && (warnings == 0 || !args.lint_fatal);
    let record = CheckRecord {
        files: run.files,
        rules,
        errors,
        warnings,
        ok,
    };
    let mut output = Output::stdout(args.format);
    match output.format {
        Format::Table => rules::write_check(output.text(), &problems, &record)?,
        Format::Ndjson => {
            output.records(problems.iter().map(ProblemRecord::from))?;
            output.record(&record)?;
        }
    }
    output.finish()?;
    Ok(ok)
}

fn list(args: &RulesListArgs) -> anyhow::Result<bool> {
    let Some(loaded) = read(&args.files, args.with_shipped).valid() else {
        return Ok(false);
    };
    let groups = &loaded.rules.groups;
    let records: Vec<RuleRecord<'_>> = loaded
        .rules
        .rules
        .iter()
        .map(|rule| RuleRecord::new(rule, groups))
        .collect();
    let mut output = Output::stdout(args.format);
    match output.format {
        Format::Table => rules::write_list(output.text(), &records)?,
        Format::Ndjson => output.records(&records)?,
    }
    output.finish()?;
    Ok(true)
}
