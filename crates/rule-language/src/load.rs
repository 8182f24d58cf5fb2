//! Loads rule files into a rule set, and reports all errors of all files at once.
//!
//! ```text
//! files -> file: trees, checked against the schema -> draft: rules after defaults and overrides, each value with its
//! position
//!       -> compose: expressions and templates compiled, keys checked against each other -> RuleSet
//! ```
//!
//! Macros are local to their file; groups and ids are shared by all files. An error inside an expression is
//! reported at its position in the file, even inside a block scalar.
//!
//! An error makes all files invalid. A removed word is an exception: the rule or the override with this word is left
//! out, and all other rules remain in force, so that an update of gcwatch does not disable them.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use base::words;
use rule_engine::rule_set::RuleSet;
use strict_yaml::yaml::Position;

mod compose;
mod draft;
mod file;
mod groups;
mod lint;
mod memory;
mod partial_rule;
mod place;
mod report;
mod shipped;
#[cfg(test)]
mod tests;
mod text;
mod window;

use compose::SharedState;
use file::FileDefinitions;
pub use memory::MAX_WINDOW_BYTES;
use report::{LeftOut, Place, PlacedValue, Report};
pub use shipped::{shipped, shipped_tests};
pub(crate) use text::{entry, items_of, scalar};

/// Maximum number of files.
pub const MAX_FILES: usize = 500;

/// A rule file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    /// Name of the file in messages.
    pub name: String,
    pub text: String,
}

impl SourceFile {
    /// Creates a file with this name and text.
    pub fn new(name: &str, text: impl Into<String>) -> Self {
        Self {
            name: name.to_owned(),
            text: text.into(),
        }
    }
}

words! {
    /// The level of a problem.
    pub enum Level {
        /// The files are not used, or the part with a removed word is left out.
        Error = "error",
        /// The files are used.
        Warning = "warning",
    }
}

/// An error or warning about a rule file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Problem {
    /// Name of the file, see [`SourceFile::name`].
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1, in characters.
    pub column: usize,
    /// Subject, fault, and remedy.
    pub message: String,
    /// Error or warning.
    pub severity: Level,
}

impl fmt::Display for Problem {
    /// Formats the problem as `FILE:LINE:COLUMN: message`, and warnings as `FILE:LINE:COLUMN: warning: message`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: ", self.file, self.line, self.column)?;
        if self.severity == Level::Warning {
            f.write_str("warning: ")?;
        }
        f.write_str(&self.message)
    }
}

/// Loaded rules.
#[derive(Debug, Clone, Default)]
pub struct LoadedRules {
    pub rules: RuleSet,
    /// Errors of the rules and overrides that are left out because they use removed words, sorted by file and line.
    pub left_out: Vec<Problem>,
    /// Warnings, sorted by file and line.
    pub warnings: Vec<Problem>,
    /// Times at which exceptions expire, in Unix nanoseconds, with the warnings that apply afterwards.
    expiries: Vec<(u64, Problem)>,
}

/// Time between the expiry of an exception and the warning about it: 30 days.
pub const EXPIRY_WARNING_DELAY_NS: u64 = 30 * 86_400 * 1_000_000_000;

impl LoadedRules {
    /// Returns warnings about exceptions that expired more than [`EXPIRY_WARNING_DELAY_NS`] before this time. The time
    /// is an argument because loading has no clock.
    pub fn expired(&self, now_unix_ns: u64) -> impl Iterator<Item = &Problem> {
        let expired = self.expiries.iter();
        let expired = expired.filter(move |(until, _)| *until < now_unix_ns.saturating_sub(EXPIRY_WARNING_DELAY_NS));
        expired.map(|(_, problem)| problem)
    }
}

