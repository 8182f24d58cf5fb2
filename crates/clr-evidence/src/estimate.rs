//! Estimates the bytes that samples represent, with confidence intervals.
//!
//! .NET 10 selects each allocated byte with a probability of 1 in 102,400 ([`INTERVAL_BYTES`]) and samples an object if
//! one of its bytes is selected. With q = 1 - 1/102,400, an object of s bytes is sampled with probability P = 1 - q^s,
//! and therefore represents s / P bytes (unbiased) with a variance of s^2 (1 - P) / P^2. The variance is nearly the
//! square of the estimate for small objects, and zero for large objects, which are always sampled.
//!
//! The intervals follow Fay and Feuer (1997) for sums of weighted Poisson counts: gamma quantiles with the mean and the
//! variance of the sum, where the upper limit allows for one more sample. If all samples have the same weight, the
//! limits equal the exact Poisson limits (Garwood), which a normal approximation misses for few samples: one sample
//! represents 2.5 KiB to 557 KiB, not 100 KiB +- 200 KiB. Sampled objects were certainly allocated, so no lower limit
//! is below their own size.

/// Average number of bytes between two samples of .NET 10 and later.
pub const INTERVAL_BYTES: f64 = 102_400.0;
/// Probability excluded at each limit.
const TAIL: f64 = 0.025;

/// The sum of samples of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sum {
    /// Number of samples.
    pub samples: u64,
    /// Bytes that the samples represent.
    pub bytes: f64,
    /// Variance of the represented bytes.
    variance: f64,
    /// Size of the sampled objects themselves, in bytes.
    own: f64,
}

/// An estimate and its 95 % interval, in bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Unbiased estimate.
    pub bytes: f64,
    /// Lower limit.
    pub low: f64,
    /// Upper limit.
    pub high: f64,
}

impl Sum {
    /// Adds a sampled object of `size` bytes.
    pub fn sample(&mut self, size: u64) {
        let size = size.max(1) as f64;
        let seen = -(size * (-1.0 / INTERVAL_BYTES).ln_1p()).exp_m1();
        self.samples += 1;
        self.bytes += size / seen;
        self.variance += size * size * (1.0 - seen) / (seen * seen);
        self.own += size;
    }

    /// Adds a tick, which represents `bytes` bytes. The accuracy of a tick is unknown.
    pub fn tick(&mut self, bytes: u64) {
        self.samples += 1;
        self.bytes += bytes as f64;
    }

    /// Adds another sum.
    pub fn add(&mut self, other: &Self) {
        self.samples += other.samples;
        self.bytes += other.bytes;
        self.variance += other.variance;
        self.own += other.own;
    }

    /// Returns the estimate with its interval. The interval is valid only if no tick was added.
    pub fn estimate(&self) -> Estimate {
        let low = if self.samples == 0 {
            0.0
        } else if self.variance <= 0.0 {
            self.bytes
        } else {
            gamma_quantile(TAIL, self.bytes * self.bytes / self.variance) * self.variance / self.bytes
        };
        // Allow for one more sample of a small object, which is the kind of object that can be missed.
        let (bytes, variance) = (
            self.bytes + INTERVAL_BYTES,
            self.variance + INTERVAL_BYTES * INTERVAL_BYTES,
        );
        let high = gamma_quantile(1.0 - TAIL, bytes * bytes / variance) * variance / bytes;
        Estimate {
            bytes: self.bytes,
            low: low.max(self.own).min(self.bytes),
            high: high.max(self.bytes),
        }
    }
}

