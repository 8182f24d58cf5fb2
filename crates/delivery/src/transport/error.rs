//! Settings of a receiver that cannot be used.

use std::io;
use std::path::PathBuf;

/// Why the settings of a receiver cannot be used. A receiver that is down is not an error: requests are retried.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The endpoint is not a usable URL.
    #[error("the endpoint {endpoint} cannot be used: {reason}")]
    Endpoint {
        /// The endpoint, without what may be secret in it.
        endpoint: String,
        /// Why.
        reason: String,
    },
    /// A header that HTTP does not allow. Its value is never shown.
    #[error("the header {name:?} cannot be sent: its {part} contains characters that HTTP does not allow")]
    Header {
        name: String,
        /// `name` or `value`.
        part: &'static str,
    },
    /// A certificate or key file that cannot be read.
    #[error("cannot read {path}: {source}", path = path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The certificates and the key were read, but TLS cannot be set up with them.
    #[error("cannot set up TLS from {files}: {reason}")]
    Tls {
        /// The files, or the system's certificates.
        files: String,
        /// The TLS library's reason.
        reason: String,
    },
    /// A client certificate without its key, or a key without its certificate.
    #[error("a client certificate and its key must be given together; only the {given} is given")]
    HalfIdentity {
        /// `certificate` or `key`.
        given: &'static str,
    },
}
