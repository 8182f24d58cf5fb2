//! The keys of a window.

use base::units::HumanDuration;
use rule_engine::rule::{ComparisonKey, Function};
use schemars::JsonSchema;
use serde::Deserialize;

/// Replacement for the removed key `offset`, as stated in the error message.
const OFFSET_REMOVED: &str = "compare with an hour ago in a query of the metrics store, for example `offset 1h` \
                              in Prometheus (docs/telemetry.md names them); `change` and `slope` compare within a window";
/// Replacement for the removed `fn: quantile` and its key `q`, as stated in the error messages.
const QUANTILE_REMOVED: &str = "use `fn: ratio` with `where: gc.pause_ms > 100` for the share of samples above a \
                                threshold, or `median` and `max`";
/// Replacement for the removed `fn: streak`, as stated in the error message.
const STREAK_REMOVED: &str = "`fn: count` with the same `where` and `last: 5` is 5 if the condition was true \
                              five times in a row";
/// Replacement for the removed `fn: rises`, as stated in the error message.
const RISES_REMOVED: &str = "`fn: slope` or `fn: change` is positive if samples rise, `fn: r2` states how steadily";
/// Replacement for the removed `fn: mad`, as stated in the error message.
const MAD_REMOVED: &str = "compare `max` with `median`, or use `fn: ratio` with a `where` for the share of samples \
                           above a threshold";
/// Replacement for the removed `fn: relative_slope`, as stated in the error message.
const RELATIVE_SLOPE_REMOVED: &str = "divide a window with `fn: slope` by one with `fn: mean`: `slope / mean > 0.1` is \
                                      more than 10 % per hour";
/// Replacement for the removed `fn: relative_change`, as stated in the error message.
const RELATIVE_CHANGE_REMOVED: &str = "divide a window with `fn: change` by the oldest sample, which is `newest` minus \
                                       `change`: `change / (newest - change) > 0.1`";

/// A window: a function of the samples within a past period, or of the last N samples.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["fn"], "x-removed" = {"offset": OFFSET_REMOVED, "q": QUANTILE_REMOVED}))]
pub(crate) struct WindowKeys {
    /// Function that computes the value of the window from the samples.
    #[serde(rename = "fn")]
    #[schemars(extend(
        "x-removed" = {
            "quantile": QUANTILE_REMOVED,
            "streak": STREAK_REMOVED,
            "rises": RISES_REMOVED,
            "mad": MAD_REMOVED,
            "relative_slope": RELATIVE_SLOPE_REMOVED,
            "relative_change": RELATIVE_CHANGE_REMOVED,
        }
    ))]
    pub(crate) function: Option<Function>,
    /// Sampled value, a number. The fields of `of` and `where` determine the time of sampling: each collection for
    /// `gc.*` or no field, each suspension without a collection for `suspension.*`, and once per second for all other
    /// fields. Rules `on: service` and `on: watcher` sample once per second.
    #[schemars(extend("x-expression" = "number"), length(min = 1))]
    pub(crate) of: Option<String>,
    /// Condition that selects samples. If not set, all samples count. If the condition is unknown, the sample is
    /// unknown.
    #[serde(rename = "where")]
    #[schemars(extend("x-expression" = "bool"), length(min = 1))]
    pub(crate) filter: Option<String>,
    /// Length of the window as a duration. Set either `over` or `last`.
    #[schemars(extend("x-minimum" = "1s", "x-maximum" = "24h"))]
    pub(crate) over: Option<HumanDuration>,
    /// Length of the window in samples.
    #[schemars(range(min = 1, max = 4096))]
    pub(crate) last: Option<u32>,
    /// Restriction to samples that are comparable with the current collection, for rules `on: gc`.
    pub(crate) by: Option<ComparisonKey>,
    /// Minimum number of samples. With fewer samples, the value is unknown.
    #[schemars(range(max = 4096), extend("x-default" = "by function, see below"))]
    pub(crate) min_samples: Option<u32>,
    /// Minimum time for which the process must have been observed. Until then, the value is unknown.
    #[schemars(extend("x-maximum" = "24h", "x-default" = "`0s`"))]
    pub(crate) min_watched: Option<HumanDuration>,
    /// Maximum ratio of unknown samples. Above this ratio, the value is unknown.
    #[schemars(range(min = 0, max = 1), extend("x-default" = "`0.1`"))]
    pub(crate) unknown_share: Option<f64>,
}
