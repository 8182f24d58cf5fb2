//! Errors in the settings of the exporter.

use crate::otlp::signal::Signal;
use crate::transport;

/// Error returned if the exporter cannot start, or cannot use new settings.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The settings of a signal's receiver are invalid.
    #[error("cannot export {signal}: {source}")]
    Receiver {
        /// Signal of the receiver.
        signal: Signal,
        /// Reason why the settings are invalid.
        source: transport::Error,
    },
    /// There is no tokio runtime.
    #[error("the exporter must be started inside a tokio runtime")]
    NoRuntime,
}
