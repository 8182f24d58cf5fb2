//! Checks whether the committed programs were built from the committed sources.

use sha2::{Digest, Sha256};
use test_support::add_tests;
use test_support::harness::Tests;

pub(crate) fn tests(tests: &mut Tests) {
    add_tests!(tests, || Ok(()); program_matches_its_source, known_programs_match_their_sources);
}

/// Scenario: Workload.cs, Cases.cs or workload.dll is changed without the other files.
/// Guarantee: the test detects the change, because a digest differs from the digest that the build wrote.
fn program_matches_its_source() {
    assert_digests(
        "tests/workload",
        3,
        "run tests/workload/build and commit what it writes",
    );
}

/// Scenario: a program in tests/workload/known, built by the compiler of a .NET SDK (jobs.dll by
/// tests/workload/build-jobs; layers.dll and its library by tests/workload/build-layers), or its source is changed
/// without the other file.
/// Guarantee: the test detects the change, because a digest differs from the committed digest.
fn known_programs_match_their_sources() {
    assert_digests(
        "tests/workload/known",
        26,
        "build it from its source, and write digests.sha256",
    );
}

fn assert_digests(folder: &str, files: usize, remedy: &str) {
    let folder = test_support::repository(folder);
    let digests = std::fs::read_to_string(folder.join("digests.sha256")).unwrap();
    assert_eq!(digests.lines().count(), files);
    for line in digests.lines() {
        let (digest, name) = line.split_once("  ").unwrap();
        let found = Sha256::digest(std::fs::read(folder.join(name)).unwrap());
        let found: String = found.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(found, digest, "{name}: {remedy}");
    }
}
