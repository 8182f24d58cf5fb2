//! A server without sockets, for tests on a paused clock.

use std::collections::VecDeque;
use std::future::pending;
use std::sync::{Arc, Mutex};

use http::{HeaderValue, StatusCode};
use hyper::body::Bytes;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::client::{Answer, Body, Transport};
use super::error::AnswerError;

/// The outcome of a request.
pub(crate) enum ScriptedAnswer {
    /// An answer: status, `Retry-After`, the pieces of the body, and the end of the body.
    Answer(u16, Option<&'static str>, Vec<Bytes>, End),
    /// An answer with the pieces that are sent. The answer ends cleanly when the sender is dropped.
    Live(mpsc::Receiver<Bytes>),
    /// No answer.
    Nothing,
}

/// The end of a body.
#[derive(Debug, Clone, Copy)]
pub(crate) enum End {
    InOrder,
    /// No further piece arrives, and the connection stays open.
    Silence,
    Broken,
}

impl ScriptedAnswer {
    pub(crate) fn whole(status: u16, body: impl Into<Bytes>) -> Self {
        Self::Answer(status, None, vec![body.into()], End::InOrder)
    }
}

/// A request that was sent.
#[derive(Debug, Clone)]
pub(crate) struct RecordedRequest {
    pub(crate) at: Instant,
    pub(crate) path: String,
    pub(crate) authorization: Option<HeaderValue>,
    pub(crate) body: Vec<u8>,
}

/// A transport that answers requests with its steps, and does not answer after the last step.
#[derive(Clone, Default)]
pub(crate) struct Script {
    steps: Arc<Mutex<VecDeque<ScriptedAnswer>>>,
    asked: Arc<Mutex<Vec<RecordedRequest>>>,
    /// Called with the number of each request, before the request is answered.
    pub(crate) meanwhile: Option<Arc<dyn Fn(usize) + Send + Sync>>,
}

impl Script {
    pub(crate) fn new(steps: impl IntoIterator<Item = ScriptedAnswer>) -> Self {
        Self {
            steps: Arc::new(Mutex::new(steps.into_iter().collect())),
            ..Self::default()
        }
    }

    pub(crate) fn asked(&self) -> Vec<RecordedRequest> {
        self.asked.lock().unwrap().clone()
    }
}

impl Transport for Script {
    type Body = Pieces;

    async fn get(&self, path: &str, authorization: Option<HeaderValue>) -> Result<Answer<Pieces>, AnswerError> {
        self.post(path, authorization, Vec::new()).await
    }

    async fn post(
        &self,
        path: &str,
        authorization: Option<HeaderValue>,
        body: Vec<u8>,
    ) -> Result<Answer<Pieces>, AnswerError> {
        let number = {
            let mut asked = self.asked.lock().unwrap();
            asked.push(RecordedRequest {
                at: Instant::now(),
                path: path.to_owned(),
                authorization,
                body,
            });
            asked.len()
        };
        if let Some(meanwhile) = &self.meanwhile {
            meanwhile(number);
        }
        let step = self.steps.lock().unwrap().pop_front();
        match step {
            Some(ScriptedAnswer::Answer(status, retry_after, pieces, end)) => Ok(Answer {
                status: StatusCode::from_u16(status).unwrap(),
                retry_after: retry_after.map(HeaderValue::from_static),
                body: Pieces::Given(pieces.into(), end),
            }),
            Some(ScriptedAnswer::Live(pieces)) => Ok(Answer {
                status: StatusCode::OK,
                retry_after: None,
                body: Pieces::Live(pieces),
            }),
            Some(ScriptedAnswer::Nothing) | None => pending().await,
        }
    }
}

/// The remaining pieces of a body.
pub(crate) enum Pieces {
    Given(VecDeque<Bytes>, End),
    Live(mpsc::Receiver<Bytes>),
}

impl Body for Pieces {
    async fn chunk(&mut self) -> Result<Option<Bytes>, AnswerError> {
        let (pieces, end) = match self {
            Self::Given(pieces, end) => (pieces, *end),
            Self::Live(pieces) => return Ok(pieces.recv().await),
        };
        match (pieces.pop_front(), end) {
            (Some(piece), _) => Ok(Some(piece)),
            (None, End::InOrder) => Ok(None),
            (None, End::Silence) => pending().await,
            (None, End::Broken) => Err(AnswerError::Broken("the script ends it".to_owned())),
        }
    }
}
