//! Tests that compare windows with their definition, computed from all samples.

use proptest::prelude::*;

use super::*;
use crate::expression::Double;
use crate::field::Root;

const S: u64 = 1_000_000_000;

fn window(function: Function, extent: Extent) -> Window {
    Window {
        function,
        of: None,
        filter: None,
        sampled: Root::Gc,
        extent,
        by: ComparisonKey::Nothing,
        min_samples: 0,
        min_watched_ns: 0,
        unknown_share: Double(0.1),
    }
}

/// A window with its retained samples and their times.
struct SampledWindow {
    kept: SeriesState,
    set: SeriesSet,
    began: Moment,
    occasions: Option<Occasions>,
}

impl SampledWindow {
    fn new(window: &Window, began: u64) -> Self {
        let over = match (window.extent, window.by) {
            (Extent::Over(ns), ComparisonKey::Nothing) => Some(ns),
            _ => None,
        };
        Self {
            kept: SeriesState::Nothing,
            set: SeriesSet::default(),
            began: Moment::from_ns(began),
            occasions: over.map(Occasions::over),
        }
    }

    fn expire(&mut self, now: Moment) {
        self.set.expire(now);
        if let Some(occasions) = &mut self.occasions {
            occasions.expire(now);
        }
    }
}

/// Adds a sample in the way of the engine, which removes expired samples first.
fn add(sampled: &mut SampledWindow, window: &Window, key: Option<Key>, worth: SampleValue, time: u64, now: u64) {
    let (time, now) = (Moment::from_ns(time), Moment::from_ns(now));
    sampled.expire(now);
    let sample = SeriesSample { key, worth, time, now };
    match sampled.kept {
        SeriesState::Samples(_) if worth == SampleValue::Not && !Class::for_window(window).counts() => {}
        SeriesState::Samples(series) => {
            sampled.set.add(series, &sample, || Some(window));
        }
        kept => {
            let (kept, _) = sampled.set.take(kept, &sample, window, sampled.occasions.as_ref());
            sampled.kept = kept.unwrap();
        }
    }
    if let Some(occasions) = &mut sampled.occasions {
        occasions.add(time, now);
    }
}

fn value(sampled: &mut SampledWindow, window: &Window, key: Option<Key>, at: ReadContext) -> Option<f64> {
    sampled.expire(at.now);
    let (set, occasions) = (&sampled.set, sampled.occasions.as_ref());
    sampled.kept.value(set, window, key, sampled.began, at, occasions)
}

fn asked(now: u64, watched: u64) -> ReadContext {
    ReadContext {
        now: Moment::from_ns(now),
        watched,
        so_far: false,
    }
}

fn counts(function: Function) -> bool {
    Class::for_window(&window(function, Extent::Over(S))).counts()
}

/// A sample in the order of arrival.
#[derive(Debug, Clone, Copy)]
struct ArrivedSample {
    time: u64,
    worth: SampleValue,
}

/// Returns the samples of a window by definition, sorted by time.
fn within(window: &Window, came: &[ArrivedSample], now: u64) -> Vec<ArrivedSample> {
    let mut all: Vec<ArrivedSample> = came
        .iter()
        .copied()
        .filter(|one| counts(window.function) || one.worth != SampleValue::Not)
        .collect();
    all.sort_by_key(|one| one.time);
    if window.function == Function::Turns {
        all.reverse();
        all.dedup_by_key(|one| one.worth);
        all.reverse();
    }
    let newest = |all: Vec<ArrivedSample>, most: usize| all[all.len().saturating_sub(most)..].to_vec();
    match window.extent {
        Extent::Last(n) => newest(all, n as usize),
        Extent::Over(ns) if matches!(Class::for_window(window), Class::Sorted | Class::Runs) => {
            all.retain(|one| one.time + ns > now);
            newest(all, MAX_SAMPLES)
        }
        Extent::Over(ns) => {
            let from = covered_from(ns, now);
            all.retain(|one| one.time >= from);
            all
        }
    }
}

