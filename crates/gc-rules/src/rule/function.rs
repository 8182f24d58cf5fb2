//! What a window computes, and what each function requires.

use schemars::JsonSchema;
use serde::Deserialize;
use strict_yaml::words;

words! {
    /// What a window makes of its samples.
    pub enum Function {
        /// How many samples. Of a process that was watched for a shorter time than the window, what was seen so far.
        Count = "count",
        /// The samples for which `where` holds, as a share of all: 0 to 1.
        Ratio = "ratio",
        /// Samples per second of the window.
        Rate = "rate",
        /// Their sum.
        Sum = "sum",
        /// Their sum, nanoseconds, as a share of the window's length: the share of time.
        Share = "share",
        /// The smallest.
        Min = "min",
        /// The largest.
        Max = "max",
        /// The mean.
        Mean = "mean",
        /// The quantile `q`, between samples by linear interpolation.
        Quantile = "quantile",
        /// The median.
        Median = "median",
        /// The median of the distances from the median: how much is usual.
        Mad = "mad",
        /// The slope of the line that fits best, per hour.
        Slope = "slope",
        /// The same as a share of the mean, per hour: 0.1 is 10 % an hour.
        RelativeSlope = "relative_slope",
        /// How well that line fits: 0 (not at all) to 1.
        R2 = "r2",
        /// The newest less the oldest.
        Change = "change",
        /// The newest less the oldest, as a share of the oldest.
        RelativeChange = "relative_change",
        /// The newest sample.
        Newest = "newest",
        /// How many samples in a row, up to the newest, `where` holds for.
        Streak = "streak",
        /// How many samples in a row, up to the newest, are larger than the one before.
        Rises = "rises",
        /// How often the samples turned from rising to falling or back.
        Turns = "turns",
    }
}

/// What a function asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Traits {
    /// It is of a number.
    pub(crate) of: bool,
    /// It is nothing without `where`.
    pub(crate) needs_where: bool,
    /// It is of a time.
    pub(crate) needs_over: bool,
    /// With fewer samples there is nothing to compute: `min_samples` may not be less.
    pub(crate) least_samples: u32,
    /// `min_samples` where it is not set.
    pub(crate) usual_samples: u32,
}

impl Function {
    /// What it asks for. An empty window counts 0; what is typical of a process takes some samples to tell; a trend takes more.
    pub(crate) fn traits(self) -> Traits {
        let (of, needs_where, needs_over, least_samples, usual_samples) = match self {
            Self::Count => (false, false, false, 0, 0),
            Self::Rate => (false, false, true, 0, 0),
            Self::Streak => (false, true, false, 0, 0),
            Self::Ratio => (false, true, false, 1, 1),
            Self::Sum | Self::Rises | Self::Turns => (true, false, false, 0, 0),
            Self::Share => (true, false, true, 0, 0),
            Self::Min | Self::Max | Self::Mean | Self::Newest => (true, false, false, 1, 1),
            Self::Median | Self::Mad => (true, false, false, 1, 5),
            Self::Quantile => (true, false, false, 1, 10),
            Self::Change | Self::RelativeChange => (true, false, false, 2, 2),
            Self::Slope | Self::RelativeSlope => (true, false, false, 2, 5),
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

/// Which samples of a window are comparable with the current collection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// All.
    #[default]
    #[serde(skip)]
    Nothing,
    /// Those of earlier collections of the same generation, blocking or not, as the current one.
    GenerationAndType,
}
