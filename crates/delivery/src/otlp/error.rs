//! Why a configuration cannot be exported with.

use crate::otlp::signal::Signal;
use crate::transport;

/// Why the exporter cannot start, or cannot take new settings.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The settings of a signal's receiver cannot be used.
    #[error("cannot export {signal}: {source}")]
    Receiver {
        /// Which signal.
        signal: Signal,
        /// What is wrong with its receiver.
        source: transport::Error,
    },
    /// There is no tokio runtime to send in.
    #[error("the exporter must be started inside a tokio runtime")]
    NoRuntime,
}
