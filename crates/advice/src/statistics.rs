//! Test of the difference between two series of blocks, and correction for multiple tests.
//!
//! Consecutive minutes depend on each other, so each value is the mean of a block of five minutes. The statistic is
//! Welch's t of the block means. Its distribution comes from a studentized bootstrap: blocks are drawn with replacement
//! from each side, and each draw is divided by its own standard error. With five blocks per side, a plain bootstrap of
//! the difference is too narrow, because it ignores that the standard error is an estimate. A series of fewer than ten
//! values has too few distinct draws: some have nearly no variance, which makes the interval too wide. Such a series is
//! drawn from a normal distribution with its mean and variance.

/// Number of draws. A probability of 1 % then has a standard error of 0.14 percentage points.
const DRAWS: usize = 4_999;

/// Maximum probability that at least one of the tests of a change finds a difference by chance.
pub const LEVEL: f64 = 0.05;

/// Minimum number of values of a series that is drawn with replacement.
const MIN_RESAMPLED: usize = 10;

/// Minimum standard error. Without a minimum, constant series have the standard error 0, and the statistic would divide
/// by 0.
const MIN_ERROR: f64 = 1e-12;

/// The result of a comparison of two series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Compared {
    /// Mean of the blocks before the change.
    pub before: f64,
    /// Mean of the blocks after the change.
    pub after: f64,
    /// Lower end of the 95 % confidence interval of the difference.
    pub low: f64,
    /// Upper end of the 95 % confidence interval of the difference.
    pub high: f64,
    /// Probability of a difference at least this far beyond the margin if the true difference does not exceed the
    /// margin.
    pub p: f64,
}

/// Mean of a series, and the squared standard error of this mean.
#[derive(Debug, Clone, Copy)]
struct Moments {
    mean: f64,
    /// Variance of the mean.
    error: f64,
}

fn moments(values: impl ExactSizeIterator<Item = f64> + Clone) -> Moments {
    let n = values.len().max(1) as f64;
    let mean = values.clone().sum::<f64>() / n;
    let squares: f64 = values.map(|value| (value - mean).powi(2)).sum();
    Moments {
        mean,
        error: squares / (n - 1.0).max(1.0) / n,
    }
}

/// Draws a value of the standard normal distribution (method of Box and Muller).
fn normal(random: &mut fastrand::Rng) -> f64 {
    let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.f64()).cos()
}

/// Compares two series of at least two blocks each. `margin` is the largest difference that does not matter.
/// `resolution` is the smallest standard error that the precision of the values allows. The same seed yields the same
/// result. Returns `None` if a series has fewer than two values or contains a value that is not finite.
pub fn compare(before: &[f64], after: &[f64], margin: f64, resolution: f64, seed: u64) -> Option<Compared> {
    let is_usable = |values: &[f64]| values.len() >= 2 && values.iter().all(|value| value.is_finite());
    if !is_usable(before) || !is_usable(after) {
        return None;
    }
    let floor = resolution.max(MIN_ERROR).powi(2);
    let error = |one: Moments, other: Moments| (one.error + other.error + floor).sqrt();
    let (one, other) = (moments(before.iter().copied()), moments(after.iter().copied()));
    let difference = other.mean - one.mean;
    let standard = error(one, other);
    let mut random = fastrand::Rng::with_seed(seed);
    let mut draw = |values: &[f64], moments_of: Moments, into: &mut Vec<f64>| {
        into.clear();
        if values.len() < MIN_RESAMPLED {
            let deviation = (moments_of.error * values.len() as f64).sqrt();
            into.extend((0..values.len()).map(|_| moments_of.mean + deviation * normal(&mut random)));
        } else {
            into.extend((0..values.len()).filter_map(|_| values.get(random.usize(..values.len()))));
        }
        moments(into.iter().copied())
    };
    let (mut buffer, mut deviations) = (Vec::new(), Vec::with_capacity(DRAWS));
    for _ in 0..DRAWS {
        let (drawn, other_drawn) = (draw(before, one, &mut buffer), draw(after, other, &mut buffer));
        let deviation = (other_drawn.mean - drawn.mean) - difference;
        deviations.push((deviation / error(drawn, other_drawn)).abs());
    }
    deviations.sort_by(f64::total_cmp);
    let beyond = ((difference.abs() - margin.max(0.0)) / standard).max(0.0);
    let above = if beyond > 0.0 {
        DRAWS - deviations.partition_point(|deviation| *deviation < beyond)
    } else {
        DRAWS
    };
    let place = ((DRAWS as f64) * (1.0 - LEVEL)).ceil() as usize;
    let width = deviations.get(place.min(DRAWS - 1)).copied().unwrap_or(0.0) * standard;
    Some(Compared {
        before: one.mean,
        after: other.mean,
        low: difference - width,
        high: difference + width,
        p: (above + 1) as f64 / (DRAWS + 1) as f64,
    })
}

