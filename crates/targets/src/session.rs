//! The decisions about a session that is read. Pure: the caller passes the facts.

mod end;

use std::time::Duration;

pub(crate) use end::{Cause, Ending, StreamError, Verdict};

/// Timeout for the stream's header. A runtime sends the header before it answers the command.
pub(crate) const HEADER_TIMEOUT: Duration = Duration::from_secs(15);
