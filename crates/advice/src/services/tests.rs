use super::*;
use crate::change::{Measure, Outcome};

/// A version of a service that yields minutes with noise.
#[derive(Clone, Copy)]
struct Version {
    name: &'static str,
    /// Requests per second.
    load: f64,
    /// Allocated bytes per request.
    allocation: f64,
    /// Live bytes.
    live: f64,
    /// Full collections that the program requests, per 1,000 requests.
    collects: f64,
}

const ONE: Version = Version {
    name: "1",
    load: 1_000.0,
    allocation: 100_000.0,
    live: 100e6,
    collects: 0.0,
};

/// A service with the state machine that observes it.
struct Host {
    services: Services,
    random: fastrand::Rng,
    at: u64,
    verdicts: Vec<ChangeRecord>,
}

impl Host {
    fn new() -> Self {
        Self {
            services: Services::default(),
            random: fastrand::Rng::with_seed(5),
            at: 1_000,
            verdicts: Vec::new(),
        }
    }

    /// Returns the next minute of a process of this age in minutes.
    fn minute(&mut self, version: Version, age: u64) -> Minute {
        let mut noise = |sigma: f64| 1.0 + sigma * ((0..12).map(|_| self.random.f64()).sum::<f64>() - 6.0);
        let requests = 60.0 * version.load * noise(0.02);
        let allocated = requests * version.allocation * noise(0.01);
        let young = allocated / 64e6;
        let full = (allocated / 3e9 + version.collects * requests / 1_000.0 + noise(0.3) - 1.0)
            .round()
            .max(0.0);
        let pause = 2e6 * noise(0.05);
        let live = version.live * noise(0.005);
        Minute {
            at: self.at,
            observed_ns: 60_000_000_000,
            age_s: Some(age * 60),
            collections: (young + full) as u64,
            allocated: Some(allocated as u64),
            requests: Some(requests as u64),
            stopped_ns: Some((young * pause + full * live * 0.5) as u64),
            median_pause_ns: Some(pause as u64),
            full: full as u64,
            live: (full >= 1.0).then_some(live as u64),
            resident: Some((live * 1.5) as u64),
            ..Minute::default()
        }
    }

    fn hand(&mut self, service: &str, version: Version, minute: Minute) {
        let input = Input::Minute(Box::new(ProcessMinute {
            service: service.to_owned(),
            name: "shop".to_owned(),
            configuration: Configuration {
                version: Some(version.name.to_owned()),
                ..Configuration::default()
            },
            minute,
        }));
        if let Some(output) = self.services.step(Wall::UNIX, input) {
            let Output::Compare(comparison) = output else {
                panic!("a minute has no verdict")
            };
            let verdicts = self
                .services
                .step(Wall::UNIX, Input::Compared(Box::new(comparison.run())));
            self.verdicts.extend(verdicts.into_iter().map(|output| match output {
                Output::Verdict(record) => *record,
                Output::Compare(_) => panic!("a comparison causes no comparison"),
            }));
        }
    }

    /// Runs a new process of a version for some minutes.
    fn run(&mut self, version: Version, minutes: u64) {
        self.run_aged(version, 0, minutes);
    }

    /// Runs a process that is `age` minutes old for some minutes.
    fn run_aged(&mut self, version: Version, age: u64, minutes: u64) {
        for passed in 0..minutes {
            let minute = self.minute(version, age + passed);
            self.hand("shop", version, minute);
            self.at += 1;
        }
    }

    fn record(&self) -> ChangeRecord {
        self.services
            .records(Wall::UNIX, Some("shop"))
            .into_iter()
            .next()
            .unwrap()
    }

    fn outcome(&self, measure: Measure) -> Outcome {
        self.record().measure(measure).unwrap().verdict.unwrap()
    }
}

/// Minutes of a process until its fifth block is complete: warm-up, blocks, and one more minute.
const FIVE_BLOCKS: u64 = 5 + 25 + 1;

