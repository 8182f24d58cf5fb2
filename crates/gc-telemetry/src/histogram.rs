//! Distributions of durations: the OpenTelemetry exponential histogram, and explicit buckets.

/// Nanoseconds per second, the unit of exported bounds and sums.
const SECOND_NS: f64 = 1e9;

/// Finest scale: 2^20 buckets between a number and twice the number.
pub(crate) const MAX_SCALE: i32 = 20;

/// Count, sum, minimum and maximum of the recorded durations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    /// Number of recorded durations.
    pub(crate) count: u64,
    /// Sum of the durations, ns.
    pub(crate) sum_ns: u64,
    /// Minimum duration, in nanoseconds; `None` if the histogram is empty.
    pub(crate) min_ns: Option<u64>,
    /// Maximum duration, in nanoseconds; `None` if the histogram is empty.
    pub(crate) max_ns: Option<u64>,
}

impl Summary {
    fn record(&mut self, ns: u64) {
        self.count = self.count.saturating_add(1);
        self.sum_ns = self.sum_ns.saturating_add(ns);
        self.min_ns = Some(self.min_ns.map_or(ns, |min| min.min(ns)));
        self.max_ns = Some(self.max_ns.map_or(ns, |max| max.max(ns)));
    }
}

/// Durations in buckets of equal ratio: bucket `i` of scale `s` contains durations above `2^(i / 2^s)` seconds and at
/// most `2^((i + 1) / 2^s)` seconds.
///
/// The scale is as fine as the number of buckets permits. A duration outside the buckets makes the scale coarser: pairs
/// of adjacent buckets are merged, which is exact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExponentialHistogram {
    summary: Summary,
    zero: u64,
    scale: i32,
    /// Index of the first bucket.
    offset: i32,
    counts: Vec<u64>,
    max_buckets: usize,
}

impl ExponentialHistogram {
    /// Creates an empty histogram with at most `max_buckets` buckets, and at least 2.
    pub(crate) fn new(max_buckets: u16) -> Self {
        Self {
            summary: Summary::default(),
            zero: 0,
            scale: MAX_SCALE,
            offset: 0,
            counts: Vec::new(),
            max_buckets: usize::from(max_buckets).max(2),
        }
    }

    /// Counts a duration.
    pub(crate) fn record(&mut self, ns: u64) {
        self.summary.record(ns);
        if ns == 0 {
            self.zero = self.zero.saturating_add(1);
            return;
        }
        let mut index = index(ns as f64 / SECOND_NS, self.scale);
        let too_many = self.excess(index);
        if too_many > 0 {
            self.coarsen(too_many);
            index >>= too_many;
        }
        self.count_in(index);
    }

    /// Resets all counts and restores the finest scale.
    pub(crate) fn clear(&mut self) {
        self.summary = Summary::default();
        (self.zero, self.scale, self.offset) = (0, MAX_SCALE, 0);
        self.counts.clear();
    }

    /// Returns count, sum, minimum and maximum since the last [`Self::clear`].
    pub(crate) fn summary(&self) -> Summary {
        self.summary
    }

    /// Returns the number of durations of 0 ns, which are in no bucket.
    pub(crate) fn zero_count(&self) -> u64 {
        self.zero
    }

    /// Returns the scale of the buckets: 2^scale buckets between a number and twice the number.
    pub(crate) fn scale(&self) -> i32 {
        self.scale
    }

    /// Returns the index of the first bucket, and the counts.
    pub(crate) fn buckets(&self) -> (i32, &[u64]) {
        (self.offset, &self.counts)
    }

    /// Returns the number of steps by which the scale must become coarser so that all buckets and this bucket fit.
    fn excess(&self, index: i32) -> u32 {
        let (mut low, mut high) = self
            .last()
            .map_or((index, index), |last| (index.min(self.offset), index.max(last)));
        let mut steps = 0;
        while i64::from(high) - i64::from(low) >= self.max_buckets as i64 {
            (low, high) = (low >> 1, high >> 1);
            steps += 1;
        }
        steps
    }

    fn last(&self) -> Option<i32> {
        let length = i32::try_from(self.counts.len()).ok()?;
        (length > 0).then(|| self.offset + length - 1)
    }

    fn coarsen(&mut self, steps: u32) {
        let first = self.offset >> steps;
        let mut counts: Vec<u64> = Vec::new();
        for (index, &count) in (self.offset..).zip(&self.counts) {
            let place = usize::try_from((index >> steps) - first).unwrap_or_default();
            if counts.len() <= place {
                counts.resize(place + 1, 0);
            }
            if let Some(sum) = counts.get_mut(place) {
                *sum = sum.saturating_add(count);
            }
        }
        self.scale -= i32::try_from(steps).unwrap_or_default();
        (self.offset, self.counts) = (first, counts);
    }

