//! Connections to receivers: one for each distinct endpoint and TLS identity, shared by all senders.
//!
//! Certificates are reloaded when their files change. Each request checks for changes (three calls of `stat`), so that
//! a renewed certificate is used at once and no connection outlives its identity for long.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::{Duration, SystemTime};

use base::error::causes;
use hyper_util::client::legacy::connect::HttpConnector;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

use crate::transport::error::Error;
use crate::transport::receiver::{Protocol, Receiver};
use crate::transport::text;

/// The `User-Agent` of every request.
const USER_AGENT: &str = concat!("gcwatch/", env!("CARGO_PKG_VERSION"));

/// Silence on a connection with an open request after which a ping is sent.
const PING_AFTER: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum idle time of HTTP connections: longer than the usual interval of metrics.
const IDLE: Duration = Duration::from_secs(90);

/// Maximum number of idle connections per host: enough for the usual signals and for alerts.
const IDLE_CONNECTIONS: usize = 4;

/// Properties that distinguish connections.
#[derive(Clone, PartialEq, Eq)]
struct Key {
    /// Endpoint for gRPC; `None` for HTTP, where one client keeps the connections to all hosts.
    endpoint: Option<String>,
    /// Whether the scheme is `https`.
    secure: bool,
    files: Files,
}

/// The files used for a TLS connection.
#[derive(Clone, PartialEq, Eq)]
struct Files {
    certificate: Option<PathBuf>,
    client_certificate: Option<PathBuf>,
    client_key: Option<PathBuf>,
}

impl Files {
    fn each(&self) -> impl Iterator<Item = &Path> {
        [&self.certificate, &self.client_certificate, &self.client_key]
            .into_iter()
            .filter_map(|path| path.as_deref())
    }

    /// Returns a value that changes when one of the files changes. An unreadable file is a state, too.
    fn stamp(&self) -> Vec<Option<(SystemTime, u64, u64)>> {
        let stamp = |path: &Path| {
            let metadata = fs::metadata(path).ok()?;
            Some((metadata.modified().ok()?, metadata.len(), metadata.ino()))
        };
        self.each().map(stamp).collect()
    }

    fn names(&self) -> String {
        let names: Vec<String> = self.each().map(|path| path.display().to_string()).collect();
        if names.is_empty() {
            "the system's certificates".to_owned()
        } else {
            names.join(", ")
        }
    }
}

/// The library's client for requests. Cheap to clone.
#[derive(Debug, Clone)]
pub enum Link {
    /// A gRPC channel.
    Grpc(Channel),
    /// An HTTP client.
    Http(reqwest::Client),
}

struct ConnectionState {
    link: Link,
    /// Number of links that the connection had before the current link.
    generation: u64,
    stamp: Vec<Option<(SystemTime, u64, u64)>>,
}

/// A connection, which is replaced when its certificates change.
pub struct Connection {
    key: Key,
    timeout: Duration,
    state: Mutex<ConnectionState>,
}

impl fmt::Debug for Connection {
    /// Omits the endpoint, because its path can be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("secure", &self.key.secure)
            .finish_non_exhaustive()
    }
}

impl Connection {
    /// Returns the connection for `receiver`: the connection from `known`, or a new connection, which is added to
    /// `known`. A connection connects only at the first request.
    pub fn open(receiver: &Receiver, known: &mut Vec<Arc<Self>>) -> Result<Arc<Self>, Error> {
        install_crypto();
        let unusable = |reason: String| {
            let endpoint = text::endpoint(&receiver.endpoint);
            Error::Endpoint { endpoint, reason }
        };
        let url = reqwest::Url::parse(&receiver.endpoint).map_err(|error| unusable(error.to_string()))?;
        let secure = match url.scheme() {
            "https" => true,
            "http" => false,
            scheme => return Err(unusable(format!("the scheme is {scheme}, not http or https"))),
        };
        if url.host_str().is_none_or(str::is_empty) {
            return Err(unusable("the host is missing".to_owned()));
        }
        if receiver.protocol == Protocol::Grpc && (!url.username().is_empty() || url.password().is_some()) {
            return Err(unusable(
                "gRPC takes user and password in a header, not in the URL".to_owned(),
            ));
        }
        match (&receiver.client_certificate, &receiver.client_key) {
            (Some(_), None) => {
                return Err(Error::HalfIdentity { given: "certificate" });
            }
            (None, Some(_)) => return Err(Error::HalfIdentity { given: "key" }),
            _ => {}
        }
        // Without TLS, ignore the files: they are often configured for all receivers at once.
        let files = |path: &Option<PathBuf>| path.clone().filter(|_| secure);
        let key = Key {
            endpoint: (receiver.protocol == Protocol::Grpc).then(|| receiver.endpoint.clone()),
            secure,
            files: Files {
                certificate: files(&receiver.certificate),
                client_certificate: files(&receiver.client_certificate),
                client_key: files(&receiver.client_key),
            },
        };
        if let Some(connection) = known.iter().find(|connection| connection.key == key) {
            return Ok(Arc::clone(connection));
        }
        let stamp = key.files.stamp();
        let link = connect(&key, receiver.timeout)?;
        let connection = Arc::new(Self {
            key,
            timeout: receiver.timeout,
            state: Mutex::new(ConnectionState {
                link,
                generation: 0,
                stamp,
            }),
        });
        known.push(Arc::clone(&connection));
        Ok(connection)
    }

