//! Measures the cost of rules: loading them, and evaluating them on collections, including ticks.
//!
//! Run with `cargo bench --bench rules`. A process performs ten collections per second. The benchmarks of collections
//! use the shipped rules. The benchmark of loading also uses a thousand generated rules of ten kinds, of which four are
//! about the process and five have windows over minutes.
//!
//! Figures and the machine are in docs/performance.md. With the shipped rules, a collection takes about 8 us in one
//! process. The collections of one second of 200 processes, whose state does not fit into the caches, take 13 ms.

use std::fmt::Write as _;
use std::sync::Arc;

use base::time::{Moment, TimeBase};
use clr_gc::event::{GcReason, GcType};
use clr_gc::gc::{Allocated, AllocatedUnknown, Collection, GenerationSizes, Pause, PauseKind};
use divan::Bencher;
use divan::counter::ItemsCount;
use rule_engine::engine::Engine;
use rule_engine::field::ProcessFacts;
use rule_engine::rule_set::RuleSet;
use rule_language::load::{SourceFile, load, shipped};

/// Interval between two collections, in nanoseconds.
const COLLECTION_INTERVAL_NS: i64 = 100_000_000;

/// Number of collections in a cycle of 100 s.
const CYCLE: i64 = 1000;

const BEGIN: i128 = 1_700_000_000_000_000_000;

fn main() {
    divan::main();
}

/// Writes a rule of one of ten kinds. Each group of ten rules has a different length of its windows over minutes.
fn rule(text: &mut String, index: usize) {
    let minutes = 1 + index / 10;
    let (on, windows, when) = match index % 10 {
        0 => (
            "gc",
            String::new(),
            "gc.reason == 'OutOfSpaceLOH' || gc.reason == 'OutOfSpaceSOH'",
        ),
        1 => (
            "gc",
            String::new(),
            "gc.pause_ms > 200.0 && gc.generation == 2 && gc.blocking",
        ),
        2 => (
            "gc",
            "{usual: {fn: median, of: gc.pause_ms, last: 20, by: generation_and_type}}".to_owned(),
            "gc.pause_ms > 50.0 && gc.pause_ms > 10.0 * usual",
        ),
        3 => (
            "process",
            format!("{{share: {{fn: share, of: gc.pause_ns, over: {minutes}m, min_watched: 1m}}}}"),
            "share > 0.5",
        ),
        4 => (
            "process",
            format!(
                "{{full: {{fn: ratio, where: gc.generation == 2 && gc.blocking, over: {minutes}m, min_samples: 10}}}}"
            ),
            "full > 0.5",
        ),
        5 => (
            "gc",
            "{close: {fn: count, where: gc.since_last_ms < 10.0, last: 60}}".to_owned(),
            "close > 50.0",
        ),
        6 => (
            "process",
            format!(
                "{{slope: {{fn: slope, of: gc.heap.gen2.after, over: {minutes}m}}, fit: {{fn: r2, of: gc.heap.gen2.after, over: {minutes}m}}}}"
            ),
            "slope > 1e12 && fit > 0.8",
        ),
        7 => (
            "gc",
            String::new(),
            "gc.suspend_ms > 100.0 || gc.memory_load_percent > 97",
        ),
        8 => (
            "process",
            format!("{{usual: {{fn: median, of: gc.pause_ms, over: {minutes}m}}}}"),
            "usual > 500.0",
        ),
        _ => (
            "gc",
            format!("{{count: {{fn: count, where: gc.reason == 'Induced', over: {minutes}m}}}}"),
            "gc.reason == 'Induced' && count > 10.0",
        ),
    };
    let _ = writeln!(
        text,
        "  - id: rule.{index}\n    title: A rule\n    on: {on}\n    severity: warning\n    summary: fired"
    );
    if !windows.is_empty() {
        let _ = writeln!(text, "    let: {windows}");
    }
    let _ = writeln!(text, "    when: |\n      {when}");
}

fn rules(count: usize) -> RuleSet {
    let mut text = "apiVersion: gcwatch/v1\nrules:\n".to_owned();
    (0..count).for_each(|index| rule(&mut text, index));
    let name = "bench.yaml".to_owned();
    match load(&[SourceFile { name, text }]) {
        Ok(loaded) => loaded.rules,
        Err(problems) => panic!(
            "{}",
            problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
        ),
    }
}

