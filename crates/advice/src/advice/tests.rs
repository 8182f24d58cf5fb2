use super::*;
use crate::basis::SizingBasis;
use crate::observation::{FullCollection, Surroundings, Young};
use crate::proof::{ADMITTED, MIN_PREDICTIONS};
use clr_gc::gc::Asker;

const MEGA: f64 = 1e6;

/// Returns a young collection of a service with few survivors, with or without a walk of dead objects.
fn young(generation: u32, walks: bool) -> Young {
    Young {
        generation,
        pause_ns: Some(if walks { 2.4e6 } else { 0.8e6 }),
        plan_ns: Some(if walks { 1.9e6 } else { 0.3e6 }),
        before: 17.0 * MEGA,
        gen0_before: 16.0 * MEGA,
        survived: if generation == 0 { 0.3 * MEGA } else { 0.6 * MEGA },
        gen1_survived: if generation == 0 { 0.0 } else { 0.3 * MEGA },
        by_budget: true,
    }
}

fn full(asker: Asker, concurrent: bool) -> FullCollection {
    FullCollection {
        concurrent,
        asker,
        by_large: false,
        pause_ns: Some(if concurrent { 1e6 } else { 100e6 }),
        duration_ns: Some(100e6),
        live: Some(200.0 * MEGA),
        free: Some(10.0 * MEGA),
    }
}

/// Returns 20 s of a workstation process with 600 young collections.
fn window(walks: bool) -> Observation {
    let young: Vec<Young> = (0..600).map(|n| young(u32::from(n % 10 == 9), walks)).collect();
    let stopped: f64 = young.iter().filter_map(|young| young.pause_ns).sum();
    Observation {
        window_ns: 20e9,
        lost_events: Some(0),
        young,
        full: vec![full(Asker::SmallObjects, true); 2],
        stopped_ns: Some(stopped + 2e6),
        median_pause_ns: Some(0.8e6),
        allocation: Some(480.0 * MEGA),
        drift: Some(0.01),
        large_allocation: Some(0.0),
        committed: Some(300.0 * MEGA),
        heaps: Some(1),
        surroundings: Surroundings {
            resident: Some(400.0 * MEGA),
            cpu: Some(0.8),
        },
        ..Observation::default()
    }
}

fn workstation() -> Configuration {
    Configuration {
        runtime: Some("10.0.14".to_owned()),
        server: Some(false),
        concurrent: Some(true),
        heap_limit_known: true,
        cpus: Some(2.0),
        ..Configuration::default()
    }
}

fn all(observation: &Observation, configuration: &Configuration, unproven: bool) -> Vec<AdviceRecord> {
    let subject = Subject {
        process: Some("shop"),
        pid: Some(7),
        configuration,
        observation,
    };
    let rates = HitRates::default();
    let terms = Terms {
        made_at: "2026-11-29T12:00:00Z",
        proofs: ADMITTED,
        rates: &rates,
        unproven,
    };
    advise(&subject, &terms)
}

/// Returns the record of a kind, with predictions of kinds that have no proof.
fn advice_for(kind: Kind, observation: &Observation, configuration: &Configuration) -> AdviceRecord {
    let records = all(observation, configuration, true);
    records.into_iter().find(|record| record.advice == kind).unwrap()
}

#[track_caller]
fn refused(record: &AdviceRecord, words: &str) {
    assert!(record.is_refusal() && record.expected.is_none() && record.check.is_none());
    assert!(record.because.text.contains(words), "{}", record.because.text);
}

/// Scenario: a process for which the budget of generation 0 has a prediction gets advice without and with `unproven`;
/// no kind has a proof.
/// Guarantee: each kind has one record; without `unproven`, every record is a refusal, and the budget is refused for
/// its missing proof; with `unproven`, the prediction is marked as unproven and precedes the refusals.
#[test]
fn kind_without_proof_is_refused() {
    let (observation, configuration) = (window(false), workstation());
    let records = all(&observation, &configuration, false);
    assert_eq!(records.len(), Kind::ALL.len());
    assert!(records.iter().all(AdviceRecord::is_refusal));
    let gen0 = records.iter().find(|record| record.advice == Kind::Gen0Size).unwrap();
    refused(gen0, &format!("needs {MIN_PREDICTIONS} blind predictions"));
    let shown = all(&observation, &configuration, true);
    assert!(!shown[0].is_refusal() && shown[0].unproven && shown[0].advice == Kind::Gen0Size);
    assert!(shown.is_sorted_by_key(AdviceRecord::is_refusal));
}

