//! Outputs of a run.

use std::sync::Arc;

use gc_advice::configuration::Configuration;
use gc_advice::profile::Minute;
use gc_telemetry::notice::Notices;
use gc_telemetry::spans::EncodedSpans;
use incidents::Incidents;

/// An effect of an input.
#[derive(Debug)]
pub enum Output {
    /// Changes of alerts and incidents, in order; never empty.
    Notices(Notices),
    /// Spans of a collection, or of a request that collections stopped.
    Spans(EncodedSpans),
    /// A collection was not converted to spans because of the limit per second.
    OverRate,
    /// A minute has ended, in this configuration of the process.
    Minute(Box<(Configuration, Minute)>),
    /// A minute has ended, and the configuration of the process is unknown.
    MinuteWithoutConfiguration,
    /// The process has exited (live only). The resulting changes precede this output.
    Ended {
        /// Whether the runtime ended its stream cleanly; `None` if unknown.
        in_order: Option<bool>,
        /// Name of the process, and its incidents that outlive it; `None` if the process exited cleanly or had no
        /// rules.
        left: Option<(Arc<str>, Box<Incidents>)>,
    },
}
