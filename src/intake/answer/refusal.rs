//! Why an export is refused: what its sender is answered, over either transport, and as what it is counted.

use gc_requests::span::Malformed;
use http::StatusCode;

use super::code;
use crate::intake::stats::Dropped;

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    NotFound,
    Method,
    Content,
    Compression,
    TooLarge,
    Damaged,
    Slow,
}

impl Refusal {
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::NotFound => "gcwatch takes traces here: POST /v1/traces, or gRPC's TraceService",
            Self::Method => "an export is sent by POST",
            Self::Content => "an export is sent as application/x-protobuf, or over gRPC",
            Self::Compression => "gzip is read, and what is not compressed",
            Self::TooLarge => "an export has at most 4 MiB, 8 MiB when decompressed: send smaller batches",
            Self::Damaged => "this is no ExportTraceServiceRequest",
            Self::Slow => "the request did not arrive within 10 s",
        }
    }

    pub(super) fn status(self) -> StatusCode {
        match self {
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::Content | Self::Compression => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Damaged => StatusCode::BAD_REQUEST,
            Self::Slow => StatusCode::REQUEST_TIMEOUT,
        }
    }

    pub(super) fn code(self) -> u16 {
        match self {
            Self::NotFound | Self::Method | Self::Content | Self::Compression => code::UNIMPLEMENTED,
            Self::TooLarge => code::RESOURCE_EXHAUSTED,
            Self::Damaged => code::INVALID_ARGUMENT,
            Self::Slow => code::DEADLINE_EXCEEDED,
        }
    }

    /// `None`: no export was sent.
    pub(super) fn dropped(self) -> Option<Dropped> {
        match self {
            Self::NotFound | Self::Method => None,
            Self::Content | Self::Compression => Some(Dropped::Unsupported),
            Self::TooLarge => Some(Dropped::TooLarge),
            Self::Damaged => Some(Dropped::Damaged),
            Self::Slow => Some(Dropped::Slow),
        }
    }
}

impl From<Malformed> for Refusal {
    fn from(Malformed: Malformed) -> Self {
        Self::Damaged
    }
}
