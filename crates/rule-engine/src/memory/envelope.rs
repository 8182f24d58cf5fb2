//! The lower envelope of a memory over time, and the growth that it shows.
//!
//! The envelope at an instant is the minimum value since this instant. Memory that is released again (a saw-tooth of
//! collections, a copy that is dropped, a cache that is cleared) leaves the envelope flat, so such memory has no trend.
//!
//! # Growth
//!
//! 1. Samples are kept as the minimum and the maximum of time slots of equal length.
//! 2. The newest rise after a fall can be the next tooth of a saw. Only the part of the rise that exceeds the deepest
//!    fall in the window counts.
//! 3. The envelope grows while rises follow each other. If no rise follows within a certain number of gaps between
//!    rises, growth has ended. A leak that only full collections reveal rises in steps with long gaps, a warm-up in
//!    steps with short gaps, so the same rule fits both.
//! 4. Growth needs three rises, or two rises that are [`APART`] slots apart, because a single step can fall into two
//!    slots. In the window of five minutes, growth must also reach a share of the deepest fall, because the minima of a
//!    saw scatter. The pace is the slope through the rises, or the slope through the newest half of them if that slope
//!    is less than half as steep, so that growth that flattens out is not extrapolated.

use std::collections::VecDeque;

use base::time::Moment;

/// Number of retained time slots.
const SLOTS: u64 = 20;

/// Minimum number of slots between two rises that are not a single step.
const APART: u32 = 3;

/// Divisor of the total rise in the window. Rises below the quotient are noise.
const NOISE: u64 = 32;

/// Minimum height of a rise, in KiB.
const MIN_RISE_KIB: u32 = 128;

const MINUTE_NS: f64 = 60e9;

/// Growth of a memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Growth {
    /// Bytes per minute.
    pub(super) per_minute: f64,
    /// Time at which the growth started, at most one window ago.
    pub(super) since: Moment,
    /// Time since the newest rise, in gaps between rises; at least 1.
    pub(super) overdue: f64,
}

impl Growth {
    /// Returns the pace, reduced by the time without another rise.
    pub(super) fn overdue_per_minute(self) -> f64 {
        self.per_minute / self.overdue
    }
}

/// A time slot with samples, in KiB.
#[derive(Debug, Clone, Copy)]
struct Slot {
    number: u32,
    min: u32,
    max: u32,
}

/// Lower envelope of a memory in a window of 20 time slots.
#[derive(Debug, Clone)]
pub(super) struct Envelope {
    slot_ns: u64,
    slots: VecDeque<Slot>,
}

impl Envelope {
    /// Maximum memory of the samples of an envelope, in bytes. The capacity of a queue doubles until the samples fit.
    pub(super) const MAX_BYTES: usize = (SLOTS as usize + 1).next_power_of_two() * size_of::<Slot>();

    /// Creates an envelope with slots of the given length, in nanoseconds.
    pub(super) fn new(slot_ns: u64) -> Self {
        Self {
            slot_ns: slot_ns.max(1),
            slots: VecDeque::new(),
        }
    }

    /// Adds a sample, in bytes.
    pub(super) fn add(&mut self, at: Moment, bytes: u64) {
        let number = self.number(at);
        let kib = u32::try_from(bytes >> 10).unwrap_or(u32::MAX);
        self.expire(at);
        match self.slots.back_mut() {
            Some(slot) if slot.number >= number => {
                slot.min = slot.min.min(kib);
                slot.max = slot.max.max(kib);
            }
            _ => {
                self.slots.reserve_exact(1);
                self.slots.push_back(Slot {
                    number,
                    min: kib,
                    max: kib,
                });
            }
        }
    }

    fn number(&self, at: Moment) -> u32 {
        u32::try_from(at.ns() / self.slot_ns).unwrap_or(u32::MAX)
    }

    fn expire(&mut self, now: Moment) {
        let oldest = u64::from(self.number(now)).saturating_sub(SLOTS);
        while self.slots.front().is_some_and(|slot| u64::from(slot.number) < oldest) {
            self.slots.pop_front();
        }
    }

