//! Delivers gcwatch's results: telemetry to OTLP receivers, alerts to Alertmanagers and webhooks.
//!
//! ```text
//! gc-telemetry: spans, metrics, logs --> otlp   --+
//!                                                 +--> transport: connections, TLS, retries, redaction --> receivers
//! rule-engine: changes of alerts        --> alerts --+
//! ```
//!
//! Layers, each using only earlier layers: `transport` and `store` (the queue on disk); `otlp` and `alerts`, which are
//! independent of each other.
//!
//! # Invariants
//!
//! * **Callers never wait.** Queues are bounded. Excess items are dropped and counted by reason.
//! * **Secrets are never shown**: not in errors, not in logs, not in `Debug`.
//! * **Time is a value.** Queues, firing alerts, outboxes, answers and delays are pure: time and randomness are
//!   arguments. Only the sending tasks read a clock (tokio's or the wall clock).
//! * A reload keeps the connections and queues of unchanged receivers.
//! * All log messages of this crate have the target `gcwatch::export`, which is never exported: an unavailable receiver
//!   must not cause telemetry about itself.

// Time is a value: only modules with an exception read a clock (clippy.toml).
#![deny(clippy::disallowed_methods)]

#[expect(
    clippy::disallowed_methods,
    reason = "the notifier retries, and limits the time of a request"
)]
pub mod alerts;
#[expect(
    clippy::disallowed_methods,
    reason = "senders retry, and limit the time of a request"
)]
pub mod otlp;
mod store;
pub mod transport;
