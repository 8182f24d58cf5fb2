//! Answers over gRPC.

use base::error::causes;
use tonic::{Code, Status};

use crate::otlp::answer::{ANSWER_BYTES, Answer, RetryCause, says_too_large};
use crate::transport::retry;

impl Answer {
    /// Returns the meaning of a gRPC status that is not OK.
    pub(crate) fn from_status(status: &Status) -> Self {
        // A status with a cause was created on this side: the receiver was not reached, or the connection broke.
        if let Some(cause) = std::error::Error::source(status) {
            let causes = causes(cause);
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
            // The answer comes from a proxy in front of the receiver.
            return Self::TooLarge {
                certain: true,
                message: "HTTP status 413".to_owned(),
            };
        }
        if text.ends_with(&format!("the limit is: {ANSWER_BYTES} bytes")) || text.starts_with("Error decompressing: ") {
            // The status was created on this side: the request was accepted, but its answer is too long or badly
            // compressed.
            return Self::Accepted {
                rejected: 0,
                message: "the answer is not readable".to_owned(),
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
            // Either the service is unknown, or only the compression of the request, according to the messages of
            // grpc-go and tonic.
            Code::Unimplemented if text.contains("grpc-encoding") || text.contains("is compressed with") => {
                Self::CannotDecompress { message }
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
            | Code::ResourceExhausted => Self::Retry {
                cause: RetryCause::Unavailable,
                after,
                message,
            },
            Code::Unknown if text.starts_with("protocol error: missing grpc-status") => {
                Self::unreachable(text.to_owned())
            }
            _ => Self::Refused { message },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use prost::Message as _;

    use super::*;
    use crate::transport::retry::{ProtobufAny, RpcStatus};

    /// Scenario: a receiver sends each gRPC code without details.
    /// Guarantee: exactly the codes that are retryable according to the specification are retried.
    #[test]
    fn grpc_codes_follow_specification() {
        for code in (1..=16).map(Code::from) {
            let answer = Answer::from_status(&Status::new(code, "why"));
            let again = matches!(
                answer,
                Answer::Retry {
                    cause: RetryCause::Unavailable,
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

    /// Scenario: a receiver sends RESOURCE_EXHAUSTED with RetryInfo, the messages of four servers for "too large", or
    /// the 413 of a proxy.
    /// Guarantee: the first answer is a retry after the delay; the other answers are certain to mean a request that is
    /// too large.
    #[test]
    fn exhausted_differs_from_too_large() {
        let info = ProtobufAny {
            type_url: "x/google.rpc.RetryInfo".to_owned(),
            value: vec![0x0a, 0x02, 0x08, 0x02],
        };
        let details = RpcStatus {
            details: vec![info],
            ..RpcStatus::default()
        }
        .encode_to_vec();
        let status = Status::with_details(Code::ResourceExhausted, "busy", details.into());
        let Answer::Retry { after, .. } = Answer::from_status(&status) else {
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
            let answer = Answer::from_status(&Status::new(code, text));
            assert!(
                matches!(answer, Answer::TooLarge { certain: true, .. }),
                "{text}: {answer:?}"
            );
        }
    }

    /// Scenario: this side creates a status for a broken connection, with a code that would be final from a receiver.
    /// Guarantee: the request is retried.
    #[test]
    fn broken_connection_is_retried() {
        let error = std::io::Error::other("connection reset");
        let status = Status::from_error(Box::new(error));
        assert!(matches!(
            Answer::from_status(&status),
            Answer::Retry {
                cause: RetryCause::Unreachable,
                ..
            }
        ));
    }
}
