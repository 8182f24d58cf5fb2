//! Why a receiver cannot be connected to at all.

use std::io;
use std::path::PathBuf;

/// Why the settings of a receiver cannot be used. A receiver that is down is none of these.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The endpoint is no URL that can be sent to.
    #[error("the endpoint {endpoint} cannot be used: {reason}")]
    Endpoint {
        /// The endpoint, without what may be secret in it.
        endpoint: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A header that HTTP does not allow. Its value is not shown.
    #[error("the header {name:?} cannot be sent: its {part} has characters that HTTP does not allow")]
    Header {
        /// Its name.
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
    /// The certificates and the key were read but make no TLS.
    #[error("cannot set up TLS from {files}: {reason}")]
    Tls {
        /// From what: the files, or the system's certificates.
        files: String,
        /// What the TLS library says.
        reason: String,
    },
    /// Of a client certificate and its key only one is given.
    #[error("a client certificate needs its key and the other way round; only the {given} is given")]
    HalfIdentity {
        /// `certificate` or `key`.
        given: &'static str,
    },
}
