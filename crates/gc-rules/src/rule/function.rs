//! The functions of windows, and what each requires.

use base::words;
use schemars::JsonSchema;
use serde::Deserialize;

words! {
    /// The function of a window. Its value is a double.
    pub enum Function {
        /// The number of samples; so far, if the process was watched for less than the window.
        Count = "count",
        /// The ratio of samples for which `where` holds: 0 to 1.
        Ratio = "ratio",
        /// Samples per second of the window.
        Rate = "rate",
        /// Their sum.
        Sum = "sum",
        /// Their sum in nanoseconds relative to the length of the window: the share of time.
        Share = "share",
        /// The smallest.
        Min = "min",
        /// The largest.
        Max = "max",
        /// The mean.
        Mean = "mean",
        /// The median.
        Median = "median",
        /// The median absolute deviation from the median: the usual spread.
        Mad = "mad",
        /// The slope of the regression line, per hour.
        Slope = "slope",
        /// The slope relative to the mean, per hour: 0.1 is 10 % an hour.
        RelativeSlope = "relative_slope",
        /// The coefficient of determination of that line: 0 (no fit) to 1.
        R2 = "r2",
        /// The newest minus the oldest.
        Change = "change",
        /// The newest minus the oldest, relative to the oldest.
        RelativeChange = "relative_change",
        /// The newest sample.
        Newest = "newest",
        /// How often the samples changed from rising to falling or back.
        Turns = "turns",
    }
}

/// What a function requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traits {
    /// It requires `of`.
    pub of: bool,
    /// It requires `where`.
    pub needs_where: bool,
    /// It requires `over`.
    pub needs_over: bool,
    /// The minimum of `min_samples`: with fewer samples there is no value.
    pub least_samples: u32,
    /// The default of `min_samples`.
    pub usual_samples: u32,
}

impl Function {
    /// What it requires. An empty window counts 0; a typical value needs some samples; a trend needs more.
    pub fn traits(self) -> Traits {
        let (of, needs_where, needs_over, least_samples, usual_samples) = match self {
            Self::Count => (false, false, false, 0, 0),
            Self::Rate => (false, false, true, 0, 0),
            Self::Ratio => (false, true, false, 1, 1),
            Self::Sum | Self::Turns => (true, false, false, 0, 0),
            Self::Share => (true, false, true, 0, 0),
            Self::Min | Self::Max | Self::Mean | Self::Newest => (true, false, false, 1, 1),
            Self::Median | Self::Mad => (true, false, false, 1, 5),
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
