//! One burst on the host at a time.

use std::path::PathBuf;
use std::time::Duration;

use crate::targets::lease::{Lease, Leases, NoLease};

/// How often a turn is asked for again.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// The turn of one burst. The kernel ends it with the process that has it.
#[derive(Debug)]
pub struct Turn {
    _lease: Lease,
}

/// Why there is no turn now.
#[derive(Debug, thiserror::Error)]
pub enum NoTurn {
    /// Another burst runs.
    #[error("another burst runs on this host: {holder}")]
    Taken {
        /// Whose.
        holder: String,
    },
    /// No folder can hold the lock.
    #[error("the lock of bursts cannot be taken ({problem}); --force does without it")]
    NoLock {
        /// What was tried.
        problem: String,
    },
}

impl Turn {
    /// Takes the turn if nobody has it; blocking, for a moment. `pid` and `uid` are those of the process: if
    /// this program is killed, the daemon heals it.
    ///
    /// # Errors
    /// When somebody has it, or no lock can be taken.
    pub fn take(folder: PathBuf, pid: u32, uid: Option<u32>) -> Result<Self, NoTurn> {
        match Leases::new(folder).take_burst(pid, uid) {
            Ok(lease) => Ok(Self { _lease: lease }),
            Err(NoLease::Held { holder }) => Err(NoTurn::Taken { holder }),
            Err(problem @ NoLease::NoFolder { .. }) => Err(NoTurn::NoLock {
                problem: problem.to_string(),
            }),
        }
    }

    /// Waits for the turn; `waits` is called once, with who has it. Cancel safe.
    ///
    /// # Errors
    /// When no lock can be taken.
    pub async fn wait(folder: PathBuf, pid: u32, uid: Option<u32>, waits: impl FnOnce(&str)) -> Result<Self, NoTurn> {
        let mut waits = Some(waits);
        loop {
            match Self::take(folder.clone(), pid, uid) {
                Err(NoTurn::Taken { holder }) => {
                    if let Some(waits) = waits.take() {
                        waits(&holder);
                    }
                }
                taken => return taken,
            }
            tokio::time::sleep(ASK_EVERY).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: two bursts ask for their turn, then the first ends.
    /// Guarantee: one has it, the other has it afterwards.
    #[test]
    fn one_burst_has_the_turn() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("leases");
        let first = Turn::take(folder.clone(), 7, None).unwrap();
        assert!(matches!(Turn::take(folder.clone(), 7, None), Err(NoTurn::Taken { .. })));
        drop(first);
        Turn::take(folder, 7, None).unwrap();
    }

    /// Scenario: a burst waits while another one runs, which ends when it is waited for.
    /// Guarantee: who has the turn is named once, and then it is given.
    #[tokio::test(start_paused = true)]
    async fn a_burst_waits_for_its_turn() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("leases");
        let mut first = Some(Turn::take(folder.clone(), 7, None).unwrap());
        let mut named = Vec::new();
        let turn = Turn::wait(folder, 7, None, |holder| {
            named.push(holder.to_owned());
            first.take();
        });
        turn.await.unwrap();
        assert!(
            named.len() == 1 && named[0].contains(&std::process::id().to_string()),
            "{named:?}"
        );
    }
}
