//! What follows from what happens to a run.

use std::sync::Arc;

use gc_rules::incident::Incidents;
use gc_telemetry::notice::Notices;
use gc_telemetry::spans::Encoded;

/// Something that follows from an input.
#[derive(Debug)]
pub enum Output {
    /// Changes of its alerts and incidents, in order; never none.
    Notices(Notices),
    /// Spans of a collection, or of a request that collections stopped.
    Spans(Encoded),
    /// A collection did not become spans because of the limit per second.
    OverRate,
    /// It exited, a live one. Changes that come of that were before.
    Ended {
        /// Whether the runtime ended its stream in order; `None`: unknown.
        in_order: Option<bool>,
        /// The name of the process and the incidents that outlive it.
        left: Option<(Arc<str>, Box<Incidents>)>,
    },
}