/// Returns for each test whether it is significant, by the method of Holm with the joint error probability [`LEVEL`].
pub fn holm(probabilities: &[f64]) -> Vec<bool> {
    let mut order: Vec<usize> = (0..probabilities.len()).collect();
    let of = |place: &usize| probabilities.get(*place).copied().unwrap_or(1.0);
    order.sort_by(|one, other| of(one).total_cmp(&of(other)));
    let mut significant = vec![false; probabilities.len()];
    for (rank, place) in order.iter().enumerate() {
        if of(place) > LEVEL / (probabilities.len() - rank) as f64 {
            break;
        }
        if let Some(one) = significant.get_mut(*place) {
            *one = true;
        }
    }
    significant
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Scenario: five tests have probabilities above and below the thresholds of Holm.
    /// Guarantee: in ascending order of their probabilities, the tests before the first one above its threshold are
    /// significant.
    #[test]
    fn holm_stops_at_first_insignificant_test() {
        assert_eq!(holm(&[0.2, 0.009, 0.012, 0.02, 0.6]), [false, true, true, false, false]);
        assert_eq!(holm(&[0.011, 0.012, 0.013, 0.02, 0.04]), [false; 5]);
        assert_eq!(holm(&[0.001, 0.001, 0.001, 0.001, 0.049]), [true; 5]);
        assert_eq!(holm(&[]), Vec::<bool>::new());
    }

    /// Scenario: both series of 2,000 pairs of each kind come from the same distribution, normal or skewed, with three,
    /// five or seven values.
    /// Guarantee: without a margin, at most 1.5 % of the pairs with five values each have a probability of at most 1 %,
    /// which is the first threshold of Holm for five tests. With three values on a side, the degrees of freedom are
    /// uncertain, and at most 2 % do.
    #[test]
    fn equal_series_rarely_differ() {
        let mut random = fastrand::Rng::with_seed(7);
        for (is_skewed, lengths, most) in [
            (false, (5, 5), 30),
            (true, (5, 5), 30),
            (false, (3, 3), 40),
            (true, (3, 3), 40),
            (false, (3, 7), 40),
        ] {
            let mut block = || {
                let sum: f64 = (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
                if is_skewed { (sum * 0.5).exp() } else { 100.0 + sum }
            };
            let mut found = 0;
            for seed in 0..2_000 {
                let before: Vec<f64> = (0..lengths.0).map(|_| block()).collect();
                let after: Vec<f64> = (0..lengths.1).map(|_| block()).collect();
                let compared = compare(&before, &after, 0.0, 1e-9, seed).unwrap();
                found += u32::from(compared.p <= 0.01);
            }
            assert!(
                found <= most,
                "{found} of 2000, skewed: {is_skewed}, values: {lengths:?}"
            );
        }
    }

    /// Scenario: the series of 500 pairs differ by 30 %, with a noise of 3 % per block; the margin is 5 %.
    /// Guarantee: at least 95 % of the pairs have a probability of at most 1 %.
    #[test]
    fn changed_series_differ() {
        let mut random = fastrand::Rng::with_seed(8);
        let mut block = |mean: f64| mean * (1.0 + 0.03 * ((0..12).map(|_| random.f64()).sum::<f64>() - 6.0));
        let mut found = 0;
        for seed in 0..500 {
            let before: Vec<f64> = (0..5).map(|_| block(100.0)).collect();
            let after: Vec<f64> = (0..5).map(|_| block(130.0)).collect();
            found += u32::from(compare(&before, &after, 5.0, 0.1, seed).unwrap().p <= 0.01);
        }
        assert!(found >= 475, "{found} of 500");
    }

    /// Scenario: both series contain only zeros, or are constant and different.
    /// Guarantee: the equal series have a probability of 1, the different series a probability below 0.1 %, and both
    /// intervals are finite.
    #[test]
    fn constant_series_are_compared() {
        let same = compare(&[0.0; 5], &[0.0; 5], 0.0, 0.0, 0).unwrap();
        assert_eq!((same.low, same.high, same.p), (0.0, 0.0, 1.0));
        let other = compare(&[1.0; 5], &[2.0; 5], 0.5, 0.0, 0).unwrap();
        assert!(other.p < 0.001 && other.low == 1.0 && other.high == 1.0);
    }

    /// Scenario: a series is too short, or contains a value that is not a number.
    /// Guarantee: the result is `None`.
    #[test]
    fn unusable_series_are_not_compared() {
        assert_eq!(compare(&[1.0], &[1.0, 2.0], 0.0, 1.0, 0), None);
        assert_eq!(compare(&[1.0, f64::NAN], &[1.0, 2.0], 0.0, 1.0, 0), None);
    }

    proptest! {
        /// Scenario: any two series are compared twice with the same seed, and once with the sides swapped.
        /// Guarantee: both results with the same seed are equal; the interval contains the difference; the probability
        /// is above 0 and at most 1; swapped sides have swapped means.
        #[test]
        fn comparison_is_deterministic(
            before in prop::collection::vec(0.0..1e9, 2..12),
            after in prop::collection::vec(0.0..1e9, 2..12),
            seed: u64,
        ) {
            let once = compare(&before, &after, 1.0, 1.0, seed).unwrap();
            prop_assert_eq!(compare(&before, &after, 1.0, 1.0, seed).unwrap(), once);
            let difference = once.after - once.before;
            prop_assert!(once.low <= difference && difference <= once.high);
            prop_assert!(once.p > 0.0 && once.p <= 1.0);
            let exchanged = compare(&after, &before, 1.0, 1.0, seed).unwrap();
            prop_assert_eq!((exchanged.before, exchanged.after), (once.after, once.before));
        }
    }
}
