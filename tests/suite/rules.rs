//! Rule files: what is said of wrong ones, what becomes of right ones, the commands, and the files made from the types.
//!
//! `tests/rules/errors.txt` has invalid files with their errors. After an intended change, run with
//! `GCWATCH_UPDATE_GOLDEN=1` and read the difference; the same writes `docs/rules-reference.md`
//! and the schemas in `rules/`.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use gc_telemetry::definition::{ValueKind, resource};
use rule_language::compile::{Access, RESOURCE_ATTRIBUTES};
use rule_language::document::schema;
use rule_language::load::{Loaded, Problem, SourceFile, load, shipped};
use rule_language::page;
use rule_language::test_file::schema_text;
use test_support::golden;

mod commands;
mod loaded;
mod texts;

/// A file in the tests' folder.
fn example() -> String {
    fs::read_to_string(root().join("tests/rules/example.yaml")).unwrap()
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn file(name: &str, text: impl Into<String>) -> SourceFile {
    SourceFile::new(name, text)
}

fn lines(problems: &[Problem]) -> String {
    problems.iter().fold(String::new(), |mut out, problem| {
        writeln!(out, "{problem}").unwrap();
        out
    })
}

/// Loads files that are right, and not even odd.
fn fine(files: &[SourceFile]) -> Loaded {
    let loaded = load(files).unwrap_or_else(|problems| panic!("{}", lines(&problems)));
    assert_eq!(lines(&loaded.warnings), "");
    loaded
}

/// Scenario: files with every kind of mistake.
/// Guarantee: all mistakes of a file are said at once, by line, each with its place and with what to do, in the
/// committed words.
#[test]
fn errors_are_reported_in_the_committed_words() {
    let name = "tests/rules/errors.txt";
    let committed = fs::read_to_string(root().join(name)).unwrap();
    let mut report = String::new();
    let mut cases = 0;
    for case in committed.split("=== ").skip(1) {
        let (title, rest) = case.split_once('\n').unwrap();
        let (text, _) = rest.split_once("--- ").unwrap();
        let problems = match load(&[file("rules.yaml", text)]) {
            Ok(loaded) => {
                assert!(title.starts_with("odd"), "a wrong file was taken: {title}");
                loaded.warnings
            }
            Err(problems) => problems,
        };
        let places: Vec<(usize, usize)> = problems.iter().map(|problem| (problem.line, problem.column)).collect();
        assert!(places.is_sorted() && !places.is_empty(), "{title}: {places:?}");
        write!(report, "=== {title}\n{text}--- reports\n{}\n", lines(&problems)).unwrap();
        cases += 1;
    }
    assert!(cases >= 22, "cases are missing");
    golden::compare(name, &report);
}

/// Scenario: the reference page and the schemas.
/// Guarantee: the committed files are what the types, the tables and the shipped rules say.
#[test]
fn page_and_schema_are_current() {
    golden::compare("rules/gcwatch-rules.schema.json", &schema::text());
    golden::compare("rules/gcwatch-rules-test.schema.json", &schema_text());
    golden::compare("docs/rules-reference.md", &page::text());
}

/// Scenario: the attributes of the resource that rules know, and those that gcwatch sets.
/// Guarantee: they are the same, and strings are read by their names in brackets, others are not.
#[test]
fn rules_know_the_attributes_of_the_resource() {
    let own = |name: &str| name.starts_with("dotnet.") || name.starts_with("gcwatch.");
    let rows = resource::ALL.iter().map(|row| row.attribute);
    let defined: Vec<(&str, bool)> = rows
        .filter(|attribute| !own(attribute.name))
        .map(|attribute| (attribute.name, attribute.kind == ValueKind::Text))
        .collect();
    let known = RESOURCE_ATTRIBUTES.map(|(name, access)| (name, access == Access::Brackets));
    assert_eq!(known.to_vec(), defined);
}

/// Scenario: the rules that ship, and the files in `rules/`.
/// Guarantee: each file of rules is among those that ship, and they load without a word.
#[test]
fn the_rules_that_ship_are_those_in_the_folder() {
    let shipped = shipped();
    let mut names: Vec<&str> = shipped.iter().map(|file| file.name.as_str()).collect();
    names.sort_unstable();
    let mut files: Vec<String> = fs::read_dir(root().join("rules"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| Path::new(name).extension().is_some_and(|extension| extension == "yaml"))
        .filter(|name| !name.ends_with(".test.yaml"))
        .map(|name| format!("rules/{name}"))
        .collect();
    files.sort();
    assert_eq!(
        names, files,
        "src/rules/load/shipped.rs lists others than there are in rules/"
    );
    fine(&shipped);
}

/// Scenario: the number of rules that the README names.
/// Guarantee: so many ship.
#[test]
fn the_readme_counts_the_rules() {
    let rules = load(&shipped()).unwrap().rules.rules.len();
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    assert!(readme.contains(&format!("{rules} rules in YAML")), "{rules} ship");
}
