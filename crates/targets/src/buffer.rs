//! The buffer through which all sessions are read.

use std::future::poll_fn;
use std::sync::{Mutex, PoisonError};
use std::task::{Poll, ready};

use clr_gc::stream::GcStream;
use dotnet_diagnostics::{Error, Session};

/// Maximum number of bytes per read. A runtime writes a few kilobytes per collection.
pub(crate) const READ_BYTES: usize = 64 << 10;

/// A buffer of [`READ_BYTES`] bytes that many sessions share.
#[derive(Debug)]
pub(crate) struct SharedBuffer(Mutex<Box<[u8]>>);

impl Default for SharedBuffer {
    fn default() -> Self {
        Self(Mutex::new(vec![0; READ_BYTES].into_boxed_slice()))
    }
}

impl SharedBuffer {
    /// Reads from a session into a stream. The buffer is locked only while bytes are copied, not while the session
    /// waits for bytes.
    pub(crate) async fn read(&self, session: &mut Session, stream: &mut GcStream) -> Result<usize, Error> {
        poll_fn(|cx| {
            let mut buffer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let count = ready!(session.poll_read(cx, &mut buffer))?;
            stream.push(buffer.get(..count).unwrap_or_default());
            Poll::Ready(Ok(count))
        })
        .await
    }
}