/// Scenario: the second version of a service allocates 30 % more per request, keeps 50 MB more, requests full
/// collections, or changes nothing; its load is the same or twice as high.
/// Guarantee: the changed measure is worse, and each change has one verdict. Every measure of the unchanged version is
/// the same, at both loads.
#[test]
fn changed_version_is_found() {
    let two = Version { name: "2", ..ONE };
    let cases = [
        (
            Version {
                allocation: 130_000.0,
                ..two
            },
            Some(Measure::Allocated),
        ),
        (Version { live: 150e6, ..two }, Some(Measure::Live)),
        (Version { collects: 0.05, ..two }, Some(Measure::FullCollections)),
        (two, None),
    ];
    for load in [1.0, 2.0] {
        for (version, worse) in cases {
            let mut host = Host::new();
            host.run(ONE, FIVE_BLOCKS);
            host.run(
                Version {
                    load: ONE.load * load,
                    ..version
                },
                FIVE_BLOCKS,
            );
            let record = host.record();
            let [verdict] = host.verdicts.as_slice() else {
                panic!("{} verdicts", host.verdicts.len())
            };
            assert_eq!(*verdict, record);
            assert_eq!(record.differences[0].after, "2");
            assert_eq!((record.before_side.blocks, record.after_side.blocks), (5, 5));
            match worse {
                Some(measure) => assert_eq!(host.outcome(measure), Outcome::Worse, "{measure} at {load}"),
                None => assert!(
                    record.outcomes().all(|(_, outcome)| outcome == Outcome::Same),
                    "{}",
                    record.summary()
                ),
            }
        }
    }
}

/// Scenario: a version runs, and then another version for one minute, for 20 minutes and for two hours.
/// Guarantee: the first minute has a record whose verdicts are `unknown` with the minutes left, which decrease; the
/// warm-up is left out; verdicts exist after 31 minutes; the record is compared again after one and two hours, and then
/// stays.
#[test]
fn record_counts_down_to_its_verdict() {
    let two = Version {
        name: "2",
        live: 150e6,
        ..ONE
    };
    let mut host = Host::new();
    host.run(ONE, FIVE_BLOCKS);
    assert!(host.services.records(Wall::UNIX, None).is_empty());
    let change = host.at;
    host.run(two, 1);
    let record = host.record();
    assert_eq!(record.minutes_left, Some(25 + 4));
    assert_eq!(record.at.as_deref(), rfc3339(change * 60_000_000_000).as_deref());
    assert!(!record.has_verdict() && record.outcomes().count() == 5);
    let id = record.id.unwrap();
    host.run_aged(two, 1, 19);
    assert_eq!(host.record().minutes_left, Some(25 - 15));
    host.run_aged(two, 20, 10);
    assert_eq!((host.record().minutes_left, host.verdicts.len()), (Some(1), 0));
    host.run_aged(two, 30, 1);
    assert_eq!(
        (host.record().minutes_left, host.record().after_side.warm_up_minutes),
        (None, 5)
    );
    assert_eq!(host.outcome(Measure::Live), Outcome::Worse);
    host.run_aged(two, 31, 120);
    let record = host.record();
    assert_eq!((record.after_side.blocks, record.id.as_deref()), (24, Some(&*id)));
    host.run_aged(two, 151, 600);
    assert_eq!(host.record(), record);
    assert_eq!(host.services.counts().changes, 1);
}

/// Scenario: events are lost in one minute of each block after the change; the side before the change has three
/// blocks.
/// Guarantee: in the first case no block is complete, the minutes left do not decrease, and the damaged minutes are
/// counted; in the second case the verdict is unknown, with the reason, and waiting does not help.
#[test]
fn missing_data_is_unknown() {
    let two = Version { name: "2", ..ONE };
    let mut host = Host::new();
    host.run(ONE, FIVE_BLOCKS);
    for age in 0..100 {
        let minute = Minute {
            lossy: age % 4 == 0,
            ..host.minute(two, age)
        };
        host.hand("shop", two, minute);
        host.at += 1;
    }
    let record = host.record();
    assert!(!record.has_verdict());
    assert_eq!(record.after_side.blocks, 0);
    assert!(record.after_side.damaged_minutes >= 23, "{:?}", record.after_side);
    assert!(record.minutes_left.is_some_and(|left| left >= 22));

    let mut host = Host::new();
    host.run(ONE, 5 + 15 + 1);
    host.run(two, FIVE_BLOCKS);
    let record = host.record();
    let reason = record.measure(Measure::Live).unwrap().reason.clone().unwrap();
    assert!(reason.contains("before the change has 3 blocks"), "{reason}");
    assert_eq!((record.minutes_left, host.verdicts.len()), (None, 0));
}

/// Scenario: a new version replaces an old one process by process, and both run for 40 minutes; then only the new
/// version runs for 30 minutes, and then the old version returns.
/// Guarantee: the update is one change, and going back is a second change, from the new to the old version.
#[test]
fn rolling_update_and_rollback_are_two_changes() {
    let two = Version { name: "2", ..ONE };
    let mut host = Host::new();
    host.run(ONE, 40);
    for age in 0..40 {
        for version in [ONE, two, two] {
            let minute = host.minute(version, age + 60);
            host.hand("shop", version, minute);
        }
        host.at += 1;
    }
    assert_eq!(host.services.records(Wall::UNIX, None).len(), 1);
    assert_eq!(host.record().after_side.blocks, 5);
    host.run_aged(two, 100, 30);
    host.run(ONE, FIVE_BLOCKS);
    let changes = host.services.records(Wall::UNIX, None);
    let names: Vec<_> = changes.iter().map(ChangeRecord::what_changed).collect();
    assert_eq!(names, ["version 2 -> 1", "version 1 -> 2"]);
    assert!(host.record().has_verdict());
}