/// Returns the start of the oldest sub-interval.
fn covered_from(ns: u64, now: u64) -> u64 {
    let width = ns.div_ceil(BUCKETS);
    (now / width - (BUCKETS - 1)) * width
}

/// Returns the value of a window by definition.
fn naive(window: &Window, came: &[ArrivedSample], at: ReadContext) -> Option<f64> {
    let within = within(window, came, at.now.ns());
    let origin = within.first().map_or(0, |one| one.time);
    let hours = |one: &ArrivedSample| (one.time - origin) as f64 / 3.6e12;
    let known: Vec<(f64, f64)> = within
        .iter()
        .filter_map(|one| match one.worth {
            SampleValue::Counts(value) => Some((hours(one), value)),
            SampleValue::Not => Some((hours(one), 0.0)),
            SampleValue::Unknown => None,
        })
        .collect();
    let unknown = within.len() - known.len();
    if unknown as f64 > window.unknown_share.0 * within.len() as f64 || known.len() < window.min_samples as usize {
        return None;
    }
    let values: Vec<f64> = known.iter().map(|(_, value)| *value).collect();
    let count = values.len() as f64;
    let sum: f64 = values.iter().sum();
    let mean = |of: &dyn Fn(&(f64, f64)) -> f64| known.iter().map(of).sum::<f64>() / count;
    let length = match window.extent {
        Extent::Over(ns) => (at.now.ns() - covered_from(ns, at.now.ns())).min(at.watched) as f64,
        Extent::Last(_) => within
            .first()
            .map_or(at.watched, |one| at.now.ns() - one.time)
            .min(at.watched) as f64,
    };
    let median = |values: &[f64]| {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let place = (sorted.len() as f64 - 1.0) / 2.0;
        let (below, above) = (sorted.get(place.floor() as usize)?, sorted.get(place.ceil() as usize)?);
        Some(below + (above - below) * place.fract())
    };
    let hours = |one: &(f64, f64)| one.0;
    let covariance = |a: &dyn Fn(&(f64, f64)) -> f64, b: &dyn Fn(&(f64, f64)) -> f64| {
        let (mean_a, mean_b) = (mean(a), mean(b));
        known
            .iter()
            .map(|one| (a(one) - mean_a) * (b(one) - mean_b))
            .sum::<f64>()
    };
    let value = |one: &(f64, f64)| one.1;
    let spread = covariance(&hours, &hours);
    let line = known.len() > 1 && spread > 0.0;
    let slope = covariance(&hours, &value) / spread;
    let (oldest, newest) = (values.first().copied(), values.last().copied());
    match window.function {
        Function::Count | Function::Sum => Some(sum),
        Function::Ratio | Function::Mean => (!values.is_empty()).then(|| sum / count),
        Function::Rate => (length > 0.0).then(|| sum / (length / 1e9)),
        Function::Share => (length > 0.0).then(|| (sum / length).min(1.0)),
        Function::Min => values.iter().copied().reduce(f64::min),
        Function::Max => values.iter().copied().reduce(f64::max),
        Function::Median => median(&values),
        Function::Slope => line.then_some(slope),
        Function::R2 => (line && covariance(&value, &value) > 0.0)
            .then(|| covariance(&hours, &value).powi(2) / (spread * covariance(&value, &value))),
        Function::Change => Some(newest? - oldest?),
        Function::Newest => newest,
        Function::Turns => {
            let mut changed = values.clone();
            changed.dedup();
            let turned = |three: &&[f64]| (three[1] > three[0]) != (three[2] > three[1]);
            Some(changed.windows(3).filter(turned).count() as f64)
        }
    }
}

fn agree(function: Function, ours: Option<f64>, naive: Option<f64>) -> bool {
    match (ours, naive) {
        (None, None) => true,
        (Some(a), Some(b)) => {
            // The two implementations round means differently, which is visible after a division.
            let digits = match function {
                Function::Slope | Function::R2 => 1e-6,
                _ => 1e-9,
            };
            (a - b).abs() <= digits * (1.0 + a.abs().max(b.abs()))
        }
        _ => false,
    }
}

