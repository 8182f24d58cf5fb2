//! Where spans are listened for.

use std::net::{Ipv4Addr, SocketAddr};

use crate::web::options::TlsFiles;

/// The port of its own: those of a Collector are 4317 and 4318.
pub const PORT: u16 = 4319;

/// Where spans are listened for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IntakeOptions {
    /// gRPC and HTTP, on one port.
    pub address: SocketAddr,
    /// With TLS.
    pub tls: Option<TlsFiles>,
}

impl Default for IntakeOptions {
    fn default() -> Self {
        Self {
            address: (Ipv4Addr::LOCALHOST, PORT).into(),
            tls: None,
        }
    }
}
