//! A receiver: its address, protocol and secrets.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use base::secret::Secret;
use base::words;
use tonic::codegen::http::{HeaderMap, HeaderName, HeaderValue};

use crate::transport::Error;
use crate::transport::text;

words! {
    /// The OTLP protocol.
    pub enum Protocol {
        /// Protobuf over gRPC, usually port 4317.
        Grpc = "grpc",
        /// Protobuf over HTTP, usually port 4318.
        HttpProtobuf = "http/protobuf",
        /// JSON over HTTP, usually port 4318.
        HttpJson = "http/json",
    }
}

words! {
    /// Compression of request bodies.
    pub enum Compression {
        /// No compression.
        None = "none",
        /// gzip, which every receiver supports.
        Gzip = "gzip",
        /// zstd.
        Zstd = "zstd",
    }
}

/// Settings of the receiver of one signal.
#[derive(Clone, PartialEq, Eq)]
pub struct Receiver {
    /// URL: for gRPC scheme, host and port; for HTTP the whole address with its path (`…/v1/traces`).
    pub endpoint: String,
    /// Encoding and transport of requests.
    pub protocol: Protocol,
    /// Headers of every request, with lower-case names.
    pub headers: Vec<(String, Secret)>,
    /// Timeout of one attempt.
    pub timeout: Duration,
    /// Compression of request bodies.
    pub compression: Compression,
    /// PEM file of CA certificates, which replace the system's certificates; `None` to use the system's certificates.
    pub certificate: Option<PathBuf>,
    /// PEM file of the client's certificate chain (mTLS); `None` without a client certificate.
    pub client_certificate: Option<PathBuf>,
    /// PEM file of the client's private key; `None` without a client certificate.
    pub client_key: Option<PathBuf>,
}

impl Receiver {
    /// Creates settings without headers, certificates and compression.
    pub fn new(endpoint: impl Into<String>, protocol: Protocol, timeout: Duration) -> Self {
        Self {
            endpoint: endpoint.into(),
            protocol,
            headers: Vec::new(),
            timeout,
            compression: Compression::None,
            certificate: None,
            client_certificate: None,
            client_key: None,
        }
    }

    /// Returns the endpoint without user, password and query.
    pub fn shown(&self) -> String {
        text::endpoint(&self.endpoint)
    }

    /// Returns the headers, marked as sensitive.
    ///
    /// # Errors
    ///
    /// Returns an error for the first header that HTTP does not allow.
    pub(crate) fn header_map(&self) -> Result<HeaderMap, Error> {
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            let invalid = |part| Error::Header {
                name: text::shown(name, &[]),
                part,
            };
            let key = HeaderName::try_from(name.as_str()).map_err(|_| invalid("name"))?;
            let mut value = HeaderValue::try_from(value.reveal()).map_err(|_| invalid("value"))?;
            value.set_sensitive(true);
            headers.append(key, value);
        }
        Ok(headers)
    }
}

impl fmt::Debug for Receiver {
    /// Omits user, password and query, because they can be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver")
            .field("endpoint", &self.shown())
            .field("protocol", &self.protocol)
            .field("headers", &self.headers)
            .finish_non_exhaustive()
    }
}
