//! Guards that hold the streams of sessions, so that a runtime does not wait for a reader that is stopped.
//!
//! A runtime writes its stream with blocking writes, and ends its sessions when it exits. While the reader does not
//! read, the socket buffer fills (about 200 KB), the write blocks, and the exit of the runtime blocks too, even after
//! SIGTERM (measured with 3.1, 8, 9, 10 and NativeAOT). Closing the stream unblocks the runtime. A stopped reader
//! cannot close its stream, so another process must close it.

use std::fmt;
use std::os::fd::BorrowedFd;

/// A guard outside the reader, usually another process, that can shut down the streams of the reader.
///
/// A runtime writes its stream with blocking writes. While the reader does not read, the socket buffer fills (about 200
/// KB), and the runtime blocks, even at its exit. A reader that is suspended (SIGSTOP) cannot close its streams, so
/// another process must close the streams. Pass the guard to [`Client::guarded`](crate::Client::guarded).
pub trait Guard: fmt::Debug + Send + Sync {
    /// Starts to hold a connection that will become the stream of a session, for example by duplicating the descriptor.
    /// The implementation must not block.
    fn hold(&self, stream: BorrowedFd<'_>) -> Box<dyn GuardedStream>;
}

/// A stream that a [`Guard`] holds. Dropping this value shuts the stream down. Closing only one of several descriptors
/// of the stream would leave the stream open.
pub trait GuardedStream: fmt::Debug + Send + Sync {
    /// Returns whether the guard has shut the stream down.
    fn was_closed(&self) -> bool;
}
