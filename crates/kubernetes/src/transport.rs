//! Requests over HTTP/2 or HTTP/1.1 and TLS.
//!
//! * No proxy: the service address of the API server and the kubelet of the node are inside the cluster, while
//!   `HTTPS_PROXY` usually applies to addresses outside the cluster. (client-go uses the proxy unless `NO_PROXY` lists
//!   these addresses.)
//! * The token is sent only over TLS, or to this host.
//! * The certificate file is read before each request, so that replaced authorities are used for the next connection.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::HeaderValue;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use hyper::body::Bytes;
use reqwest::{Certificate, RequestBuilder, Response, Url};
use tracing::warn;

use super::client::{Answer, Body, Transport};
use super::cluster::read;
use super::error::{AnswerError, SetupError, causes};

/// Name of gcwatch in the server's audit log.
const USER_AGENT: &str = concat!("gcwatch/", env!("CARGO_PKG_VERSION"));

/// Timeout for opening a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Time without data after which a connection is probed while an answer is awaited (HTTP/2 ping, TCP keepalive).
const PING_AFTER: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);

/// Maximum size of a certificate file, in bytes.
const MAX_PEM_BYTES: u64 = 4 << 20;

/// The authority that must have certified the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Trust {
    /// An authority of the system.
    System,
    /// An authority in this PEM file.
    File(PathBuf),
    /// Any authority: certificates are not verified.
    Anyone,
}

/// One server over HTTP.
#[derive(Debug)]
pub(crate) struct Http {
    /// Base URL without a trailing slash.
    base: String,
    keeps_secrets: bool,
    trust: Trust,
    current: Mutex<Current>,
}

#[derive(Debug)]
struct Current {
    client: reqwest::Client,
    /// Content of the file when it was last read: the certificates of the client, or invalid certificates.
    pem: Vec<u8>,
}

impl Http {
    /// Reads the certificates. The first request opens a connection.
    pub(crate) fn new(url: &Url, trust: Trust) -> Result<Self, SetupError> {
        // An error means that a provider is already installed.
        let _installed = rustls::crypto::ring::default_provider().install_default();
        let is_secure = url.scheme() == "https";
        // Without TLS, certificates are not needed, and the certificates of the system would waste memory.
        let trust = if is_secure { trust } else { Trust::Anyone };
        let pem = match &trust {
            Trust::File(path) => read(path, MAX_PEM_BYTES).map_err(|source| SetupError::Read {
                what: "certificates",
                path: path.clone(),
                source,
                remedy: "check that the file is mounted and that gcwatch may read it",
            })?,
            Trust::System | Trust::Anyone => Vec::new(),
        };
        let client = client(&trust, &pem)?;
        Ok(Self {
            base: url.as_str().trim_end_matches('/').to_owned(),
            keeps_secrets: is_secure || is_loopback(url),
            trust,
            current: Mutex::new(Current { client, pem }),
        })
    }

    /// Returns the client for the next request, which is new if the certificates have changed. If the new certificates
    /// are invalid, the old client is kept, which is logged once per change.
    fn client(&self) -> reqwest::Client {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Trust::File(path) = &self.trust
            && let Ok(pem) = read(path, MAX_PEM_BYTES)
            && pem != current.pem
        {
            match client(&self.trust, &pem) {
                Ok(client) => current.client = client,
                Err(error) => {
                    warn!(target: "gcwatch::kubernetes", "certificates changed but cannot be used, keeping the old ones: {error}");
                }
            }
            current.pem = pem;
        }
        current.client.clone()
    }
}

impl Transport for Http {
    type Body = Response;

    async fn get(&self, path: &str, authorization: Option<HeaderValue>) -> Result<Answer<Response>, AnswerError> {
        self.send(self.client().get(format!("{}{path}", self.base)), authorization)
            .await
    }

    async fn post(
        &self,
        path: &str,
        authorization: Option<HeaderValue>,
        body: Vec<u8>,
    ) -> Result<Answer<Response>, AnswerError> {
        let request = self.client().post(format!("{}{path}", self.base));
        let request = request.header(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        self.send(request.body(body), authorization).await
    }
}

impl Http {
    async fn send(
        &self,
        mut request: RequestBuilder,
        authorization: Option<HeaderValue>,
    ) -> Result<Answer<Response>, AnswerError> {
        request = request.header(ACCEPT, HeaderValue::from_static("application/json"));
        if let Some(authorization) = authorization.filter(|_| self.keeps_secrets) {
            request = request.header(AUTHORIZATION, authorization);
        }
        // Leave out the URL, because the log message of the error contains the server.
        let answer = request
            .send()
            .await
            .map_err(|error| AnswerError::Unreachable(causes(&error.without_url())))?;
        Ok(Answer {
            status: answer.status(),
            retry_after: answer.headers().get(RETRY_AFTER).cloned(),
            body: answer,
        })
    }
}

impl Body for Response {
    async fn chunk(&mut self) -> Result<Option<Bytes>, AnswerError> {
        Self::chunk(self)
            .await
            .map_err(|error| AnswerError::Broken(causes(&error.without_url())))
    }
}

fn client(trust: &Trust, pem: &[u8]) -> Result<reqwest::Client, SetupError> {
    let client = reqwest::Client::builder()
        .user_agent(USER_AGENT)
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_max_idle_per_host(1)
        .tcp_keepalive(PING_AFTER)
        .http2_keep_alive_interval(PING_AFTER)
        .http2_keep_alive_timeout(PING_TIMEOUT);
    let client = match trust {
        Trust::System => client,
        Trust::Anyone => client.tls_certs_only([]).tls_danger_accept_invalid_certs(true),
        Trust::File(path) => client.tls_certs_only(authorities(path, pem)?),
    };
    client.build().map_err(|error| match trust {
        Trust::File(path) => SetupError::Certificates {
            path: path.clone(),
            reason: format!(" ({})", causes(&error)),
        },
        Trust::System | Trust::Anyone => SetupError::Tls(causes(&error)),
    })
}

fn authorities(path: &Path, pem: &[u8]) -> Result<Vec<Certificate>, SetupError> {
    let none = |reason| SetupError::Certificates {
        path: path.to_owned(),
        reason,
    };
    let found = Certificate::from_pem_bundle(pem).map_err(|error| none(format!(" ({})", causes(&error))))?;
    if found.is_empty() {
        Err(none(String::new()))
    } else {
        Ok(found)
    }
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || address
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
pub(crate) mod tests;
