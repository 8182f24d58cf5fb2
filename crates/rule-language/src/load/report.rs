//! Errors and warnings about files.

use std::collections::HashSet;
use std::sync::Arc;

use strict_yaml::yaml::{Node, Position};

use super::place::Lines;
use super::{Level, Problem, SourceFile};
use crate::compile::Mistake;

/// A file and a position in it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) file: usize,
    pub(super) at: Position,
}

/// A value and its file.
#[derive(Debug, Clone, Copy)]
pub(super) struct PlacedValue<'a> {
    pub(super) file: usize,
    pub(super) node: &'a Node,
}

impl PlacedValue<'_> {
    /// Returns the position at which the value starts.
    pub(super) fn place(self) -> Place {
        self.at(self.node.at)
    }

    /// Returns a position in the same file.
    pub(super) fn at(self, at: Position) -> Place {
        Place { file: self.file, at }
    }

    /// Returns a value in the same file.
    pub(super) fn with(self, node: &Node) -> PlacedValue<'_> {
        PlacedValue { file: self.file, node }
    }
}

/// The files in their order, and their problems.
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

    pub(super) fn error(&mut self, place: Place, message: impl Into<String>) {
        self.errors += 1;
        let problem = self.problem(place, message, Level::Error);
        self.problems.push((place.file, problem));
    }

    pub(super) fn warning(&mut self, place: Place, message: impl Into<String>) {
        let problem = self.problem(place, message, Level::Warning);
        self.problems.push((place.file, problem));
    }

    /// Creates a problem without reporting it.
    pub(super) fn problem(&self, place: Place, message: impl Into<String>, severity: Level) -> Problem {
        Problem {
            file: self.name(place.file),
            line: place.at.line,
            column: place.at.column,
            message: message.into(),
            severity,
        }
    }

    /// Reports mistakes inside a value, at their positions in the file.
    pub(super) fn mistakes(
        &mut self,
        placed: PlacedValue<'_>,
        text: &str,
        what: &str,
        mistakes: &[Mistake],
        level: Level,
    ) {
        for mistake in mistakes {
            let lines = self.lines(placed);
            let inside = lines.map(|lines| lines.inside(placed.node.at, text, mistake.line, mistake.column));
            let place = placed.at(inside.unwrap_or(placed.node.at));
            let message = format!("{what}: {}", mistake.message);
            match level {
                Level::Error => self.error(place, message),
                Level::Warning => self.warning(place, message),
            }
        }
    }

    /// Returns the lines of a value's file.
    pub(super) fn lines(&self, placed: PlacedValue<'_>) -> Option<&Lines<'a>> {
        self.lines.get(placed.file)
    }

    pub(super) fn name(&self, file: usize) -> Arc<str> {
        self.names.get(file).cloned().unwrap_or_else(|| "".into())
    }

    /// Returns the number of errors so far.
    pub(super) fn errors(&self) -> usize {
        self.errors
    }

    /// Returns all problems without duplicates, sorted by file and position. A problem in an override of several rules
    /// is reported once.
    pub(super) fn finish(self) -> Vec<Problem> {
        let mut problems = self.problems;
        problems.sort_by_key(|(file, problem)| (*file, problem.line, problem.column));
        let mut seen = HashSet::new();
        problems.retain(|(file, problem)| seen.insert((*file, problem.line, problem.column, problem.message.clone())));
        problems.into_iter().map(|(_, problem)| problem).collect()
    }
}