/// Returns the sample that a function receives: functions that count receive 1 instead of the value.
fn worth_for(function: Function, worth: SampleValue) -> SampleValue {
    match worth {
        SampleValue::Counts(_) if counts(function) => SampleValue::Counts(1.0),
        worth => worth,
    }
}

fn came() -> impl Strategy<Value = Vec<(u64, u64, SampleValue)>> {
    let worth = prop_oneof![
        12 => (-40i32..40).prop_map(|value| SampleValue::Counts(f64::from(value) / 4.0)),
        3 => Just(SampleValue::Not),
        1 => Just(SampleValue::Unknown),
    ];
    let alike = [
        SampleValue::Counts(1.0),
        SampleValue::Counts(0.0),
        SampleValue::Not,
        SampleValue::Unknown,
    ];
    let alike = prop::sample::select(alike.to_vec());
    let when = || (0..4000u64, prop_oneof![4 => Just(0u64), 1 => 0..9000u64]);
    let begin = (alike, prop::collection::vec(when(), 0..60));
    (begin, prop::collection::vec((when(), worth), 0..200)).prop_map(|((alike, begin), then)| {
        let begin = begin.into_iter().map(|when| (when, alike));
        begin
            .chain(then)
            .map(|((gap, late), worth)| (gap, late, worth))
            .collect()
    })
}

proptest! {
    /// Scenario: samples arrive at any time; some are late, unknown or excluded by the filter, and half of the cases
    /// start with equal samples. Windows cover a time or a number of samples.
    /// Guarantee: after each sample, the value of the window equals the value by definition, computed from all samples,
    /// except for rounding.
    #[test]
    fn window_values_match_definition(
        came in came(),
        function in prop::sample::select(Function::ALL),
        extent in prop_oneof![
            (1..90u64).prop_map(|s| Extent::Over(s * S)),
            (1..40u32).prop_map(Extent::Last),
        ],
        unknown_share in prop_oneof![Just(Double(0.1)), Just(Double(1.0))],
        min_samples in 0..4u32,
        quiet in 0..60u64,
    ) {
        let window = Window { unknown_share, min_samples, ..window(function, extent) };
        let mut live = SampledWindow::new(&window, 0);
        let began = 1_700_000_000 * S;
        let mut now = began;
        let mut so_far = Vec::new();
        for (index, (gap, late, worth)) in came.iter().enumerate() {
            let newest = now + gap * 1_000_000;
            // Merged samples leave no position for a late sample between them.
            let late = if function == Function::Turns { 0 } else { *late };
            let time = newest.saturating_sub(late * 1_000_000).max(began);
            now = now.max(time);
            let worth = worth_for(function, *worth);
            add(&mut live, &window, None, worth, time, now);
            so_far.push(ArrivedSample { time, worth });
            let last = index + 1 == came.len();
            let asked = if last { now + quiet * S } else { now };
            let at = self::asked(asked, asked - began);
            let (ours, naive) = (value(&mut live, &window, None, at), naive(&window, &so_far, at));
            prop_assert!(agree(function, ours, naive), "{:?} != {:?} after {} samples", ours, naive, index + 1);
        }
    }

    /// Scenario: a steady climb with a large offset is sampled for years.
    /// Guarantee: the slope keeps its precision, regardless of time and level.
    #[test]
    fn slopes_stay_exact(years in 0..40u64, level in 0..1_000_000_000_000u64, per_hour in 1..1_000_000u32) {
        let window = window(Function::Slope, Extent::Over(3600 * S));
        let mut live = SampledWindow::new(&window, 0);
        let began = (1 + years * 365 * 86_400) * S;
        let mut slope = None;
        // A first sample at the beginning makes the offset of the following samples as long as the time of observation.
        add(&mut live, &window, None, SampleValue::Counts(1.0), S, S);
        for minute in 0..120u64 {
            let now = began + minute * 60 * S;
            let sample = level as f64 + f64::from(per_hour) * minute as f64 / 60.0;
            add(&mut live, &window, None, SampleValue::Counts(sample), now, now);
            slope = value(&mut live, &window, None, asked(now, now));
        }
        let value = slope.unwrap_or_default();
        let resolution = level as f64 * f64::EPSILON * 240.0 + f64::from(per_hour) * 1e-6;
        prop_assert!((value - f64::from(per_hour)).abs() < resolution, "{} != {}", value, per_hour);
    }
}

