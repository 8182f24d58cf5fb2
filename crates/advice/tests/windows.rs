//! Comparison of windows that are drawn from recordings of real services.
//!
//! `tests/advice/changes` recorded two ASP.NET Core services (`svc`: .NET 10, workstation GC; `asp`: .NET 11, server GC
//! with DATAS) in several versions next to each other. The versions `base` and `again` are equal; `alloc30` allocates
//! 30 % more per request, `keep50` keeps 50 MB more, and `collect` calls `GC.Collect` on every 100th request. Each
//! version ran with two loads, of which the second is twice the first.
//!
//! With the path of other minutes in `GCWATCH_MINUTES`, the tests also print each pair.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and reports its figures"
)]

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use gc_advice::change::{ChangeRecord, DECIDING, Measure, Outcome, compare_profiles};
use gc_advice::configuration::Configuration;
use gc_advice::profile::{Minute, Profile};
use serde::Deserialize;

/// Number of pairs of windows per change.
const PAIRS: usize = 200;
/// Minimum and maximum length of a window, in minutes. A window has at most half of the minutes of its recording.
const LENGTHS: (usize, usize) = (25, 60);

const SERVICES: [&str; 2] = ["svc", "asp"];
const LOADS: [&str; 2] = ["1x", "2x"];
const EQUAL: [(&str, &str); 4] = [
    ("base", "base"),
    ("base", "again"),
    ("again", "base"),
    ("again", "again"),
];

/// The minutes of a service in one version, under one load.
#[derive(Deserialize)]
struct Cell {
    service: String,
    version: String,
    load: String,
    minutes: Vec<Minute>,
}

/// A window of a cell.
#[derive(Clone, Copy)]
struct Window<'c> {
    cell: &'c Cell,
    from: usize,
    length: usize,
}

impl Window<'_> {
    fn profile(self, has_requests: bool) -> Profile {
        let mut profile = Profile::new(&self.cell.service, Configuration::default());
        for minute in &self.cell.minutes[self.from..self.from + self.length] {
            let requests = minute.requests.filter(|_| has_requests);
            profile.push(Minute { requests, ..*minute }).unwrap();
        }
        profile
    }

    /// Returns whether a minute belongs to both windows.
    fn overlaps(self, other: Self) -> bool {
        let is_apart = self.from + self.length <= other.from || other.from + other.length <= self.from;
        std::ptr::eq(self.cell, other.cell) && !is_apart
    }
}

/// Two windows of a service, from before and after a change.
struct Pair<'c> {
    before: Window<'c>,
    after: Window<'c>,
    record: ChangeRecord,
}

impl Pair<'_> {
    fn verdict(&self, measure: Measure) -> Outcome {
        self.record.measure(measure).unwrap().verdict.unwrap()
    }

    fn has_verdict(&self, is: impl Fn(Outcome) -> bool) -> bool {
        DECIDING.iter().any(|measure| is(self.verdict(*measure)))
    }

    fn has_same_load(&self) -> bool {
        self.before.cell.load == self.after.cell.load
    }

    fn print(&self) {
        for measured in self
            .record
            .measures
            .iter()
            .filter(|measured| measured.verdict.is_some())
        {
            let [before, after] = [self.before, self.after].map(|window| {
                let Cell { version, load, .. } = window.cell;
                format!("{version} {load} {}+{}", window.from, window.length)
            });
            println!(
                "pair {} {before} -> {after}: {}",
                self.record.service,
                serde_json::to_string(measured).unwrap()
            );
        }
    }
}

fn given() -> Option<PathBuf> {
    std::env::var_os("GCWATCH_MINUTES").map(PathBuf::from)
}

fn cells() -> Vec<Cell> {
    let recordings = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/recordings");
    let path = given().unwrap_or_else(|| recordings.join("changes.json.gz"));
    serde_json::from_reader(GzDecoder::new(File::open(path).unwrap())).unwrap()
}

fn window<'c>(cell: &'c Cell, random: &mut fastrand::Rng) -> Window<'c> {
    let first = cell.minutes.iter().position(|minute| !minute.is_warm_up()).unwrap();
    let most = LENGTHS.1.min((cell.minutes.len() - first) / 2);
    let length = random.usize(LENGTHS.0..=most);
    let from = random.usize(first..=cell.minutes.len() - length);
    Window { cell, from, length }
}

