//! The keys of a window, and what each function asks for.

use schemars::JsonSchema;
use serde::Deserialize;

use super::ByWord;
use crate::rule::Function;
use strict_yaml::units::HumanDuration;

/// A window: what a function makes of the samples of the last minutes, or of the last so many.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["fn"]))]
pub(crate) struct WindowKeys {
    /// What it makes of its samples.
    #[serde(rename = "fn")]
    pub(crate) function: Option<FunctionWord>,
    /// What is sampled, a number. Its fields say when: `gc.*` at each collection, `suspension.*` at each stop without a collection, all
    /// others once a second.
    #[schemars(extend("x-expression" = "number"), length(min = 1))]
    pub(crate) of: Option<String>,
    /// Which samples count; not set: all. Where it is unknown, the sample is one of unknown worth.
    #[serde(rename = "where")]
    #[schemars(extend("x-expression" = "bool"), length(min = 1))]
    pub(crate) filter: Option<String>,
    /// How far it reaches back, as a duration. Either this or `last`.
    #[schemars(extend("x-minimum" = "1s", "x-maximum" = "24h"))]
    pub(crate) over: Option<HumanDuration>,
    /// How far it reaches back, in samples.
    #[schemars(range(min = 1, max = 4096))]
    pub(crate) last: Option<u32>,
    /// Which quantile, with `fn: quantile`: 0.99.
    #[schemars(range(min = 0, max = 1))]
    pub(crate) q: Option<f64>,
    /// Which samples are alike: only those that are like the present collection count. For rules `on: gc`.
    pub(crate) by: Option<ByWord>,
    /// With fewer samples its value is unknown.
    #[schemars(range(max = 4096), extend("x-default" = "by function, see below"))]
    pub(crate) min_samples: Option<u32>,
    /// Unless the process was watched for so long, its value is unknown.
    #[schemars(extend("x-maximum" = "24h", "x-default" = "`0s`"))]
    pub(crate) min_watched: Option<HumanDuration>,
    /// Where more than this share of the samples is of unknown worth, the value is unknown.
    #[schemars(range(min = 0, max = 1), extend("x-default" = "`0.1`"))]
    pub(crate) unknown_share: Option<f64>,
}

/// What a window makes of its samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FunctionWord {
    /// How many samples. Of a process that was watched for a shorter time than the window, what was seen so far.
    Count,
    /// The samples for which `where` holds, as a share of all: 0 to 1.
    Ratio,
    /// Samples per second of the window.
    Rate,
    /// Their sum.
    Sum,
    /// Their sum, nanoseconds, as a share of the window's length: the share of time.
    Share,
    /// The smallest.
    Min,
    /// The largest.
    Max,
    /// The mean.
    Mean,
    /// The quantile `q`, between samples by linear interpolation.
    Quantile,
    /// The median.
    Median,
    /// The median of the distances from the median: how much is usual.
    Mad,
    /// The slope of the line that fits best, per hour.
    Slope,
    /// The same as a share of the mean, per hour: 0.1 is 10 % an hour.
    RelativeSlope,
    /// How well that line fits: 0 (not at all) to 1.
    R2,
    /// The newest less the oldest.
    Change,
    /// The newest less the oldest, as a share of the oldest.
    RelativeChange,
    /// The newest sample.
    Newest,
    /// How many samples in a row, up to the newest, `where` holds for.
    Streak,
    /// How many samples in a row, up to the newest, are larger than the one before.
    Rises,
    /// How often the samples turned from rising to falling or back.
    Turns,
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

impl FunctionWord {
    /// All.
    pub(crate) const ALL: [Self; 20] = [
        Self::Count,
        Self::Ratio,
        Self::Rate,
        Self::Sum,
        Self::Share,
        Self::Min,
        Self::Max,
        Self::Mean,
        Self::Quantile,
        Self::Median,
        Self::Mad,
        Self::Slope,
        Self::RelativeSlope,
        Self::R2,
        Self::Change,
        Self::RelativeChange,
        Self::Newest,
        Self::Streak,
        Self::Rises,
        Self::Turns,
    ];

    /// As it is written.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Ratio => "ratio",
            Self::Rate => "rate",
            Self::Sum => "sum",
            Self::Share => "share",
            Self::Min => "min",
            Self::Max => "max",
            Self::Mean => "mean",
            Self::Quantile => "quantile",
            Self::Median => "median",
            Self::Mad => "mad",
            Self::Slope => "slope",
            Self::RelativeSlope => "relative_slope",
            Self::R2 => "r2",
            Self::Change => "change",
            Self::RelativeChange => "relative_change",
            Self::Newest => "newest",
            Self::Streak => "streak",
            Self::Rises => "rises",
            Self::Turns => "turns",
        }
    }

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

    /// The function, for `quantile` with its quantile.
    pub(crate) fn function(self, q: f64) -> Function {
        match self {
            Self::Count => Function::Count,
            Self::Ratio => Function::Ratio,
            Self::Rate => Function::Rate,
            Self::Sum => Function::Sum,
            Self::Share => Function::Share,
            Self::Min => Function::Min,
            Self::Max => Function::Max,
            Self::Mean => Function::Mean,
            Self::Quantile => Function::Quantile(q),
            Self::Median => Function::Median,
            Self::Mad => Function::Mad,
            Self::Slope => Function::Slope,
            Self::RelativeSlope => Function::RelativeSlope,
            Self::R2 => Function::R2,
            Self::Change => Function::Change,
            Self::RelativeChange => Function::RelativeChange,
            Self::Newest => Function::Newest,
            Self::Streak => Function::Streak,
            Self::Rises => Function::Rises,
            Self::Turns => Function::Turns,
        }
    }
}