/// Scenario: 100,000 samples, 1,000 per second, are distributed over the six keys and added to windows of every
/// function, over time and over samples, with and without a key.
/// Guarantee: the memory of every window is within its limit.
#[test]
fn memory_is_bounded() {
    for extent in [
        Extent::Over(60 * S),
        Extent::Over(86_400 * S),
        Extent::Last(100),
        Extent::Last(u32::MAX),
    ] {
        for &function in Function::ALL {
            for by in [ComparisonKey::Nothing, ComparisonKey::GenerationAndType] {
                let window = Window {
                    by,
                    ..window(function, extent)
                };
                let mut live = SampledWindow::new(&window, 0);
                for sample in 0..100_000u64 {
                    let time = 1_700_000_000 * S + sample * 1_000_000;
                    let key = Key(sample as usize % Key::COUNT);
                    // The first sample differs from the other samples, so no window is uniform.
                    let worth = if sample == 0 {
                        SampleValue::Unknown
                    } else {
                        SampleValue::Counts(sample as f64)
                    };
                    add(&mut live, &window, Some(key), worth, time, time);
                }
                let (taken, most) = (live.set.memory(), SeriesSet::most_memory(&window));
                assert!(taken <= most, "{function:?} {extent:?} {by:?}: {taken} > {most}");
                // All samples fall into one sub-interval of a day.
                let one = extent == Extent::Over(86_400 * S);
                assert!(taken > 0 || one, "{function:?} {extent:?} {by:?}");
            }
        }
    }
}

/// Scenario: windows of every function, over time and over samples, with and without a key, have samples. Another rule
/// set takes over every second series, starting with the last series.
/// Guarantee: each moved series keeps its value, and continues like a series that was not moved.
#[test]
fn series_move_with_their_samples() {
    let key = Some(Key(4));
    let add = |set: &mut SeriesSet, window: &Window, kept: &mut SeriesState, second: u64| {
        let (worth, now) = (
            SampleValue::Counts((second % 7) as f64 + 1.0),
            Moment::from_ns(second * S),
        );
        let time = now;
        let sample = SeriesSample { key, worth, time, now };
        match *kept {
            SeriesState::Samples(series) => _ = set.add(series, &sample, || Some(window)),
            none => *kept = set.take(none, &sample, window, None).0.unwrap(),
        }
    };
    let value = |set: &SeriesSet, window: &Window, kept: SeriesState| {
        kept.value(set, window, key, Moment::FIRST, asked(30 * S, 30 * S), None)
    };
    let (mut still, mut moving, mut moved) = (SeriesSet::default(), SeriesSet::default(), SeriesSet::default());
    let mut series = Vec::new();
    for extent in [60 * S]
        .map(Extent::Over)
        .into_iter()
        .chain([1, 10, 100].map(Extent::Last))
    {
        for (function, by) in Function::ALL.iter().flat_map(|function| {
            [
                (*function, ComparisonKey::Nothing),
                (*function, ComparisonKey::GenerationAndType),
            ]
        }) {
            let window = Window {
                by,
                ..window(function, extent)
            };
            let (mut one, mut other) = (SeriesState::Nothing, SeriesState::Nothing);
            for second in 1..20 {
                add(&mut still, &window, &mut one, second);
                add(&mut moving, &window, &mut other, second);
            }
            series.push((window, one, other));
        }
    }
    let mut known = 0;
    for (window, one, other) in series.iter_mut().rev().step_by(2) {
        let SeriesState::Samples(at) = *other else {
            panic!("{:?} keeps no samples", window.function);
        };
        *other = SeriesState::Samples(moved.take_from(&mut moving, at).unwrap());
        assert_eq!(
            value(&moved, window, *other),
            value(&still, window, *one),
            "{:?}",
            window.function
        );
        for second in 20..25 {
            add(&mut still, window, one, second);
            add(&mut moved, window, other, second);
        }
        let after = value(&moved, window, *other);
        assert_eq!(after, value(&still, window, *one), "{:?}", window.function);
        known += usize::from(after.is_some());
    }
    assert!(known > series.len() / 3, "{known} of {}", series.len());
}

