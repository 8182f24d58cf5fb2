//! Errors in the settings of a receiver.

use std::io;
use std::path::PathBuf;

/// Error returned if the settings of a receiver are invalid. A receiver that is unavailable causes no error, because
/// gcwatch retries requests.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The endpoint is not a valid URL.
    #[error("cannot use the endpoint {endpoint}: {reason}")]
    Endpoint {
        /// The endpoint, without parts that can be secret.
        endpoint: String,
        /// Reason why the endpoint is invalid.
        reason: String,
    },
    /// The name or the value of a header contains characters that HTTP does not allow. The error never contains the
    /// value.
    #[error("cannot send the header {name:?}: its {part} contains characters that HTTP does not allow")]
    Header {
        name: String,
        /// Invalid part: `name` or `value`.
        part: &'static str,
    },
    /// A certificate or key file is unreadable.
    #[error("cannot read {path}: {source}", path = path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Reason why the file is unreadable.
        source: io::Error,
    },
    /// The certificates and the key were read, but cannot be used for TLS.
    #[error("cannot set up TLS from {files}: {reason}")]
    Tls {
        /// Paths of the files, or `the system's certificates`.
        files: String,
        /// Reason reported by the TLS library.
        reason: String,
    },
    /// A client certificate is configured without its key, or a key without its certificate.
    #[error("a client certificate and its key must be configured together; only the {given} is set")]
    HalfIdentity {
        /// Configured part: `certificate` or `key`.
        given: &'static str,
    },
}
