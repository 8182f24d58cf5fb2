//! A mean and its confidence interval.

use std::fmt;

/// A mean with its 95 % interval (Student's t, two-sided).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Interval {
    mean: f64,
    half: f64,
}

impl Interval {
    /// Converts the interval to another unit.
    pub(crate) fn times(self, factor: f64) -> Self {
        Self {
            mean: self.mean * factor,
            half: self.half * factor,
        }
    }

    fn low(self) -> f64 {
        self.mean - self.half
    }

    fn high(self) -> f64 {
        self.mean + self.half
    }
}

/// Returns the mean without the given share of the values at either end, with its 95 % interval (Tukey and McLaughlin,
/// from the winsorized variance). Returns `None` if fewer than three values remain.
pub(crate) fn trimmed(values: &[f64], share: f64) -> Option<Interval> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let cut = (sorted.len() as f64 * share).floor() as usize;
    let kept = sorted.get(cut..sorted.len() - cut).filter(|kept| kept.len() > 2)?;
    let (low, high) = (*kept.first()?, *kept.last()?);
    let mean = kept.iter().sum::<f64>() / kept.len() as f64;
    let winsorized: Vec<f64> = sorted.iter().map(|value| value.clamp(low, high)).collect();
    let count = winsorized.len() as f64;
    let middle = winsorized.iter().sum::<f64>() / count;
    let variance = winsorized.iter().map(|value| (value - middle).powi(2)).sum::<f64>() / (count - 1.0);
    let error = variance.sqrt() / ((1.0 - 2.0 * share) * count.sqrt());
    Some(Interval {
        mean,
        half: t_quantile(kept.len() as f64 - 1.0) * error,
    })
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} [{:.3}, {:.3}]", self.mean, self.low(), self.high())
    }
}

/// Returns the 97.5 % quantile of Student's t, by the expansion in 1/freedom around the normal quantile (Abramowitz and
/// Stegun 26.7.5). The error is below 0.001 for 8 or more degrees of freedom. For fewer degrees, the result is too
/// small, by 2 % for 4 degrees.
fn t_quantile(freedom: f64) -> f64 {
    const Z: f64 = 1.959_964;
    let terms = [
        (Z.powi(3) + Z) / 4.0,
        (5.0 * Z.powi(5) + 16.0 * Z.powi(3) + 3.0 * Z) / 96.0,
        (3.0 * Z.powi(7) + 19.0 * Z.powi(5) + 17.0 * Z.powi(3) - 15.0 * Z) / 384.0,
    ];
    let powers = [freedom, freedom.powi(2), freedom.powi(3)];
    Z + terms.iter().zip(powers).map(|(term, power)| term / power).sum::<f64>()
}