    /// Returns the growth at `now`, or `None` if the memory does not grow or too few slots have samples. Growth has
    /// ended if no rise followed the newest rise within `max_gaps` gaps. Growth must be at least `share` of the deepest
    /// fall.
    pub(super) fn growth(&self, now: Moment, max_gaps: f64, share: f64) -> Option<Growth> {
        let oldest = u64::from(self.number(now)).saturating_sub(SLOTS);
        let slots: Vec<Slot> = self
            .slots
            .iter()
            .copied()
            .filter(|slot| u64::from(slot.number) >= oldest)
            .collect();
        let (first, last) = (slots.first()?, slots.last()?);
        if last.min <= first.min {
            return None;
        }
        let (points, deepest) = envelope(&slots);
        let rises = rises(&points);
        let run = run(&rises);
        let (start, newest) = (run.first()?, run.last()?);
        // The minima of a saw scatter because full collections occur at any height.
        if f64::from(newest.kib.saturating_sub(start.kib)) < share * f64::from(deepest) {
            return None;
        }
        let mut gaps = run
            .windows(2)
            .filter_map(|pair| Some(pair.last()?.number - pair.first()?.number));
        let is_growth = match run.len() {
            0..3 => false,
            3 => gaps.clone().all(|gap| gap >= APART),
            _ => true,
        };
        if !is_growth {
            return None;
        }
        let mean = f64::from(newest.number - start.number) / (run.len() - 1) as f64;
        let gap = mean.max(f64::from(gaps.next_back()?));
        let quiet = f64::from(self.number(now).saturating_sub(newest.number));
        if quiet > max_gaps * gap {
            return None;
        }
        let newer = run.get((run.len() - 1) / 2..)?;
        let (whole, recent) = (slope(run)?, slope(newer)?);
        let kib_per_slot = if recent < whole / 2.0 { recent } else { whole };
        let per_minute = kib_per_slot * 1024.0 * MINUTE_NS / self.slot_ns as f64;
        Some(Growth {
            per_minute,
            since: Moment::from_ns(u64::from(start.number).saturating_mul(self.slot_ns)),
            overdue: (quiet / gap).max(1.0),
        })
        .filter(|growth| growth.per_minute > 0.0)
    }
}

/// A point of an envelope.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Point {
    number: u32,
    kib: u32,
}

/// Returns the minimum since each slot, without a rise that can be the next tooth of a saw, and the deepest fall.
fn envelope(slots: &[Slot]) -> (Vec<Point>, u32) {
    // Find the deepest fall, and the slot in which the newest fall of at least a third of that depth ended.
    let fall = |peak: u32, slot: &Slot| peak.saturating_sub(slot.min);
    let mut peak = 0;
    let mut deepest = 0;
    for slot in slots {
        deepest = deepest.max(fall(peak, slot));
        peak = peak.max(slot.max);
    }
    let mut low: Option<(usize, u32)> = None;
    let mut peak = 0;
    for (place, slot) in slots.iter().enumerate() {
        let is_lower = low.is_some_and(|(_, kib)| slot.min <= kib);
        let is_fall = deepest > MIN_RISE_KIB && fall(peak, slot) >= deepest / 3;
        if is_lower || is_fall {
            low = Some((place, slot.min));
            // The maximum of this slot can precede the fall.
            peak = slot.min;
        } else {
            peak = peak.max(slot.max);
        }
    }
    let mut points: Vec<Point> = slots
        .iter()
        .map(|slot| Point {
            number: slot.number,
            kib: slot.min,
        })
        .collect();
    let mut least = u32::MAX;
    for point in points.iter_mut().rev() {
        least = least.min(point.kib);
        point.kib = least;
    }
    if let Some((place, _)) = low
        && let Some(floor) = points.get(place).map(|point| point.kib)
    {
        for point in points.iter_mut().skip(place + 1) {
            point.kib = floor.max(point.kib.saturating_sub(deepest));
        }
    }
    (points, deepest)
}

/// Returns the first point, and each point that exceeds the previously returned point by more than noise.
fn rises(points: &[Point]) -> Vec<Point> {
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return Vec::new();
    };
    let noise = ((u64::from(last.kib.saturating_sub(first.kib)) / NOISE) as u32).max(MIN_RISE_KIB);
    let mut rises = vec![*first];
    let mut previous = *first;
    for point in points.iter().skip(1) {
        let Some(newest) = rises.last().copied() else { break };
        if point.kib >= newest.kib.saturating_add(noise) {
            // The rise started after the newest flat point.
            if previous.number > newest.number && rises.len() == 1 {
                rises.clear();
                rises.push(previous);
            }
            rises.push(*point);
        }
        previous = *point;
    }
    rises
}

