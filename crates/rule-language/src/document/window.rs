//! The keys of a window.

use base::units::HumanDuration;
use gc_rules::rule::{By, Function};
use schemars::JsonSchema;
use serde::Deserialize;

/// What replaces `offset`.
const OFFSET_REMOVED: &str = "a comparison with an hour ago is a query of what stores the metrics, for example `offset 1h` \
                              in Prometheus (docs/telemetry.md names them); `change` and `slope` compare within a window";
/// What replaces `fn: quantile` and its `q`.
const QUANTILE_REMOVED: &str = "`fn: ratio` with `where: gc.pause_ms > 100` is the share of samples beyond a threshold; \
                                there are `median` and `max`";
/// What replaces `fn: streak`.
const STREAK_REMOVED: &str = "`fn: count` with the same `where` and `last: 5` is 5 where it held five times in a row";
/// What replaces `fn: rises`.
const RISES_REMOVED: &str = "`fn: slope` or `fn: change` is positive where samples rise, `fn: r2` says how steadily";

/// A window: a function of the samples of the last minutes, or of the last N samples.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["fn"], "x-removed" = {"offset": OFFSET_REMOVED, "q": QUANTILE_REMOVED}))]
pub(crate) struct WindowKeys {
    /// The function.
    #[serde(rename = "fn")]
    #[schemars(extend(
        "x-removed" = {"quantile": QUANTILE_REMOVED, "streak": STREAK_REMOVED, "rises": RISES_REMOVED}
    ))]
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
    /// The length of the window in samples.
    #[schemars(range(min = 1, max = 4096))]
    pub(crate) last: Option<u32>,
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
