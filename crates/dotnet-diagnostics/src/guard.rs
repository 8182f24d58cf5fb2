//! Who else holds the streams of sessions, so that a runtime does not wait for a reader that is stopped.
//!
//! A runtime writes its stream with blocking writes, and ends its sessions when it exits. While nobody reads, the
//! socket fills (about 200 KB), the write waits, and so does the exit, SIGTERM or not (seen with 3.1, 8, 9, 10 and
//! NativeAOT). Closing the stream ends that, but a reader that is stopped cannot close anything: somebody outside of it
//! must.

use std::fmt;
use std::os::fd::BorrowedFd;

/// Somebody outside of the reader who can shut its streams down.
pub trait Guard: fmt::Debug + Send + Sync {
    /// Holds a connection from now on, which is about to become a session's stream. Never waits.
    fn hold(&self, stream: BorrowedFd<'_>) -> Box<dyn Held>;
}

/// A stream that a [`Guard`] holds, for as long as this lives. Dropping it shuts the stream down: closing one of
/// several descriptors would not.
pub trait Held: fmt::Debug + Send + Sync {
    /// The guard has shut it down.
    fn was_closed(&self) -> bool;
}
