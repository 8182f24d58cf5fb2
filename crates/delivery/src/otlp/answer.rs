//! The meaning of a receiver's answer, as specified by OTLP (opentelemetry.io/docs/specs/otlp). Pure.

mod grpc;
mod http;

use std::time::Duration;

use prost::Message;

/// Maximum number of bytes of an answer that are read.
pub(crate) const ANSWER_BYTES: usize = 64 << 10;

/// Reason why an attempt must be retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RetryCause {
    /// The receiver answered that it is overloaded or unavailable.
    Unavailable,
    /// The receiver did not answer in time.
    TimedOut,
    /// There was no connection, or it broke.
    Unreachable,
}

/// The outcome of one attempt. Messages are text from the receiver and are shown only through
/// [`crate::transport::text`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The request was accepted, except `rejected` items. A message without rejected items is a warning.
    Accepted { rejected: u64, message: String },
    /// The request must be retried, not before `after` if the receiver requests a delay.
    Retry {
        cause: RetryCause,
        after: Option<Duration>,
        message: String,
    },
    /// The request is too large. If not `certain`, a quota can be used up instead: gRPC has one code for both.
    TooLarge { certain: bool, message: String },
    /// The request was refused, and a retry would be refused, too.
    Refused { message: String },
    /// The receiver does not support the request's compression.
    CannotDecompress { message: String },
    /// The receiver does not accept this signal.
    Unsupported { message: String },
}

/// `Export*ServiceResponse`, which has the same layout for all signals.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ExportResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) partial_success: Option<PartialSuccess>,
}

/// `Export*PartialSuccess`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct PartialSuccess {
    /// Number of rejected spans, data points or log records.
    #[prost(int64, tag = "1")]
    pub(crate) rejected: i64,
    #[prost(string, tag = "2")]
    pub(crate) error_message: String,
}

impl From<ExportResponse> for Answer {
    fn from(response: ExportResponse) -> Self {
        let partial = response.partial_success.unwrap_or_default();
        Self::Accepted {
            rejected: u64::try_from(partial.rejected).unwrap_or(0),
            message: partial.error_message,
        }
    }
}

impl Answer {
    pub(crate) fn timed_out(timeout: Duration) -> Self {
        let message = format!("no answer within {timeout:?}");
        Self::Retry {
            cause: RetryCause::TimedOut,
            after: None,
            message,
        }
    }

    pub(crate) fn unreachable(message: String) -> Self {
        Self::Retry {
            cause: RetryCause::Unreachable,
            after: None,
            message,
        }
    }
}

/// Returns whether a text contains a message of common servers for a request above their size limit: gRPC of Go and C,
/// Java, .NET, and tonic; HTTP of Go.
pub(crate) fn says_too_large(text: &str) -> bool {
    const WORDS: [&str; 5] = [
        "larger than max",
        "exceeds maximum size",
        "exceeds the maximum configured message size",
        "message length too large",
        "http: request body too large",
    ];
    WORDS.iter().any(|words| text.contains(words))
}
