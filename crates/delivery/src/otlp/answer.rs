//! What a receiver's answer means, by the rules of OTLP (opentelemetry.io/docs/specs/otlp): pure.

use std::time::{Duration, SystemTime};

use prost::Message;
use tonic::{Code, Status};

use crate::otlp::signal::Signal;
use crate::transport::retry::{self, RpcStatus};
use crate::transport::text;

/// Most bytes of an answer that are read.
pub(crate) const ANSWER_BYTES: usize = 64 << 10;

/// Why an attempt is to be repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The receiver said: not now.
    Unavailable,
    /// It said nothing in time.
    TimedOut,
    /// There was no connection, or it broke.
    Unreachable,
}

/// What came of one attempt. Messages are the receiver's own words, not yet fit to be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Accepted, except `rejected` items. A message without rejected items is a warning.
    Accepted { rejected: u64, message: String },
    /// To be tried again, not before `after` where the receiver says so.
    Again {
        trouble: Trouble,
        after: Option<Duration>,
        message: String,
    },
    /// The request is too large, or (when not `certain`) perhaps a quota is used up: gRPC says both with one code.
    TooLarge { certain: bool, message: String },
    /// Refused; trying again is of no use.
    Refused { message: String },
    /// The receiver does not know how the request is packed.
    CannotUnpack { message: String },
    /// The receiver does not take this signal.
    Unsupported { message: String },
}

/// `Export*ServiceResponse`: the same layout for the three signals.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ExportResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) partial_success: Option<PartialSuccess>,
}

/// `Export*PartialSuccess`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct PartialSuccess {
    /// Spans, data points or log records.
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
        Self::Again {
            trouble: Trouble::TimedOut,
            after: None,
            message,
        }
    }

    pub(crate) fn unreachable(message: String) -> Self {
        Self::Again {
            trouble: Trouble::Unreachable,
            after: None,
            message,
        }
    }

    /// A gRPC status that is not OK.
    pub(crate) fn of_status(status: &Status) -> Self {
        // A status with a cause was made on this side: the receiver was not reached, or the connection broke.
        if let Some(cause) = std::error::Error::source(status) {
            let causes = text::causes(cause);
            let known = causes.contains(status.message());
            return Self::unreachable(if known {
                causes
            } else {
                format!("{causes}: {}", status.message())
            });
        }
        let code = status.code();
        let text = status.message();
        if let Some(http) = text.strip_prefix("grpc-status header missing, mapped from HTTP status code ")
            && http.trim() == "413"
        {
            // A proxy in front of the receiver.
            return Self::TooLarge {
                certain: true,
                message: "HTTP status 413".to_owned(),
            };
        }
        if text.ends_with(&format!("the limit is: {ANSWER_BYTES} bytes")) || text.starts_with("Error decompressing: ") {
            // Said on this side: the request was taken; what is too long or badly packed is the answer.
            return Self::Accepted {
                rejected: 0,
                message: "the answer cannot be read".to_owned(),
            };
        }
        if says_too_large(text) && matches!(code, Code::ResourceExhausted | Code::OutOfRange) {
            return Self::TooLarge {
                certain: true,
                message: text.to_owned(),
            };
        }
        let after = retry::retry_info(status.details());
        let message = if text.is_empty() {
            format!("{code:?}")
        } else {
            format!("{code:?}: {text}")
        };
        match code {
            // A service is unknown, or only how the request is packed (the words of grpc-go and tonic).
            Code::Unimplemented if text.contains("grpc-encoding") || text.contains("is compressed with") => {
                Self::CannotUnpack { message }
            }
            Code::Unimplemented => Self::Unsupported { message },
            Code::ResourceExhausted if after.is_none() => Self::TooLarge {
                certain: false,
                message,
            },
            Code::Cancelled
            | Code::DeadlineExceeded
            | Code::Aborted
            | Code::OutOfRange
            | Code::Unavailable
            | Code::DataLoss
            | Code::ResourceExhausted => Self::Again {
                trouble: Trouble::Unavailable,
                after,
                message,
            },
            Code::Unknown if text.starts_with("protocol error: missing grpc-status") => {
                Self::unreachable(text.to_owned())
            }
            _ => Self::Refused { message },
        }
    }

    /// An HTTP answer, its body read as far as [`ANSWER_BYTES`].
    pub(crate) fn of_http(
        signal: Signal,
        status: u16,
        json: bool,
        retry_after: Option<&str>,
        body: &[u8],
        now: SystemTime,
    ) -> Self {
        if (200..300).contains(&status) {
            return accepted(signal, json, body);
        }
        let message = match error_message(json, body) {
            text if text.is_empty() => format!("HTTP status {status}"),
            text => format!("HTTP status {status}: {text}"),
        };
        match status {
            300..400 => Self::Refused {
                message: format!("HTTP status {status}: redirects are not followed"),
            },
            404 | 405 | 501 => Self::Unsupported { message },
            413 => Self::TooLarge { certain: true, message },
            // The Collector's answer to a body above its limit, in the words of Go's library.
            400 if says_too_large(&message) => Self::TooLarge { certain: true, message },
            415 => Self::CannotUnpack { message },
            429 | 502..=504 => {
                let after = retry_after.and_then(|header| retry::retry_after(header, now));
                Self::Again {
                    trouble: Trouble::Unavailable,
                    after,
                    message,
                }
            }
            _ => Self::Refused { message },
        }
    }
}

