//! The committed workload is the one whose source is beside it.

use sha2::{Digest, Sha256};
use test_support::add_tests;
use test_support::harness::Tests;

pub(crate) fn tests(tests: &mut Tests) {
    add_tests!(tests, || Ok(()); the_program_is_built_from_its_source);
}

/// Scenario: Workload.cs, Cases.cs or workload.dll was changed without the others.
/// Guarantee: it is seen: all have the digests that the build wrote.
fn the_program_is_built_from_its_source() {
    let folder = test_support::repository("tests/workload");
    let digests = std::fs::read_to_string(folder.join("digests.sha256")).unwrap();
    assert_eq!(digests.lines().count(), 3);
    for line in digests.lines() {
        let (digest, name) = line.split_once("  ").unwrap();
        let found = Sha256::digest(std::fs::read(folder.join(name)).unwrap());
        let found: String = found.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            found, digest,
            "{name}: run tests/workload/build and commit what it writes"
        );
    }
}
