use super::*;

/// A synthetic service that yields minutes with realistic noise.
struct Service {
    /// Requests per second.
    load: f64,
    /// Allocated bytes per request.
    allocation: f64,
    /// Live bytes.
    live: f64,
    /// Full collections that the program requests, per minute.
    collects: f64,
    /// Whether requests are observed.
    has_requests: bool,
}

const STEADY: Service = Service {
    load: 1_000.0,
    allocation: 100_000.0,
    live: 100e6,
    collects: 0.0,
    has_requests: true,
};

/// Returns a profile of a service. The load drifts: each minute keeps 70 % of the deviation of the previous minute, so
/// that consecutive minutes depend on each other.
fn profile(service: &Service, minutes: u64, random: &mut fastrand::Rng) -> Profile {
    let mut noise = |sigma: f64| 1.0 + sigma * ((0..12).map(|_| random.f64()).sum::<f64>() - 6.0);
    let mut profile = Profile::new("shop", Configuration::default());
    let mut drift = 0.0;
    for at in 0..minutes {
        drift = 0.7 * drift + (noise(0.02) - 1.0);
        let requests = 60.0 * service.load * (1.0 + drift);
        let allocated = requests * service.allocation * noise(0.01);
        let young = allocated / 64e6;
        // A full collection runs for each 3 GB of allocations, in addition to requested ones.
        let full = (allocated / 3e9 + service.collects + noise(0.3) - 1.0).round().max(0.0);
        let pause = 2e6 * noise(0.08);
        let live = service.live * noise(0.005);
        let stopped = young * pause * noise(0.03) + full * live * 0.5;
        let minute = Minute {
            at,
            observed_ns: 60_000_000_000,
            age_s: Some(3_600 + 60 * at),
            collections: (young + full) as u64,
            allocated: Some(allocated as u64),
            requests: service.has_requests.then_some(requests as u64),
            stopped_ns: Some(stopped as u64),
            median_pause_ns: Some(pause as u64),
            full: full as u64,
            live: (full >= 1.0).then_some(live as u64),
            ..Minute::default()
        };
        profile.push(minute).unwrap();
    }
    profile
}

fn verdict(record: &ChangeRecord, measure: Measure) -> Outcome {
    record.measure(measure).unwrap().verdict.unwrap()
}

/// Returns the number of changes, of `pairs` generated ones, that satisfy a condition.
fn count(pairs: u64, after: &Service, is_found: impl Fn(&ChangeRecord) -> bool) -> u64 {
    let mut random = fastrand::Rng::with_seed(11);
    let mut found = 0;
    for _ in 0..pairs {
        let one = profile(&STEADY, 25, &mut random);
        let other = profile(after, 25, &mut random);
        found += u64::from(is_found(&compare_profiles(&one, &other)));
    }
    found
}

const PAIRS: u64 = 200;

/// Scenario: in 200 pairs of profiles with 25 minutes each, the service is unchanged, and its load is the same, 1.15
/// times as high, or twice as high.
/// Guarantee: at each load, at most 5 % of the pairs have a verdict other than `same`.
#[test]
fn unchanged_service_is_the_same() {
    for load in [1.0, 1.15, 2.0] {
        let after = Service {
            load: STEADY.load * load,
            ..STEADY
        };
        let is_other = |record: &ChangeRecord| {
            DECIDING
                .iter()
                .any(|measure| verdict(record, *measure) != Outcome::Same)
        };
        let found = count(PAIRS, &after, is_other);
        assert!(found <= PAIRS / 20, "{found} of {PAIRS} at {load} times the load");
    }
}

