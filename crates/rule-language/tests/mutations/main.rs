//! Mutation test of the shipped rules: makes small changes to the YAML files, and checks whether the tests of the rules
//! detect the changes.
//!
//! A threshold without a test can be changed unnoticed. This test changes each numeric literal in a condition by 30 %
//! in both directions, and removes each operand of `&&` and `||` and each `clear`. After each change, the tests of the
//! rule's family run. If none of them fails, the change survives and is listed.
//!
//! ```text
//! just mutate            all families
//! just mutate memory     one family
//! ```
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints the surviving mutations"
)]

mod change;
mod expression;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::{env, fs, thread};

use change::{ChangedFile, changes};
use rule_engine::rule_set::RuleSet;
use rule_language::load::{SourceFile, load};
use rule_language::test_file::document::Test;
use rule_language::test_file::{TestFile, run};

/// Minimum share of changes that the tests of a family detect.
const MIN_DETECTED_SHARE: f64 = 0.9;

/// The outcome of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// A test fails.
    Detected,
    /// All tests pass.
    Survived,
    /// The changed file does not load, so the change does not count.
    Refused,
}

/// A family of rules and the tests of the family.
struct Family {
    name: String,
    rules: String,
    tests: TestFile,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../rules")
}

/// Returns all families, or only the family that `GCWATCH_MUTATE` names.
fn families() -> Vec<Family> {
    let wanted = env::var("GCWATCH_MUTATE").ok().filter(|name| !name.is_empty());
    let mut families = Vec::new();
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        let file = path.file_name().unwrap().to_str().unwrap().to_owned();
        let Some(name) = file.strip_suffix(".test.yaml") else {
            continue;
        };
        if wanted.as_deref().is_some_and(|wanted| wanted != name) {
            continue;
        }
        let tests = TestFile::read(&file, &fs::read_to_string(&path).unwrap()).unwrap();
        let rules = fs::read_to_string(folder().join(format!("{name}.yaml"))).unwrap();
        families.push(Family {
            name: name.to_owned(),
            rules,
            tests,
        });
    }
    assert!(!families.is_empty(), "GCWATCH_MUTATE names a family in rules/");
    families.sort_by(|one, other| one.name.cmp(&other.name));
    families
}

/// Loads the rule set of a family, with `text` instead of the contents of the family's own file. Returns `None` if a
/// file is invalid.
fn rules(family: &Family, text: &str) -> Option<Arc<RuleSet>> {
    let own = format!("{}.yaml", family.name);
    let files = family.tests.document.rule_files.iter();
    let files: Vec<SourceFile> = files
        .map(|name| match *name == own {
            true => SourceFile::new(name, text),
            false => SourceFile::new(name, fs::read_to_string(folder().join(name)).unwrap()),
        })
        .collect();
    load(&files).ok().map(|loaded| Arc::new(loaded.rules))
}

/// Returns the outcome of a change. Runs the family's tests until a test fails, starting with the tests that name the
/// changed rule. Tests on recordings do not run.
fn fate(family: &Family, text: &str, rule: Option<&str>) -> Fate {
    let Some(rules) = rules(family, text) else {
        return Fate::Refused;
    };
    let names = |test: &&Test| {
        let mut states = test.expect.iter();
        rule.is_some_and(|rule| states.any(|state| state.rule == rule))
    };
    let tests = family.tests.document.tests.iter();
    let tests = tests.filter(|test| test.recording.is_none());
    let (first, later) = tests.partition::<Vec<_>, _>(names);
    let mut all = first.into_iter().chain(later);
    if all.any(|test| !run(test, &rules, None).is_empty()) {
        Fate::Detected
    } else {
        Fate::Survived
    }
}

/// Scenario: every numeric literal in the conditions of the shipped rules is changed by 30 % in both directions, and
/// every operand of `&&` and `||` and every `clear` is removed, one change at a time.
/// Guarantee: the tests of each family detect at least 90 % of the changes after which the file still loads.
#[test]
#[ignore = "the test takes minutes; run `just mutate`"]
fn changes_of_shipped_rules_are_detected() {
    let families = families();
    let work: Vec<(&Family, ChangedFile)> = families
        .iter()
        .flat_map(|family| changes(&family.rules).into_iter().map(move |changed| (family, changed)))
        .collect();
    for family in &families {
        assert_eq!(
            fate(family, &change::unchanged(&family.rules), None),
            Fate::Survived,
            "{}: the tests of the family pass without a change",
            family.name
        );
    }
    let next = AtomicUsize::new(0);
    let fates: Mutex<Vec<(usize, Fate)>> = Mutex::default();
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    let Some((family, changed)) = work.get(place) else {
                        break;
                    };
                    let fate = fate(family, &changed.text, changed.rule.as_deref());
                    fates.lock().unwrap().push((place, fate));
                }
            });
        }
    });
    let mut fates = fates.into_inner().unwrap();
    fates.sort_by_key(|(place, _)| *place);
    let mut tally: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for (place, fate) in fates {
        let (family, changed) = &work[place];
        let (noticed, all) = tally.entry(&family.name).or_default();
        match fate {
            Fate::Refused => {}
            Fate::Detected => {
                *noticed += 1;
                *all += 1;
            }
            Fate::Survived => {
                *all += 1;
                println!("survived: {}: {}", family.name, changed.what);
            }
        }
    }
    let mut weak = Vec::new();
    let (mut noticed, mut all) = (0, 0);
    for (family, (of_family, changes)) in &tally {
        println!(
            "{family}: {of_family} of {changes} changes detected ({:.1} %)",
            share(*of_family, *changes) * 100.0
        );
        noticed += of_family;
        all += changes;
        if share(*of_family, *changes) < MIN_DETECTED_SHARE {
            weak.push(*family);
        }
    }
    println!(
        "all: {noticed} of {all} changes detected ({:.1} %)",
        share(noticed, all) * 100.0
    );
    assert!(
        weak.is_empty(),
        "the tests detect too few changes in {}",
        weak.join(", ")
    );
}

#[expect(clippy::cast_precision_loss, reason = "there are at most thousands of changes")]
fn share(noticed: usize, all: usize) -> f64 {
    noticed as f64 / all as f64
}
