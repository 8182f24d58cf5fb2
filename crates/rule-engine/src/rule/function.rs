//! The functions of windows and their requirements.

use base::words;
use schemars::JsonSchema;
use serde::Deserialize;

words! {
    /// The function of a window. The value of every function is a double.
    pub enum Function {
        /// The number of samples, or of samples for which `where` is true. If the process has been observed for less
        /// time than the window covers, the number is not extrapolated.
        Count = "count",
        /// The ratio of samples for which `where` is true: 0 to 1.
        Ratio = "ratio",
        /// The number of samples per second of the window, or of samples for which `where` is true.
        Rate = "rate",
        /// The sum of the samples.
        Sum = "sum",
        /// The sum of the samples in nanoseconds, relative to the length of the window: the share of time.
        Share = "share",
        /// The smallest sample.
        Min = "min",
        /// The largest sample.
        Max = "max",
        /// The mean of the samples.
        Mean = "mean",
        /// The median of the samples.
        Median = "median",
        /// The slope of the regression line, per hour.
        Slope = "slope",
        /// The coefficient of determination of the regression line: 0 (no fit) to 1.
        R2 = "r2",
        /// The newest sample minus the oldest sample.
        Change = "change",
        /// The newest sample.
        Newest = "newest",
        /// The number of changes from rising to falling or back.
        Turns = "turns",
    }
}

/// Requirements of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traits {
    /// Whether `of` is required.
    pub of: bool,
    /// Whether `where` is required.
    pub needs_where: bool,
    /// Whether `over` is required.
    pub needs_over: bool,
    /// Minimum of `min_samples`. With fewer samples, the function has no value.
    pub least_samples: u32,
    /// Default of `min_samples`.
    pub usual_samples: u32,
}

impl Function {
    /// Returns the requirements of the function. By default, counts, sums and shares require no samples, a ratio, an
    /// extreme, a mean and the newest value require one sample, a change requires two, and a median and a trend require
    /// five.
    pub fn traits(self) -> Traits {
        let (of, needs_where, needs_over, least_samples, usual_samples) = match self {
            Self::Count => (false, false, false, 0, 0),
            Self::Rate => (false, false, true, 0, 0),
            Self::Ratio => (false, true, false, 1, 1),
            Self::Sum | Self::Turns => (true, false, false, 0, 0),
            Self::Share => (true, false, true, 0, 0),
            Self::Min | Self::Max | Self::Mean | Self::Newest => (true, false, false, 1, 1),
            Self::Median => (true, false, false, 1, 5),
            Self::Change => (true, false, false, 2, 2),
            Self::Slope => (true, false, false, 2, 5),
            Self::R2 => (true, false, false, 3, 5),
        };
        Traits {
            of,
            needs_where,
            needs_over,
            least_samples,
            usual_samples,
        }
    }
}

/// The key that selects the samples that are comparable with the current collection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "By")]
pub enum ComparisonKey {
    /// All samples.
    #[default]
    #[serde(skip)]
    Nothing,
    /// Samples of earlier collections of the same generation and type (blocking or not) as the current collection.
    GenerationAndType,
}
