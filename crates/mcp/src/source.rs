//! Where answers come from.

use std::path::PathBuf;

use http::request::Parts;
use serde_json::Value;

/// Why something cannot be answered: what is wrong, and what to ask or do instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// One sentence.
    pub error: String,
    /// What to do; `None`: nothing helps.
    pub remedy: Option<String>,
}

impl Refusal {
    /// A refusal with something to do about it.
    pub fn new(error: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            error: error.into(),
            remedy: Some(remedy.into()),
        }
    }
}

/// A record, or why there is none.
pub type Answer = Result<Value, Refusal>;

/// Which recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recording {
    /// A file of the caller.
    File(PathBuf),
    /// One of an incident, by the path under which the API serves it.
    Incident(String),
}

/// What a command of gcwatch printed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Printed {
    /// Its records, the first ones of each kind.
    pub records: Vec<Value>,
    /// How many more there were.
    pub left_out: usize,
    /// What it said beside them.
    pub said: String,
}

/// What tools ask.
pub trait Source: Send + Sync + 'static {
    /// The record at a path of the API. `asked`: the head of the request by which it was asked; `None`: over stdio.
    fn record(&self, path: &str, asked: Option<&Parts>) -> impl Future<Output = Answer> + Send;

    /// Recordings that were named when the server began.
    fn files(&self) -> &[PathBuf];

    /// A recording as `ReportedRecording` (crate `api`) says it.
    fn recording(&self, which: Recording) -> impl Future<Output = Answer> + Send;

    /// Runs a command of gcwatch as the user of the caller.
    fn command(&self, words: Vec<String>) -> impl Future<Output = Result<Printed, Refusal>> + Send;
}

/// Who asks, and what is asked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asker<'a, S> {
    pub(super) source: &'a S,
    pub(super) asked: Option<&'a Parts>,
}

impl<S: Source> Asker<'_, S> {
    /// The record at a path of the API.
    pub(super) async fn record(&self, path: &str) -> Answer {
        self.source.record(path, self.asked).await
    }
}

/// An answer of the API as a record, or as what it refuses.
pub fn record(status: u16, body: &[u8]) -> Answer {
    let value: Option<Value> = serde_json::from_slice(body).ok();
    let field = |name: &str| value.as_ref()?.get(name)?.as_str().map(str::to_owned);
    match (status, &value) {
        (200, Some(_)) => Ok(value.unwrap_or_default()),
        (200, None) => Err(Refusal::new(
            "what answers is no gcwatch",
            "look which program listens there",
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

    /// Scenario: a record, a refusal with a remedy, one that is text, one without words, and what is no gcwatch.
    /// Guarantee: the record, or what was refused and what to do.
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
