//! What leaves the daemon.
//!
//! [`otlp`] sends spans, metrics and logs to a Collector or a backend; [`alerts`] tells Alertmanagers and webhooks of alerts.

pub mod alerts;
pub mod otlp;
