//! The three signals of OTLP, and what differs between them on the wire.

use std::fmt;

/// One of the three kinds of telemetry that are exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Signal {
    /// Spans.
    Traces,
    /// Metrics.
    Metrics,
    /// Log records.
    Logs,
}

impl Signal {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Traces, Self::Metrics, Self::Logs];

    /// Its name as in a path of OTLP over HTTP: `traces`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Traces => "traces",
            Self::Metrics => "metrics",
            Self::Logs => "logs",
        }
    }

    /// The name of its items: `spans`, `data points`, `log records`.
    pub fn items(self) -> &'static str {
        match self {
            Self::Traces => "spans",
            Self::Metrics => "data points",
            Self::Logs => "log records",
        }
    }

    /// The gRPC method (`opentelemetry/proto/collector/*/v1/*_service.proto`).
    pub(crate) fn method(self) -> &'static str {
        match self {
            Self::Traces => "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
            Self::Metrics => "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
            Self::Logs => "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
        }
    }

    /// The JSON field of `partialSuccess` with the number of rejected items.
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
