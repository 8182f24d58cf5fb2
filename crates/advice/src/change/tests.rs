use super::*;

/// A synthetic service: minutes with the noise of real ones.
struct Service {
    /// Requests per second.
    load: f64,
    /// Allocated bytes per request.
    allocation: f64,
    /// Live bytes.
    live: f64,
    /// Requests of full collections by the program, per minute.
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

/// Returns minutes of a service. The load drifts slowly: each minute keeps seven tenths of the deviation of the minute
/// before, so that minutes depend on each other.
fn profile(service: &Service, minutes: u64, random: &mut fastrand::Rng) -> Profile {
    let mut noise = |sigma: f64| 1.0 + sigma * ((0..12).map(|_| random.f64()).sum::<f64>() - 6.0);
    let mut profile = Profile::new("shop", Configuration::default());
    let mut drift = 0.0;
    for at in 0..minutes {
        drift = 0.7 * drift + (noise(0.02) - 1.0);
        let requests = 60.0 * service.load * (1.0 + drift);
        let allocated = requests * service.allocation * noise(0.01);
        let young = allocated / 64e6;
        // A full collection for each 3 GB, spread over minutes as they come.
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

/// Returns how many of `pairs` changes have this verdict.
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

/// Scenario: 200 pairs of 25 minutes come from the same service, at the same load, at 1.15 times the load, and at twice
/// the load.
/// Guarantee: at most 5 % of the pairs have any verdict but `same`.
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

/// Scenario: in 200 pairs each, the second version allocates 30 % more per request, keeps 50 MB more, or requests two
/// more full collections per minute; its load is the same, or twice as high.
/// Guarantee: at least 95 % of the pairs report the changed measure as worse.
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
            // Twice the load hides requests at a fixed rate per minute, so their rate grows with the load.
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

/// Scenario: a change is compared twice; then after 10 minutes, with a gap, with warm-up, and with lost events.
/// Guarantee: the record is the same each time; before five whole blocks, every verdict is `unknown` with the time
/// left; warm-up and damaged minutes are left out and counted.
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
/// Guarantee: the same rate is `same`. A higher rate is `unknown` with a reason, because more load looks the same; the
/// stopped share is compared per allocated gigabyte.
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

/// Scenario: no minute of a side has a full collection.
/// Guarantee: the live size is unknown with a reason, and the other measures have verdicts.
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
