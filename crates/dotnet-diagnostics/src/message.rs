//! Encodes and decodes the messages of the protocol, with pure functions and types and without I/O.
//!
//! A message is a [`Frame`]: 14 bytes of magic, a 16-bit size, a command set, a command id, 16 reserved bits and a
//! payload. All values are little-endian. [`Request::encode`] turns a [`Request`] into a frame. [`decode_frame`]
//! extracts the frame of a response from a buffer that can still be incomplete, and [`Answer::decode`] interprets this
//! frame. A runtime that connects to a tool (reverse connect) first sends an [`Advertise`], which is not a frame.
//!
//! ```
//! use dotnet_diagnostics::message::{Progress, Request, decode_frame};
//!
//! let bytes = Request::ResumeRuntime.encode()?;
//! let Progress::Complete { frame, consumed } = decode_frame(&bytes)? else { panic!("the frame is complete") };
//! assert_eq!((frame.set, frame.id, consumed), (4, 1, 20));
//! assert_eq!(Request::decode(frame)?, Request::ResumeRuntime);
//! # Ok::<(), dotnet_diagnostics::message::MessageError>(())
//! ```
//!
//! Invariants:
//! * No input causes a panic, or an allocation larger than a small multiple of the input.
//! * Lengths come from the size field of the frame, never from a table, because the protocol documentation lists wrong
//!   sizes for some responses (an error has 24 bytes, not 28).
//! * The crate can also decode requests and encode responses. A simulated runtime in a test therefore uses the same
//!   code, and a round trip checks every layout.
//!
//! Source of the layouts: `ds-protocol.c`, `ds-eventpipe-protocol.c` and `ds-process-protocol.c` of the runtime,
//! verified with .NET Core 3.1, .NET 8, 9, 10 and NativeAOT.

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
