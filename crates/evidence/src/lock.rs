//! The host-wide burst lock, which allows at most one burst at a time on a host.

use std::path::PathBuf;
use std::time::Duration;

use targets::lease::{Lease, LeaseError, Leases};

/// Interval between attempts to acquire the lock.
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// The host-wide burst lock. The kernel releases the lock when its holder exits.
#[derive(Debug)]
pub struct BurstLock {
    _lease: Option<Lease>,
    no_lock: Option<String>,
}

/// Error returned if another burst holds the lock.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("another burst is running on this host: {holder}")]
pub struct BurstLockHeld {
    /// Program, version and pid of the holder.
    pub holder: String,
}

impl BurstLock {
    /// Acquires the lock in `folder`, or in the next folder that can hold the lock. `pid` and `uid` identify the target
    /// of the burst, so that the daemon can heal the target if this program is killed. If no folder can hold the lock,
    /// this function permits the burst without a lock ([`no_lock`](Self::no_lock)), because otherwise any user with
    /// write access to `/tmp` could prevent bursts. Blocks the calling thread briefly.
    ///
    /// # Errors
    ///
    /// Returns an error if another burst holds the lock.
    pub fn take(folder: PathBuf, pid: u32, uid: Option<u32>) -> Result<Self, BurstLockHeld> {
        let (lease, no_lock) = match Leases::new(folder).take_burst(pid, uid) {
            Ok(lease) => (Some(lease), None),
            Err(LeaseError::Held { holder }) => return Err(BurstLockHeld { holder }),
            Err(problem @ LeaseError::NoFolder { .. }) => (None, Some(problem.to_string())),
        };
        Ok(Self { _lease: lease, no_lock })
    }

    /// Returns the reason why other gcwatch instances cannot detect this burst, as a sentence, or `None` if this burst
    /// holds the lock.
    pub fn no_lock(&self) -> Option<String> {
        let problem = self.no_lock.as_ref()?;
        Some(format!(
            "{problem}; another burst can run on this host at the same time"
        ))
    }

    /// Waits for the lock. If another burst holds the lock, calls `waits` once with the holder of the lock. This method
    /// is cancel safe.
    pub async fn wait(folder: PathBuf, pid: u32, uid: Option<u32>, waits: impl FnOnce(&str)) -> Self {
        let mut waits = Some(waits);
        loop {
            match Self::take(folder.clone(), pid, uid) {
                Ok(turn) => return turn,
                Err(BurstLockHeld { holder }) => {
                    if let Some(waits) = waits.take() {
                        waits(&holder);
                    }
                }
            }
            tokio::time::sleep(LOCK_RETRY_INTERVAL).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: two bursts request the lock, and then the first burst ends.
    /// Guarantee: the first burst acquires the lock. The second burst is refused, and acquires the lock after the end
    /// of the first burst.
    #[test]
    fn lock_has_one_holder() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("leases");
        let first = BurstLock::take(folder.clone(), 7, None).unwrap();
        BurstLock::take(folder.clone(), 7, None).unwrap_err();
        drop(first);
        BurstLock::take(folder, 7, None).unwrap();
    }

    /// Scenario: a burst waits for the lock of another burst, and the other burst ends during the wait.
    /// Guarantee: the holder is reported once, and then the waiting burst acquires the lock.
    #[tokio::test(start_paused = true)]
    async fn burst_waits_for_lock() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("leases");
        let mut first = Some(BurstLock::take(folder.clone(), 7, None).unwrap());
        let mut named = Vec::new();
        let turn = BurstLock::wait(folder, 7, None, |holder| {
            named.push(holder.to_owned());
            first.take();
        });
        turn.await;
        assert!(
            named.len() == 1 && named[0].contains(&std::process::id().to_string()),
            "{named:?}"
        );
    }
}
