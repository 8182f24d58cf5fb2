//! What targets may hold in memory: each one, and all of them together.
//!
//! The bytes of a stream are foreign. A stream that fills the decoder's and the reconstruction's stores
//! (`clr_gc::stream::GcStream::memory_bytes`) up to [`ONE`] costs its own telemetry: its session is ended, and begun
//! again later, later each time. [`ALL`] is for many such streams at once: the one that holds most is ended then, until
//! the others have room. Real streams hold 5 to 60 KB, which is within the [`BASE`] that is not counted.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Bytes that the stream of one target may hold after a step. A process costs at most 16 MB: the rest is for what one
/// step adds before it is looked at (a piece of 64 KiB, decoded), for the windows of rules
/// (`rule_language::load::MOST_WINDOW_BYTES`), and for series, spans and remembered collections.
pub(crate) const ONE: usize = 8_000_000;

/// Bytes that each stream has without being counted among all.
const BASE: usize = 100_000;

/// Bytes that all streams together may hold beyond their [`BASE`].
const ALL: usize = 64_000_000;

/// The reason of a process that is not read because of this.
pub(crate) const OVER_MEMORY: &str = "over-memory";

/// Why a session is ended: too much memory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OverMemory {
    /// One stream holds more than [`ONE`].
    #[error(
        "its event stream holds {} in memory, {} of that in {}; the limit is {}",
        Megabytes(*held), Megabytes(largest.1), largest.0, Megabytes(ONE)
    )]
    One {
        /// All that it holds.
        held: usize,
        /// The store that holds most, and how much.
        largest: (&'static str, usize),
    },
    /// All streams together hold more than [`ALL`], and this one holds most.
    #[error(
        "the event streams of all processes hold more than {} in memory, and its own holds most: {}",
        Megabytes(ALL), Megabytes(*held)
    )]
    All {
        /// What it holds.
        held: usize,
    },
}

/// Bytes as text, in 10^6.
struct Megabytes(usize);

impl fmt::Display for Megabytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} MB", self.0 as f64 / 1e6)
    }
}

/// What all streams hold beyond their [`BASE`].
#[derive(Debug, Default)]
pub(crate) struct StreamMemory(Mutex<Claims>);

#[derive(Debug, Default)]
struct Claims {
    /// Of those whose session is not being ended.
    total: usize,
    next: u64,
    claims: BTreeMap<u64, Claim>,
}

#[derive(Debug)]
struct Claim {
    bytes: usize,
    /// Wakes its reader, which ends the session.
    end: Arc<Notify>,
    is_ending: bool,
}

/// The share of one stream; given back when dropped.
#[derive(Debug)]
pub(crate) struct Share {
    account: Arc<StreamMemory>,
    id: u64,
    /// What the account knows of it.
    counted: usize,
    held: usize,
    end: Arc<Notify>,
}

impl StreamMemory {
    /// The share of one more stream, which holds nothing yet.
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
    /// `id` holds so much now. While all hold too much, the largest is ended.
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
    /// The stream holds so many bytes now. Others may be ended for it.
    ///
    /// # Errors
    ///
    /// When it is more than one stream may hold: `largest` says what it is.
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

    /// Waits until the session must be ended, because all streams hold too much and this one holds most. Cancel safe.
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

    /// How many claims there are, and their sum. (One lock: two in an expression would wait for each other.)
    fn left(account: &StreamMemory) -> (usize, usize) {
        let claims = account.claims();
        (claims.claims.len(), claims.total)
    }

    /// Scenario: a stream that grows past the limit of one.
    /// Guarantee: an error that names the store with most, how much all is, and the limit.
    #[test]
    fn one_stream_has_a_limit() {
        let account = Arc::new(StreamMemory::default());
        let mut share = account.share();
        assert_eq!(share.set(ONE, none), Ok(()));
        let over = share.set(ONE + 200_000, || ("definitions", 7_000_000)).unwrap_err();
        assert_eq!(
            over.to_string(),
            "its event stream holds 8.2 MB in memory, 7.0 MB of that in definitions; the limit is 8.0 MB"
        );
        assert_eq!(left(&account), (1, ONE + 100_000));
        drop(share);
        assert_eq!(left(&account), (0, 0));
    }

    /// Scenario: twenty streams, each within its own limit, hold more than all may together; some are ended, others go
    /// on growing.
    /// Guarantee: only the largest are ended, as many as it takes; those that end are not counted again, small ones never
    /// are, and nothing is left of those that are gone.
    #[test]
    fn all_together_have_a_limit() {
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
        // It still holds what it holds, until it is ended.
        shares[10].set(3_000_000, none).unwrap();
        assert!(ended(&shares).is_empty());
        shares[11].set(4_000_000, none).unwrap();
        assert_eq!(ended(&shares), [7]);
        shares.clear();
        assert_eq!(left(&account), (0, 0));
    }
}
