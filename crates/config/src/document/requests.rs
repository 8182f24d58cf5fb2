//! The keys of `requests`.

use super::targets::FilterKeys;
use super::{Deserialize, Duration, JsonSchema, Serialize};
use base::pattern::Pattern;
use base::units::HumanDuration;
use base::words;
use gc_requests::route::{Route, Routes};
use gc_telemetry::options::VictimOptions;
use targets::options::{Filter, RequestOptions};

words! {
    /// Sources of requests.
    #[derive(Default)]
    pub enum RequestMode {
        /// Requests are not measured.
        #[default]
        Off = "off",
        /// The events of ASP.NET Core (8 and later), in a second session of the process: about 10 µs of its CPU per
        /// request. The application's own tracing is unchanged.
        DiagnosticSource = "diagnosticsource",
    }
}

/// Message for the removed keys that allowed services to send their spans to gcwatch.
const SPANS_REMOVED: &str = "gcwatch takes no spans in any more; `requests.mode: diagnosticsource` knows every request, \
                             sampled or not, with nothing to set up beside the service (docs/requests.md)";

/// Measurement of the time that collections cost the requests of web services. A change applies to processes that are
/// attached afterwards.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("x-removed" = {"otlp": SPANS_REMOVED}))]
pub(crate) struct Requests {
    /// Source of requests. `diagnosticsource` uses the events of ASP.NET Core 8 and later, in a second session of each
    /// process; it costs about 10 µs of CPU per request and does not change the application's own tracing. Another tool
    /// that uses the provider `Microsoft-Diagnostics-DiagnosticSource` (triggers of dotnet-monitor) and gcwatch stop
    /// each other's events: the tool that started last receives them.
    #[schemars(extend("x-removed" = {"otlp": SPANS_REMOVED}))]
    pub(crate) mode: RequestMode,
    /// Filters of the processes whose requests are read. Without filters, all processes are selected.
    pub(crate) include: Vec<FilterKeys>,
    /// Filters of the processes to exclude.
    pub(crate) exclude: Vec<FilterKeys>,
    /// Maximum size of the event buffers of the second session, in megabytes of the process's memory.
    #[schemars(range(min = 1, max = 1024))]
    pub(crate) buffer_mb: u32,
    /// Maximum number of requests per second. If a process exceeds it for ten seconds, its events are no longer
    /// requested.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) max_per_second: u32,
    /// Classes of requests by path, for `gcwatch.requests` and `gcwatch.request.gc_pause.duration`. The first match
    /// determines the attribute `gcwatch.request.route`. If there are classes, gcwatch requests the paths; they can
    /// contain secrets, and are not stored.
    #[schemars(length(max = 32), extend("x-restart" = true))]
    pub(crate) routes: Vec<RouteKeys>,
    /// Names of `ActivitySource`s whose activities count as requests as well, each source as a separate class: jobs of
    /// a hosted worker, messages, outgoing calls (`System.Net.Http`, `Grpc.Net.Client`). They are requested only from
    /// processes with an active OpenTelemetry SDK, whose tracing is not changed. Requires `mode: diagnosticsource`.
    #[schemars(length(max = 8), extend("x-restart" = true))]
    pub(crate) sources: Vec<String>,
    /// Time for which stops are kept: the lost time of a longer request is unknown.
    #[schemars(extend("x-minimum" = "1s", "x-maximum" = "10m"))]
    pub(crate) longest: HumanDuration,
    /// Time for which a collection waits for the requests that it stopped before it is reported, also to rules.
    #[schemars(extend("x-maximum" = "30s"))]
    pub(crate) wait: HumanDuration,
    /// Pauses as spans in the traces of the requests that they stopped.
    pub(crate) spans: RequestSpans,
}

/// A class of requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RouteKeys {
    /// Name of the class in metrics.
    #[schemars(length(min = 1, max = 64))]
    pub(crate) name: String,
    /// Pattern for paths: `*` matches any characters, as in `/orders/*/pay`.
    #[schemars(length(min = 1, max = 256))]
    pub(crate) path: String,
}

impl Requests {
    /// Returns the classes of requests: the classes by path, then one class for each source.
    pub(crate) fn routes(&self) -> Routes {
        let of_paths = self.routes.iter().map(|keys| Route {
            name: keys.name.as_str().into(),
            path: Some(Pattern(keys.path.clone())),
        });
        let of_sources = self.sources.iter().map(|name| Route {
            name: name.as_str().into(),
            path: None,
        });
        Routes::new(of_paths.chain(of_sources))
    }
}

/// Selection of requests with pause spans in their traces: sampled requests that lost much time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RequestSpans {
    /// Whether requests have pause spans.
    pub(crate) enabled: bool,
    /// Minimum lost time of a request. A request qualifies if it reaches this value or `min_share`.
    #[schemars(extend("x-maximum" = "1h"))]
    pub(crate) min_lost: HumanDuration,
    /// Minimum lost share of a request's duration, 0 to 1. A request qualifies if it reaches this value or
    /// `min_lost`.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub(crate) min_share: f64,
    /// Maximum number of requests per process and second that get spans; further requests are counted.
    #[schemars(range(min = 0, max = 100_000))]
    pub(crate) max_per_second: u32,
}

impl Default for Requests {
    fn default() -> Self {
        let options = RequestOptions::default();
        Self {
            mode: RequestMode::default(),
            include: Vec::new(),
            exclude: Vec::new(),
            buffer_mb: options.buffer_mb,
            max_per_second: options.max_per_second,
            routes: Vec::new(),
            sources: Vec::new(),
            longest: HumanDuration(options.longest),
            wait: HumanDuration(options.wait),
            spans: RequestSpans::default(),
        }
    }
}

impl Default for RequestSpans {
    fn default() -> Self {
        let options = VictimOptions::default();
        Self {
            enabled: options.enabled,
            min_lost: HumanDuration(options.min_lost),
            min_share: options.min_share,
            max_per_second: options.max_per_second,
        }
    }
}

impl From<&Requests> for RequestOptions {
    fn from(keys: &Requests) -> Self {
        Self {
            enabled: keys.mode == RequestMode::DiagnosticSource,
            include: keys.include.iter().map(Filter::from).collect(),
            exclude: keys.exclude.iter().map(Filter::from).collect(),
            buffer_mb: keys.buffer_mb,
            max_per_second: keys.max_per_second,
            routes: keys.routes(),
            longest: keys.longest.0.max(Duration::from_secs(1)),
            wait: keys.wait.0,
        }
    }
}

impl From<&RequestSpans> for VictimOptions {
    fn from(keys: &RequestSpans) -> Self {
        Self {
            enabled: keys.enabled,
            min_lost: keys.min_lost.0,
            min_share: keys.min_share,
            max_per_second: keys.max_per_second,
        }
    }
}
