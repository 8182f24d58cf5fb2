//! Reads test files. Reports all errors at once, and provides the positions of tests.

use std::sync::{Arc, LazyLock};

use serde_json::Value;
use strict_yaml::check::Schema;
use strict_yaml::formats::DURATION;
use strict_yaml::path::KeyPath;
use strict_yaml::schema::{file_text, for_document};
use strict_yaml::yaml::{self, Bounds, Node, Position};

use super::document::TestDocument;
use crate::load::{Level, Problem, entry, items_of};

/// The version of the format.
const VERSION: &str = "gcwatch/v1";

/// A parsed test file.
#[derive(Debug, Clone)]
pub struct TestFile {
    /// Name of the file in messages.
    pub name: Arc<str>,
    /// Contents of the file.
    pub document: TestDocument,
    root: Node,
}

/// The schema, generated once.
static SCHEMA: LazyLock<Value> = LazyLock::new(for_document::<TestDocument>);

/// Returns the text of `rules/gcwatch-rules-test.schema.json`, for editors.
pub fn schema_text() -> String {
    file_text(&SCHEMA)
}

impl TestFile {
    /// Reads the text of a test file.
    ///
    /// # Errors
    ///
    /// Returns all errors in the order of the file; never empty.
    pub fn read(name: &str, text: &str) -> Result<Self, Vec<Problem>> {
        let name: Arc<str> = name.into();
        let problem = |at: Position, message: String| problem(&name, at, message);
        let root = match yaml::parse(text, Bounds::default()) {
            Ok(Some(root)) => root,
            Ok(None) => return Err(vec![problem(Position::START, "the file is empty".to_owned())]),
            Err(faults) => {
                let problems = faults.into_iter().map(|fault| problem(fault.at, fault.message));
                return Err(problems.collect());
            }
        };
        let (value, findings) = Schema::new(&SCHEMA, &[DURATION]).check(&root, &KeyPath::default());
        if !findings.is_empty() {
            let problems = findings.into_iter().map(|finding| {
                let (path, fault) = (&finding.path, finding.fault);
                let message = match path.steps() {
                    [] => fault.message,
                    _ => format!("{path}: {}", fault.message),
                };
                problem(fault.at, message)
            });
            return Err(problems.collect());
        }
        // This error is unexpected, because the types accept everything that the check accepts.
        let document: TestDocument = serde_json::from_value(value.unwrap_or_default())
            .map_err(|error| vec![problem(root.at, format!("the file is inconsistent: {error}"))])?;
        let file = Self { name, document, root };
        let problems = file.inconsistencies();
        if problems.is_empty() { Ok(file) } else { Err(problems) }
    }

    /// Returns errors that the schema cannot detect.
    fn inconsistencies(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        if self.document.api_version != VERSION {
            let message = format!(
                "apiVersion: `{}` is not supported; write `{VERSION}`",
                self.document.api_version
            );
            problems.push(self.problem(self.place("apiVersion"), message));
        }
        if self.document.tests.is_empty() {
            problems.push(self.problem(self.place("tests"), "there is no test".to_owned()));
        }
        for (place, test) in self.document.tests.iter().enumerate() {
            let at = self.place_of_test(place);
            if test.recording.is_some() && test.start.is_some() {
                problems.push(self.problem(at, "start: a recording has its own time".to_owned()));
            }
            if test.recording.is_none() && test.events.is_empty() && test.until.is_none() {
                problems.push(self.problem(at, "a test requires events or a recording".to_owned()));
            }
            if test.expect.is_empty() && test.fires.is_none() {
                let message = "the test has no expectation; `fires: []` asserts that no rule fires".to_owned();
                problems.push(self.problem(at, message));
            }
        }
        problems
    }

    /// Creates a problem in this file.
    pub fn problem(&self, at: Position, message: String) -> Problem {
        problem(&self.name, at, message)
    }

    /// Returns the position of a test.
    pub fn place_of_test(&self, test: usize) -> Position {
        self.node(test).map_or(self.root.at, |node| node.at)
    }

    /// Returns the position of an expectation.
    pub fn place_of_expectation(&self, test: usize, expectation: usize) -> Position {
        let expectations = self.node(test).map(|test| items_of(test, "expect"));
        let place = expectations.and_then(|expectations| Some(expectations.get(expectation)?.at));
        place.unwrap_or_else(|| self.place_of_test(test))
    }

    fn node(&self, test: usize) -> Option<&Node> {
        items_of(&self.root, "tests").get(test)
    }

    fn place(&self, key: &str) -> Position {
        entry(&self.root, key).map_or(self.root.at, |entry| entry.value.at)
    }
}

fn problem(file: &Arc<str>, at: Position, message: String) -> Problem {
    Problem {
        file: Arc::clone(file),
        line: at.line,
        column: at.column,
        message,
        severity: Level::Error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strict_yaml::check::unknown_keywords;

    /// Scenario: `schemars` generates the schema.
    /// Guarantee: the check of a file supports all keywords of the schema.
    #[test]
    fn check_supports_all_schema_keywords() {
        assert_eq!(unknown_keywords(&SCHEMA, &[DURATION]), Vec::<String>::new());
    }

    /// Scenario: test files have an unknown key, no tests, a test without expectations, another version, or no content.
    /// Guarantee: each file is refused, and each error has its position in the file.
    #[test]
    fn errors_have_their_position() {
        let errors = |text: &str| {
            let problems = TestFile::read("a.test.yaml", text).unwrap_err();
            problems.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let head = "apiVersion: gcwatch/v1\nrule_files: [a.yaml]\n";
        assert_eq!(errors(""), ["a.test.yaml:1:1: the file is empty"]);
        assert_eq!(
            errors(&format!("{head}tests: []\n")),
            ["a.test.yaml:3:8: there is no test"]
        );
        assert_eq!(
            errors(&format!("{head}tests:\n  - name: x\n    event: []\n    fires: []\n")),
            ["a.test.yaml:5:5: tests[0]: unknown key `event`; did you mean `events`?"]
        );
        assert_eq!(
            errors(&format!("{head}tests:\n  - name: x\n    until: 1m\n")),
            ["a.test.yaml:4:5: the test has no expectation; `fires: []` asserts that no rule fires"]
        );
        assert_eq!(
            errors("apiVersion: gcwatch/v2\nrule_files: []\ntests:\n  - {name: x, until: 1m, fires: []}\n"),
            ["a.test.yaml:1:13: apiVersion: `gcwatch/v2` is not supported; write `gcwatch/v1`"]
        );
    }
}
