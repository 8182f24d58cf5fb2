//! Counting the pages of processes for their ledgers: when somebody looks, and while an incident gathers it.

use std::sync::Arc;
use std::time::Duration;

use targets::host::now;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::pipeline::registry::Pipeline;
use crate::pipeline::run::Run;
use crate::pipeline::settings::Clock;
use processes::container::ledger::{HeapFigures, read};

/// How long whoever looks waits for it: 20 ms are usual. What comes later is in the next look.
const PATIENCE: Duration = Duration::from_secs(2);

impl Pipeline {
    /// Somebody looks at the memory of a process: its pages are counted, unless that was done in the last 10 s.
    pub async fn look_at_memory(&self, pid: u32) {
        let runs = self.runs().into_iter();
        let Some(run) = runs.rev().find(|run| run.key().pid == pid) else {
            return;
        };
        if let Some(heap) = begin(&run, true) {
            let counting = spawn_blocking(move || count(&run, &heap));
            let _late = timeout(PATIENCE, counting).await;
        }
    }

    /// Counts the pages of the processes whose open incidents gather that, one after the other. Called once a second.
    pub async fn count_for_incidents(&self) {
        for run in self.runs() {
            if let Some(heap) = begin(&run, false) {
                // A reading that panicked is none.
                let _read = spawn_blocking(move || count(&run, &heap)).await;
            }
        }
    }
}

fn begin(run: &Run, for_person: bool) -> Option<HeapFigures> {
    if run.clock() != Clock::Live {
        return None;
    }
    run.parts().begin_count(now(), for_person)
}

fn count(run: &Arc<Run>, heap: &HeapFigures) {
    let key = run.key();
    let reading = read(key.pid, key.start_time, heap);
    run.parts().counted(reading, now());
}
