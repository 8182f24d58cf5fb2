//! What all receivers have in common: address and secrets, the connection, when a request is retried.
//!
//! ```text
//! receiver (URL, headers, certificates) -> connection (gRPC channel or HTTP client, TLS) -> request -> retry (pure)
//! ```
//!
//! Knows neither OTLP nor alerts. Text from receivers and libraries is shown only through [`text`]: one line, bounded,
//! without secrets.

pub mod connection;
pub mod error;
pub(crate) mod limit;
pub mod receiver;
pub(crate) mod retry;
pub mod text;

pub use error::Error;
