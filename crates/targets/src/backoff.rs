//! When attaching is retried.

use std::time::Duration;

use base::backoff::Backoff;

/// The first pause is at most so long.
const FIRST: Duration = Duration::from_millis(500);
/// No pause is longer.
const LONGEST: Duration = Duration::from_secs(60);
/// After a session that lived as long the pauses begin anew.
pub(crate) const GOOD_LIFE: Duration = Duration::from_secs(30);

/// The first pause after a stream that took too much memory is at most so long.
const FIRST_OVER_MEMORY: Duration = Duration::from_secs(30);
/// No pause after such a stream is longer.
const LONGEST_OVER_MEMORY: Duration = Duration::from_secs(3600);
/// After a session that lived as long before it took too much memory, the pauses begin anew.
pub(crate) const GOOD_CONDUCT: Duration = Duration::from_secs(3600);

/// Pauses from half a minute up to an hour.
pub(crate) const fn backoff_over_memory() -> Backoff {
    Backoff::new(FIRST_OVER_MEMORY, LONGEST_OVER_MEMORY)
}

/// Pauses from half a second up to a minute.
pub(crate) const fn backoff() -> Backoff {
    Backoff::new(FIRST, LONGEST)
}
