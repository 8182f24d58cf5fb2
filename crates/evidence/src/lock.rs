//! One burst on the host at a time.

use std::path::PathBuf;
use std::time::Duration;

use targets::lease::{Lease, Leases, NoLease};

/// How often a turn is asked for again.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// The turn of one burst. The kernel ends it with the process that has it.
#[derive(Debug)]
pub struct Turn {
    _lease: Option<Lease>,
    no_lock: Option<String>,
}

/// Another burst runs.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("another burst runs on this host: {holder}")]
pub struct Taken {
    /// Whose.
    pub holder: String,
}

impl Turn {
    /// Takes the turn if nobody has it; blocking, for a moment. `pid` and `uid` are those of the process: if
    /// this program is killed, the daemon heals it. Where no folder can hold the lock, for which anybody may be the
    /// reason who can write to `/tmp`, it is a turn all the same, which [says so](Self::no_lock).
    ///
    /// # Errors
    /// When somebody has it.
    pub fn take(folder: PathBuf, pid: u32, uid: Option<u32>) -> Result<Self, Taken> {
        let (lease, no_lock) = match Leases::new(folder).take_burst(pid, uid) {
            Ok(lease) => (Some(lease), None),
            Err(NoLease::Held { holder }) => return Err(Taken { holder }),
            Err(problem @ NoLease::NoFolder { .. }) => (None, Some(problem.to_string())),
        };
        Ok(Self { _lease: lease, no_lock })
    }

    /// Why others cannot know of this turn: a sentence.
    pub fn no_lock(&self) -> Option<String> {
        let problem = self.no_lock.as_ref()?;
        Some(format!(
            "{problem}; another burst might run on this host at the same time"
        ))
    }

    /// Waits for the turn; `waits` is called once, with who has it. Cancel safe.
    pub async fn wait(folder: PathBuf, pid: u32, uid: Option<u32>, waits: impl FnOnce(&str)) -> Self {
        let mut waits = Some(waits);
        loop {
            match Self::take(folder.clone(), pid, uid) {
                Ok(turn) => return turn,
                Err(Taken { holder }) => {
                    if let Some(waits) = waits.take() {
                        waits(&holder);
                    }
                }
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
        Turn::take(folder.clone(), 7, None).unwrap_err();
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
        turn.await;
        assert!(
            named.len() == 1 && named[0].contains(&std::process::id().to_string()),
            "{named:?}"
        );
    }
}
