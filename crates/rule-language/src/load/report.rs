//! Errors and warnings on files.

use std::collections::HashSet;
use std::sync::Arc;

use strict_yaml::yaml::{Node, Position};

use super::place::Lines;
use super::{Level, Problem, SourceFile};
use crate::compile::Mistake;

/// A value and its file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Placed<'a> {
    pub(super) file: usize,
    pub(super) node: &'a Node,
}

/// The files by their place in the load, and their problems.
pub(super) struct Report<'a> {
    names: Vec<Arc<str>>,
    lines: Vec<Lines<'a>>,
    problems: Vec<(usize, Problem)>,
    errors: usize,
}

impl<'a> Report<'a> {
    pub(super) fn new(files: &'a [SourceFile]) -> Self {
        Self {
            names: files.iter().map(|file| file.name.as_str().into()).collect(),
            lines: files.iter().map(|file| Lines::new(&file.text)).collect(),
            problems: Vec::new(),
            errors: 0,
        }
    }

    pub(super) fn error(&mut self, file: usize, at: Position, message: impl Into<String>) {
        self.errors += 1;
        self.push(file, at, message.into(), Level::Error);
    }

    pub(super) fn warning(&mut self, file: usize, at: Position, message: impl Into<String>) {
        self.push(file, at, message.into(), Level::Warning);
    }

    /// A warning that is not reported yet.
    pub(super) fn at(&self, file: usize, at: Position, message: String) -> Problem {
        Problem {
            file: self.name(file),
            line: at.line,
            column: at.column,
            message,
            severity: Level::Warning,
        }
    }

    fn push(&mut self, file: usize, at: Position, message: String, severity: Level) {
        let problem = Problem {
            file: self.name(file),
            line: at.line,
            column: at.column,
            message,
            severity,
        };
        self.problems.push((file, problem));
    }

    /// Mistakes inside a value, at their positions in the file.
    pub(super) fn mistakes(&mut self, placed: Placed<'_>, text: &str, what: &str, mistakes: &[Mistake], level: Level) {
        for mistake in mistakes {
            let at = self.place(placed, text, mistake);
            let message = format!("{what}: {}", mistake.message);
            match level {
                Level::Error => self.error(placed.file, at, message),
                Level::Warning => self.warning(placed.file, at, message),
            }
        }
    }

    /// Warnings on a part of a value, at the value.
    pub(super) fn mistakes_anywhere(&mut self, placed: Placed<'_>, what: &str, warnings: &[Mistake]) {
        for warning in warnings {
            self.warning(placed.file, placed.node.at, format!("{what}: {}", warning.message));
        }
    }

    fn place(&self, placed: Placed<'_>, text: &str, mistake: &Mistake) -> Position {
        let at = placed.node.at;
        let lines = self.lines.get(placed.file);
        lines.map_or(at, |lines| lines.inside(at, text, mistake.line, mistake.column))
    }

    /// The lines of a file.
    pub(super) fn lines(&self, file: usize) -> Option<&Lines<'a>> {
        self.lines.get(file)
    }

    /// Its name.
    pub(super) fn name(&self, file: usize) -> Arc<str> {
        self.names.get(file).cloned().unwrap_or_else(|| "".into())
    }

    /// The number of errors so far.
    pub(super) fn errors(&self) -> usize {
        self.errors
    }

    /// All problems, by file and position, without duplicates: an override of several rules is reported once.
    pub(super) fn finish(self) -> Vec<Problem> {
        let mut problems = self.problems;
        problems.sort_by_key(|(file, problem)| (*file, problem.line, problem.column));
        let mut seen = HashSet::new();
        problems.retain(|(file, problem)| seen.insert((*file, problem.line, problem.column, problem.message.clone())));
        problems.into_iter().map(|(_, problem)| problem).collect()
    }
}
