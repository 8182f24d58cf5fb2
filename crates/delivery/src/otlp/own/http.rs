//! The HTTP client of the target, as an HTTP client for `opentelemetry-otlp`.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use tokio::time::Instant;

use crate::otlp::answer::Answer;
use crate::otlp::target::{HttpAnswer, Target, compress, leave_out_nulls};
use crate::transport::connection::Link;
use crate::transport::receiver::{Compression, Protocol};

/// The last answer of the receiver, which `opentelemetry-otlp` does not pass on.
pub(crate) type LastAnswer = Arc<Mutex<Option<Answer>>>;

/// A client that sends the request bodies of `opentelemetry-otlp` like the target's own requests. The headers of the
/// library are ignored.
#[derive(Debug)]
pub(crate) struct TargetClient {
    pub(crate) target: Arc<Target>,
    pub(crate) last: LastAnswer,
}

impl TargetClient {
    fn keep(&self, answer: Answer) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
    }

    async fn post(&self, plain: &[u8], compression: Compression) -> Result<HttpAnswer, HttpError> {
        let Link::Http(client) = self.target.connection().link() else {
            return Err("the connection is not an HTTP connection".into());
        };
        let deadline = Instant::now() + self.target.receiver().timeout;
        let body = compress(plain.to_vec(), compression)?;
        match self.target.post(&client, compression, body, deadline).await {
            Ok(answer) => {
                self.keep(self.target.answer_of(&answer));
                Ok(answer)
            }
            Err(failed) => {
                self.keep(failed);
                Err("no answer".into())
            }
        }
    }
}

#[async_trait]
impl HttpClient for TargetClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let mut plain = request.into_body();
        if self.target.receiver().protocol == Protocol::HttpJson {
            let mut json = serde_json::from_slice(&plain)?;
            leave_out_nulls(&mut json);
            plain = serde_json::to_vec(&json)?.into();
        }
        let compression = self.target.compression();
        let mut answer = self.post(&plain, compression).await?;
        if answer.status.as_u16() == 415 && compression != Compression::None {
            self.target.stop_compressing("HTTP status 415");
            answer = self.post(&plain, Compression::None).await?;
        }
        let mut response = Response::new(Bytes::from(answer.body));
        *response.status_mut() = answer.status;
        *response.headers_mut() = answer.headers;
        Ok(response)
    }
}
