//! Distributions of durations: the exponential histogram of OpenTelemetry, and explicit buckets.

/// Nanoseconds in a second, the unit of exported bounds and sums.
const SECOND_NS: f64 = 1e9;

/// The finest scale: 2^20 buckets between a number and its double.
pub(crate) const MAX_SCALE: i32 = 20;

/// Count, sum, minimum and maximum of the recorded durations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    /// Recorded durations.
    pub(crate) count: u64,
    /// Their sum, ns.
    pub(crate) sum_ns: u64,
    /// The shortest, ns; `None` without any.
    pub(crate) min_ns: Option<u64>,
    /// The longest, ns; `None` without any.
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

/// Durations in buckets of equal ratio: bucket `i` of scale `s` holds those above `2^(i / 2^s)` seconds and not above
/// `2^((i + 1) / 2^s)`.
///
/// The scale is as fine as the number of buckets allows. It becomes coarser when a duration lies outside of them: pairs
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
    /// An empty histogram of at most `max_buckets` buckets, and at least 2.
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

    /// Resets all counts; the scale is the finest again.
    pub(crate) fn clear(&mut self) {
        self.summary = Summary::default();
        (self.zero, self.scale, self.offset) = (0, MAX_SCALE, 0);
        self.counts.clear();
    }

    /// Count, sum, minimum and maximum since the last [`Self::clear`].
    pub(crate) fn summary(&self) -> Summary {
        self.summary
    }

    /// Durations of 0 ns, which are in no bucket.
    pub(crate) fn zero_count(&self) -> u64 {
        self.zero
    }

    /// Scale of the buckets: 2^scale buckets between a number and its double.
    pub(crate) fn scale(&self) -> i32 {
        self.scale
    }

    /// The index of the first bucket, and the counts.
    pub(crate) fn buckets(&self) -> (i32, &[u64]) {
        (self.offset, &self.counts)
    }

    /// By how many steps the scale must become coarser so that all buckets and this one fit.
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

/// The bucket of a positive, normal number.
///
/// A power of two is the upper bound of its bucket in every scale, and that is exact here: its significand is 1. For
/// other numbers it is as exact as the logarithm.
fn index(value: f64, scale: i32) -> i32 {
    let bits = value.to_bits();
    let exponent = i32::try_from(bits >> 52 & 0x7ff).unwrap_or_default() - 1023;
    let fraction = bits & ((1 << 52) - 1);
    if scale <= 0 {
        // The upper bound belongs to the bucket below.
        let exponent = if fraction == 0 { exponent - 1 } else { exponent };
        return exponent >> -scale;
    }
    if fraction == 0 {
        return (exponent << scale) - 1;
    }
    // The significand's logarithm lies between 0 and 1, so that its error is that of 52 bits, whatever the exponent.
    let significand = f64::from_bits(fraction | 1023 << 52);
    let steps = 1i32 << scale;
    let within = (significand.log2() * f64::from(steps)).ceil() as i32;
    (exponent << scale) + within.clamp(1, steps) - 1
}

/// Durations in buckets with given upper bounds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ExplicitHistogram {
    summary: Summary,
    /// Upper bounds in seconds, rising.
    bounds: Vec<f64>,
    /// One more than there are bounds.
    counts: Vec<u64>,
}

impl ExplicitHistogram {
    /// An empty histogram. Bounds that are not finite are ignored, the others are sorted.
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

    /// Counts a duration in the first bucket whose bound is not below it.
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

    /// Count, sum, minimum and maximum since the last [`Self::clear`].
    pub(crate) fn summary(&self) -> Summary {
        self.summary
    }

    /// The upper bounds in seconds, and the counts: one more, for what is above the last.
    pub(crate) fn buckets(&self) -> (&[f64], &[u64]) {
        (&self.bounds, &self.counts)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The upper bound of a bucket in seconds.
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

    /// Scenario: every power of two from 2^-40 to 2^40 in every scale.
    /// Guarantee: it is the upper bound of its bucket, and the next larger number is in the next bucket.
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

    /// Scenario: pauses of one length.
    /// Guarantee: one bucket of the finest scale.
    #[test]
    fn one_length_is_one_bucket() {
        let histogram = histogram(&[1_234_567; 3], 160);
        assert_eq!(histogram.scale(), MAX_SCALE);
        assert_eq!(histogram.buckets().1, [3]);
    }

    proptest! {
        /// Scenario: a duration in any scale.
        /// Guarantee: it lies between the bounds of its bucket, but for the error of the logarithm.
        #[test]
        fn a_duration_lies_in_its_bucket(ns in 1u64.., scale in -4..=MAX_SCALE) {
            let seconds = ns as f64 / SECOND_NS;
            let index = index(seconds, scale);
            prop_assert!(seconds <= bound(index, scale) * (1.0 + 1e-13));
            prop_assert!(seconds > bound(index - 1, scale) * (1.0 - 1e-13));
        }

        /// Scenario: any durations, any number of buckets.
        /// Guarantee: as a naive count: each duration put alone into the bucket of the scale that was reached. No more
        /// buckets than allowed; and a scale finer by one would not have fit.
        #[test]
        fn as_a_naive_count(
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

        /// Scenario: the same durations in two orders.
        /// Guarantee: one and the same histogram.
        #[test]
        fn the_order_does_not_matter(durations in prop::collection::vec(any::<u64>(), 0..60), max_buckets in 2u16..40) {
            let mut sorted = durations.clone();
            sorted.sort_unstable();
            prop_assert_eq!(histogram(&durations, max_buckets), histogram(&sorted, max_buckets));
        }

        /// Scenario: any durations into explicit buckets, whatever was given as bounds.
        /// Guarantee: each is counted once, in the first bucket whose bound is not below it.
        #[test]
        fn explicit_buckets(durations in prop::collection::vec(0u64..4_000_000_000, 0..50), bounds in prop::collection::vec(any::<f64>(), 0..6)) {
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
