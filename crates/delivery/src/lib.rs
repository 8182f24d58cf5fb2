//! Sends what gcwatch knows: telemetry to OTLP receivers, alerts to Alertmanagers and webhooks.
//!
//! ```text
//! gc-telemetry: spans, metrics, logs --> otlp   --+
//!                                                 +--> transport: connections, TLS, retry, redaction --> receivers
//! gc-rules: transitions of alerts    --> alerts --+
//! ```
//!
//! # Invariants
//!
//! * **Nobody waits.** Queues are bounded; what does not fit is dropped and counted by reason, never silently.
//! * **Secrets are never shown**: not in errors, not in logs, not in `Debug`.
//! * What an answer means and when a request is sent again are pure functions; time and chance are arguments.
//! * A reload keeps connections and queues of receivers that stay.

// Time is a value: only the modules that allow it ask a clock (clippy.toml).
#![deny(clippy::disallowed_methods)]

#[allow(
    clippy::disallowed_methods,
    reason = "the notifier retries, and limits the time of a request"
)]
pub mod alerts;
#[allow(clippy::disallowed_methods, reason = "the clock that the others are given")]
pub mod clock;
#[allow(
    clippy::disallowed_methods,
    reason = "senders retry, and limit the time of a request"
)]
pub mod otlp;
pub mod transport;
