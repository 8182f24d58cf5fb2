//! Memory limits of targets: for each target, and for all targets together.
//!
//! The bytes of a stream are untrusted. A stream that fills the stores of the decoder and of the reconstruction
//! (`clr_gc::stream::GcStream::memory_bytes`) up to [`ONE`] loses only its own telemetry. Its session is stopped, and
//! restarted after a pause that grows each time. [`ALL`] limits many such streams together: streams are stopped, the
//! largest first, until the total is within the limit. Real streams hold 5 to 60 KB, which is within the uncounted
//! [`BASE`].

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Maximum number of bytes that the stream of one target can hold after a step. A process costs at most 16 MB. The
/// other half is for the bytes that one step adds before the check (a piece of 64 KiB, decoded), for the windows of
/// rules (`rule_language::load::MAX_WINDOW_BYTES`), and for series, spans and remembered collections.
pub(crate) const ONE: usize = 8_000_000;

/// Number of bytes per stream that do not count towards the total.
const BASE: usize = 100_000;

/// Maximum number of bytes that all streams together can hold beyond their [`BASE`].
const ALL: usize = 64_000_000;

/// Reason word of a process that is not read because of these limits.
pub(crate) const OVER_MEMORY: &str = "over-memory";

/// Error returned if a session is stopped because of too much memory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OverMemory {
    /// One stream holds more than [`ONE`].
    #[error(
        "the event stream holds {} in memory, {} of that in {}; the limit is {}",
        Megabytes(*held), Megabytes(largest.1), largest.0, Megabytes(ONE)
    )]
    One {
        /// Total number of bytes held.
        held: usize,
        /// The largest store, and its number of bytes.
        largest: (&'static str, usize),
    },
    /// All streams together hold more than [`ALL`], and this stream holds most.
    #[error(
        "the event streams of all processes hold more than {} in memory, and this one holds most: {}",
        Megabytes(ALL), Megabytes(*held)
    )]
    All {
        /// Number of bytes held by this stream.
        held: usize,
    },
}

/// Bytes that are displayed in units of 10^6.
struct Megabytes(usize);

impl fmt::Display for Megabytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} MB", self.0 as f64 / 1e6)
    }
}

/// Memory of all streams beyond their [`BASE`].
#[derive(Debug, Default)]
pub(crate) struct StreamMemory(Mutex<Claims>);

#[derive(Debug, Default)]
struct Claims {
    /// Sum of the claims whose sessions are not being stopped.
    total: usize,
    next: u64,
    claims: BTreeMap<u64, Claim>,
}

#[derive(Debug)]
struct Claim {
    bytes: usize,
    /// Wakes the reader, which stops the session.
    end: Arc<Notify>,
    is_ending: bool,
}

/// The share of one stream. Dropping the share releases the memory.
#[derive(Debug)]
pub(crate) struct Share {
    account: Arc<StreamMemory>,
    id: u64,
    /// Number of bytes recorded in the account.
    counted: usize,
    held: usize,
    end: Arc<Notify>,
}

impl StreamMemory {
    /// Returns an empty share for another stream.
    pub(crate) fn share(self: &Arc<Self>) -> Share {
        let mut claims = self.claims();
        let id = claims.next;
        claims.next += 1;
        Share {
            account: Arc::clone(self),
            id,
            counted: 0,
            held: 0,
            end: Arc::default(),
        }
    }

    fn claims(&self) -> MutexGuard<'_, Claims> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Claims {
    /// Sets the bytes held by `id`. While the total is too high, the session with the largest claim is stopped.
    fn set(&mut self, id: u64, bytes: usize, end: &Arc<Notify>) {
        let claim = self.claims.entry(id).or_insert_with(|| Claim {
            bytes: 0,
            end: Arc::clone(end),
            is_ending: false,
        });
        if !claim.is_ending {
            self.total = self.total - claim.bytes + bytes;
        }
        claim.bytes = bytes;
        while self.total > ALL {
            let going_on = self.claims.values_mut().filter(|claim| !claim.is_ending);
            let Some(largest) = going_on.max_by_key(|claim| claim.bytes) else {
                return;
            };
            largest.is_ending = true;
            largest.end.notify_one();
            self.total -= largest.bytes;
        }
    }

