//! A change of an alert, as the pipeline gives it.

use std::sync::Arc;

use gc_rules::alert::{RunKey, Transition};
use gc_telemetry::spans::SpanIds;

/// A change of an alert, with what the rule does not know: the process, the group, the span.
#[derive(Debug, Clone)]
pub struct Notice {
    /// The run that it concerns. Run, rule and the alert's number identify the alert.
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