/// Scenario: a process has been observed for one minute without a sample.
/// Guarantee: counts are 0, and values that were never measured are unknown.
#[test]
fn window_without_samples_counts_zero() {
    let at = asked(1000 * S, 60 * S);
    for &function in Function::ALL {
        let window = window(function, Extent::Over(60 * S));
        let value = value(&mut SampledWindow::new(&window, 0), &window, None, at);
        let counted = matches!(
            function,
            Function::Count | Function::Rate | Function::Sum | Function::Share | Function::Turns
        );
        assert_eq!(value, counted.then_some(0.0), "{function:?}");
    }
}

/// Scenario: a process is paused for one of its first five seconds; the window is one minute long and requires an
/// observation of ten seconds.
/// Guarantee: the share is unknown for ten seconds and then refers to the observed time; a pause longer than the window
/// has the share 1.
#[test]
fn share_refers_to_observed_time() {
    let window = Window {
        min_watched_ns: 10 * S,
        ..window(Function::Share, Extent::Over(60 * S))
    };
    let mut live = SampledWindow::new(&window, 0);
    let began = 1_700_000_000 * S;
    let second = began + 2 * S;
    add(&mut live, &window, None, SampleValue::Counts(S as f64), second, second);
    let mut share = |seconds: u64| {
        let at = asked(began + seconds * S, seconds * S);
        value(&mut live, &window, None, at)
    };
    assert_eq!(share(5), None);
    assert_eq!(share(10), Some(0.1));
    assert_eq!(share(20), Some(0.05));
    let at = asked(began + 20 * S, 20 * S);
    let (worth, now) = (SampleValue::Counts(200.0 * S as f64), at.now.ns());
    add(&mut live, &window, None, worth, now, now);
    assert_eq!(value(&mut live, &window, None, at), Some(1.0));
}

/// Scenario: a new rule adds a window to a process that has been observed for one hour.
/// Guarantee: the observation of the window starts with the rule, so the count is unknown instead of 0 for the first
/// minute.
#[test]
fn new_window_ignores_time_before_its_start() {
    let window = Window {
        min_watched_ns: 60 * S,
        ..window(Function::Count, Extent::Over(600 * S))
    };
    let mut live = SampledWindow::new(&window, 3600 * S);
    let mut count = |seconds: u64| {
        let at = asked(seconds * S, seconds * S);
        value(&mut live, &window, None, at)
    };
    assert_eq!(count(3630), None);
    assert_eq!(count(3660), Some(0.0));
}

/// Scenario: collections of two kinds are added to a window by kind.
/// Guarantee: each collection is compared with its own kind, and a collection without a kind is ignored and has no
/// value.
#[test]
fn kinds_are_separate() {
    let window = Window {
        by: ComparisonKey::GenerationAndType,
        ..window(Function::Median, Extent::Last(5))
    };
    let mut live = SampledWindow::new(&window, 0);
    let (small, full) = (Some(Key(1)), Some(Key(5)));
    for (key, value) in [(small, 1.0), (full, 100.0), (small, 3.0), (full, 300.0), (None, 7.0)] {
        add(&mut live, &window, key, SampleValue::Counts(value), S, S);
    }
    let at = asked(S, S);
    let mut median = |key| value(&mut live, &window, key, at);
    assert_eq!(
        [median(small), median(full), median(None), median(Some(Key(0)))],
        [Some(2.0), Some(200.0), None, None]
    );
}