    /// Returns the link for the next request: a new one if the certificates have changed, or the old one if the new
    /// certificates are invalid. The failure is logged once, and the files are read again after their next change.
    pub fn link(&self) -> Link {
        self.current().0
    }

    /// Like [`link`](Self::link), but also returns a number that identifies the link. Must be called inside a tokio
    /// runtime.
    pub fn current(&self) -> (Link, u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = self.key.files.stamp();
        if stamp != state.stamp {
            state.stamp = stamp;
            match connect(&self.key, self.timeout) {
                Ok(link) => {
                    tracing::info!(target: "gcwatch::export", files = self.key.files.names(), "reloaded the TLS certificates");
                    state.link = link;
                    state.generation += 1;
                }
                Err(error) => {
                    tracing::warn!(target: "gcwatch::export", %error, "cannot use the changed TLS certificates; keeping the previous ones");
                }
            }
        }
        (state.link.clone(), state.generation)
    }
}

/// Installs ring as the TLS provider of the process, once. reqwest and tonic use the provider of the process, and could
/// not select a provider if the build contained several providers.
pub fn install_crypto() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // An error means that a provider is already installed.
        let _installed = rustls::crypto::ring::default_provider().install_default();
    });
}

fn connect(key: &Key, timeout: Duration) -> Result<Link, Error> {
    let read = |path: &Option<PathBuf>| match path {
        Some(path) => fs::read(path).map(Some).map_err(|source| Error::Read {
            path: path.clone(),
            source,
        }),
        None => Ok(None),
    };
    let pem = Pem {
        authorities: read(&key.files.certificate)?,
        certificate: read(&key.files.client_certificate)?,
        key: read(&key.files.client_key)?,
    };
    let tls = |reason: &str| Error::Tls {
        files: key.files.names(),
        reason: text::shown(reason, &[]),
    };
    if pem.authorities.as_deref().is_some_and(|pem| !has_authority(pem)) {
        return Err(tls("the file contains no usable CA certificate"));
    }
    match &key.endpoint {
        Some(endpoint) => grpc(endpoint, key.secure, &pem, timeout)
            .map(Link::Grpc)
            .map_err(|error| tls(&causes(&error))),
        None => http(key.secure, &pem)
            .map(Link::Http)
            .map_err(|error| tls(&causes(&error))),
    }
}

/// Returns whether at least one certificate is usable as an authority. The libraries silently skip certificates that
/// they cannot parse.
fn has_authority(pem: &[u8]) -> bool {
    let mut roots = RootCertStore::empty();
    CertificateDer::pem_slice_iter(pem)
        .flatten()
        .any(|certificate| roots.add(certificate).is_ok())
}

/// The contents of [`Files`].
struct Pem {
    authorities: Option<Vec<u8>>,
    certificate: Option<Vec<u8>>,
    key: Option<Vec<u8>>,
}

fn grpc(endpoint: &str, secure: bool, pem: &Pem, timeout: Duration) -> Result<Channel, tonic::transport::Error> {
    let mut endpoint = Endpoint::from_shared(endpoint.to_owned())?
        .user_agent(USER_AGENT)?
        .connect_timeout(timeout)
        .http2_keep_alive_interval(PING_AFTER)
        .keep_alive_timeout(PING_TIMEOUT)
        // Servers can close a connection that sends pings without an open request (grpc-go does by default).
        .keep_alive_while_idle(false);
    if secure {
        let mut tls = ClientTlsConfig::new();
        tls = match &pem.authorities {
            Some(authorities) => tls.ca_certificate(Certificate::from_pem(authorities)),
            None => tls.with_native_roots(),
        };
        if let (Some(certificate), Some(key)) = (&pem.certificate, &pem.key) {
            tls = tls.identity(Identity::from_pem(certificate, key));
        }
        endpoint = endpoint.tls_config(tls)?;
    }
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(PING_AFTER));
    // With tonic's own connector, the timeout covers only TCP. If a peer accepted a connection and did not answer in
    // TLS, every later request would wait for as long as the connection lives.
    Ok(endpoint.connect_with_connector_lazy(tcp))
}

fn http(secure: bool, pem: &Pem) -> Result<reqwest::Client, reqwest::Error> {
    let mut client = reqwest::Client::builder()
        .user_agent(USER_AGENT)
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .pool_idle_timeout(IDLE)
        .pool_max_idle_per_host(IDLE_CONNECTIONS)
        .tcp_keepalive(PING_AFTER)
        .http2_keep_alive_interval(PING_AFTER)
        .http2_keep_alive_timeout(PING_TIMEOUT);
    match &pem.authorities {
        Some(authorities) => client = client.tls_certs_only(reqwest::Certificate::from_pem_bundle(authorities)?),
        // The system's certificates are not needed, can be missing, and cost a megabyte.
        None if !secure => client = client.tls_certs_only([]),
        None => {}
    }
    if let (Some(certificate), Some(key)) = (&pem.certificate, &pem.key) {
        let both = [key.as_slice(), b"\n", certificate.as_slice()].concat();
        client = client.identity(reqwest::Identity::from_pem(&both)?);
    }
    client.build()
}
