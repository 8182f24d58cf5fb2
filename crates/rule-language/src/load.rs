//! From rule files to a rule set; all errors of all files at once.
//!
//! ```text
//! files -> file: trees, checked against the schema -> draft: rules after defaults and overrides, each value with its
//! position
//!       -> compose: expressions and templates compiled, keys checked against each other -> RuleSet
//! ```
//!
//! Macros and lists belong to their file; groups and ids to all files. An error inside an expression is reported at its
//! position in the file, also inside a block.

use std::fmt;
use std::sync::Arc;

use gc_rules::rule_set::RuleSet;

mod build;
mod compose;
mod draft;
mod file;
mod groups;
mod lint;
mod measure;
mod memory;
mod partial_rule;
mod place;
mod report;
mod shipped;
#[cfg(test)]
mod tests;
mod text;
mod window;

pub use memory::MOST_WINDOW_BYTES;
pub use shipped::{shipped, shipped_tests};

/// Maximum number of files.
pub const MOST_FILES: usize = 500;

/// A rule file that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    /// Its name in messages.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// The level of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// The files are not used.
    Error,
    /// The files are used.
    Warning,
}

impl Level {
    /// `error`, `warning`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// An error or warning on a rule file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Problem {
    /// The file, as in [`SourceFile::name`].
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1, in characters.
    pub column: usize,
    /// The subject, the fault, and how to fix it.
    pub message: String,
    /// Error or warning.
    pub severity: Level,
}

impl fmt::Display for Problem {
    /// `FILE:LINE:COLUMN: message`, warnings as `FILE:LINE:COLUMN: warning: message`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: ", self.file, self.line, self.column)?;
        if self.severity == Level::Warning {
            f.write_str("warning: ")?;
        }
        f.write_str(&self.message)
    }
}

/// Rules that were loaded.
#[derive(Debug, Clone, Default)]
pub struct Loaded {
    /// The rules.
    pub rules: RuleSet,
    /// Warnings, by file and line.
    pub warnings: Vec<Problem>,
    /// Times at which exceptions expire, Unix nanoseconds, each with the warning for later.
    expiries: Vec<(u64, Problem)>,
}

/// How long after its end an exception is reported as expired: 30 days.
pub const LONG_AGO_NS: u64 = 30 * 86_400 * 1_000_000_000;

impl Loaded {
    /// Warnings on exceptions that expired long before this time: [`LONG_AGO_NS`]. Loading has no clock.
    pub fn expired(&self, now_unix_ns: u64) -> impl Iterator<Item = &Problem> {
        let expired = self.expiries.iter();
        let expired = expired.filter(move |(until, _)| *until < now_unix_ns.saturating_sub(LONG_AGO_NS));
        expired.map(|(_, problem)| problem)
    }
}

/// Loads rule files. A later file can change rules of earlier ones. No files: no rules.
///
/// # Errors
///
/// All errors and warnings of all files, by file and line; never empty.
pub fn load(files: &[SourceFile]) -> Result<Loaded, Vec<Problem>> {
    if files.is_empty() {
        return Ok(Loaded::default());
    }
    build::load(files)
}