/// Draws pairs of windows for one of several changes of the version, and compares them. Services, loads and changes
/// take turns. The windows of a pair do not overlap if they belong to the same recording.
fn pairs<'c>(cells: &'c [Cell], changes: &[(&str, &str)], has_requests: bool) -> Vec<Pair<'c>> {
    let mut random = fastrand::Rng::with_seed(66);
    let cell = |service: &str, version: &str, load: &str| {
        let is = |cell: &&Cell| (&*cell.service, &*cell.version, &*cell.load) == (service, version, load);
        cells.iter().find(is).unwrap()
    };
    let mut drawn = |number: usize| {
        let service = SERVICES[number % 2];
        let (old, new) = changes[number / 8 % changes.len()];
        let old = cell(service, old, LOADS[number / 2 % 2]);
        let new = cell(service, new, LOADS[number / 4 % 2]);
        loop {
            let (before, after) = (window(old, &mut random), window(new, &mut random));
            if !before.overlaps(after) {
                let record = compare_profiles(&before.profile(has_requests), &after.profile(has_requests));
                return Pair { before, after, record };
            }
        }
    };
    let pairs: Vec<Pair<'_>> = (0..PAIRS).map(&mut drawn).collect();
    report(&pairs);
    pairs
}

/// Prints the number of pairs with each verdict, by service, load and measure.
fn report(pairs: &[Pair<'_>]) {
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for pair in pairs {
        for measure in DECIDING {
            let load = if pair.has_same_load() {
                "same load"
            } else {
                "other load"
            };
            let (service, version) = (&pair.record.service, &pair.after.cell.version);
            let version = if version == "again" { "base" } else { version };
            let verdict = format!(
                "base -> {version}, {service}, {load}: {measure} {}",
                pair.verdict(measure)
            );
            *counts.entry(verdict).or_default() += 1;
        }
    }
    for (verdict, count) in counts {
        println!("{verdict} {count}");
    }
    if given().is_some() {
        pairs.iter().for_each(Pair::print);
    }
}

/// Scenario: 200 pairs of windows of 25 to 60 minutes are drawn for each change; the load is the same, twice as high,
/// or half as high.
/// Guarantee: in at least 95 % of the pairs, the changed measure is worse.
#[test]
fn change_of_real_service_is_found() {
    let cells = cells();
    let changes = [
        ("alloc30", Measure::Allocated),
        ("keep50", Measure::Live),
        ("collect", Measure::FullCollections),
    ];
    let mut missed = Vec::new();
    for (version, measure) in changes {
        let pairs = pairs(&cells, &[("base", version), ("again", version)], true);
        let found = pairs
            .iter()
            .filter(|pair| pair.verdict(measure) == Outcome::Worse)
            .count();
        println!("{version}: {measure} is worse in {found} of {PAIRS} pairs");
        if found < PAIRS * 19 / 20 {
            missed.push(version);
        }
    }
    assert_eq!(missed, Vec::<&str>::new());
}

/// Scenario: 200 pairs of windows of 25 to 60 minutes are drawn from services without a change; the load is the same,
/// twice as high, or half as high.
/// Guarantee: at most 5 % of the pairs have a verdict other than `same`.
#[test]
fn unchanged_real_service_is_the_same() {
    let cells = cells();
    let pairs = pairs(&cells, &EQUAL, true);
    let count = |is: fn(Outcome) -> bool| pairs.iter().filter(|pair| pair.has_verdict(is)).count();
    let other = count(|outcome| outcome != Outcome::Same);
    let unknown = count(|outcome| outcome == Outcome::Unknown);
    println!("unchanged: {other} of {PAIRS} pairs are not the same, of which {unknown} have an unknown measure");
    assert!(other <= PAIRS / 20, "{other} of {PAIRS}");
}

/// Scenario: as above, but requests are unknown.
/// Guarantee: the live size and the full collections of changed services are worse in at least 95 % of the pairs. At
/// most 5 % of the unchanged pairs with the same load have a verdict other than `same`, and none with another load is
/// better or worse in its allocation.
#[test]
fn services_without_requests_are_compared() {
    let cells = cells();
    for (version, measure) in [("keep50", Measure::Live), ("collect", Measure::FullCollections)] {
        let pairs = pairs(&cells, &[("base", version)], false);
        let found = pairs
            .iter()
            .filter(|pair| pair.verdict(measure) == Outcome::Worse)
            .count();
        println!("{version} without requests: {measure} is worse in {found} of {PAIRS} pairs");
        assert!(found >= PAIRS * 19 / 20, "{version}: {found} of {PAIRS}");
    }
    let pairs = pairs(&cells, &EQUAL, false);
    let (same, other): (Vec<&Pair<'_>>, Vec<&Pair<'_>>) = pairs.iter().partition(|pair| pair.has_same_load());
    let found = same
        .iter()
        .filter(|pair| pair.has_verdict(|outcome| outcome != Outcome::Same))
        .count();
    println!(
        "unchanged without requests: {found} of {} pairs with the same load are not the same",
        same.len()
    );
    assert!(found <= same.len() / 20, "{found} of {}", same.len());
    let is_certain = |pair: &&&Pair<'_>| !matches!(pair.verdict(Measure::Allocated), Outcome::Same | Outcome::Unknown);
    assert_eq!(other.iter().filter(is_certain).count(), 0);
}