/// Scenario: a proof admits a kind, and then ten verdicts of this kind fail.
/// Guarantee: the admitted kind gives advice that is not marked as unproven; after the failed verdicts, the kind is
/// refused with its hit rate.
#[test]
fn admitted_kind_advises_until_it_fails() {
    let (observation, configuration) = (window(false), workstation());
    let subject = Subject {
        process: None,
        pid: None,
        configuration: &configuration,
        observation: &observation,
    };
    let proofs = [Proof {
        kind: Kind::Gen0Size,
        predictions: 40,
        hits: 36,
        harmful: 0,
    }];
    let mut rates = HitRates::default();
    let first = |rates: &HitRates| {
        let terms = Terms {
            made_at: "",
            proofs: &proofs,
            rates,
            unproven: false,
        };
        advise(&subject, &terms)
            .into_iter()
            .find(|record| record.advice == Kind::Gen0Size)
            .unwrap()
    };
    let advice = first(&rates);
    assert!(!advice.is_refusal() && !advice.unproven && advice.applies_to.runtimes == [8, 9, 10, 11]);
    for _ in 0..10 {
        rates.add(Kind::Gen0Size, Verdict::Failed);
    }
    refused(&first(&rates), "0 of 10 verdicts");
}

/// Scenario: a record is created twice from the same facts; then its verdict, its time or a range is changed; the
/// record is written as JSON and read again.
/// Guarantee: both records are equal; the hash covers the time and the range, but not the verdict; the record read from
/// JSON matches its hash.
#[test]
fn record_is_sealed() {
    let record = advice_for(Kind::Gen0Size, &window(false), &workstation());
    assert!(record.is_unchanged() && record.id.len() == 16 && record.hash.len() == 64);
    assert_eq!(advice_for(Kind::Gen0Size, &window(false), &workstation()), record);
    let judged = AdviceRecord {
        verdict: Some(Verdict::Kept),
        ..record.clone()
    };
    assert!(judged.is_unchanged());
    let later = AdviceRecord {
        made_at: "2027-01-01T00:00:00Z".to_owned(),
        ..record.clone()
    };
    assert!(!later.is_unchanged());
    let mut better = record.clone();
    better.expected.as_mut().unwrap().stopped_share = Some([0.0, 1.0]);
    assert!(!better.is_unchanged());
    let text = serde_json::to_string(&record).unwrap();
    let read: AdviceRecord = serde_json::from_str(&text).unwrap();
    assert!(read.is_unchanged() && text.starts_with(r#"{"kind":"advice","id":""#));
}

/// Scenario: a window has lost events, a load that drifts, or too few young collections.
/// Guarantee: every kind is refused, and the reason names the fault of the window.
#[test]
fn unusable_window_refuses_every_kind() {
    for (change, words) in [
        (
            (|one: &mut Observation| one.lost_events = Some(3)) as fn(&mut Observation),
            "3 events were lost",
        ),
        (|one| one.drift = Some(0.4), "differs by 40 %"),
        (|one| one.young.truncate(40), "40 young collections"),
    ] {
        let mut observation = window(false);
        change(&mut observation);
        all(&observation, &workstation(), true)
            .iter()
            .for_each(|record| refused(record, words));
    }
}

/// Scenario: a workstation process has few survivors and no walk; then one condition at a time changes: server GC,
/// DATAS, an unknown collector, a budget that is already set, a low stopped share, no room below the limit, an unknown
/// limit, many survivors, a budget near the maximum, walks.
/// Guarantee: the value is hexadecimal and at most four times the observed budget; the stopped share and the change of
/// the memory are ranges, and the CPU is unknown; each changed condition is a refusal with its reason.
#[test]
fn budget_of_generation_0_has_its_traps() {
    let (plain, configuration) = (window(false), workstation());
    let record = advice_for(Kind::Gen0Size, &plain, &configuration);
    let variable = &record.setting.as_ref().unwrap().variables[0];
    // 16 MB are 15.26 MiB. Four times this budget is 61 MiB, rounded down.
    assert_eq!(
        (variable.name.as_str(), variable.decimal),
        ("DOTNET_GCgen0size", 61 << 20)
    );
    assert_eq!(u64::from_str_radix(&variable.value, 16), Ok(61 << 20));
    let expected = record.expected.unwrap();
    let [low, high] = expected.stopped_share.unwrap();
    let now = record.now.stopped_share.unwrap();
    assert!(low > 0.0 && high < now && (high / low - 3.0).abs() < 1e-4);
    let [least, most] = expected.memory_change.unwrap();
    assert!(least == 0.0 && (most - 1.1 * (f64::from(61 << 20) - 16e6)).abs() < 100.0);
    assert_eq!(expected.cpu, None);

    let refusal = |change: &dyn Fn(&mut Observation, &mut Configuration), words: &str| {
        let (mut observation, mut configuration) = (plain.clone(), configuration.clone());
        change(&mut observation, &mut configuration);
        refused(&advice_for(Kind::Gen0Size, &observation, &configuration), words);
    };
    refusal(&|_, one| one.server = Some(true), "only a floor");
    refusal(
        &|_, one| (one.server, one.adaptive) = (Some(true), Some(true)),
        "with DATAS",
    );
    refusal(&|_, one| one.server = None, "unknown whether");
    refusal(&|_, one| one.gen0_size = Some(32 << 20), "already set, to 32 MiB");
    refusal(&|one, _| one.stopped_ns = Some(0.1e9), "nothing to gain");
    refusal(&|_, one| one.heap_limit = Some(295 << 20), "no room");
    refusal(&|_, one| one.heap_limit_known = false, "--limit");
    let many = |one: &mut Observation| one.young.iter_mut().for_each(|young| young.survived *= 4.0);
    refusal(&|one, _| many(one), "can walk all of generation 0");
    let large = |one: &mut Observation| one.young.iter_mut().for_each(|young| young.gen0_before = 120.0 * MEGA);
    refusal(&|one, _| large(one), "takes at most 128 MiB");
    // With walks, the stopped share is about the same for any budget.
    refused(
        &advice_for(Kind::Gen0Size, &window(true), &configuration),
        "within the uncertainty",
    );
}

/// Scenario: all collections walk dead objects, on .NET 10 and .NET 8; then one condition at a time changes: no walks,
/// server GC, an unknown number of CPUs, one CPU, 16 CPUs, an old runtime, no room below the limit.
/// Guarantee: the walking collections on two CPUs get server GC without DATAS, with a lower stopped share and an upper
/// bound of the memory; .NET 8 gets no setting for DATAS; each changed condition is a refusal with its reason.
#[test]
fn server_gc_is_for_walking_collections() {
    let (walked, configuration) = (window(true), workstation());
    let record = advice_for(Kind::Collector, &walked, &configuration);
    let line = record.setting.as_ref().unwrap().line();
    assert_eq!(line, "DOTNET_gcServer=1, DOTNET_GCDynamicAdaptationMode=0");
    let expected = record.expected.unwrap();
    assert!(expected.stopped_share.unwrap()[1] < record.now.stopped_share.unwrap());
    assert!(expected.memory_change.unwrap()[0] == 0.0 && expected.memory_change.unwrap()[1] > 10e6);
    let old = Configuration {
        runtime: Some("8.0.33".to_owned()),
        ..configuration.clone()
    };
    assert_eq!(
        advice_for(Kind::Collector, &walked, &old).setting.unwrap().line(),
        "DOTNET_gcServer=1"
    );

    refused(
        &advice_for(Kind::Collector, &window(false), &configuration),
        "0 % of 600",
    );
    let refusal = |change: &dyn Fn(&mut Configuration), words: &str| {
        let mut configuration = configuration.clone();
        change(&mut configuration);
        refused(&advice_for(Kind::Collector, &walked, &configuration), words);
    };
    refusal(&|one| one.server = Some(true), "cannot be predicted from outside");
    refusal(&|one| one.cpus = None, "--cpus");
    refusal(&|one| one.cpus = Some(0.5), "one CPU");
    refusal(&|one| one.cpus = Some(16.0), "16 CPUs");
    refusal(&|one| one.runtime = Some("6.0.1".to_owned()), "older than .NET 8");
    refusal(&|one| one.heap_limit = Some(310 << 20), "no room");
}

/// Scenario: four blocking full collections ran because memory was short in a container of 400 MiB; then the limit is
/// unknown, or only one such collection ran.
/// Guarantee: the higher limit adds the bytes promoted between two of these collections, and removes 25 to 67 % of
/// their stopped share; a lower limit, an unknown limit and a single collection are refused.
#[test]
fn higher_limit_needs_collections_at_the_limit() {
    let mut observation = window(false);
    observation.full = vec![full(Asker::Limit, false); 4];
    observation.stopped_ns = observation.stopped_ns.map(|ns| ns + 400e6);
    let limited = Configuration {
        heap_limit: Some(300 << 20),
        memory_limit: Some(400 << 20),
        ..workstation()
    };
    let record = advice_for(Kind::LimitRaise, &observation, &limited);
    // 60 collections of generation 1 promoted 18 MB in 20 s. A quarter of these bytes was promoted between two full
    // collections.
    let bytes = record.setting.as_ref().unwrap().memory_limit.unwrap();
    assert_eq!(bytes >> 20, 406);
    let [low, high] = record.expected.unwrap().stopped_share.unwrap();
    let now = record.now.stopped_share.unwrap();
    assert!((now - low - 0.02 * 0.67).abs() < 1e-5 && (now - high - 0.02 * 0.25).abs() < 1e-5);
    refused(&advice_for(Kind::LimitLower, &observation, &limited), "already felt");
    refused(&advice_for(Kind::LimitRaise, &observation, &workstation()), "--limit");
    observation.full.truncate(1);
    refused(
        &advice_for(Kind::LimitRaise, &observation, &limited),
        "1 of 1 full collections",
    );
}

/// Scenario: a container of 1 GiB never ran short of memory in a window of 20 s, and in one of 8 days; then the
/// container is about as small as needed, or its limit is unknown.
/// Guarantee: the short window is refused for its length unless a blind prediction is requested, whose limit is the
/// bound of the sizing rounded up to 1 MiB; the window of 8 days is refused only for the missing proof; the small
/// container and the unknown limit are refused.
#[test]
fn lower_limit_needs_a_week() {
    let mut observation = window(false);
    let large = Configuration {
        heap_limit: Some(768 << 20),
        memory_limit: Some(1 << 30),
        ..workstation()
    };
    let by_default = |observation: &Observation| {
        let records = all(observation, &large, false);
        records
            .into_iter()
            .find(|record| record.advice == Kind::LimitLower)
            .unwrap()
    };
    refused(&by_default(&observation), "needs 7 days");
    let record = advice_for(Kind::LimitLower, &observation, &large);
    let limit = record.setting.as_ref().unwrap().memory_limit.unwrap();
    let sized = crate::sizing::size((None, None), &large, &SizingBasis::from_observation(&observation), &[])
        .not_less_than
        .unwrap();
    assert!(limit >= sized.memory_limit && limit - sized.memory_limit < 1 << 20);
    observation.window_ns = 8.0 * 86_400e9;
    refused(&by_default(&observation), "blind predictions");
    let small = Configuration {
        heap_limit: Some(250 << 20),
        memory_limit: Some(340 << 20),
        ..workstation()
    };
    refused(&advice_for(Kind::LimitLower, &observation, &small), "needs at least");
    refused(&advice_for(Kind::LimitLower, &observation, &workstation()), "--limit");
}

/// Scenario: large objects trigger none of two full collections, and then one.
/// Guarantee: the threshold is refused in both cases with the counts; in the second case, the reason has the rates and
/// the command that finds the code.
#[test]
fn large_object_threshold_is_refused() {
    let mut observation = window(false);
    refused(
        &advice_for(Kind::LargeObjects, &observation, &workstation()),
        "none of 2",
    );
    observation.full[0].by_large = true;
    observation.large_allocation = Some(30.0 * MEGA);
    observation.large_budget = Some(10.0 * MEGA);
    let record = advice_for(Kind::LargeObjects, &observation, &workstation());
    refused(&record, "triggered 1 of 2 full collections (30.0 MB per second");
    refused(&record, "make 180.0 per minute");
    refused(&record, "`gcwatch allocations 7`");
}

/// Scenario: little of the heap is free space between old objects, then a third of the heap is; then the setting
/// already has a value.
/// Guarantee: only the process with much free space gets the setting, which returns at most the free space, with more
/// CPU and a higher stopped share as its price.
#[test]
fn conserved_memory_costs_cpu() {
    let mut observation = window(false);
    refused(
        &advice_for(Kind::ConserveMemory, &observation, &workstation()),
        "too little to return",
    );
    observation.full[1].free = Some(100.0 * MEGA);
    let record = advice_for(Kind::ConserveMemory, &observation, &workstation());
    assert_eq!(record.setting.as_ref().unwrap().line(), "DOTNET_GCConserveMemory=7");
    let expected = record.expected.unwrap();
    assert_eq!(expected.memory_change, Some([-100.0 * MEGA, 0.0]));
    assert!(expected.cpu.unwrap()[1] > record.now.cpu.unwrap() * 1.4);
    assert!(expected.stopped_share.unwrap()[1] > record.now.stopped_share.unwrap() * 1.2);
    let set = Configuration {
        conserve_memory: Some(5),
        ..workstation()
    };
    refused(
        &advice_for(Kind::ConserveMemory, &observation, &set),
        "already set, to 5",
    );
}

/// Scenario: advice is given for windows with walks, without walks and without facts, on workstation GC, on server GC,
/// and with an unknown configuration.
/// Guarantee: the ends of every range are finite and in ascending order.
#[test]
fn ranges_are_ordered() {
    let unknown = Configuration::default();
    let server = Configuration {
        server: Some(true),
        ..workstation()
    };
    for configuration in [&workstation(), &unknown, &server] {
        for observation in [window(false), window(true), Observation::default()] {
            for record in all(&observation, configuration, true) {
                let Some(expected) = record.expected else { continue };
                let ranges = [
                    expected.stopped_share,
                    expected.median_pause_ns,
                    expected.memory,
                    expected.memory_change,
                    expected.cpu,
                    expected.young_per_second,
                ];
                for [low, high] in ranges.into_iter().flatten() {
                    assert!(low.is_finite() && high.is_finite() && low <= high, "{record:?}");
                }
            }
        }
    }
}
