//! Pauses between attempts to attach.

use std::time::Duration;

use base::backoff::Backoff;

/// Maximum duration of the first pause.
const FIRST: Duration = Duration::from_millis(500);
/// Maximum duration of any pause.
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// A session that lasts at least this long resets the backoff.
pub(crate) const BACKOFF_RESET_AFTER: Duration = Duration::from_secs(30);

/// Maximum duration of the first pause after a stream that used too much memory.
const FIRST_OVER_MEMORY: Duration = Duration::from_secs(30);
/// Maximum duration of any pause after a stream that used too much memory.
const LONGEST_OVER_MEMORY: Duration = Duration::from_secs(3600);
/// A session that lasts at least this long before its stream uses too much memory resets the backoff for such streams.
pub(crate) const MEMORY_BACKOFF_RESET_AFTER: Duration = Duration::from_secs(3600);

/// Creates the backoff for streams that used too much memory, from 30 s to 1 h.
pub(crate) const fn backoff_over_memory() -> Backoff {
    Backoff::new(FIRST_OVER_MEMORY, LONGEST_OVER_MEMORY)
}

/// Creates the backoff for all other failures, from 0.5 s to 60 s.
pub(crate) const fn backoff() -> Backoff {
    Backoff::new(FIRST, MAX_PAUSE)
}
