//! A request to a receiver of alerts, and the meaning of its answer.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base::error::causes;
use base::secret::Secret;
use tokio::time::{Instant, timeout_at};
use tonic::codegen::http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::alerts::stats::Failure;
use crate::transport;
use crate::transport::connection::{Connection, Link};
use crate::transport::receiver::Receiver;
use crate::transport::retry;
use crate::transport::text;

/// Maximum number of bytes of an answer that are read.
const ANSWER_BYTES: usize = 16 << 10;

/// Error returned if a receiver's settings are invalid. An unavailable receiver is not an error.
#[derive(Debug, thiserror::Error)]
#[error("cannot send alerts to {receiver}: {reason}")]
pub struct Error {
    /// The receiver, without its possible secrets.
    pub receiver: String,
    /// Reason why the settings are invalid.
    pub reason: String,
}

/// The outcome of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Every alert in the request was accepted.
    Accepted,
    /// The request must be retried, not before `after` if the receiver requests a delay.
    Retry {
        failure: Failure,
        after: Option<Duration>,
        message: String,
    },
    /// The request was refused. `content` is whether the reason is the content of the request, so that the receiver can
    /// accept a part of it.
    Refused { content: bool, message: String },
}

/// A receiver with its connection.
pub(crate) struct Post {
    receiver: Receiver,
    connection: Arc<Connection>,
    headers: HeaderMap,
    secrets: Vec<Secret>,
    #[cfg(test)]
    pub(crate) script: Option<Script>,
}

/// Answers without a receiver, so that a test can run on a paused clock.
#[cfg(test)]
#[derive(Default)]
pub(crate) struct Script {
    /// Answers in order. Afterwards, every request is accepted.
    pub(crate) answers: std::sync::Mutex<std::collections::VecDeque<Answer>>,
    /// Time of each request.
    pub(crate) requests: std::sync::Mutex<Vec<Instant>>,
}

impl Post {
    /// Checks the settings of a receiver. Takes the connection from `known`, or adds it there.
    pub(crate) fn new(receiver: &Receiver, known: &mut Vec<Arc<Connection>>) -> Result<Self, Error> {
        let unusable = |error: transport::Error| Error {
            receiver: host(&receiver.endpoint),
            reason: error.to_string(),
        };
        let headers = receiver.header_map().map_err(unusable)?;
        let connection = Connection::open(receiver, known).map_err(unusable)?;
        let mut secrets: Vec<Secret> = receiver.headers.iter().map(|(_, value)| value.clone()).collect();
        if let Ok(url) = reqwest::Url::parse(&receiver.endpoint) {
            // The paths of many webhooks are passwords.
            secrets.push(Secret::new(url.path()));
            secrets.extend(text::secrets_of(&url));
        }
        Ok(Self {
            receiver: receiver.clone(),
            connection,
            headers,
            secrets,
            #[cfg(test)]
            script: None,
        })
    }

    pub(crate) fn receiver(&self) -> &Receiver {
        &self.receiver
    }

    pub(crate) fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// Returns a foreign text in a form that is safe to show: one line, bounded, without secrets.
    pub(crate) fn shown(&self, text: &str) -> String {
        text::shown(text, &self.secrets)
    }

