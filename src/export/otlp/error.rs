//! Why a configuration cannot be exported with.

use std::io;
use std::path::PathBuf;

use crate::export::otlp::signal::Signal;

/// Why the settings of a receiver cannot be used. A receiver that is down is none of these.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The endpoint is no URL that OTLP can be sent to.
    #[error("the endpoint of {signal}, {endpoint}, cannot be used: {reason}")]
    Endpoint {
        /// Whose.
        signal: Signal,
        /// The endpoint, without what may be secret in it.
        endpoint: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A header that HTTP does not allow. Its value is not told.
    #[error("the header {name:?} of {signal} cannot be sent: its {part} has characters that HTTP does not allow")]
    Header {
        /// Whose.
        signal: Signal,
        /// Its name.
        name: String,
        /// `name` or `value`.
        part: &'static str,
    },
    /// A certificate or key file that cannot be read.
    #[error("{path}, for the connection of {signal}, cannot be read: {source}", path = path.display())]
    Read {
        /// Whose.
        signal: Signal,
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The certificates and the key were read but make no TLS.
    #[error("TLS for {signal} cannot be set up from {files}: {reason}")]
    Tls {
        /// Whose.
        signal: Signal,
        /// From what: the files, or the system's certificates.
        files: String,
        /// What the TLS library says.
        reason: String,
    },
    /// Of a client certificate and its key only one is given.
    #[error("{signal}: a client certificate and its key go together, only the {given} is given")]
    HalfIdentity {
        /// Whose.
        signal: Signal,
        /// `certificate` or `key`.
        given: &'static str,
    },
    /// There is no tokio runtime to send in.
    #[error("the exporter must be started inside a tokio runtime")]
    NoRuntime,
}
