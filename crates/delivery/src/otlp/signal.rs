//! The signals of OTLP, and their differences on the wire.

use std::fmt;

/// A kind of exported telemetry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Signal {
    /// Spans.
    Traces,
    Metrics,
    /// Log records.
    Logs,
}

impl Signal {
    /// All signals.
    pub const ALL: [Self; 3] = [Self::Traces, Self::Metrics, Self::Logs];

    /// Returns the name in the configuration, attributes and texts: `traces`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Traces => "traces",
            Self::Metrics => "metrics",
            Self::Logs => "logs",
        }
    }

    /// Returns the name of the items: `spans`, `data points` or `log records`.
    pub fn items(self) -> &'static str {
        match self {
            Self::Traces => "spans",
            Self::Metrics => "data points",
            Self::Logs => "log records",
        }
    }

    /// Returns the path of HTTP requests.
    pub fn http_path(self) -> &'static str {
        match self {
            Self::Traces => "/v1/traces",
            Self::Metrics => "/v1/metrics",
            Self::Logs => "/v1/logs",
        }
    }

    /// Returns the gRPC method (`opentelemetry/proto/collector/*/*/*_service.proto`).
    pub(crate) fn method(self) -> &'static str {
        match self {
            Self::Traces => "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
            Self::Metrics => "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
            Self::Logs => "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
        }
    }

    /// Returns the JSON field of `partialSuccess` with the number of rejected items.
    pub(crate) fn rejected_key(self) -> &'static str {
        match self {
            Self::Traces => "rejectedSpans",
            Self::Metrics => "rejectedDataPoints",
            Self::Logs => "rejectedLogRecords",
        }
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
