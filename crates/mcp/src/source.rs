//! The interface between the tools and the source of their records.

use std::path::PathBuf;

use http::request::Parts;
use serde_json::Value;

/// The reason why a call cannot be answered, and a remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The problem, in one sentence.
    pub error: String,
    /// The remedy; `None` if unknown.
    pub remedy: Option<String>,
}

impl Refusal {
    /// Creates a refusal with a remedy.
    pub fn new(error: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            error: error.into(),
            remedy: Some(remedy.into()),
        }
    }
}

/// A record, or the reason why it is not available.
pub type Answer = Result<Value, Refusal>;

/// The selection of a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recording {
    /// One of [`Source::files`].
    File(PathBuf),
    /// The recording of an incident, by its path in the API.
    Incident(String),
}

/// Output of a gcwatch command.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CommandOutput {
    /// The first records of each kind.
    pub records: Vec<Value>,
    /// Number of records that were left out.
    pub left_out: usize,
    /// Text that the command wrote to standard error.
    pub said: String,
}

/// A source of the records that tools query.
pub trait Source: Send + Sync + 'static {
    /// Returns the record at a path of the API. `asked` is the head of the HTTP request that contains the tool call, or
    /// `None` if the call arrived over stdio.
    fn record(&self, path: &str, asked: Option<&Parts>) -> impl Future<Output = Answer> + Send;

    /// Returns the paths of the recordings that were passed at the start of the server.
    fn files(&self) -> &[PathBuf];

    /// Returns a recording as a `ReportedRecording` (crate `api`).
    fn recording(&self, which: Recording) -> impl Future<Output = Answer> + Send;

    /// Runs a gcwatch command as the user who started the server. `words` contains the arguments of the command. `file`
    /// is a recording, which becomes the last argument, and is never parsed as an option or a pid.
    fn command(
        &self,
        words: Vec<String>,
        file: Option<PathBuf>,
    ) -> impl Future<Output = Result<CommandOutput, Refusal>> + Send;
}

/// The caller and the source that the caller queries.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asker<'a, S> {
    pub(super) source: &'a S,
    pub(super) asked: Option<&'a Parts>,
}

impl<S: Source> Asker<'_, S> {
    /// Returns the record at a path of the API.
    pub(super) async fn record(&self, path: &str) -> Answer {
        self.source.record(path, self.asked).await
    }
}

/// Converts a response of the API to a record or a refusal.
pub fn record(status: u16, body: &[u8]) -> Answer {
    let value: Option<Value> = serde_json::from_slice(body).ok();
    let field = |name: &str| value.as_ref()?.get(name)?.as_str().map(str::to_owned);
    match (status, &value) {
        (200, Some(_)) => Ok(value.unwrap_or_default()),
        (200, None) => Err(Refusal::new(
            "the response is not from gcwatch",
            "check which program listens at this address",
        )),
        _ => Err(Refusal {
            error: field("error").unwrap_or_else(|| {
                let text = String::from_utf8_lossy(body);
                match text.trim() {
                    "" => format!("the listener answered {status}"),
                    text => text.to_owned(),
                }
            }),
            remedy: field("remedy"),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: the listener responds with a record, a refusal with a remedy, a refusal as plain text, an empty
    /// refusal, and the page of another program.
    /// Guarantee: the result is the record, or a refusal with the reason and the remedy of the response.
    #[test]
    fn refusals_are_passed_on() {
        assert_eq!(record(200, b"{\"a\": 1}").unwrap()["a"], 1);
        let refusal = record(404, b"{\"error\": \"none\", \"remedy\": \"ask\"}").unwrap_err();
        assert_eq!(refusal, Refusal::new("none", "ask"));
        assert_eq!(
            record(403, b"this may hold secrets\n").unwrap_err().error,
            "this may hold secrets"
        );
        assert_eq!(record(500, b"").unwrap_err().error, "the listener answered 500");
        assert!(record(200, b"<html>").is_err());
    }
}
