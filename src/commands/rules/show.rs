//! `gcwatch rules show`: prints one rule with its tests.

use std::path::{Path, PathBuf};

use crate::commands::cli::{Format, RulesShowArgs};
use crate::commands::output::{Output, say};
use config::rule_files;
use report::rules::{self, ShowRecord};
use rule_language::load::{SourceFile, shipped, shipped_tests};
use rule_language::page::catalogue;

/// Shows one rule. Returns `false` if no rule has this id, or if the files are invalid.
pub(super) fn show(args: &RulesShowArgs) -> anyhow::Result<bool> {
    let Some(loaded) = super::read(&args.rules.files, args.rules.with_shipped).valid() else {
        return Ok(false);
    };
    let Some(rule) = loaded.rules.rule(&args.id) else {
        let ids = loaded.rules.rules.iter().map(|rule| &*rule.id);
        let near = strict_yaml::check::nearest(&args.id, ids);
        let hint = near.map_or_else(
            || "`gcwatch rules list` lists the rules".to_owned(),
            |near| format!("did you mean {near}?"),
        );
        say(format_args!("there is no rule {}; {hint}", args.id));
        return Ok(false);
    };
    let ships = shipped()
        .iter()
        .any(|file| rule.location.starts_with(&format!("{}:", file.name)));
    let mut tests = tests_beside(&args.rules.files);
    if args.rules.files.is_empty() || args.rules.with_shipped {
        tests.extend(shipped_tests());
    }
    let record = ShowRecord::new(rule, &loaded.rules.groups, catalogue::tests_of(&rule.id, &tests), ships);
    let mut output = Output::stdout(args.rules.format);
    match output.format {
        Format::Table => rules::write_rule(output.text(), &record)?,
        Format::Ndjson => output.record(&record)?,
    }
    output.finish()?;
    Ok(true)
}

/// Returns the test files in the directories of rule files. Unreadable test files are skipped.
fn tests_beside(paths: &[PathBuf]) -> Vec<SourceFile> {
    let mut found = Vec::new();
    for path in paths {
        let folder = if path.is_dir() {
            Some(path.as_path())
        } else {
            path.parent()
        };
        let folder = folder.map(|folder| {
            if folder.as_os_str().is_empty() {
                Path::new(".")
            } else {
                folder
            }
        });
        let entries = folder.and_then(|folder| std::fs::read_dir(folder).ok());
        for entry in entries.into_iter().flatten().flatten() {
            let file = entry.path();
            if rule_files::is_test(&file) && !found.contains(&file) {
                found.push(file);
            }
        }
    }
    found.sort();
    found.iter().filter_map(|file| rule_files::text(file).ok()).collect()
}
