//! One request: an export over gRPC or over HTTP, and its answer.
//!
//! Formats: <https://opentelemetry.io/docs/specs/otlp/>, and gRPC's PROTOCOL-HTTP2.md for its frames and trailers. Of
//! HTTP's two encodings protobuf is read, which all exporters send unless they are configured otherwise.

mod refusal;
mod transport;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use gc_requests::span;
use http::{Request, Response};
use http_body_util::combinators::BoxBody;
use hyper::body::{Body, Bytes};
use tokio::time::timeout;

use super::body::{self, Held, NotRead, Room};
use super::stats::{Dropped, IntakeStats};
use crate::targets::directory::{Delivered, Directory};
use refusal::Refusal;
use transport::{Transport, accepted, check, framed, refused, transport};

/// Deadline for the body of a request.
const BODY_WITHIN: Duration = Duration::from_secs(10);

/// The codes of gRPC that are answered.
mod code {
    pub(super) const OK: u16 = 0;
    pub(super) const INVALID_ARGUMENT: u16 = 3;
    pub(super) const DEADLINE_EXCEEDED: u16 = 4;
    pub(super) const RESOURCE_EXHAUSTED: u16 = 8;
    pub(super) const UNIMPLEMENTED: u16 = 12;
}

pub(super) type Answer = Response<BoxBody<Bytes, Infallible>>;

/// What requests are answered with.
#[derive(Debug, Clone)]
pub(super) struct Exports {
    pub(super) directory: Arc<Directory>,
    pub(super) stats: Arc<IntakeStats>,
    pub(super) room: Room,
}

impl Exports {
    pub(super) async fn answer<B: Body<Data = Bytes> + Unpin>(&self, request: Request<B>) -> Answer {
        let transport = transport(request.headers());
        match self.take(transport, request).await {
            Ok(()) => accepted(transport),
            Err(refusal) => {
                if let Some(dropped) = refusal.dropped() {
                    self.stats.dropped(dropped);
                }
                refused(transport, refusal)
            }
        }
    }

    async fn take<B: Body<Data = Bytes> + Unpin>(
        &self,
        transport: Transport,
        request: Request<B>,
    ) -> Result<(), Refusal> {
        let is_gzip = check(transport, &request)?;
        let body = timeout(BODY_WITHIN, body::collect(request.into_body(), &self.room));
        let read = match body.await.map_err(|_| Refusal::Slow)? {
            Ok(body) => self.read(transport, is_gzip, &body),
            Err(error) => Err(Unread::NotRead(error)),
        };
        match read {
            Ok(()) => Ok(()),
            // Its sender would send it again, and cannot help it.
            Err(Unread::NotRead(NotRead::Full)) => {
                self.stats.dropped(Dropped::Full);
                Ok(())
            }
            Err(Unread::NotRead(NotRead::TooLarge)) => Err(Refusal::TooLarge),
            Err(Unread::NotRead(NotRead::Damaged)) => Err(Refusal::Damaged),
            Err(Unread::Refused(refusal)) => Err(refusal),
        }
    }

    fn read(&self, transport: Transport, is_gzip: bool, body: &Held) -> Result<(), Unread> {
        let (is_compressed, message) = match transport {
            Transport::Http => (is_gzip, body.bytes()),
            Transport::Grpc => {
                let (is_compressed, message) = framed(body.bytes())?;
                if is_compressed && !is_gzip {
                    return Err(Refusal::Compression.into());
                }
                (is_compressed, message)
            }
        };
        let inflated;
        let export = if is_compressed {
            inflated = body::inflate(message, &self.room)?;
            inflated.bytes()
        } else {
            message
        };
        span::read(export, |spans| {
            let count = spans.requests.len() as u64;
            self.stats.others(spans.others);
            self.stats.left_out(spans.left_out);
            if count == 0 {
                return;
            }
            match self.directory.deliver(&spans.source, spans.requests) {
                Delivered::To { dropped } => {
                    let dropped = dropped as u64;
                    self.stats.matched(count - dropped);
                    self.stats.left_out(dropped);
                }
                Delivered::Nobody => self.stats.unmatched(count),
                Delivered::Several => self.stats.ambiguous(count),
            }
        })
        .map_err(Refusal::from)?;
        Ok(())
    }
}

/// Why an export comes to nothing.
enum Unread {
    NotRead(NotRead),
    Refused(Refusal),
}

impl From<NotRead> for Unread {
    fn from(error: NotRead) -> Self {
        Self::NotRead(error)
    }
}

impl From<Refusal> for Unread {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

#[cfg(test)]
mod tests;