    fn remove(&mut self, id: u64) {
        if let Some(claim) = self.claims.remove(&id)
            && !claim.is_ending
        {
            self.total -= claim.bytes;
        }
    }
}

impl Share {
    /// Sets the number of bytes held by the stream. Sessions of other streams can be stopped as a result.
    ///
    /// # Errors
    ///
    /// Returns an error if the stream holds more than the limit of one stream. `largest` returns its largest store.
    pub(crate) fn set(
        &mut self,
        held: usize,
        largest: impl FnOnce() -> (&'static str, usize),
    ) -> Result<(), OverMemory> {
        self.held = held;
        let counted = held.saturating_sub(BASE);
        if counted != self.counted {
            self.counted = counted;
            let mut claims = self.account.claims();
            if counted == 0 {
                claims.remove(self.id);
            } else {
                claims.set(self.id, counted, &self.end);
            }
        }
        if held > ONE {
            return Err(OverMemory::One {
                held,
                largest: largest(),
            });
        }
        Ok(())
    }

    /// Waits until the session must be stopped because all streams hold too much and this stream holds most. This
    /// method is cancel safe.
    pub(crate) fn ended(&self) -> impl Future<Output = OverMemory> + use<> {
        let (end, held) = (Arc::clone(&self.end), self.held);
        async move {
            end.notified().await;
            OverMemory::All { held }
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if self.counted > 0 {
            self.account.claims().remove(self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    fn none() -> (&'static str, usize) {
        ("none", 0)
    }

    /// Returns the number of claims and their sum. (One lock: two calls in an expression would deadlock.)
    fn left(account: &StreamMemory) -> (usize, usize) {
        let claims = account.claims();
        (claims.claims.len(), claims.total)
    }

    /// Scenario: a stream grows beyond the limit of one stream.
    /// Guarantee: the error names the largest store, the total, and the limit.
    #[test]
    fn memory_of_one_stream_is_limited() {
        let account = Arc::new(StreamMemory::default());
        let mut share = account.share();
        assert_eq!(share.set(ONE, none), Ok(()));
        let over = share.set(ONE + 200_000, || ("definitions", 7_000_000)).unwrap_err();
        assert_eq!(
            over.to_string(),
            "the event stream holds 8.2 MB in memory, 7.0 MB of that in definitions; the limit is 8.0 MB"
        );
        assert_eq!(left(&account), (1, ONE + 100_000));
        drop(share);
        assert_eq!(left(&account), (0, 0));
    }

    /// Scenario: twenty streams, each within its own limit, exceed the total limit together; some are stopped while
    /// others keep growing.
    /// Guarantee: the largest streams are stopped, and no more of them than necessary; stopping streams are not counted
    /// again; small streams are never stopped; dropped streams leave no claims.
    #[test]
    fn memory_of_all_streams_is_limited() {
        let account = Arc::new(StreamMemory::default());
        let mut shares: Vec<Share> = (0..20).map(|_| account.share()).collect();
        let ended = |shares: &[Share]| -> Vec<usize> {
            let ended = |share: &Share| {
                let mut context = Context::from_waker(Waker::noop());
                pin!(share.ended()).poll(&mut context).is_ready()
            };
            (0..shares.len()).filter(|place| ended(&shares[*place])).collect()
        };
        for (place, share) in shares.iter_mut().enumerate().take(9) {
            share.set(7_000_000 + place * 10_000, none).unwrap();
        }
        assert!(ended(&shares).is_empty());
        shares[19].set(BASE, none).unwrap();
        shares[9].set(3_000_000, none).unwrap();
        assert_eq!(ended(&shares), [8]);
        // The stream still holds its memory until it is stopped.
        shares[10].set(3_000_000, none).unwrap();
        assert!(ended(&shares).is_empty());
        shares[11].set(4_000_000, none).unwrap();
        assert_eq!(ended(&shares), [7]);
        shares.clear();
        assert_eq!(left(&account), (0, 0));
    }
}
