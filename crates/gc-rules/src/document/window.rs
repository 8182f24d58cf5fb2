//! The keys of a window, and what each function asks for.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::rule::{By, Function};
use strict_yaml::units::HumanDuration;

/// A window: what a function makes of the samples of the last minutes, or of the last so many.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["fn"]))]
pub(crate) struct WindowKeys {
    /// What it makes of its samples.
    #[serde(rename = "fn")]
    pub(crate) function: Option<Function>,
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
    pub(crate) by: Option<By>,
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
