//! Errors and warnings about files.

use std::collections::{BTreeSet, HashSet};
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

/// A part of the files that is left out if it uses a removed word, so that all other rules remain in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    Rule { file: usize, index: usize },
    Override { file: usize, index: usize },
}

/// A value and its file.
#[derive(Debug, Clone, Copy)]
pub(super) struct PlacedValue<'a> {
    pub(super) file: usize,
    pub(super) node: &'a Node,
    /// The rule or the override that the value belongs to; `None` for other sections.
    pub(super) part: Option<Part>,
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

    /// Returns a value in the same part of the same file.
    pub(super) fn with(self, node: &Node) -> PlacedValue<'_> {
        PlacedValue {
            file: self.file,
            node,
            part: self.part,
        }
    }
}

/// The parts that are left out, with their errors.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    pub(super) parts: BTreeSet<Part>,
    /// Ids of the rules that are left out.
    pub(super) ids: BTreeSet<String>,
    problems: Vec<(usize, Problem)>,
}

/// The files in their order, and their problems.
pub(super) struct Report<'a> {
    names: Vec<Arc<str>>,
    lines: Vec<Lines<'a>>,
    problems: Vec<(usize, Problem)>,
    errors: usize,
    pub(super) left_out: LeftOut,
}

impl<'a> Report<'a> {
    /// Creates a report on files of which some parts are already left out.
    pub(super) fn new(files: &'a [SourceFile], left_out: LeftOut) -> Self {
        Self {
            names: files.iter().map(|file| file.name.as_str().into()).collect(),
            lines: files.iter().map(|file| Lines::new(&file.text)).collect(),
            problems: Vec::new(),
            errors: 0,
            left_out,
        }
    }

    /// Reports an error that does not make the files invalid, because its part is left out.
    pub(super) fn excused(&mut self, place: Place, message: impl Into<String>) {
        let problem = self.problem(place, message, Level::Error);
        self.left_out.problems.push((place.file, problem));
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

    /// Reports mistakes inside a value, at their positions in the file. Mistakes about removed words are excused.
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
                Level::Error if mistake.is_removed => self.excused(place, message),
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

    /// Excuses the errors of a part if the part is left out, and drops its warnings. `problems` and `errors` are the
    /// numbers of problems and errors before the part.
    pub(super) fn excuse(&mut self, part: Part, problems: usize, errors: usize) {
        if self.left_out.parts.contains(&part) {
            let own = self.problems.split_off(problems.min(self.problems.len()));
            let own = own.into_iter().filter(|(_, problem)| problem.severity == Level::Error);
            self.left_out.problems.extend(own);
            self.errors = errors;
        }
    }

    /// Returns the number of errors and warnings so far.
    pub(super) fn problems(&self) -> usize {
        self.problems.len()
    }

    /// Returns the number of errors so far.
    pub(super) fn errors(&self) -> usize {
        self.errors
    }

    /// Returns all problems, including the errors of the parts that are left out.
    pub(super) fn finish(mut self) -> Vec<Problem> {
        self.problems.append(&mut self.left_out.problems);
        sorted(self.problems)
    }

    /// Returns the warnings about valid files, and the errors of the parts that are left out.
    pub(super) fn finish_valid(self) -> (Vec<Problem>, Vec<Problem>) {
        (sorted(self.problems), sorted(self.left_out.problems))
    }
}

/// Returns problems without duplicates, sorted by file and position. For example, an override of several rules causes
/// the same problem for each rule.
fn sorted(mut problems: Vec<(usize, Problem)>) -> Vec<Problem> {
    problems.sort_by_key(|(file, problem)| (*file, problem.line, problem.column));
    let mut seen = HashSet::new();
    problems.retain(|(file, problem)| seen.insert((*file, problem.line, problem.column, problem.message.clone())));
    problems.into_iter().map(|(_, problem)| problem).collect()
}
