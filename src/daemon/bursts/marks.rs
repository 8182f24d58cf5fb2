//! Marks runs on disk while they have a burst. If gcwatch dies during a burst, the run gets no further burst, because
//! the next stream could contain the data that caused the crash.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::daemon::state::boot_id;
use base::run_key::RunKey;
use processes::files;

/// File name in the state directory.
const NAME: &str = "bursts.json";
/// Maximum size of the file, in bytes.
const MAX_BYTES: u64 = 64 << 10;
/// Maximum number of runs that are remembered; the newest are kept.
const MAX_RUNS: usize = 64;

/// The content of the file.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Content {
    /// Boot for which the pids and start times are valid; `None` if unknown.
    boot_id: Option<String>,
    /// Pid and start time of each run.
    runs: Vec<(u32, u64)>,
}

/// The burst marks of a state directory.
#[derive(Debug)]
pub(crate) struct BurstMarks {
    path: PathBuf,
    boot_id: Option<String>,
    left: Vec<RunKey>,
}

impl BurstMarks {
    /// Reads the marks that earlier daemons left. Blocks the calling thread. An unreadable file, or a file from another
    /// boot, counts as empty.
    pub(crate) fn read(directory: &Path) -> Self {
        let path = directory.join(NAME);
        let boot_id = boot_id();
        let read = files::read(&path, MAX_BYTES).ok().flatten();
        let content = read.and_then(|json| serde_json::from_slice::<Content>(&json).ok());
        let content = content.unwrap_or_default();
        let runs = if content.boot_id == boot_id {
            content.runs
        } else {
            Vec::new()
        };
        let run = |(pid, start_time)| RunKey { pid, start_time };
        Self {
            path,
            boot_id,
            left: runs.into_iter().map(run).collect(),
        }
    }

    /// Returns the runs during whose bursts gcwatch died.
    pub(crate) fn left(&self) -> BTreeSet<RunKey> {
        self.left.iter().copied().collect()
    }

    /// Marks the start of a burst. Blocks the calling thread.
    pub(crate) fn begin(&self, run: RunKey) -> io::Result<()> {
        self.write(Some(run))
    }

    /// Removes the mark after a burst. Blocks the calling thread. If the file cannot be written, the next daemon
    /// assumes that gcwatch died during this burst.
    pub(crate) fn end(&self) -> io::Result<()> {
        self.write(None)
    }

    fn write(&self, run: Option<RunKey>) -> io::Result<()> {
        let mut runs: Vec<_> = self.left.iter().chain(run.as_ref()).collect();
        runs.drain(..runs.len().saturating_sub(MAX_RUNS));
        let content = Content {
            boot_id: self.boot_id.clone(),
            runs: runs.into_iter().map(|run| (run.pid, run.start_time)).collect(),
        };
        files::write(&self.path, &serde_json::to_vec(&content)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: a burst ends cleanly, then gcwatch dies during bursts of two other runs and of a hundred more runs.
    /// Then the machine reboots. Finally, the file contains nonsense.
    /// Guarantee: later daemons of the same boot know the newest runs during whose bursts gcwatch died. After a reboot,
    /// or with an unreadable file, the daemons know no runs.
    #[test]
    fn run_of_interrupted_burst_is_remembered() {
        let folder = tempfile::tempdir().unwrap();
        let marks = || BurstMarks::read(folder.path());
        let run = |pid| RunKey { pid, start_time: 5 };
        let first = marks();
        first.begin(run(1)).unwrap();
        first.end().unwrap();
        assert!(!marks().left().contains(&run(1)));
        for pid in [2, 3] {
            marks().begin(run(pid)).unwrap();
        }
        let now = marks();
        assert!(now.left().contains(&run(2)) && now.left().contains(&run(3)) && !now.left().contains(&run(1)));
        now.begin(run(4)).unwrap();
        now.end().unwrap();
        assert!(marks().left().contains(&run(2)) && !marks().left().contains(&run(4)));
        for pid in 100..200 {
            marks().begin(run(pid)).unwrap();
        }
        assert!(
            marks().left.len() == MAX_RUNS && marks().left().contains(&run(199)) && !marks().left().contains(&run(2))
        );
        let mut other = marks();
        other.boot_id = Some("another".to_owned());
        other.end().unwrap();
        assert!(marks().left.is_empty());
        std::fs::write(folder.path().join(NAME), [0xff; 99]).unwrap();
        assert!(marks().left.is_empty());
    }
}
