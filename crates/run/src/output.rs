//! Outputs of a run.

use std::sync::Arc;

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
    /// The process has exited (live only). The resulting changes precede this output.
    Ended {
        /// Whether the runtime ended its stream cleanly; `None` if unknown.
        in_order: Option<bool>,
        /// Name of the process, and its incidents that outlive it; `None` if the process exited cleanly or had no
        /// rules.
        left: Option<(Arc<str>, Box<Incidents>)>,
    },
}
