//! What every receiver has in common: where it is and its secrets, the connection to it, when a request is sent again.
//!
//! ```text
//! receiver (URL, headers, certificates) -> connection (gRPC channel or HTTP client, TLS) -> request -> retry (pure)
//! ```
//!
//! Knows neither OTLP nor alerts. What receivers and libraries say is shown through [`text`] only: one line, bounded, without secrets.

pub mod backoff;
pub mod connection;
pub mod error;
pub mod receiver;
pub(crate) mod retry;
pub mod text;

pub use error::Error;