/// Loads rule files. A later file can change rules of earlier files. Without files, the rule set is empty. A rule or an
/// override that uses a removed word is left out, see [`LoadedRules::left_out`].
///
/// # Errors
///
/// Returns all errors and warnings of all files, sorted by file and line; never empty.
pub fn load(files: &[SourceFile]) -> Result<LoadedRules, Vec<Problem>> {
    if files.is_empty() {
        return Ok(LoadedRules::default());
    }
    if files.len() > MAX_FILES {
        let mut report = Report::new(files, LeftOut::default());
        let message = format!("{} rule files; at most {MAX_FILES} are read", files.len());
        let (file, at) = (0, Position::START);
        report.error(Place { file, at }, message);
        return Err(report.finish());
    }
    // Some removed words are found only when all rules are built. Each pass leaves out more parts than the previous one.
    let mut left_out = LeftOut::default();
    loop {
        match load_without(files, left_out) {
            Pass::Break(loaded) => return loaded,
            Pass::Continue(more) => left_out = more,
        }
    }
}

/// The result of one pass over the files: the rules, or more parts that the next pass must leave out.
type Pass = ControlFlow<Result<LoadedRules, Vec<Problem>>, LeftOut>;

fn load_without(files: &[SourceFile], left_out: LeftOut) -> Pass {
    let mut report = Report::new(files, left_out);
    let mut trees = Vec::new();
    for (file, source) in files.iter().enumerate() {
        trees.push(file::tree(file, &source.text, &mut report));
    }
    let mut words = Vec::new();
    let mut roots = Vec::new();
    for (file, tree) in trees.iter().enumerate() {
        let root = tree.as_ref().map(|node| PlacedValue { file, node, part: None });
        let Some(root) = root.filter(|root| file::is_readable(*root, &mut report)) else {
            words.push(FileDefinitions::default());
            continue;
        };
        file::check(root, &mut report);
        words.push(file::words(root, &mut report));
        roots.push(root);
    }
    let complete = roots.len() == files.len();
    let drafts = draft::drafts(&roots, complete, &mut report);
    let left_out = &mut report.left_out;
    let parts = left_out.parts.len();
    let (out, drafts): (Vec<_>, Vec<_>) = drafts
        .into_iter()
        .partition(|draft| left_out.parts.contains(&draft.part));
    left_out.ids.extend(out.iter().map(|draft| draft.id.clone()));
    let mut common = SharedState {
        words,
        groups: groups::groups(&roots, &mut report),
        used_groups: BTreeSet::new(),
        windows: window::Windows::default(),
        report,
        complete,
        expiries: Vec::new(),
    };
    // The rules that are left out are built, too, so that all their errors are reported.
    for draft in &out {
        compose::rule(draft, &mut common);
    }
    let rules = drafts.iter().filter_map(|draft| compose::rule(draft, &mut common));
    let rules: Vec<_> = rules.map(Arc::new).collect();
    let mut report = common.report;
    if report.errors() == 0 {
        compose::check_causes(&drafts, &rules, complete, &mut report);
    }
    if report.errors() == 0 && rules.len() == drafts.len() {
        lint::unknown_rules(&drafts, &rules, &mut report);
    }
    if report.left_out.parts.len() > parts {
        return Pass::Continue(report.left_out);
    }
    // Unused names are reported only if all rules were built: an invalid rule, or a rule that is left out, could use
    // them.
    if report.errors() == 0 && parts == 0 {
        lint::unused_words(&common.words, &mut report);
        lint::unused_groups(&common.groups, &common.used_groups, &mut report);
    }
    if report.errors() > 0 {
        return Pass::Break(Err(report.finish()));
    }
    let groups = common.groups.all.into_iter().map(|(group, _)| group);
    let rules = RuleSet::new(rules, common.windows.windows, groups.collect());
    memory::check(&rules, &common.windows.origins, &mut report);
    if report.errors() > 0 {
        return Pass::Break(Err(report.finish()));
    }
    let (warnings, left_out) = report.finish_valid();
    Pass::Break(Ok(LoadedRules {
        rules,
        left_out,
        warnings,
        expiries: common.expiries,
    }))
}
