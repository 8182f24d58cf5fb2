//! One request to a Kubernetes server: token, deadlines, bounded bodies, and the meaning of a status. The connection is
//! behind [`Transport`], so that tests need neither sockets nor real time.

use std::future::Future;
use std::time::Duration;

use http::{HeaderValue, StatusCode};
use hyper::body::Bytes;
use tokio::time::timeout;

use super::error::AnswerError;
use super::object::Status;
use super::token::{Token, TokenFile};
use processes::text::bounded;

/// Maximum number of bytes of an error's body that are read.
const MAX_ERROR_BYTES: usize = 64 << 10;
/// Timeout for the start of an answer, and for the whole answer.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum delay that a server can request.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(600);

/// A transport for requests. An implementation follows no redirect, and repeats no request that the server can have
/// received.
pub(crate) trait Transport: Send + Sync {
    /// The body of an answer.
    type Body: Body;

    /// Sends `GET path` and waits until the answer starts. `path` includes its query, if any. A transport that cannot
    /// protect the token on its way omits the token.
    fn get(
        &self,
        path: &str,
        authorization: Option<HeaderValue>,
    ) -> impl Future<Output = Result<Answer<Self::Body>, AnswerError>> + Send;

    /// Sends `POST path` with JSON, like [`get`](Self::get).
    fn post(
        &self,
        path: &str,
        authorization: Option<HeaderValue>,
        body: Vec<u8>,
    ) -> impl Future<Output = Result<Answer<Self::Body>, AnswerError>> + Send;
}

/// A body that is read piece by piece.
pub(crate) trait Body: Send {
    /// Returns the next piece, or `None` at the end. This method is cancel safe.
    fn chunk(&mut self) -> impl Future<Output = Result<Option<Bytes>, AnswerError>> + Send;
}

/// An answer that has started.
#[derive(Debug)]
pub(crate) struct Answer<B> {
    pub(crate) status: StatusCode,
    /// The header `Retry-After`.
    pub(crate) retry_after: Option<HeaderValue>,
    pub(crate) body: B,
}

/// A Kubernetes server, and gcwatch's identity on it.
#[derive(Debug)]
pub(crate) struct Client<T> {
    transport: T,
    server: String,
    token: Option<TokenFile>,
}

impl<T: Transport> Client<T> {
    pub(crate) const fn new(transport: T, server: String, token: Option<TokenFile>) -> Self {
        Self {
            transport,
            server,
            token,
        }
    }

    /// Returns the name of the server for messages.
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// Returns the body of an answer that is not an error. If a token was rejected and its file has been replaced, the
    /// new token is sent once, immediately.
    pub(crate) async fn get(&self, path: &str) -> Result<T::Body, AnswerError> {
        let token = self.token().await;
        let first = self.attempt(path, token.as_ref()).await;
        if !matches!(first, Err(AnswerError::Unauthorized(_))) {
            return first;
        }
        match self.token().await {
            Some(newer) if Some(&newer) != token.as_ref() => self.attempt(path, Some(&newer)).await,
            _ => first,
        }
    }

    /// Returns the whole body of an answer of at most `limit` bytes.
    pub(crate) async fn whole(&self, path: &str, limit: usize) -> Result<Vec<u8>, AnswerError> {
        let body = self.get(path).await?;
        within(ANSWER_TIMEOUT, whole(body, limit)).await
    }

    /// Creates an object. An object that already exists on the server counts as created.
    pub(crate) async fn post(&self, path: &str, body: Vec<u8>) -> Result<(), AnswerError> {
        let token = self.token().await;
        let first = self.create(path, token.as_ref(), body.clone()).await;
        if !matches!(first, Err(AnswerError::Unauthorized(_))) {
            return first;
        }
        match self.token().await {
            Some(newer) if Some(&newer) != token.as_ref() => self.create(path, Some(&newer), body).await,
            _ => first,
        }
    }

    async fn create(&self, path: &str, token: Option<&Token>, body: Vec<u8>) -> Result<(), AnswerError> {
        let request = self.transport.post(path, token.map(Token::header), body);
        let answer = within(ANSWER_TIMEOUT, request).await?;
        if answer.status == StatusCode::CONFLICT {
            return Ok(());
        }
        // The rest of the answer is read, so that the connection can be used again.
        within(ANSWER_TIMEOUT, whole(accepted(answer, token).await?, MAX_ERROR_BYTES))
            .await
            .map(drop)
    }

    /// Returns the current token, or `None` if the client has no token.
    async fn token(&self) -> Option<Token> {
        Some(self.token.as_ref()?.current().await)
    }

    async fn attempt(&self, path: &str, token: Option<&Token>) -> Result<T::Body, AnswerError> {
        let request = self.transport.get(path, token.map(Token::header));
        accepted(within(ANSWER_TIMEOUT, request).await?, token).await
    }
}

/// Returns the body of an answer that is not an error.
async fn accepted<B: Body>(answer: Answer<B>, token: Option<&Token>) -> Result<B, AnswerError> {
    if answer.status.is_success() {
        return Ok(answer.body);
    }
    let body = within(ANSWER_TIMEOUT, whole(answer.body, MAX_ERROR_BYTES)).await;
    let mut refused: Status = body
        .ok()
        .and_then(|body| serde_json::from_slice(&body).ok())
        .unwrap_or_default();
    if let (Some(message), Some(token)) = (&mut refused.message, token) {
        *message = token.redact(message);
    }
    let retry_after = answer
        .retry_after
        .and_then(|header| header.to_str().ok()?.trim().parse().ok());
    Err(refusal(answer.status, &refused, retry_after))
}

/// Returns the meaning of an answer that is an error. `retry_after` is the value of the header, in seconds. A date is
/// not supported, because Kubernetes servers do not send one.
pub(crate) fn refusal(status: StatusCode, details: &Status, retry_after: Option<u64>) -> AnswerError {
    let answer = match &details.message {
        Some(message) => format!("{status}: {}", bounded(message)),
        None => status.to_string(),
    };
    let seconds = retry_after.or_else(|| details.details.as_ref()?.retry_after_seconds);
    match status {
        StatusCode::GONE => AnswerError::Expired,
        StatusCode::UNAUTHORIZED => AnswerError::Unauthorized(answer),
        StatusCode::FORBIDDEN => AnswerError::Forbidden(answer),
        _ => AnswerError::Refused {
            answer,
            retry_after: seconds.map(|seconds| Duration::from_secs(seconds).min(LONGEST_RETRY_AFTER)),
        },
    }
}

/// Returns the result of `future`, or an error if it takes longer than `limit`.
pub(crate) async fn within<V>(
    limit: Duration,
    future: impl Future<Output = Result<V, AnswerError>>,
) -> Result<V, AnswerError> {
    timeout(limit, future).await.unwrap_or(Err(AnswerError::Slow(limit)))
}

async fn whole(mut body: impl Body, limit: usize) -> Result<Vec<u8>, AnswerError> {
    let mut bytes = Vec::new();
    while let Some(piece) = body.chunk().await? {
        if bytes.len().saturating_add(piece.len()) > limit {
            return Err(AnswerError::TooLong(limit));
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;
