//! When attaching is retried.

use std::time::Duration;

use delivery::transport::backoff::Backoff;

/// The first pause is at most so long.
const FIRST: Duration = Duration::from_millis(500);
/// No pause is longer.
const LONGEST: Duration = Duration::from_secs(60);
/// After a session that lived as long the pauses begin anew.
pub(crate) const GOOD_LIFE: Duration = Duration::from_secs(30);

/// Pauses from half a second up to a minute.
pub(crate) const fn backoff() -> Backoff {
    Backoff::new(FIRST, LONGEST)
}
