//! What is delivered of an alert.

use std::sync::Arc;

use gc_rules::alert::{RunKey, Transition};
use gc_telemetry::spans::SpanIds;

/// A change of an alert, with what is known of it beside the rule: what leaves.
#[derive(Debug, Clone)]
pub struct Notice {
    /// The run that it is about. With the rule and the alert's number it is one alert.
    pub run: RunKey,
    /// The name of the process.
    pub process: Arc<str>,
    /// The rule's group.
    pub group: Option<Arc<str>>,
    /// What changed.
    pub transition: Transition,
    /// The root span of the collection on which the alert began, where it has one.
    pub span: Option<SpanIds>,
}
