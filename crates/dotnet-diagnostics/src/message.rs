//! The protocol's messages as bytes: pure functions and types, no I/O.
//!
//! A message is a [`Frame`]: 14 bytes of magic, a 16-bit size, a command set, a command id, 16 reserved bits and a
//! payload. Everything is little-endian. A [`Request`] becomes a frame with [`Request::encode`]; the bytes of an answer
//! become a frame with [`decode_frame`], fed from a buffer that may still be incomplete, and the frame becomes an
//! [`Answer`]. A runtime that connects to us (reverse connect) first sends an [`Advertise`], which is no frame.
//!
//! Invariants:
//! * no input panics, and none makes a function allocate more than a small multiple of the input's own length;
//! * lengths are taken from the frame's size field, never from a table: the protocol's document lists wrong sizes for
//!   some answers (an error is 24 bytes, not 28);
//! * both directions are here (requests can be decoded, answers encoded), so that a simulated runtime in a test uses
//!   the same code and every layout is checked by a round trip.
//!
//! Source of the layouts: `ds-protocol.c`, `ds-eventpipe-protocol.c` and `ds-process-protocol.c` of the runtime,
//! checked against .NET Core 3.1, .NET 8, 9, 10 and NativeAOT.

mod advertise;
mod answer;
mod command;
mod error;
mod frame;
mod primitive;
mod process_info;
mod request;
mod runtime_error;
mod session_config;

pub use advertise::{ADVERTISE_BYTES, ADVERTISE_MAGIC, Advertise};
pub use answer::{
    Answer, EnvironmentVariable, MAX_ENVIRONMENT_BYTES, MAX_ENVIRONMENT_VARIABLES, decode_environment,
    decode_environment_header, decode_session_id, encode_environment,
};
pub use command::{CollectVersion, Command, InfoVersion};
pub use error::MessageError;
pub use frame::{Frame, HEADER_BYTES, MAGIC, MAX_FRAME_BYTES, MAX_PAYLOAD_BYTES, Progress, decode_frame, encode_frame};
pub use process_info::{Cookie, ProcessInfo};
pub use request::Request;
pub use runtime_error::RuntimeError;
pub use session_config::{
    Compromise, DEFAULT_BUFFER_MB, DEFAULT_RUNDOWN_KEYWORD, EventFilter, INDUCING_KEYWORDS, MAX_PROVIDERS, Provider,
    RUNTIME_PROVIDER, Rundown, SessionConfig, WhenFull,
};
