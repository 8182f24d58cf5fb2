//! Options of the listener.

use std::path::PathBuf;

use base::secret::Secret;
use base::words;

words! {
    /// Paths that require a login.
    #[derive(Default)]
    pub enum Protects {
        /// Paths with possible secrets: recordings, flame graphs, ids and paths of requests.
        #[default]
        Private = "private",
        /// All paths except `/livez` and `/readyz`.
        All = "all",
    }
}

words! {
    /// Availability of `/mcp` for agents.
    #[derive(Default)]
    pub enum Mcp {
        /// Enabled only if the listener uses a loopback address.
        #[default]
        Auto = "auto",
        /// Enabled on all addresses.
        On = "on",
        /// Disabled.
        Off = "off",
    }
}

/// Options of the listener.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WebOptions {
    /// Accepted host names in addition to names of loopback. If empty, a listener on loopback accepts no other names,
    /// and any other listener accepts every name.
    pub hosts: Vec<String>,
    /// Token for a login with `Authorization: Bearer TOKEN`; `None` disables this login.
    pub token: Option<Secret>,
    /// Names and passwords for a login with `Authorization: Basic ...`; empty disables this login.
    pub users: Vec<(String, Secret)>,
    /// URL of a trace with `{trace_id}`; `None` shows ids as plain text.
    pub trace_url: Option<String>,
    /// URL of a service's dashboard with `{service}`, and `{namespace}`, `{pod}`, `{from}`, `{to}`; `None` shows no
    /// links.
    pub grafana_url: Option<String>,
    /// Paths that require a login.
    pub protects: Protects,
    /// Availability of `/mcp` for agents.
    pub mcp: Mcp,
    /// Files of the certificate; `None` for HTTP without TLS.
    pub tls: Option<TlsFiles>,
}

/// Files of the certificate. The files are read again after a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// PEM file of the certificate chain, leaf certificate first.
    pub certificate: PathBuf,
    /// PEM file of the private key.
    pub key: PathBuf,
}
