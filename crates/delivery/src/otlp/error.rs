//! Settings that the exporter cannot use.

use crate::otlp::signal::Signal;
use crate::transport;

/// Why the exporter cannot start, or cannot use new settings.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The settings of a signal's receiver cannot be used.
    #[error("cannot export {signal}: {source}")]
    Receiver {
        /// Which signal.
        signal: Signal,
        /// Why.
        source: transport::Error,
    },
    /// There is no tokio runtime.
    #[error("the exporter must be started inside a tokio runtime")]
    NoRuntime,
}
