//! What leaves the daemon.
//!
//! [`otlp`] sends spans, metrics and logs to a Collector or a backend.

pub mod otlp;
