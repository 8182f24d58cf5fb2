//! Locks with a rank. In debug builds, a thread that takes locks in another order than the order of their ranks panics,
//! so that a test finds the fault before two threads wait for each other. Release builds check and store nothing.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// Rank of the processes. A thread takes locks in the order of their ranks, and each rank at most once at a time, so a
/// thread that looks at a run never enters another run.
pub(crate) const PROCESSES: usize = 0;
/// Rank of the counts of rules, and of the series of services.
pub(crate) const TOTALS: usize = 1;
/// Rank of a run.
pub(crate) const RUN: usize = 2;
/// Rank of the incident owner.
pub(crate) const OWNER: usize = 3;
/// Rank of the inbox of a run, which is held without further locks.
pub(crate) const INBOX: usize = 4;

thread_local! {
    /// Number of locks of each rank that the thread holds.
    static HELD: Cell<[u8; INBOX + 1]> = const { Cell::new([0; INBOX + 1]) };
}

/// A mutex with a rank. A poisoned mutex is locked like any other mutex.
#[derive(Debug, Default)]
pub(crate) struct RankedMutex<T, const RANK: usize>(Mutex<T>);

/// Guard of a [`RankedMutex`].
#[derive(Debug)]
pub(crate) struct RankedGuard<'a, T, const RANK: usize>(MutexGuard<'a, T>);

impl<T, const RANK: usize> RankedMutex<T, RANK> {
    pub(crate) fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// Locks the mutex. Blocks while another thread holds the mutex.
    ///
    /// # Panics
    ///
    /// In debug builds, if the thread holds a lock of the same or a later rank.
    pub(crate) fn lock(&self) -> RankedGuard<'_, T, RANK> {
        if cfg!(debug_assertions) {
            let latest = HELD.get().iter().rposition(|count| *count > 0);
            assert!(
                latest < Some(RANK),
                "a lock of rank {RANK} is taken while a lock of rank {latest:?} is held"
            );
        }
        RankedGuard::new(self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Locks the mutex, or returns `None` if a thread holds the mutex. The rank is not checked, because this call never
    /// waits.
    pub(crate) fn try_lock(&self) -> Option<RankedGuard<'_, T, RANK>> {
        match self.0.try_lock() {
            Ok(guard) => Some(RankedGuard::new(guard)),
            Err(TryLockError::Poisoned(poisoned)) => Some(RankedGuard::new(poisoned.into_inner())),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl<'a, T, const RANK: usize> RankedGuard<'a, T, RANK> {
    fn new(guard: MutexGuard<'a, T>) -> Self {
        count::<RANK>(1);
        Self(guard)
    }
}

impl<T, const RANK: usize> Drop for RankedGuard<'_, T, RANK> {
    fn drop(&mut self) {
        count::<RANK>(-1);
    }
}

/// Changes the number of locks of a rank that the thread holds.
fn count<const RANK: usize>(by: i8) {
    if cfg!(debug_assertions) {
        let mut held = HELD.get();
        held[RANK] = held[RANK].wrapping_add_signed(by);
        HELD.set(held);
    }
}

impl<T, const RANK: usize> Deref for RankedGuard<'_, T, RANK> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T, const RANK: usize> DerefMut for RankedGuard<'_, T, RANK> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    fn panics<const FIRST: usize, const SECOND: usize>() -> bool {
        catch_unwind(|| {
            let (first, second) = (
                RankedMutex::<(), FIRST>::default(),
                RankedMutex::<(), SECOND>::default(),
            );
            let _first = first.lock();
            drop(second.lock());
        })
        .is_err()
    }

    /// Scenario: a thread takes two locks of the same rank, in the order of their ranks, and in the opposite order.
    /// Guarantee: a debug build accepts only the order of the ranks. After a panic, the thread holds no lock.
    #[test]
    fn locks_are_taken_in_order() {
        let is_checked = cfg!(debug_assertions);
        assert_eq!(panics::<RUN, RUN>(), is_checked);
        assert_eq!(panics::<OWNER, RUN>(), is_checked);
        assert_eq!(panics::<INBOX, PROCESSES>(), is_checked);
        assert!(!panics::<PROCESSES, TOTALS>() && !panics::<TOTALS, RUN>());
        assert!(!panics::<RUN, OWNER>() && !panics::<OWNER, INBOX>());
    }

    /// Scenario: a thread releases the earlier of two locks first and takes it again with and without a wait.
    /// Guarantee: the later lock counts while it is held, and no longer afterwards. A call that never waits takes any
    /// free lock.
    #[test]
    fn released_lock_no_longer_counts() {
        let (run, owner) = (RankedMutex::<_, RUN>::new(1), RankedMutex::<_, OWNER>::new(2));
        let (first, second) = (run.lock(), owner.lock());
        drop(first);
        let is_refused = catch_unwind(|| *run.lock()).is_err();
        assert_eq!(is_refused, cfg!(debug_assertions), "the owner is still locked");
        let mut first = run.try_lock().unwrap();
        *first += 1;
        assert!(run.try_lock().is_none());
        drop((second, first));
        assert_eq!((*run.lock(), *owner.lock()), (2, 2));
    }

    /// Scenario: the sizes of a lock and its guard are compared with those of the standard library.
    /// Guarantee: a rank takes no memory.
    #[test]
    fn rank_takes_no_memory() {
        assert_eq!(size_of::<RankedMutex<u64, RUN>>(), size_of::<Mutex<u64>>());
        assert_eq!(size_of::<RankedGuard<'_, u64, RUN>>(), size_of::<MutexGuard<'_, u64>>());
    }
}