/// Scenario: in 200 pairs of profiles for each change, the second version allocates 30 % more per request, has 50 MB
/// more live bytes, or requests two more full collections per minute; its load is the same, or twice as high.
/// Guarantee: for each change and load, at least 95 % of the pairs have the verdict `worse` for the changed measure.
#[test]
fn changed_measure_is_found() {
    for load in [1.0, 2.0] {
        let load = STEADY.load * load;
        let cases = [
            (
                Measure::Allocated,
                Service {
                    load,
                    allocation: 130_000.0,
                    ..STEADY
                },
            ),
            (
                Measure::Live,
                Service {
                    load,
                    live: 150e6,
                    ..STEADY
                },
            ),
            // Normalization by a doubled load would hide a fixed number of requests per minute, so this number grows
            // with the load.
            (
                Measure::FullCollections,
                Service {
                    load,
                    collects: 2.0 * load / STEADY.load,
                    ..STEADY
                },
            ),
        ];
        for (measure, after) in cases {
            let found = count(PAIRS, &after, |record| verdict(record, measure) == Outcome::Worse);
            assert!(
                found >= PAIRS * 19 / 20,
                "{measure}: {found} of {PAIRS} at {load} requests per second"
            );
        }
    }
}

/// Scenario: a change is compared twice; then the side after the change has 10 minutes, a warm-up, lost events or a
/// gap, or the side before the change has 24 minutes.
/// Guarantee: both records are equal; with two blocks, every verdict is `unknown` with a reason and the minutes left; a
/// short side before the change has no minutes left; warm-up and damaged minutes are counted and not part of a block,
/// and a gap separates blocks.
#[test]
fn verdict_needs_five_blocks() {
    let mut random = fastrand::Rng::with_seed(1);
    let one = profile(&STEADY, 25, &mut random);
    let other = profile(&STEADY, 25, &mut random);
    assert_eq!(compare_profiles(&one, &other), compare_profiles(&one, &other));

    let early = compare_profiles(&one, &profile(&STEADY, 10, &mut random));
    assert_eq!((early.minutes_left, early.after_side.blocks), (Some(15), 2));
    for measure in DECIDING {
        assert_eq!(verdict(&early, measure), Outcome::Unknown);
        assert!(
            early
                .measure(measure)
                .unwrap()
                .reason
                .as_ref()
                .unwrap()
                .contains("2 blocks")
        );
    }
    assert_eq!(
        compare_profiles(&profile(&STEADY, 24, &mut random), &one).minutes_left,
        None
    );

    let changed = |change: fn(&mut Minute)| {
        let mut changed = Profile::new("shop", Configuration::default());
        for minute in other.minutes() {
            let mut minute = *minute;
            change(&mut minute);
            changed.push(minute).unwrap();
        }
        compare_profiles(&one, &changed).after_side
    };
    let warm = changed(|minute| minute.age_s = Some(60 * minute.at));
    assert_eq!((warm.warm_up_minutes, warm.blocks, warm.damaged_minutes), (5, 4, 0));
    let lossy = changed(|minute| minute.lossy = minute.at == 12);
    assert_eq!((lossy.damaged_minutes, lossy.blocks), (1, 4));
    let gap = changed(|minute| minute.at += u64::from(minute.at >= 13));
    assert_eq!((gap.damaged_minutes, gap.blocks), (0, 4));
}

/// Scenario: requests are not observed; the allocation rate is the same, and 30 % higher.
/// Guarantee: the verdict on the same rate is `same`; the verdict on the higher rate is `unknown`, because more load
/// would look the same; the stopped share is compared per allocated gigabyte, and its verdict is `same`.
#[test]
fn higher_allocation_without_requests_is_unknown() {
    let before = Service {
        has_requests: false,
        ..STEADY
    };
    let after = Service {
        allocation: 130_000.0,
        has_requests: false,
        ..STEADY
    };
    let mut random = fastrand::Rng::with_seed(2);
    let one = profile(&before, 50, &mut random);
    let same = compare_profiles(&one, &profile(&before, 50, &mut random));
    assert_eq!(verdict(&same, Measure::Allocated), Outcome::Same);
    let more = compare_profiles(&one, &profile(&after, 50, &mut random));
    assert_eq!(verdict(&more, Measure::Allocated), Outcome::Unknown);
    let stopped = more.measure(Measure::StoppedShare).unwrap();
    assert_eq!(stopped.normalization, Normalization::PerAllocatedGigabyte);
    assert_eq!(stopped.verdict, Some(Outcome::Same));
}