/// Returns the newest rises with similar gaps: no gap is longer than four times the mean of the gaps after it, or five
/// times the mean of the gaps before it. A rise long after a fast start does not continue the start.
fn run(rises: &[Point]) -> &[Point] {
    let mut start = rises.len().saturating_sub(1);
    let newest = rises.last().map_or(0, |point| point.number);
    while start > 0 {
        let Some((before, here)) = rises.get(start - 1).zip(rises.get(start)) else {
            break;
        };
        let gap = f64::from(here.number - before.number);
        let steps = rises.len() - 1 - start;
        let mean = f64::from(newest - here.number) / steps.max(1) as f64;
        if steps > 0 && gap > (4.0 * mean).max(4.0) {
            break;
        }
        start -= 1;
    }
    let run = rises.get(start..).unwrap_or_default();
    let oldest = run.first().map_or(0, |point| point.number);
    let restart = run.windows(2).enumerate().skip(1).rev().find_map(|(place, pair)| {
        let (before, here) = (pair.first()?.number, pair.last()?.number);
        let mean = f64::from(before - oldest) / place as f64;
        (f64::from(here - before) > (5.0 * mean).max(5.0)).then_some(place + 1)
    });
    run.get(restart.unwrap_or(0)..).unwrap_or_default()
}

/// Returns the slope of the regression line in KiB per slot, or `None` if all points are in one slot.
fn slope(points: &[Point]) -> Option<f64> {
    let origin = points.first()?.number;
    let count = points.len() as f64;
    let x = |point: &Point| f64::from(point.number - origin);
    let mean_x = points.iter().map(x).sum::<f64>() / count;
    let mean_y = points.iter().map(|point| f64::from(point.kib)).sum::<f64>() / count;
    let covariance: f64 = points
        .iter()
        .map(|point| (x(point) - mean_x) * (f64::from(point.kib) - mean_y))
        .sum();
    let variance: f64 = points.iter().map(|point| (x(point) - mean_x).powi(2)).sum();
    (variance > 0.0).then(|| covariance / variance)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Returns the growth in MiB per minute and its age in seconds, after one sample of `mib` per second.
    fn growth(seconds: u64, mib: impl Fn(u64) -> f64) -> Option<(f64, u64)> {
        let mut envelope = Envelope::new(15_000_000_000);
        let at = |second: u64| Moment::from_ns(second * 1_000_000_000);
        let begin = 1_000_005;
        for second in 0..seconds {
            envelope.add(at(begin + second), (mib(second) * MIB as f64) as u64);
        }
        let now = begin + seconds;
        let growth = envelope.growth(at(now), 2.0, 0.3)?;
        Some((growth.per_minute / MIB as f64, now - growth.since.ns() / 1_000_000_000))
    }

    fn pace(seconds: u64, mib: impl Fn(u64) -> f64) -> f64 {
        growth(seconds, mib).map_or(0.0, |(pace, _)| pace)
    }

    /// Scenario: memory grows linearly by 60 MiB per minute, for 75 s, two minutes and ten minutes.
    /// Guarantee: the pace is within 5 % of 60 MiB per minute, and the age is within 20 s of the time since the start,
    /// at most the length of the window.
    #[test]
    fn line_has_its_slope() {
        for seconds in [75, 120, 600] {
            let (pace, age) = growth(seconds, |second| 100.0 + second as f64).unwrap();
            assert!((57.0..63.0).contains(&pace), "{pace}");
            assert!(age.abs_diff(seconds.min(310)) <= 20, "{age} of {seconds}");
        }
    }

    /// Scenario: memory stays constant, scatters by 3 MiB, falls, or jumps once by 300 MiB within 20 s.
    /// Guarantee: the memory does not grow.
    #[test]
    fn flat_memory_has_no_growth() {
        let scatter = |second: u64| 100.0 + (second * 7919 % 31) as f64 / 10.0;
        for seconds in [90, 200, 290, 500] {
            assert_eq!(growth(seconds, |_| 100.0), None);
            assert_eq!(growth(seconds, scatter), None, "{seconds}");
            assert_eq!(growth(seconds, |second| 500.0 - second as f64 / 2.0), None);
        }
        for seconds in 60..400 {
            let step = |second: u64| 100.0 + 15.0 * second.saturating_sub(50).min(20) as f64;
            assert_eq!(growth(seconds, step), None, "{seconds}");
        }
    }

    /// Scenario: memory is a saw-tooth of 200 MiB with a period of 40 s or 100 s, or a saw-tooth whose minima rise by
    /// 12 MiB per minute.
    /// Guarantee: equal teeth do not grow after the first tooth, and the rising saw-tooth grows by about the slope of
    /// its minima.
    #[test]
    fn saw_grows_by_its_minima() {
        for period in [40, 100] {
            let tooth = |second: u64| 200.0 * (second % period) as f64 / period as f64;
            for seconds in period + 20..3 * period + 200 {
                assert_eq!(
                    growth(seconds, |second| 100.0 + tooth(second)),
                    None,
                    "{period} s, {seconds}"
                );
            }
        }
        let tooth = |second: u64| 100.0 * (second % 30) as f64 / 30.0;
        let mut seen = 0;
        for seconds in 200..400 {
            let pace = pace(seconds, |second| 100.0 + tooth(second) + second as f64 / 5.0);
            seen += usize::from((8.0..18.0).contains(&pace));
            assert!(pace < 18.0, "{pace} at {seconds}");
        }
        assert!(seen > 150, "{seen}");
    }

    /// Scenario: a service loads its data in 8 s. Every 40 s it builds a copy, and full collections, which run before
    /// or after the old data are dropped, find one copy or both.
    /// Guarantee: the memory does not grow, regardless of the phase of the slots.
    #[test]
    fn copies_are_not_growth() {
        // Seconds and MiB, measured in a process with a limit of 400 MiB.
        let observed = [
            (0, 63),
            (4, 122),
            (7, 228),
            (46, 317),
            (82, 306),
            (87, 221),
            (108, 201),
            (123, 301),
            (126, 247),
            (138, 241),
            (164, 270),
            (169, 308),
            (205, 250),
            (209, 282),
            (240, 230),
        ];
        let memory = |second: u64| {
            let newest = observed.iter().rev().find(|(from, _)| *from <= second);
            newest.map_or(0.0, |(_, mib)| *mib as f64)
        };
        for phase in 0..15 {
            for seconds in 100..250 {
                let growth = growth(phase + seconds, |second| memory(second.saturating_sub(phase)));
                assert_eq!(growth, None, "{seconds} s, phase {phase}");
            }
        }
    }

    /// Scenario: only full collections reveal a leak of 32 MiB per minute, 22, 39, 89 and 189 s after the start.
    /// Guarantee: from 17 s until 110 s after the last full collection, the pace is between 25 and 40 MiB per minute.
    #[test]
    fn staircase_grows_between_steps() {
        let fulls = [0, 22, 39, 89, 189];
        let live = |second: u64| {
            let full = fulls.iter().rev().find(|full| **full <= second).unwrap();
            10.0 + *full as f64 * 32.0 / 60.0
        };
        for seconds in 206..300 {
            let pace = pace(seconds, live);
            assert!((25.0..40.0).contains(&pace), "{pace} at {seconds}");
        }
    }

    /// Scenario: a warm-up grows by 230 MiB per minute for two minutes and then stops; a cache fills more and more
    /// slowly.
    /// Guarantee: the growth of the warm-up ends within 45 s, and the pace of the cache is below 40 MiB per minute
    /// after four minutes.
    #[test]
    fn growth_ends_when_memory_rests() {
        let warm = |second: u64| 50.0 + 230.0 / 60.0 * second.min(120) as f64;
        assert!(pace(119, warm) > 200.0);
        for seconds in 165..400 {
            assert_eq!(growth(seconds, warm), None, "{seconds}");
        }
        let cache = |second: u64| 300.0 * (1.0 - (-(second as f64) / 60.0).exp());
        let pace = pace(240, cache);
        assert!(pace < 40.0, "{pace}");
    }
}
