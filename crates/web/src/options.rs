//! Options of the listener.

use std::path::PathBuf;

use base::secret::Secret;
use base::words;

words! {
    /// What only those see who log in.
    #[derive(Default)]
    pub enum Protects {
        /// What may hold secrets: recordings, flame graphs, requests' ids and paths.
        #[default]
        Private = "private",
        /// Everything but `/livez` and `/readyz`.
        All = "all",
    }
}

words! {
    /// Where agents may ask (`/mcp`).
    #[derive(Default)]
    pub enum Mcp {
        /// Where the listener is on a loopback address.
        #[default]
        Auto = "auto",
        /// Also elsewhere.
        On = "on",
        /// Nowhere.
        Off = "off",
    }
}

/// Options of the listener.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WebOptions {
    /// Names by which it may be addressed; empty: any, unless it listens on loopback.
    pub hosts: Vec<String>,
    /// Who may log in: with `Authorization: Bearer TOKEN`.
    pub token: Option<Secret>,
    /// Who may log in: names and passwords, with `Authorization: Basic ...`.
    pub users: Vec<(String, Secret)>,
    /// Where a trace is shown, with `{trace_id}`; `None`: ids are plain text.
    pub trace_url: Option<String>,
    /// Where a service's figures are shown, with `{service}`, and `{namespace}`, `{pod}`, `{from}`, `{to}`; `None`:
    /// nothing links there.
    pub grafana_url: Option<String>,
    /// What needs a login.
    pub protects: Protects,
    /// Whether agents may ask.
    pub mcp: Mcp,
    /// The certificate; `None`: it speaks HTTP without TLS.
    pub tls: Option<TlsFiles>,
}

/// Where the certificate is. The files are read again when they change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// PEM file of the certificate chain, the listener's own first.
    pub certificate: PathBuf,
    /// PEM file of its private key.
    pub key: PathBuf,
}