/// Scenario: no minute after the change has a live size.
/// Guarantee: the verdict on the live size is `unknown` with a reason; the median pause has a verdict; the record is
/// the same after a round trip through JSON.
#[test]
fn missing_measure_is_unknown() {
    let mut random = fastrand::Rng::with_seed(3);
    let one = profile(&STEADY, 25, &mut random);
    let mut other = Profile::new("shop", Configuration::default());
    for minute in profile(&STEADY, 25, &mut random).minutes() {
        other.push(Minute { live: None, ..*minute }).unwrap();
    }
    let record = compare_profiles(&one, &other);
    assert_eq!(verdict(&record, Measure::Live), Outcome::Unknown);
    let reason = record.measure(Measure::Live).unwrap().reason.as_deref();
    assert!(reason.unwrap().contains("0 of 5 blocks after"), "{reason:?}");
    assert_eq!(verdict(&record, Measure::MedianPause), Outcome::Same);
    let text = serde_json::to_value(&record).unwrap();
    assert_eq!(
        (&text["kind"], &text["measures"][3]["after"]),
        (&"change".into(), &serde_json::Value::Null)
    );
    assert_eq!(serde_json::from_value::<ChangeRecord>(text).unwrap(), record);
}

/// Returns a profile of the steady service with changed minutes.
fn changed(seed: u64, change: impl Fn(&mut Minute)) -> Profile {
    let mut changed = Profile::new("shop", Configuration::default());
    for minute in profile(&STEADY, 25, &mut fastrand::Rng::with_seed(seed)).minutes() {
        let mut minute = *minute;
        change(&mut minute);
        changed.push(minute).unwrap();
    }
    changed
}

/// Scenario: full collections run in three of five blocks, or in two; the live size grows by half. Collections are
/// missing in some minutes.
/// Guarantee: three blocks yield the verdict `worse`, and two `unknown`; a minute without collections does not make the
/// allocation unknown.
#[test]
fn live_size_needs_three_blocks() {
    let rare = |seed, blocks: u64, growth: u64| {
        changed(seed, |minute| {
            let is_known = minute.at % 5 == 2 && minute.at < 5 * blocks;
            minute.live = minute.live.filter(|_| is_known).map(|live| live * growth / 2);
            if minute.at % 7 == 3 {
                (minute.collections, minute.allocated) = (0, None);
            }
        })
    };
    let three = compare_profiles(&rare(1, 3, 2), &rare(2, 3, 3));
    assert_eq!(verdict(&three, Measure::Live), Outcome::Worse);
    assert_eq!(verdict(&three, Measure::Allocated), Outcome::Same);
    let two = compare_profiles(&rare(1, 3, 2), &rare(2, 2, 3));
    assert_eq!(verdict(&two, Measure::Live), Outcome::Unknown);
    let reason = two.measure(Measure::Live).unwrap().reason.as_deref();
    assert!(reason.unwrap().contains("2 of 5 blocks after"), "{reason:?}");
}

/// Scenario: the load is the same or twice as high. The allocation per request falls by 9 % or grows by 9 %; the median
/// pause grows by 60 % or falls by 40 %.
/// Guarantee: at the same load, each difference has a verdict. A higher load explains a lower allocation per request
/// and a longer pause, which are `same`, but not the opposite differences.
#[test]
fn load_explains_one_direction() {
    let compared = |load: u64, percent: u64, measure: Measure| {
        let after = changed(4, |minute| match measure {
            Measure::Allocated => {
                minute.allocated = minute.allocated.map(|bytes| bytes * load * percent / 100);
                minute.requests = minute.requests.map(|requests| requests * load);
            }
            _ => {
                minute.median_pause_ns = minute.median_pause_ns.map(|ns| ns * percent / 100);
                minute.requests = minute.requests.map(|requests| requests * load);
            }
        });
        verdict(&compare_profiles(&changed(3, |_| {}), &after), measure)
    };
    let (same, better, worse) = (Outcome::Same, Outcome::Better, Outcome::Worse);
    let allocated = |load| [91, 109].map(|percent| compared(load, percent, Measure::Allocated));
    assert_eq!((allocated(1), allocated(2)), ([better, worse], [same, worse]));
    let pause = |load| [60, 160].map(|percent| compared(load, percent, Measure::MedianPause));
    assert_eq!((pause(1), pause(2)), ([better, worse], [better, same]));
}
