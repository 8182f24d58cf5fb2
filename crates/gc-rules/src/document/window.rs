//! The keys of a window.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::rule::{By, Function};
use strict_yaml::units::HumanDuration;

/// A window: a function of the samples of the last minutes, or of the last N samples.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["fn"]))]
pub(crate) struct WindowKeys {
    /// The function.
    #[serde(rename = "fn")]
    pub(crate) function: Option<Function>,
    /// What is sampled, a number. Its fields determine when: `gc.*` at each collection, `suspension.*` at each
    /// suspension without a collection, all others once a second.
    #[schemars(extend("x-expression" = "number"), length(min = 1))]
    pub(crate) of: Option<String>,
    /// Which samples count; not set: all. If it is unknown, so is the sample.
    #[serde(rename = "where")]
    #[schemars(extend("x-expression" = "bool"), length(min = 1))]
    pub(crate) filter: Option<String>,
    /// The length of the window as a duration. Either this or `last`.
    #[schemars(extend("x-minimum" = "1s", "x-maximum" = "24h"))]
    pub(crate) over: Option<HumanDuration>,
    /// How long ago the window ended: a comparison with the past, an hour at most. The value is unknown until the
    /// process was watched for both. Of functions of sums, counts, extremes and trends over time.
    #[schemars(extend("x-minimum" = "1s", "x-maximum" = "1h", "x-default" = "`0s`"))]
    pub(crate) offset: Option<HumanDuration>,
    /// The length of the window in samples.
    #[schemars(range(min = 1, max = 4096))]
    pub(crate) last: Option<u32>,
    /// The quantile of `fn: quantile`: 0.99.
    #[schemars(range(min = 0, max = 1))]
    pub(crate) q: Option<f64>,
    /// Only samples that are comparable with the current collection count. For rules `on: gc`.
    pub(crate) by: Option<By>,
    /// With fewer samples, the value is unknown.
    #[schemars(range(max = 4096), extend("x-default" = "by function, see below"))]
    pub(crate) min_samples: Option<u32>,
    /// Until the process was watched for this time, the value is unknown.
    #[schemars(extend("x-maximum" = "24h", "x-default" = "`0s`"))]
    pub(crate) min_watched: Option<HumanDuration>,
    /// With a higher ratio of unknown samples, the value is unknown.
    #[schemars(range(min = 0, max = 1), extend("x-default" = "`0.1`"))]
    pub(crate) unknown_share: Option<f64>,
}