    /// Sends a request once, within the receiver's timeout.
    pub(crate) async fn send(&self, body: Vec<u8>, signature: Option<(HeaderName, HeaderValue)>) -> Answer {
        #[cfg(test)]
        if let Some(script) = &self.script {
            script.requests.lock().unwrap().push(Instant::now());
            let answer = script.answers.lock().unwrap().pop_front();
            return answer.unwrap_or(Answer::Accepted);
        }
        let Link::Http(client) = self.connection.link() else {
            let message = "the connection is not an HTTP connection".to_owned();
            return Answer::Refused {
                content: false,
                message,
            };
        };
        let deadline = Instant::now() + self.receiver.timeout;
        let mut request = client
            .post(&self.receiver.endpoint)
            .headers(self.headers.clone())
            .header(header::CONTENT_TYPE, "application/json");
        if let Some((name, value)) = signature {
            request = request.header(name, value);
        }
        let again = |failure, message| Answer::Retry {
            failure,
            after: None,
            message,
        };
        let mut response = match timeout_at(deadline, request.body(body).send()).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return again(Failure::Unreachable, causes(&error.without_url())),
            Err(_) => {
                return again(
                    Failure::TimedOut,
                    format!("no answer within {:?}", self.receiver.timeout),
                );
            }
        };
        let mut body = Vec::new();
        // Only the status matters. If the body is truncated, late or endless, only its text is lost.
        while body.len() < ANSWER_BYTES
            && let Ok(Ok(Some(chunk))) = timeout_at(deadline, response.chunk()).await
        {
            body.extend_from_slice(chunk.get(..ANSWER_BYTES - body.len()).unwrap_or(&chunk));
        }
        let after = response.headers().get(header::RETRY_AFTER);
        let after = after.and_then(|value| value.to_str().ok());
        answer(response.status().as_u16(), after, &body, SystemTime::now())
    }
}

/// Returns the meaning of an answer with this status.
fn answer(status: u16, retry_after: Option<&str>, body: &[u8], now: SystemTime) -> Answer {
    let body = String::from_utf8_lossy(body);
    let message = match body.trim() {
        "" => format!("HTTP status {status}"),
        text => format!("HTTP status {status}: {text}"),
    };
    match status {
        200..300 => Answer::Accepted,
        300..400 => Answer::Refused {
            content: false,
            message: format!("HTTP status {status}: redirects are not followed"),
        },
        408 | 425 | 429 | 500.. => Answer::Retry {
            failure: Failure::Unavailable,
            after: retry_after.and_then(|header| retry::retry_after(header, now)),
            message,
        },
        400 | 413 | 422 => Answer::Refused { content: true, message },
        _ => Answer::Refused {
            content: false,
            message,
        },
    }
}

/// Returns only host and port of a URL, because the path of a webhook is often a password. Returns `without a host` for
/// any other text.
pub(crate) fn host(url: &str) -> String {
    let host = reqwest::Url::parse(url).ok().and_then(|url| {
        let port = url.port().map_or_else(String::new, |port| format!(":{port}"));
        Some(format!("{}{port}", url.host_str()?))
    });
    host.unwrap_or_else(|| "without a host".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: a receiver sends statuses of every class.
    /// Guarantee: temporary failures are retried after the receiver's delay; other failures are not; only a refusal of
    /// the content allows a part to be sent again.
    #[test]
    fn status_determines_retry() {
        let of = |status| answer(status, Some("7"), b"because", SystemTime::UNIX_EPOCH);
        assert_eq!(of(200), Answer::Accepted);
        for status in [408, 429, 500, 502, 503, 504] {
            let again = Answer::Retry {
                failure: Failure::Unavailable,
                after: Some(Duration::from_secs(7)),
                message: format!("HTTP status {status}: because"),
            };
            assert_eq!(of(status), again);
        }
        for (status, content) in [
            (301, false),
            (400, true),
            (401, false),
            (403, false),
            (404, false),
            (413, true),
            (422, true),
        ] {
            assert!(
                matches!(of(status), Answer::Refused { content: of_content, .. } if of_content == content),
                "{status}"
            );
        }
    }

    /// Scenario: the path, user or query of a webhook is a password.
    /// Guarantee: only host and port are shown.
    #[test]
    fn only_host_of_url_is_shown() {
        assert_eq!(
            host("https://user:pw@hooks.example:8443/T0/B0/secret?key=1"),
            "hooks.example:8443"
        );
        assert_eq!(host("http://127.0.0.1/x"), "127.0.0.1");
        assert_eq!(host("nonsense"), "without a host");
    }
}
