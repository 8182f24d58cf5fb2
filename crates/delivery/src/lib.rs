//! Delivers what gcwatch knows: telemetry to OTLP receivers, alerts to Alertmanagers and webhooks.
//!
//! ```text
//! gc-telemetry: spans, metrics, logs --> otlp   --+
//!                                                 +--> transport: connections, TLS, retries, redaction --> receivers
//! gc-rules: changes of alerts        --> alerts --+
//! ```
//!
//! Layers, each using only those before it: `clock`; `transport` and `store` (what waits on disk); `otlp` and `alerts`,
//! which do not know each other.
//!
//! # Invariants
//!
//! * **Callers never wait.** Queues are bounded; what does not fit is dropped and counted by reason.
//! * **Secrets are never shown**: not in errors, not in logs, not in `Debug`.
//! * **Time is a value.** Queues, firing alerts, outboxes, answers and delays are pure: time and randomness are
//!   arguments. Only the tasks that send ask tokio's clock, and `clock` asks the wall clock.
//! * A reload keeps the connections and queues of receivers that stay.
//! * Everything that this crate logs has the target `gcwatch::export`, which is never exported: a receiver that is down
//!   must not cause telemetry about itself.

// Time is a value: only the modules that allow it ask a clock (clippy.toml).
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