/// Scenario: the first processes of two versions start at the same time and run next to each other; the minutes of
/// either version arrive first.
/// Guarantee: the minutes left of the change count down, and its first comparison waits until both sides have five
/// blocks.
#[test]
fn comparison_waits_for_side_before_change() {
    let two = Version {
        name: "2",
        live: 150e6,
        ..ONE
    };
    for order in [[ONE, two], [two, ONE]] {
        let mut host = Host::new();
        for age in 10..=35 {
            for version in if age == 10 { [ONE, two] } else { order } {
                let minute = host.minute(version, age);
                host.hand("shop", version, minute);
            }
            host.at += 1;
            if age == 24 {
                assert_eq!(host.record().minutes_left, Some(10));
            }
        }
        assert_eq!((host.record().minutes_left, host.verdicts.len()), (None, 1));
        assert_eq!(host.outcome(Measure::Live), Outcome::Worse);
        let sides = (host.record().before_side.blocks, host.record().after_side.blocks);
        assert_eq!(sides, (5, 5));
    }
}

/// Scenario: two processes of the same version run at the same time, one with twice the allocation of the other.
/// Guarantee: their minutes are one minute per process, with the mean of both.
#[test]
fn processes_of_one_version_are_combined() {
    let double = Version {
        allocation: 200_000.0,
        ..ONE
    };
    let mut host = Host::new();
    for age in 10..41 {
        for version in [ONE, double] {
            let minute = host.minute(version, age);
            host.hand("shop", version, minute);
        }
        host.at += 1;
    }
    host.run_aged(Version { name: "2", ..ONE }, 10, 1);
    let before = host.record().before_side;
    let per_request = before.allocated_per_second.unwrap() / before.requests_per_second.unwrap();
    assert!((per_request / 150_000.0 - 1.0).abs() < 0.02, "{per_request}");
    assert_eq!(before.blocks, 6);
    assert_eq!(host.services.counts().late_minutes, 0);
}

/// Scenario: a process starts and runs for two hours; a second process starts, its warm-up needs more memory, and it is
/// observed from its first minute; then another process is first observed in its third minute. A new version starts
/// next to them, and stops again.
/// Guarantee: the profile of the newest running configuration has the maximum of the newest observed start, which stays
/// after its blocks were evicted; a start that is not observed from its beginning is damaged without an earlier start.
#[test]
fn newest_start_stays_in_profile() {
    let mut host = Host::new();
    let hand = |host: &mut Host, version: Version, age: u64, committed: u64| {
        let minute = Minute {
            committed: Some(committed),
            ..host.minute(version, age)
        };
        host.hand("shop", version, minute);
        host.at += 1;
    };
    let start = |host: &Host| host.services.profile("shop").unwrap().0.start().unwrap();
    let is_close = |found: Option<u64>, exact: u64| (found.unwrap() as f64 / exact as f64 - 1.0).abs() < 0.001;
    for age in 2..10 {
        hand(&mut host, ONE, age, 100_000_000);
    }
    assert!(start(&host).lossy && is_close(start(&host).committed, 100_000_000));
    for age in 0..200 {
        hand(&mut host, ONE, age, if age < 3 { 300_000_000 } else { 100_000_000 });
    }
    assert!(!start(&host).lossy && is_close(start(&host).committed, 300_000_000));
    assert!(host.services.profile("shop").unwrap().0.minutes().count() == MAX_BLOCKS);
    for age in 2..10 {
        hand(&mut host, ONE, age, 350_000_000);
    }
    assert!(!start(&host).lossy && is_close(start(&host).committed, 350_000_000));
    for age in 0..6 {
        hand(&mut host, ONE, age, 200_000_000);
    }
    assert!(is_close(start(&host).committed, 200_000_000));
    let two = Version { name: "2", ..ONE };
    let version = |host: &Host| host.services.profile("shop").unwrap().0.configuration.version.unwrap();
    for age in 20..40 {
        hand(&mut host, ONE, age, 200_000_000);
        if age < 25 {
            hand(&mut host, two, age, 200_000_000);
            assert_eq!(version(&host), "2");
        }
    }
    assert_eq!(version(&host), "1");
    let keys = host.services.keys();
    let mut restored = Services::default();
    restored.restore(&host.services.line(&keys[0], 60).unwrap()).unwrap();
    let (profile, end) = restored.profile("shop").unwrap();
    assert_eq!(end, host.services.profile("shop").unwrap().1 + 60);
    assert!(is_close(profile.start().unwrap().committed, 200_000_000));
}