fn collection(number: i64) -> Collection {
    let generation = match number % 20 {
        0 => 2,
        5 | 10 | 15 => 1,
        _ => 0,
    };
    let end = number * COLLECTION_INTERVAL_NS;
    let pause = 500_000 + number * 7919 % 3_000_000;
    let megabytes = |number: i64| u64::try_from(number << 20).ok();
    Collection {
        generation: Some(generation),
        clr_instance: Some(0),
        gc_type: Some(GcType::BLOCKING),
        reason: Some(GcReason::ALLOC_SMALL),
        start: Some(end - pause),
        end: Some(end),
        start_thread: Some(1),
        last_event: end,
        pauses: vec![Pause::alone(end - pause, pause, Some(20_000), PauseKind::Blocking)],
        pause_ns: Some(pause),
        suspend_ns: Some(20_000),
        heap: [GenerationSizes {
            before: megabytes(100 + number % 7),
            after: megabytes(50 + number % 5),
            ..GenerationSizes::default()
        }; 5],
        allocated: megabytes(30).ok_or(AllocatedUnknown::First).map(|bytes| Allocated {
            since: 0,
            until: 1_000_000,
            bytes,
            at_least: false,
        }),
        ..Collection::unknown(u32::try_from(number).unwrap_or(0))
    }
}

/// A process that has been observed for longer than the windows of its rules.
struct WatchedEngine {
    engine: Engine,
    collections: Arc<[Collection]>,
    observed: i64,
}

impl WatchedEngine {
    /// Creates a process and observes the given number of these collections.
    fn new(collections: Arc<[Collection]>, rules: Arc<RuleSet>, before: i64) -> Self {
        let began = Moment::from_ns(u64::try_from(BEGIN).unwrap_or_default());
        let mut watched = Self {
            engine: Engine::new(rules, ProcessFacts::default(), began),
            collections,
            observed: 0,
        };
        (0..before).for_each(|_| {
            watched.next();
        });
        watched
    }

    /// Observes the next collection and returns the number of transitions.
    fn next(&mut self) -> usize {
        let base = TimeBase::at(BEGIN + i128::from(self.observed / CYCLE * CYCLE * COLLECTION_INTERVAL_NS));
        let collection = &self.collections[usize::try_from(self.observed % CYCLE).unwrap_or_default()];
        self.observed += 1;
        let transitions = self.engine.advance(base.moment(collection.last_event));
        let verdict = self.engine.collection(collection, base);
        transitions.len() + verdict.matched.len() + verdict.transitions.len()
    }
}

/// Evaluates a thousand collections of one process, ten per second, and the hundred ticks between them, with the
/// shipped rules.
#[divan::bench]
fn collections_shipped(bencher: Bencher<'_, '_>) {
    let mut watched = WatchedEngine::new((0..CYCLE).map(collection).collect(), shipped_rules(), 20 * CYCLE);
    bencher
        .counter(ItemsCount::new(1000_usize))
        .bench_local(|| (0..1000).map(|_| watched.next()).sum::<usize>());
}

/// Evaluates one second of a full host: ten rounds with one collection of each of 200 processes, with the shipped
/// rules. The state of the processes does not fit into the caches of a core.
#[divan::bench]
#[allow(clippy::print_stderr, reason = "a figure that is not a duration")]
fn a_second_of_200_processes(bencher: Bencher<'_, '_>) {
    let (rules, collections) = (
        shipped_rules(),
        (0..CYCLE).map(collection).collect::<Arc<[Collection]>>(),
    );
    let process = |_| WatchedEngine::new(Arc::clone(&collections), Arc::clone(&rules), 6 * CYCLE);
    let mut processes: Vec<WatchedEngine> = (0..200).map(process).collect();
    let bytes: usize = processes.iter().map(|process| process.engine.memory()).sum();
    let most = Engine::most_memory(&rules);
    eprintln!(
        "samples of 200 processes: {} KiB; one takes at most {} KiB",
        bytes >> 10,
        most >> 10
    );
    bencher.counter(ItemsCount::new(2000_usize)).bench_local(|| {
        let round = |_| processes.iter_mut().map(WatchedEngine::next).sum::<usize>();
        (0..10).map(round).sum::<usize>()
    });
}

/// Loads and checks a thousand rules.
#[divan::bench(sample_count = 5, sample_size = 1)]
fn load_1000(bencher: Bencher<'_, '_>) {
    bencher.bench_local(|| rules(1000).rules.len());
}

/// Loads and checks the shipped rules, as at each start.
#[divan::bench(sample_count = 20, sample_size = 1)]
fn load_shipped(bencher: Bencher<'_, '_>) {
    bencher.bench_local(|| shipped_rules().rules.len());
}

fn shipped_rules() -> Arc<RuleSet> {
    match load(&shipped()) {
        Ok(loaded) => Arc::new(loaded.rules),
        Err(problems) => panic!("{} errors in the built-in rules", problems.len()),
    }
}