    fn count_in(&mut self, index: i32) {
        if self.counts.is_empty() {
            self.offset = index;
        }
        if let Ok(before) = usize::try_from(i64::from(self.offset) - i64::from(index)) {
            self.counts.splice(0..0, std::iter::repeat_n(0, before));
            self.offset = index;
        }
        let place = usize::try_from(i64::from(index) - i64::from(self.offset)).unwrap_or_default();
        if self.counts.len() <= place {
            self.counts.resize(place + 1, 0);
        }
        if let Some(count) = self.counts.get_mut(place) {
            *count = count.saturating_add(1);
        }
    }
}

/// Returns the bucket of a positive, normal number.
///
/// A power of two is the upper bound of its bucket in every scale. For a power of two the result is exact: the
/// significand is 1. For other numbers the result is as exact as the logarithm.
fn index(value: f64, scale: i32) -> i32 {
    let bits = value.to_bits();
    let exponent = i32::try_from(bits >> 52 & 0x7ff).unwrap_or_default() - 1023;
    let fraction = bits & ((1 << 52) - 1);
    if scale <= 0 {
        // A power of two is an upper bound, which belongs to the lower bucket.
        let exponent = if fraction == 0 { exponent - 1 } else { exponent };
        return exponent >> -scale;
    }
    if fraction == 0 {
        return (exponent << scale) - 1;
    }
    // The logarithm of the significand is between 0 and 1. The error is the error of 52 bits for every exponent.
    let significand = f64::from_bits(fraction | 1023 << 52);
    let steps = 1i32 << scale;
    let within = (significand.log2() * f64::from(steps)).ceil() as i32;
    (exponent << scale) + within.clamp(1, steps) - 1
}

/// Durations in buckets with specified upper bounds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ExplicitHistogram {
    summary: Summary,
    /// Upper bounds in ascending order, seconds.
    bounds: Vec<f64>,
    /// Counts; one more than the number of bounds.
    counts: Vec<u64>,
}

impl ExplicitHistogram {
    /// Creates an empty histogram. Bounds that are not finite are ignored; the other bounds are sorted.
    pub(crate) fn new(bounds: &[f64]) -> Self {
        let mut bounds: Vec<f64> = bounds.iter().copied().filter(|bound| bound.is_finite()).collect();
        bounds.sort_by(f64::total_cmp);
        bounds.dedup();
        Self {
            summary: Summary::default(),
            counts: vec![0; bounds.len() + 1],
            bounds,
        }
    }

    /// Counts a duration in the first bucket whose bound is at least the duration.
    pub(crate) fn record(&mut self, ns: u64) {
        self.summary.record(ns);
        let seconds = ns as f64 / SECOND_NS;
        let place = self.bounds.partition_point(|&bound| bound < seconds);
        if let Some(count) = self.counts.get_mut(place) {
            *count = count.saturating_add(1);
        }
    }

    /// Resets all counts.
    pub(crate) fn clear(&mut self) {
        self.summary = Summary::default();
        self.counts.fill(0);
    }

    /// Returns count, sum, minimum and maximum since the last [`Self::clear`].
    pub(crate) fn summary(&self) -> Summary {
        self.summary
    }

