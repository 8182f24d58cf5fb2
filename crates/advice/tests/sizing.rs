//! The facts about memory of recordings of real runtimes: from their collections, and from their minutes.
//!
//! Recordings are shorter than a block, so each is repeated in every minute of ten.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints its figures"
)]

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use clr_gc::gc::{Collection, LIVE_SETTLE_NS, Outcome, ReportTiming};
use clr_gc::stream::{GcStream, Scope};
use flate2::read::GzDecoder;
use gc_advice::basis::SizingBasis;
use gc_advice::configuration::Configuration;
use gc_advice::observation::Observation;
use gc_advice::profile::{BLOCK_MINUTES, LeftOut, Profile, combine, minutes};

const MINUTE_NS: i64 = 60_000_000_000;
const MINUTES: i64 = 10;

/// A fact of a basis.
type Fact = fn(&SizingBasis) -> Option<f64>;

const RATES: [(&str, Fact); 5] = [
    ("promotion", |basis| basis.promotion),
    ("large objects", |basis| basis.large),
    ("stopped share", |basis| basis.stopped_share),
    ("full", |basis| basis.full_per_minute),
    ("full below the limit", |basis| basis.full_below_limit),
];

fn recordings() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/recordings");
    let paths = folder.read_dir().unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> = paths
        .filter(|path| path.to_str().unwrap().ends_with(".nettrace.gz"))
        .collect();
    paths.sort();
    paths
}

/// Returns the complete collections of a recording of one process without lost events, in the order of their starts.
fn collections(path: &Path) -> Vec<Collection> {
    let mut bytes = Vec::new();
    GzDecoder::new(File::open(path).unwrap())
        .read_to_end(&mut bytes)
        .unwrap();
    let mut stream = GcStream::new(Scope::Collections, ReportTiming::After(LIVE_SETTLE_NS));
    stream.push(&bytes);
    stream.finish();
    let is_read = stream.advance(|_| ()).is_ok();
    stream.end();
    let mut found = Vec::new();
    while let Some((_, outcome)) = stream.next_outcome() {
        if let Outcome::Collection(collection) = outcome {
            found.push(*collection);
        }
    }
    let is_whole = |one: &Collection| one.start.is_some() && one.end.is_some() && one.pause_ns.is_some();
    found.retain(|one| is_whole(one) && one.requested_by_tool != Some(true));
    found.sort_by_key(|one| one.start);
    if !is_read || found.iter().any(|one| one.lossy) {
        Vec::new()
    } else {
        found
    }
}

/// Repeats collections in every minute of ten, or in every second one if the recording is longer than a minute.
fn repeated(collections: &[Collection]) -> Vec<Collection> {
    let first = collections.iter().filter_map(|one| one.start).min().unwrap();
    let length = collections.iter().filter_map(|one| one.end).max().unwrap() - first;
    let repeat = |base: i64| {
        collections.iter().cloned().map(move |mut one| {
            one.start = one.start.map(|at| at - first + base);
            one.end = one.end.map(|at| at - first + base);
            one
        })
    };
    let step = (length / MINUTE_NS + 1) * MINUTE_NS;
    let all = (0..MINUTES * MINUTE_NS)
        .step_by(usize::try_from(step).unwrap())
        .flat_map(repeat);
    let mut all: Vec<Collection> = all.filter(|one| one.start.unwrap() < MINUTES * MINUTE_NS).collect();
    all.sort_by_key(|one| one.start);
    all
}

/// Scenario: recordings of real runtimes with workstation and server GC are repeated for ten minutes. The facts come
/// from all collections, and from two blocks of five minutes.
/// Guarantee: the numbers of collections, the live size and the committed memory are equal. The promoted bytes, the
/// large objects, the stopped share and the rates of full collections are within 0.1 %. The 95th percentile of the
/// bytes before young collections is at most 4.5 % lower and at most 5 % higher, and their median is within 5 %.
#[test]
fn minutes_have_facts_of_collections() {
    let mut compared = 0;
    for path in recordings() {
        let name = path.file_name().unwrap().to_str().unwrap();
        let collections = collections(&path);
        if collections.len() < 20 {
            continue;
        }
        let all = repeated(&collections);
        let length = MINUTES * MINUTE_NS;
        let observed = Observation::from_collections(&all, &[], length, Some(0));
        let exact = SizingBasis::from_observation(&observed);
        if observed.damaged > 0 || observed.young.len() < 100 {
            continue;
        }
        let blocks = minutes(&all, &[], length, 0, Some(3_600));
        let blocks = blocks.chunks(BLOCK_MINUTES).filter_map(combine);
        let profile = Profile::from_blocks("shop", Configuration::default(), blocks, (LeftOut::default(), None));
        let found = SizingBasis::from_profile(&profile);
        let young = found.young.unwrap() / exact.young.unwrap();
        let high = found.young_high.unwrap() / exact.young_high.unwrap();
        println!("{name}: {:?}, median {young:.3}, high {high:.3}", exact.window);
        assert_eq!(found.window, exact.window, "{name}");
        assert_eq!((found.live, found.committed), (exact.live, exact.committed), "{name}");
        for (what, of) in RATES {
            match (of(&found), of(&exact)) {
                (Some(found), Some(exact)) => {
                    assert!(
                        (found - exact).abs() <= 0.001 * exact.max(1e-6),
                        "{name}: {what} {found} for {exact}"
                    );
                }
                (found, exact) => assert_eq!(found, exact, "{name}: {what}"),
            }
        }
        assert!((0.95..=1.05).contains(&young), "{name}: {young}");
        assert!((0.955..=1.05).contains(&high), "{name}: {high}");
        compared += 1;
    }
    assert!(compared >= 20, "{compared} recordings");
}
