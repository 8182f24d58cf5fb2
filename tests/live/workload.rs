//! The committed programs are those whose sources are beside them.

use sha2::{Digest, Sha256};
use test_support::add_tests;
use test_support::harness::Tests;

pub(crate) fn tests(tests: &mut Tests) {
    add_tests!(tests, || Ok(()); the_program_is_built_from_its_source, known_programs_have_their_sources);
}

/// Scenario: Workload.cs, Cases.cs or workload.dll was changed without the others.
/// Guarantee: it is seen: all have the digests that the build wrote.
fn the_program_is_built_from_its_source() {
    assert_digests(
        "tests/workload",
        3,
        "run tests/workload/build and commit what it writes",
    );
}

/// Scenario: a program of tests/workload/known, which the compiler of a .NET SDK has built (jobs.dll:
/// tests/workload/build-jobs; layers.dll and its library: tests/workload/build-layers), or its source was changed
/// without the other.
/// Guarantee: it is seen.
fn known_programs_have_their_sources() {
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