    /// Returns the upper bounds in seconds, and the counts; the last count is for durations above the last bound.
    pub(crate) fn buckets(&self) -> (&[f64], &[u64]) {
        (&self.bounds, &self.counts)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the upper bound of a bucket in seconds.
    fn bound(index: i32, scale: i32) -> f64 {
        (f64::from(index + 1) * 2f64.powi(-scale)).exp2()
    }

    fn histogram(durations: &[u64], max_buckets: u16) -> ExponentialHistogram {
        let mut histogram = ExponentialHistogram::new(max_buckets);
        for &ns in durations {
            histogram.record(ns);
        }
        histogram
    }

    /// Scenario: the numbers are all powers of two from 2^-40 to 2^40, in scales from -4 to the finest scale.
    /// Guarantee: each power of two is the upper bound of its bucket. In scales of at least 0, the next larger number
    /// is in the next bucket.
    #[test]
    fn powers_of_two_are_upper_bounds() {
        for scale in -4..=MAX_SCALE {
            for exponent in -40i32..=40 {
                let power = f64::from(exponent).exp2();
                let expected = if scale >= 0 {
                    (exponent << scale) - 1
                } else {
                    (exponent - 1) >> -scale
                };
                assert_eq!(index(power, scale), expected, "2^{exponent} in scale {scale}");
                if scale >= 0 {
                    assert_eq!(index(power.next_up(), scale), expected + 1);
                }
            }
        }
    }

    /// Scenario: all pauses have the same length.
    /// Guarantee: the histogram has one bucket of the finest scale.
    #[test]
    fn equal_lengths_share_one_bucket() {
        let histogram = histogram(&[1_234_567; 3], 160);
        assert_eq!(histogram.scale(), MAX_SCALE);
        assert_eq!(histogram.buckets().1, [3]);
    }

    proptest! {
        /// Scenario: a duration is counted in any scale.
        /// Guarantee: the duration is between the bounds of its bucket, except for the error of the logarithm.
        #[test]
        fn duration_is_in_its_bucket(ns in 1u64.., scale in -4..=MAX_SCALE) {
            let seconds = ns as f64 / SECOND_NS;
            let index = index(seconds, scale);
            prop_assert!(seconds <= bound(index, scale) * (1.0 + 1e-13));
            prop_assert!(seconds > bound(index - 1, scale) * (1.0 - 1e-13));
        }

        /// Scenario: any durations are counted in any number of buckets.
        /// Guarantee: the result equals a naive count that puts each duration into the bucket of the final scale. The
        /// number of buckets is within the limit, and the next finer scale would exceed the limit.
        #[test]
        fn counts_match_naive_count(
            durations in prop::collection::vec(prop_oneof![0u64..50, 1_000u64..100_000_000, any::<u64>()], 0..80),
            max_buckets in 0u16..200,
        ) {
            let histogram = histogram(&durations, max_buckets);
            let allowed = usize::from(max_buckets.max(2));
            let naive = |scale: i32| {
                let mut counts = std::collections::BTreeMap::<i32, u64>::new();
                for &ns in durations.iter().filter(|&&ns| ns > 0) {
                    *counts.entry(index(ns as f64 / SECOND_NS, MAX_SCALE) >> (MAX_SCALE - scale)).or_default() += 1;
                }
                counts
            };
            let (offset, counts) = histogram.buckets();
            let merged: std::collections::BTreeMap<i32, u64> =
                (offset..).zip(counts.iter().copied()).filter(|&(_, count)| count > 0).collect();
            prop_assert_eq!(&merged, &naive(histogram.scale()));
            prop_assert!(counts.len() <= allowed);
            if histogram.scale() < MAX_SCALE {
                let finer = naive(histogram.scale() + 1);
                let (first, last) = (finer.keys().next().unwrap(), finer.keys().last().unwrap());
                prop_assert!(i64::from(last - first) >= allowed as i64);
            }
            let summary = histogram.summary();
            prop_assert_eq!(summary.count, durations.len() as u64);
            prop_assert_eq!(summary.sum_ns, durations.iter().fold(0u64, |sum, ns| sum.saturating_add(*ns)));
            prop_assert_eq!(summary.min_ns, durations.iter().min().copied());
            prop_assert_eq!(summary.max_ns, durations.iter().max().copied());
            prop_assert_eq!(histogram.zero_count() + counts.iter().sum::<u64>(), summary.count);
        }

        /// Scenario: the same durations are counted in two orders.
        /// Guarantee: both histograms are equal.
        #[test]
        fn histogram_ignores_order(durations in prop::collection::vec(any::<u64>(), 0..60), max_buckets in 2u16..40) {
            let mut sorted = durations.clone();
            sorted.sort_unstable();
            prop_assert_eq!(histogram(&durations, max_buckets), histogram(&sorted, max_buckets));
        }

        /// Scenario: any durations are counted in explicit buckets with any bounds.
        /// Guarantee: each duration is counted once, in the first bucket whose bound is at least the duration.
        #[test]
        fn explicit_buckets_count_each_duration_once(durations in prop::collection::vec(0u64..4_000_000_000, 0..50), bounds in prop::collection::vec(any::<f64>(), 0..6)) {
            let mut explicit = ExplicitHistogram::new(&bounds);
            for &ns in &durations {
                explicit.record(ns);
            }
            let (bounds, counts) = explicit.buckets();
            prop_assert_eq!(counts.len(), bounds.len() + 1);
            let mut below = 0;
            for (bound, count) in bounds.iter().zip(counts) {
                below += count;
                let naive = durations.iter().filter(|&&ns| ns as f64 / SECOND_NS <= *bound).count() as u64;
                prop_assert_eq!(below, naive);
            }
            prop_assert_eq!(counts.iter().sum::<u64>(), durations.len() as u64);
        }
    }
}
