//! Tests of rule files: errors of invalid files, the loaded form of valid files, the commands, and the files generated
//! from the types.
//!
//! `tests/rules/errors.txt` contains invalid files and their errors. After an intended change, run with
//! `GCWATCH_UPDATE_GOLDEN=1` and read the difference; the same run writes `docs/rules-reference.md` and the schemas in
//! `rules/`.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use gc_telemetry::definition::{ValueKind, resource};
use rule_language::compile::{Access, RESOURCE_ATTRIBUTES};
use rule_language::document::schema;
use rule_language::load::{LoadedRules, Problem, SourceFile, load, shipped};
use rule_language::page;
use rule_language::test_file::schema_text;
use test_support::golden;

mod commands;
mod loaded;
mod texts;

/// Returns the example file of the tests.
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

/// Loads files that must have no errors and no warnings.
fn fine(files: &[SourceFile]) -> LoadedRules {
    let loaded = load(files).unwrap_or_else(|problems| panic!("{}", lines(&problems)));
    assert_eq!(lines(&loaded.left_out) + &lines(&loaded.warnings), "");
    loaded
}

/// Scenario: files contain every kind of mistake.
/// Guarantee: all mistakes of a file are reported at once and sorted by line, with the committed texts, which contain
/// position and remedy.
#[test]
fn errors_have_committed_texts() {
    let name = "tests/rules/errors.txt";
    let committed = fs::read_to_string(root().join(name)).unwrap();
    let mut report = String::new();
    let mut cases = 0;
    for case in committed.split("=== ").skip(1) {
        let (title, rest) = case.split_once('\n').unwrap();
        let (text, _) = rest.split_once("--- ").unwrap();
        let problems = match load(&[file("rules.yaml", text)]) {
            Ok(loaded) => {
                let is_valid = title.starts_with("odd") || !loaded.left_out.is_empty();
                assert!(is_valid, "an invalid file is rejected: {title}");
                let mut problems = [loaded.left_out, loaded.warnings].concat();
                problems.sort_by_key(|problem| (problem.line, problem.column));
                problems
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

/// Scenario: the reference page and the schemas are generated.
/// Guarantee: the committed files match the types, the tables and the shipped rules.
#[test]
fn page_and_schema_are_current() {
    golden::compare("rules/gcwatch-rules.schema.json", &schema::text());
    golden::compare("rules/gcwatch-rules-test.schema.json", &schema_text());
    golden::compare("docs/rules-reference.md", &page::text());
}

/// Scenario: the resource attributes that rules can read are compared with the attributes that gcwatch sets.
/// Guarantee: both lists are equal, and the attributes that rules read by their names in brackets are exactly the
/// attributes with string values.
#[test]
fn resource_attributes_are_known_to_rules() {
    let own = |name: &str| name.starts_with("dotnet.") || name.starts_with("gcwatch.");
    let rows = resource::ALL.iter().map(|row| row.attribute);
    let defined: Vec<(&str, bool)> = rows
        .filter(|attribute| !own(attribute.name))
        .map(|attribute| (attribute.name, attribute.kind == ValueKind::Text))
        .collect();
    let known = RESOURCE_ATTRIBUTES.map(|(name, access)| (name, access == Access::Brackets));
    assert_eq!(known.to_vec(), defined);
}

/// Scenario: the shipped rules are compared with the files in `rules/`.
/// Guarantee: every rule file is shipped, and all files load without a warning.
#[test]
fn shipped_rules_match_folder() {
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
    assert_eq!(names, files, "src/rules/load/shipped.rs lists the files in rules/");
    fine(&shipped);
}

/// Scenario: the README states the number of rules.
/// Guarantee: this number of rules is shipped.
#[test]
fn readme_states_number_of_rules() {
    let rules = load(&shipped()).unwrap().rules.rules.len();
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    assert!(readme.contains(&format!("{rules} rules in YAML")), "{rules} ship");
}