/// Returns the quantile of the gamma distribution with this shape and scale 1.
fn gamma_quantile(probability: f64, shape: f64) -> f64 {
    // The bounds are wide enough for the distribution. 200 bisections are exact in 64 bits; 80 are sufficient.
    let spread = shape.sqrt().max(1.0);
    let (mut low, mut high) = ((shape - 12.0 * spread).max(0.0), shape + 12.0 * spread + 40.0);
    for _ in 0..80 {
        let middle = 0.5 * (low + high);
        if gamma_below(shape, middle) < probability {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

/// Returns P(shape, x), the regularized lower incomplete gamma function, as a series below the mean and a continued
/// fraction above (Abramowitz and Stegun 6.5.29 and 6.5.31).
fn gamma_below(shape: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    const TERMS: u32 = 20_000;
    let front = (shape * x.ln() - x - ln_gamma(shape)).exp();
    if x < shape + 1.0 {
        let (mut term, mut sum, mut at) = (1.0 / shape, 1.0 / shape, shape);
        for _ in 0..TERMS {
            at += 1.0;
            term *= x / at;
            sum += term;
            if term < sum * 1e-15 {
                break;
            }
        }
        return sum * front;
    }
    let tiny = f64::MIN_POSITIVE / f64::EPSILON;
    let mut b = x + 1.0 - shape;
    let (mut c, mut d) = (1.0 / tiny, 1.0 / b);
    let mut fraction = d;
    for step in 1..TERMS {
        let step = f64::from(step);
        let a = -step * (step - shape);
        b += 2.0;
        d = 1.0 / nonzero(a * d + b, tiny);
        c = nonzero(b + a / c, tiny);
        fraction *= d * c;
        if (d * c - 1.0).abs() < 1e-15 {
            break;
        }
    }
    1.0 - front * fraction
}

fn nonzero(value: f64, tiny: f64) -> f64 {
    if value.abs() < tiny { tiny } else { value }
}

/// Returns the logarithm of the gamma function by Stirling's series, for x > 0.
fn ln_gamma(x: f64) -> f64 {
    // The series is exact for values of 10 or more. The recurrence raises smaller values.
    let (mut x, mut less) = (x, 0.0);
    while x < 10.0 {
        less += x.ln();
        x += 1.0;
    }
    let square = 1.0 / (x * x);
    let series = (1.0 / 12.0 - square * (1.0 / 360.0 - square * (1.0 / 1260.0 - square / 1680.0))) / x;
    (x - 0.5) * x.ln() - x + 0.5 * (2.0 * std::f64::consts::PI).ln() + series - less
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expected: f64) {
        assert!(
            (found - expected).abs() <= expected.abs() * 2e-4,
            "{found} is not {expected}"
        );
    }

    /// Scenario: sums have 0 to 1,000 samples of small objects.
    /// Guarantee: the limits equal the exact Poisson limits in Garwood's tables.
    #[test]
    fn limits_of_equal_samples_are_exact() {
        for (samples, low, high) in [
            (0, 0.0, 3.6889),
            (1, 0.025_318, 5.5716),
            (2, 0.242_21, 7.2247),
            (5, 1.6235, 11.6683),
            (10, 4.7954, 18.3904),
            (100, 81.364, 121.627),
            (1000, 938.97, 1063.95),
        ] {
            let mut sum = Sum::default();
            for _ in 0..samples {
                // The object is so small that its weight equals the interval.
                sum.sample(1);
            }
            let estimate = sum.estimate();
            near(estimate.high / INTERVAL_BYTES, high);
            if samples > 0 {
                near(estimate.low / INTERVAL_BYTES, low);
                near(estimate.bytes / INTERVAL_BYTES, samples as f64);
            }
        }
    }

    /// Scenario: one object is so large that it is always sampled, and another object has 100 KB.
    /// Guarantee: the first object represents itself, and no limit is below the sampled bytes.
    #[test]
    fn large_object_represents_itself() {
        let mut sum = Sum::default();
        sum.sample(10_000_000);
        let estimate = sum.estimate();
        near(estimate.bytes, 10_000_000.0);
        near(estimate.low, 10_000_000.0);
        assert!(estimate.high > 10_000_000.0);
        let mut sum = Sum::default();
        sum.sample(102_400);
        assert!(sum.estimate().low >= 102_400.0);
        near(sum.bytes, 102_400.0 / 0.632_12);
    }

    /// Scenario: five programs allocate objects of mixed sizes, and bytes are selected randomly. Each program runs
    /// 2,000 times.
    /// Guarantee: the mean of the estimates is within 5 % of the true value, and at least 94 % of the intervals contain
    /// the true value.
    #[test]
    fn intervals_contain_the_true_value() {
        let mut chance = fastrand::Rng::with_seed(7);
        let sites: [(&[u64], u64); 5] = [
            (&[24], 20_000),
            (&[32, 400], 40_000),
            (&[100, 5_000, 90_000], 60),
            (&[200_000, 64], 40),
            (&[1_000], 300),
        ];
        for (sizes, objects) in sites {
            let truth = sizes.iter().sum::<u64>() as f64 * objects as f64;
            let (mut covered, mut mean) = (0_u32, 0.0);
            for _ in 0..2_000 {
                let mut sum = Sum::default();
                for &size in sizes {
                    let seen = 1.0 - (1.0 - 1.0 / INTERVAL_BYTES).powf(size as f64);
                    // The number of objects between two samples has a geometric distribution.
                    let mut left = objects;
                    loop {
                        let skipped = ((1.0 - chance.f64()).ln() / (1.0 - seen).ln()) as u64;
                        if skipped >= left {
                            break;
                        }
                        left -= skipped + 1;
                        sum.sample(size);
                    }
                }
                let estimate = sum.estimate();
                covered += u32::from((estimate.low..=estimate.high).contains(&truth));
                mean += estimate.bytes / 2_000.0;
            }
            assert!((mean / truth - 1.0).abs() < 0.05, "{sizes:?}: {mean} of {truth}");
            assert!(covered >= 1_880, "{sizes:?}: {covered}");
        }
    }
}