/// Scenario: the profiles are written with a shift of one hour, one of three lines is cut, and the lines are read
/// again; a line has too many periods.
/// Guarantee: the whole services have the same records, the damaged lines are errors, and a change that was noticed
/// before the restart gets its verdict afterwards.
#[test]
fn profiles_survive_restart() {
    let two = Version {
        name: "2",
        live: 150e6,
        ..ONE
    };
    let mut host = Host::new();
    host.run(ONE, FIVE_BLOCKS);
    host.run(two, 16);
    let others = ["other", "third"];
    for other in others {
        let minute = host.minute(ONE, 10);
        host.hand(other, ONE, minute);
    }
    let keys = host.services.keys();
    let lines: Vec<String> = keys.iter().map(|key| host.services.line(key, 60).unwrap()).collect();
    assert_eq!(lines.len(), 3);
    let mut restored = Services::default();
    assert_eq!(restored.restore(&lines[0][..lines[0].len() / 2]), Err(DamagedError));
    let too_many = lines[1].replacen("\"periods\":[", "\"periods\":[{},{},{},", 1);
    assert_eq!(restored.restore(&too_many), Err(DamagedError));
    assert_eq!(
        (restored.restore(&lines[1]), restored.restore(&lines[2])),
        (Ok(()), Ok(()))
    );
    let before = host.record();
    host.services = restored;
    host.at += 60;
    assert_eq!(host.record().before_side, before.before_side);
    host.run_aged(two, 16, 16);
    assert_eq!(host.outcome(Measure::Live), Outcome::Worse);
    assert_eq!(
        host.services.counts().changes,
        0,
        "the change was noticed before the restart"
    );
    assert_eq!(host.services.forget_future(1_000), 2);
}

/// Scenario: more services, versions and changes appear than fit, first while all services are active.
/// Guarantee: active services stay, and minutes of further services are refused; inactive services, old periods and old
/// changes are evicted; everything is counted, and the number of blocks is bounded.
#[test]
fn state_is_bounded() {
    let mut host = Host::new();
    for number in 0..=MAX_SERVICES {
        let minute = host.minute(ONE, 10);
        host.hand(&format!("{number}"), ONE, minute);
    }
    assert_eq!(
        (host.services.services.len(), host.services.counts().refused_minutes),
        (MAX_SERVICES, 1)
    );
    host.at += 60;
    host.run_aged(ONE, 10, 5 * (MAX_BLOCKS as u64 + 3) + 1);
    assert_eq!(host.services.counts().evicted_services, 1);
    assert_eq!(host.services.services["shop"].periods[0].blocks.len(), MAX_BLOCKS);
    assert_eq!(host.services.counts().evicted_blocks, 3);
    for name in ["2", "3", "4", "5", "6", "7"] {
        host.run(Version { name, ..ONE }, 12);
    }
    let counts = host.services.counts();
    assert_eq!(host.services.services["shop"].periods.len(), MAX_PERIODS);
    assert_eq!(
        (counts.changes, counts.evicted_periods, counts.evicted_changes),
        (6, 4, 2)
    );
    let records = host.services.records(Wall::UNIX, Some("shop"));
    assert_eq!(records.len(), MAX_CHANGES);
    assert!(
        records
            .iter()
            .all(|record| record.outcomes().all(|(_, outcome)| outcome == Outcome::Unknown))
    );
    host.at += KEPT_MINUTES + 100;
    let minute = host.minute(ONE, 10);
    host.hand("last", ONE, minute);
    assert_eq!(host.services.services.len(), 1);
}

/// Scenario: services have more changes together than fit.
/// Guarantee: the oldest changes are evicted and counted.
#[test]
fn all_changes_together_are_bounded() {
    let mut host = Host::new();
    let count = MAX_ALL_CHANGES + 10;
    for version in [ONE, Version { name: "2", ..ONE }] {
        for number in 0..count {
            let minute = host.minute(version, 10);
            host.hand(&format!("{number:04}"), version, minute);
        }
        host.at += 1;
    }
    assert_eq!(host.services.records(Wall::UNIX, None).len(), MAX_ALL_CHANGES);
    assert_eq!(host.services.counts().evicted_changes, 10);
}
