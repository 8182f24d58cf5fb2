//! The distribution of values in logarithmic classes.

/// Number of classes per factor of two. A quantile is therefore at most 4.5 % away from the value of its rank; most
/// quantiles are closer, because they are interpolated.
const PER_OCTAVE: f64 = 16.0;

/// The number of values in each class that has values, in the order of the classes. A distribution of pauses takes
/// about 200 bytes, and any distribution at most 4 KiB: a value of 64 bits has 1024 classes.
#[derive(Debug, Clone, Default)]
pub(super) struct Classes {
    /// Number of the class, and number of its values.
    counts: Vec<(u16, u16)>,
    /// Lowest and highest value; `None` without values.
    ends: Option<(u64, u64)>,
}

impl Classes {
    pub(super) fn add(&mut self, value: u64) {
        let class = ((value.max(1) as f64).log2() * PER_OCTAVE) as u16;
        match self.counts.binary_search_by_key(&class, |(class, _)| *class) {
            Ok(place) => {
                if let Some((_, count)) = self.counts.get_mut(place) {
                    *count = count.saturating_add(1);
                }
            }
            Err(place) => self.counts.insert(place, (class, 1)),
        }
        let (low, high) = self.ends.unwrap_or((value, value));
        self.ends = Some((low.min(value), high.max(value)));
    }

    /// Returns a quantile, interpolated within the class of its rank, or `None` without values.
    pub(super) fn quantile(&self, share: f64) -> Option<u64> {
        let (low, high) = self.ends?;
        let all: f64 = self.counts.iter().map(|(_, count)| f64::from(*count)).sum();
        let rank = (all * share).ceil().max(1.0);
        let mut below = 0.0;
        for (class, count) in &self.counts {
            let count = f64::from(*count);
            if below + count >= rank {
                let within = (rank - below - 0.5) / count;
                let value = ((f64::from(*class) + within) / PER_OCTAVE).exp2();
                return Some((value as u64).clamp(low, high));
            }
            below += count;
        }
        Some(high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: a distribution has no value, one value, equal values, the numbers from 1,000 to 9,000, and the lowest
    /// and the highest value of 64 bits.
    /// Guarantee: there is no quantile without values; equal values are exact; the quantiles of the numbers are within
    /// 1 %; the ends are within the range.
    #[test]
    fn quantiles_are_close() {
        assert_eq!(Classes::default().quantile(0.5), None);
        let of = |values: &mut dyn Iterator<Item = u64>| {
            let mut classes = Classes::default();
            values.for_each(|value| classes.add(value));
            classes
        };
        assert_eq!(of(&mut [4_000_000].into_iter()).quantile(0.95), Some(4_000_000));
        assert_eq!(of(&mut [7; 90].into_iter()).quantile(0.5), Some(7));
        let many = of(&mut (1_000..=9_000));
        for (share, exact) in [(0.5, 5_000.0), (0.95, 8_600.0), (0.1, 1_800.0)] {
            let found = many.quantile(share).unwrap() as f64;
            assert!((found / exact - 1.0).abs() < 0.01, "{found} for {exact}");
        }
        let ends = of(&mut [0, u64::MAX].into_iter());
        assert_eq!((ends.quantile(0.5), ends.quantile(1.0)), (Some(1), Some(u64::MAX)));
    }
}
