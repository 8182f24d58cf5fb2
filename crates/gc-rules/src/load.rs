//! From rule files to a rule set: every mistake of all files at once.
//!
//! ```text
//! files -> file: trees, checked against the schema -> draft: rules with defaults and overrides put in, each value with its place
//!       -> build, window: expressions and templates compiled, what does not go together told -> RuleSet
//! ```
//!
//! Macros and lists belong to their file; groups and ids to all files together. A mistake inside an expression is told where it is in the
//! file, also in a block.

use std::fmt;
use std::sync::Arc;

use super::rule::RuleSet;

mod build;
mod compose;
mod draft;
mod file;
mod lint;
mod place;
mod report;
mod sample;
mod shipped;
mod text;
mod window;
mod wording;

pub use shipped::shipped;

/// Most files that are read together.
pub const MOST_FILES: usize = 500;

/// A rule file that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    /// Its name, as it is to be told.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// Whether something is wrong or odd.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// It is wrong: the files are not used.
    Error,
    /// It is odd: the files are used.
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

/// One thing that is wrong or odd in a rule file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Problem {
    /// The file, as it was named.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1, in characters.
    pub column: usize,
    /// What it is about, what is wrong, and what to do.
    pub message: String,
    /// Whether it is wrong or odd.
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
    /// What is odd about them, by file and line.
    pub warnings: Vec<Problem>,
}

/// Loads rule files. A later file may change rules of those before it. No files: no rules.
///
/// # Errors
///
/// Everything that is wrong, and odd, with all of the files, by file and line; never empty.
pub fn load(files: &[SourceFile]) -> Result<Loaded, Vec<Problem>> {
    if files.is_empty() {
        return Ok(Loaded::default());
    }
    build::load(files)
}
