//! Functions shared by all receivers: address and secrets, connection, retries.
//!
//! ```text
//! receiver (URL, headers, certificates) -> connection (gRPC channel or HTTP client, TLS) -> request -> retry (pure)
//! ```
//!
//! This module is independent of OTLP and of alerts. Text from receivers and libraries is shown only through [`text`]:
//! one line, bounded, without secrets.

pub mod connection;
pub mod error;
pub(crate) mod limit;
pub mod receiver;
pub(crate) mod retry;
pub mod text;

pub use error::Error;
