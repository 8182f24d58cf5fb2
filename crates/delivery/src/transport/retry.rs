//! Delays of retries. Pure: time and randomness are arguments.

use std::time::{Duration, SystemTime};

use prost::Message;

use base::backoff::Backoff;

/// Backoff between attempts if the receiver does not request a delay: a random delay up to a limit that doubles from 1
/// s to 30 s, because many senders share a receiver.
pub(crate) const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));

/// Maximum delay that a receiver can request. Longer delays are shortened to this value.
const LONGEST_REQUESTED: Duration = Duration::from_secs(600);

/// Returns the delay in `google.rpc.RetryInfo`, from the details of a gRPC status (`grpc-status-details-bin`: a
/// `google.rpc.Status`); `None` if there is no such detail. An invalid or negative delay counts as zero.
pub(crate) fn retry_info(details: &[u8]) -> Option<Duration> {
    let status = RpcStatus::decode(details).ok()?;
    let detail = status
        .details
        .iter()
        .find(|detail| detail.type_url.ends_with("/google.rpc.RetryInfo"))?;
    let delay = RetryInfo::decode(detail.value.as_slice())
        .ok()
        .and_then(|info| info.retry_delay)
        .unwrap_or_default();
    let seconds = u64::try_from(delay.seconds).unwrap_or(0);
    let nanos = u32::try_from(delay.nanos).unwrap_or(0).min(999_999_999);
    Some(Duration::new(seconds, nanos).min(LONGEST_REQUESTED))
}

/// Parses the delay in a `Retry-After` header (RFC 9110, 10.2.3: seconds, or a date). Returns `None` if the header is
/// invalid. A date in the past counts as zero.
pub(crate) fn retry_after(header: &str, now: SystemTime) -> Option<Duration> {
    let header = header.trim();
    if let Ok(seconds) = header.parse::<u64>() {
        return Some(Duration::from_secs(seconds).min(LONGEST_REQUESTED));
    }
    let date = jiff::fmt::rfc2822::parse(header).ok()?;
    let delay = SystemTime::from(date.timestamp())
        .duration_since(now)
        .unwrap_or_default();
    Some(delay.min(LONGEST_REQUESTED))
}

/// `google.rpc.Status`, which is also the body of an HTTP error response.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct RpcStatus {
    #[prost(int32, tag = "1")]
    pub(crate) code: i32,
    #[prost(string, tag = "2")]
    pub(crate) message: String,
    #[prost(message, repeated, tag = "3")]
    pub(crate) details: Vec<ProtobufAny>,
}

/// `google.protobuf.Any`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ProtobufAny {
    #[prost(string, tag = "1")]
    pub(crate) type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) value: Vec<u8>,
}

/// `google.rpc.RetryInfo`.
#[derive(Clone, PartialEq, Message)]
struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    retry_delay: Option<Delay>,
}

/// `google.protobuf.Duration`.
#[derive(Clone, Copy, PartialEq, Message)]
struct Delay {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn details(type_url: &str, value: Vec<u8>) -> Vec<u8> {
        let detail = ProtobufAny {
            type_url: type_url.to_owned(),
            value,
        };
        RpcStatus {
            code: 14,
            message: String::new(),
            details: vec![detail],
        }
        .encode_to_vec()
    }

    /// Scenario: statuses have no RetryInfo, invalid delays, or a delay of a day.
    /// Guarantee: the delay is returned if present, never negative, and at most ten minutes.
    #[test]
    fn retry_info_is_parsed() {
        let info = |seconds, nanos| {
            RetryInfo {
                retry_delay: Some(Delay { seconds, nanos }),
            }
            .encode_to_vec()
        };
        let url = "type.googleapis.com/google.rpc.RetryInfo";
        assert_eq!(
            retry_info(&details(url, info(1, 500_000_000))),
            Some(Duration::from_millis(1500))
        );
        assert_eq!(retry_info(&details(url, info(-5, -5))), Some(Duration::ZERO));
        assert_eq!(retry_info(&details(url, info(86_400, 0))), Some(LONGEST_REQUESTED));
        assert_eq!(retry_info(&details(url, Vec::new())), Some(Duration::ZERO));
        assert_eq!(
            retry_info(&details("type.googleapis.com/google.rpc.QuotaFailure", info(1, 0))),
            None
        );
        assert_eq!(retry_info(b""), None);
    }

    /// Scenario: `Retry-After` is a number of seconds, a date in the future or in the past, or invalid.
    /// Guarantee: the delay counts from now; an invalid header is ignored.
    #[test]
    fn retry_after_is_parsed() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_770);
        assert_eq!(retry_after("120", now), Some(Duration::from_secs(120)));
        assert_eq!(
            retry_after("Sun, 06 Nov 1994 08:49:37 GMT", now),
            Some(Duration::from_secs(7))
        );
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:00:00 GMT", now), Some(Duration::ZERO));
        assert_eq!(retry_after("999999999999", now), Some(LONGEST_REQUESTED));
        assert_eq!(retry_after("soon", now), None);
        assert_eq!(retry_after("-1", now), None);
    }

    proptest! {
        /// Scenario: the status details and the header are arbitrary bytes.
        /// Guarantee: parsing does not panic, and delays do not exceed the maximum.
        #[test]
        fn arbitrary_input_is_handled(bytes in proptest::collection::vec(any::<u8>(), 0..200), text in ".{0,60}") {
            prop_assert!(retry_info(&bytes).is_none_or(|delay| delay <= LONGEST_REQUESTED));
            prop_assert!(retry_after(&text, SystemTime::UNIX_EPOCH).is_none_or(|delay| delay <= LONGEST_REQUESTED));
        }
    }
}
