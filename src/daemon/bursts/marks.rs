//! Runs that have a burst, on disk while it goes on: a run during whose burst gcwatch died gets none again. Whatever
//! it was in its stream would be there the next time, too.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::daemon::state::boot_id;
use base::run_key::RunKey;
use processes::files;

/// Its name in the state directory.
const NAME: &str = "bursts.json";
/// The largest file that is read.
const MOST_BYTES: u64 = 64 << 10;
/// Most runs that are remembered, the newest.
const MOST_RUNS: usize = 64;

/// The content of the file.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Content {
    /// Pids and start times are those of this boot.
    boot_id: Option<String>,
    /// Pid and start time of each.
    runs: Vec<(u32, u64)>,
}

/// The marks of a state directory.
#[derive(Debug)]
pub(crate) struct BurstMarks {
    path: PathBuf,
    boot_id: Option<String>,
    left: Vec<RunKey>,
}

impl BurstMarks {
    /// What the daemons before left; blocking. A file that cannot be read has none.
    pub(crate) fn read(directory: &Path) -> Self {
        let path = directory.join(NAME);
        let boot_id = boot_id();
        let read = files::read(&path, MOST_BYTES).ok().flatten();
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

    /// Whether gcwatch died during a burst of this run.
    pub(crate) fn has(&self, run: RunKey) -> bool {
        self.left.contains(&run)
    }

    /// A burst of the run begins; blocking.
    pub(crate) fn begin(&self, run: RunKey) -> io::Result<()> {
        self.write(Some(run))
    }

    /// It is over; blocking. Where that cannot be written, the run counts as one during whose burst gcwatch died.
    pub(crate) fn end(&self) -> io::Result<()> {
        self.write(None)
    }

    fn write(&self, run: Option<RunKey>) -> io::Result<()> {
        let mut runs: Vec<_> = self.left.iter().chain(run.as_ref()).collect();
        runs.drain(..runs.len().saturating_sub(MOST_RUNS));
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

    /// Scenario: a burst that ends in order; one of another run during which gcwatch dies, twice; a hundred more; another
    /// boot; a file of nonsense.
    /// Guarantee: those during which it died are known to the daemons after, the newest ones, in this boot alone.
    #[test]
    fn a_run_during_whose_burst_gcwatch_died_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let marks = || BurstMarks::read(folder.path());
        let run = |pid| RunKey { pid, start_time: 5 };
        let first = marks();
        first.begin(run(1)).unwrap();
        first.end().unwrap();
        assert!(!marks().has(run(1)));
        for pid in [2, 3] {
            marks().begin(run(pid)).unwrap();
        }
        let now = marks();
        assert!(now.has(run(2)) && now.has(run(3)) && !now.has(run(1)));
        now.begin(run(4)).unwrap();
        now.end().unwrap();
        assert!(marks().has(run(2)) && !marks().has(run(4)));
        for pid in 100..200 {
            marks().begin(run(pid)).unwrap();
        }
        assert!(marks().left.len() == MOST_RUNS && marks().has(run(199)) && !marks().has(run(2)));
        let mut other = marks();
        other.boot_id = Some("another".to_owned());
        other.end().unwrap();
        assert!(marks().left.is_empty());
        std::fs::write(folder.path().join(NAME), [0xff; 99]).unwrap();
        assert!(marks().left.is_empty());
    }
}
