//! A receiver: its address, its protocol and its secrets.

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
    /// How request bodies are compressed.
    pub enum Compression {
        /// Not compressed.
        None = "none",
        /// gzip, which every receiver supports.
        Gzip = "gzip",
        /// zstd.
        Zstd = "zstd",
    }
}

/// One signal's receiver.
#[derive(Clone, PartialEq, Eq)]
pub struct Receiver {
    /// The URL: for gRPC scheme, host and port; for HTTP the whole address with its path (`…/v1/traces`).
    pub endpoint: String,
    /// How requests are encoded and carried.
    pub protocol: Protocol,
    /// Sent with every request; names in lower case.
    pub headers: Vec<(String, Secret)>,
    /// Limit on one attempt.
    pub timeout: Duration,
    /// How bodies are compressed.
    pub compression: Compression,
    /// PEM file of CA certificates, trusted instead of the system's.
    pub certificate: Option<PathBuf>,
    /// PEM file of the client's own certificate chain (mTLS).
    pub client_certificate: Option<PathBuf>,
    /// PEM file of its private key.
    pub client_key: Option<PathBuf>,
}

impl Receiver {
    /// One without headers and certificates, whose requests are not compressed.
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

    /// The endpoint without user, password and query.
    pub fn shown(&self) -> String {
        text::endpoint(&self.endpoint)
    }

    /// Its headers as HTTP takes them, marked as sensitive.
    ///
    /// # Errors
    ///
    /// The first header that HTTP does not allow.
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
    /// Without user, password and query: they can be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver")
            .field("endpoint", &self.shown())
            .field("protocol", &self.protocol)
            .field("headers", &self.headers)
            .finish_non_exhaustive()
    }
}
