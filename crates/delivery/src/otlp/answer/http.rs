//! Answers over HTTP.

use std::time::SystemTime;

use prost::Message as _;

use crate::otlp::answer::{Answer, ExportResponse, RetryCause, says_too_large};
use crate::otlp::signal::Signal;
use crate::transport::retry::{self, RpcStatus};

impl Answer {
    /// Returns the meaning of an HTTP answer, whose body was read up to [`ANSWER_BYTES`](super::ANSWER_BYTES).
    pub(crate) fn from_http(
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
            // The Collector's answer to a body above its limit, with the message of Go's library.
            400 if says_too_large(&message) => Self::TooLarge { certain: true, message },
            415 => Self::CannotDecompress { message },
            429 | 502..=504 => {
                let after = retry_after.and_then(|header| retry::retry_after(header, now));
                Self::Retry {
                    cause: RetryCause::Unavailable,
                    after,
                    message,
                }
            }
            _ => Self::Refused { message },
        }
    }
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

/// Returns the message of a `google.rpc.Status`, or the body as text if it is not a status.
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
    use std::time::Duration;

    use super::*;
    use crate::otlp::answer::PartialSuccess;

    fn http(status: u16, json: bool, body: &[u8]) -> Answer {
        Answer::from_http(Signal::Logs, status, json, Some("3"), body, SystemTime::UNIX_EPOCH)
    }

    /// Scenario: a receiver sends each HTTP status.
    /// Guarantee: only 2xx are accepted; 429, 502, 503 and 504 are retried after their Retry-After; 404, 405 and 501
    /// mean an unsupported signal, and 413 means a request that is too large.
    #[test]
    fn http_statuses_follow_specification() {
        for status in 200..600 {
            let answer = http(status, false, b"no");
            let again = matches!(answer, Answer::Retry { after: Some(after), .. } if after == Duration::from_secs(3));
            assert_eq!(again, [429, 502, 503, 504].contains(&status), "{status}: {answer:?}");
            assert_eq!(matches!(answer, Answer::Accepted { .. }), status < 300);
            assert_eq!(
                matches!(answer, Answer::Unsupported { .. }),
                [404, 405, 501].contains(&status)
            );
            assert_eq!(matches!(answer, Answer::TooLarge { certain: true, .. }), status == 413);
        }
    }

    /// Scenario: answers have a partial success in both encodings, with the count as a string or a number, another
    /// signal's field, or an invalid body.
    /// Guarantee: the count of this signal and the message are returned; an invalid body after a 200 counts as
    /// accepted.
    #[test]
    fn partial_success_is_parsed() {
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

    /// Scenario: errors have a protobuf status, a JSON status or plain text as the body.
    /// Guarantee: the receiver's text is kept in each case, and a text about the size means a request that is too
    /// large.
    #[test]
    fn error_bodies_are_parsed() {
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