/// The words of the common servers for a message above their limit: gRPC of Go and C, Java, .NET, and tonic; HTTP of Go.
fn says_too_large(text: &str) -> bool {
    const WORDS: [&str; 5] = [
        "larger than max",
        "exceeds maximum size",
        "exceeds the maximum configured message size",
        "message length too large",
        "http: request body too large",
    ];
    WORDS.iter().any(|words| text.contains(words))
}

fn accepted(signal: Signal, json: bool, body: &[u8]) -> Answer {
    if !json {
        return ExportResponse::decode(body).unwrap_or_default().into();
    }
    let body: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let partial = body.get("partialSuccess");
    let rejected = partial.and_then(|partial| partial.get(signal.rejected_key()));
    let rejected = rejected
        .and_then(|count| count.as_u64().or_else(|| count.as_str()?.parse().ok()))
        .unwrap_or(0);
    let message = partial
        .and_then(|partial| partial.get("errorMessage")?.as_str())
        .unwrap_or_default()
        .to_owned();
    Answer::Accepted { rejected, message }
}

/// The message of a `google.rpc.Status`, or the body as it is when it is text.
fn error_message(json: bool, body: &[u8]) -> String {
    let status = if json {
        let body: Option<serde_json::Value> = serde_json::from_slice(body).ok();
        body.and_then(|body| Some(body.get("message")?.as_str()?.to_owned()))
    } else {
        RpcStatus::decode(body)
            .ok()
            .map(|status| status.message)
            .filter(|message| !message.is_empty())
    };
    status.unwrap_or_else(|| String::from_utf8_lossy(body).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::retry::Any;

    fn http(status: u16, json: bool, body: &[u8]) -> Answer {
        Answer::of_http(Signal::Logs, status, json, Some("3"), body, SystemTime::UNIX_EPOCH)
    }

    /// Scenario: every gRPC code as a receiver may send it, without details.
    /// Guarantee: what the specification says is retryable is tried again, and nothing else.
    #[test]
    fn grpc_codes_mean_what_the_specification_says() {
        for code in (1..=16).map(Code::from) {
            let answer = Answer::of_status(&Status::new(code, "why"));
            let again = matches!(
                answer,
                Answer::Again {
                    trouble: Trouble::Unavailable,
                    after: None,
                    ..
                }
            );
            let expected = matches!(
                code,
                Code::Cancelled
                    | Code::DeadlineExceeded
                    | Code::Aborted
                    | Code::OutOfRange
                    | Code::Unavailable
                    | Code::DataLoss
            );
            assert_eq!(again, expected, "{code:?}: {answer:?}");
            assert_eq!(
                matches!(answer, Answer::Unsupported { .. }),
                code == Code::Unimplemented
            );
            assert_eq!(
                matches!(answer, Answer::TooLarge { certain: false, .. }),
                code == Code::ResourceExhausted
            );
        }
    }

    /// Scenario: RESOURCE_EXHAUSTED with RetryInfo, and the words of four servers for "too large".
    /// Guarantee: the first is a wait, the others are certain.
    #[test]
    fn exhausted_is_told_from_too_large() {
        let info = Any {
            type_url: "x/google.rpc.RetryInfo".to_owned(),
            value: vec![0x0a, 0x02, 0x08, 0x02],
        };
        let details = RpcStatus {
            details: vec![info],
            ..RpcStatus::default()
        }
        .encode_to_vec();
        let status = Status::with_details(Code::ResourceExhausted, "busy", details.into());
        let Answer::Again { after, .. } = Answer::of_status(&status) else {
            panic!("{status:?}")
        };
        assert_eq!(after, Some(Duration::from_secs(2)));
        for (code, text) in [
            (
                Code::ResourceExhausted,
                "grpc: received message larger than max (5000000 vs. 4194304)",
            ),
            (
                Code::ResourceExhausted,
                "gRPC message exceeds maximum size 4194304: 5000000",
            ),
            (
                Code::ResourceExhausted,
                "Received message exceeds the maximum configured message size.",
            ),
            (
                Code::OutOfRange,
                "Error, decoded message length too large: found 5000000 bytes, the limit is: 4194304 bytes",
            ),
            (
                Code::Unknown,
                "grpc-status header missing, mapped from HTTP status code 413",
            ),
        ] {
            let answer = Answer::of_status(&Status::new(code, text));
            assert!(
                matches!(answer, Answer::TooLarge { certain: true, .. }),
                "{text}: {answer:?}"
            );
        }
    }

    /// Scenario: a status that this side made of a broken connection, with a code that would be final from a receiver.
    /// Guarantee: it is tried again.
    #[test]
    fn a_broken_connection_is_no_answer() {
        let error = std::io::Error::other("connection reset");
        let status = Status::from_error(Box::new(error));
        assert!(matches!(
            Answer::of_status(&status),
            Answer::Again {
                trouble: Trouble::Unreachable,
                ..
            }
        ));
    }

    /// Scenario: every HTTP status.
    /// Guarantee: 429, 502, 503 and 504 are tried again with their Retry-After; a redirect is refused; the rest as documented.
    #[test]
    fn http_statuses_mean_what_the_specification_says() {
        for status in 200..600 {
            let answer = http(status, false, b"no");
            let again = matches!(answer, Answer::Again { after: Some(after), .. } if after == Duration::from_secs(3));
            assert_eq!(again, [429, 502, 503, 504].contains(&status), "{status}: {answer:?}");
            assert_eq!(matches!(answer, Answer::Accepted { .. }), status < 300);
            assert_eq!(
                matches!(answer, Answer::Unsupported { .. }),
                [404, 405, 501].contains(&status)
            );
            assert_eq!(matches!(answer, Answer::TooLarge { certain: true, .. }), status == 413);
        }
    }

    /// Scenario: partial success in both forms, the count as string and as number, another signal's field, and rubbish.
    /// Guarantee: this signal's count and the message; rubbish after a 200 is an acceptance.
    #[test]
    fn partial_success_is_read() {
        let response = ExportResponse {
            partial_success: Some(PartialSuccess {
                rejected: 3,
                error_message: "old".to_owned(),
            }),
        };
        let expected = Answer::Accepted {
            rejected: 3,
            message: "old".to_owned(),
        };
        assert_eq!(http(200, false, &response.encode_to_vec()), expected);
        assert_eq!(
            http(
                200,
                true,
                br#"{"partialSuccess":{"rejectedLogRecords":"3","errorMessage":"old"}}"#
            ),
            expected
        );
        assert_eq!(
            http(
                202,
                true,
                br#"{"partialSuccess":{"rejectedLogRecords":3,"errorMessage":"old"}}"#
            ),
            expected
        );
        let whole = Answer::Accepted {
            rejected: 0,
            message: String::new(),
        };
        assert_eq!(http(200, true, br#"{"partialSuccess":{"rejectedSpans":"3"}}"#), whole);
        assert_eq!(http(200, true, b"<html>"), whole);
        assert_eq!(http(200, false, b"<html>"), whole);
        assert_eq!(http(200, false, b""), whole);
    }

    /// Scenario: errors with a protobuf status, a JSON status and plain text as body.
    /// Guarantee: the receiver's words are told in each case.
    #[test]
    fn error_bodies_are_read() {
        let status = RpcStatus {
            code: 3,
            message: "bad id".to_owned(),
            details: Vec::new(),
        }
        .encode_to_vec();
        let expected = Answer::Refused {
            message: "HTTP status 400: bad id".to_owned(),
        };
        assert_eq!(http(400, false, &status), expected);
        assert_eq!(http(400, true, br#"{"code":3,"message":"bad id"}"#), expected);
        assert_eq!(http(400, false, b"bad id"), expected);
        let large = RpcStatus {
            code: 3,
            message: "http: request body too large".to_owned(),
            details: Vec::new(),
        };
        let answer = http(400, false, &large.encode_to_vec());
        assert!(matches!(answer, Answer::TooLarge { certain: true, .. }), "{answer:?}");
    }
}
