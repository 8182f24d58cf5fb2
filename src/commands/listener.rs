//! Client for the listener of a daemon: used by `gcwatch top`, `gcwatch incidents` and `gcwatch mcp`.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use reqwest::Client;
use serde::de::DeserializeOwned;

/// Timeout for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum size of an answer, in bytes. The records of a thousand processes take 1 MB, and the recording of an incident
/// takes a few MB.
const MAX_BYTES: usize = 64 << 20;
/// Default address of the daemon on this host.
const THIS_HOST: &str = "http://127.0.0.1:9464";

#[derive(Debug)]
pub(crate) struct Listener {
    client: Client,
    /// Address without a trailing slash.
    pub(crate) address: String,
    token: Option<String>,
}

impl Listener {
    /// Creates a client for a URL, or for the daemon on this host. `token_file` contains the token of `web.token_from`.
    pub(crate) fn new(connect: Option<&str>, token_file: Option<&Path>) -> anyhow::Result<Self> {
        let token = token_file.map(|path| {
            let text = std::fs::read_to_string(path);
            text.with_context(|| format!("cannot read {}", path.display()))
        });
        let token = token.transpose()?.map(|text| text.trim().to_owned());
        let address = connect.unwrap_or(THIS_HOST);
        let is_web = |url: &reqwest::Url| matches!(url.scheme(), "http" | "https");
        anyhow::ensure!(
            reqwest::Url::parse(address).is_ok_and(|url| is_web(&url)),
            "{address:?} is not a URL; write it as http://HOST:9464"
        );
        Self::at(address.trim_end_matches('/').to_owned(), token)
    }

    /// Creates a client for an address.
    pub(crate) fn at(address: String, token: Option<String>) -> anyhow::Result<Self> {
        // Another part of the program that uses TLS can have installed the provider before.
        let _set = rustls::crypto::ring::default_provider().install_default();
        Ok(Self {
            client: Client::builder()
                .timeout(ANSWER_TIMEOUT)
                .build()
                .context("cannot connect")?,
            address,
            token,
        })
    }

    /// Returns whether a server listens at the address. A server that accepts the connection but does not answer
    /// counts, too.
    pub(crate) async fn listens(&self) -> bool {
        let asked = self.client.get(format!("{}/livez", self.address)).send().await;
        asked.map_or_else(|error| !error.is_connect(), |_| true)
    }

    /// Returns whether the daemon has examined all processes on its host.
    pub(crate) async fn is_ready(&self) -> bool {
        let answer = self.client.get(format!("{}/readyz", self.address)).send().await;
        answer.is_ok_and(|answer| answer.status().is_success())
    }

    /// Returns the status and the body of an answer. The error is a few words.
    pub(crate) async fn get(&self, path: &str) -> Result<(u16, Vec<u8>), String> {
        let mut request = self.client.get(format!("{}{path}", self.address));
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        let mut answer = request.send().await.map_err(|error| {
            if error.is_connect() {
                "nothing listens there; start `gcwatch run`".to_owned()
            } else if error.is_timeout() {
                format!("no answer within {} s", ANSWER_TIMEOUT.as_secs())
            } else {
                "the request failed".to_owned()
            }
        })?;
        let status = answer.status().as_u16();
        let mut body = Vec::new();
        while let Some(piece) = answer.chunk().await.map_err(|_| "the answer was cut off".to_owned())? {
            body.extend_from_slice(&piece);
            if body.len() > MAX_BYTES {
                return Err("the answer is too long".to_owned());
            }
        }
        Ok((status, body))
    }

    /// Returns the record at a path. The error is a few words.
    pub(crate) async fn record<T: DeserializeOwned>(&self, path: &str) -> Result<T, String> {
        let (status, body) = self.get(path).await?;
        match status {
            200 => serde_json::from_slice(&body).map_err(|_| "the server is not gcwatch".to_owned()),
            401 => Err("the daemon requires a login; use --token-file".to_owned()),
            404 => Err("the daemon no longer knows this process".to_owned()),
            status => Err(format!("the daemon answered with status {status}")),
        }
    }
}
