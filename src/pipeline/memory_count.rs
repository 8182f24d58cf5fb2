//! Counting the pages of processes for their ledgers: when somebody looks, and while an incident gathers it.

use std::time::Duration;

use targets::host::now;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::pipeline::observed_run::ObservedRun;
use crate::pipeline::registry::Pipeline;
use processes::container::ledger::{HeapFigures, read};
use run::Input;
use run::settings::Clock;

/// How long whoever looks waits for it: 20 ms are usual. What comes later is in the next look. An answer may take twice
/// that (`web`).
const PATIENCE: Duration = Duration::from_secs(1);

/// Somebody looks at the memory of a process: its pages are counted, unless that was done in the last 10 s.
pub(crate) async fn look_at_memory(pipeline: &Pipeline, pid: u32) {
    let runs = pipeline.runs().into_iter();
    let Some(run) = runs.rev().find(|run| run.key().pid == pid) else {
        return;
    };
    if let Some(heap) = begin(&run, true) {
        let pipeline = pipeline.clone();
        let counting = spawn_blocking(move || count(&pipeline, &run, &heap));
        let _late = timeout(PATIENCE, counting).await;
    }
}

/// Counts the pages of the processes whose open incidents gather that, one after the other. Called once a second.
pub(crate) async fn count_for_incidents(pipeline: &Pipeline) {
    for run in pipeline.runs() {
        if let Some(heap) = begin(&run, false) {
            // A reading that panicked is none.
            let pipeline = pipeline.clone();
            let _read = spawn_blocking(move || count(&pipeline, &run, &heap)).await;
        }
    }
}

fn begin(run: &ObservedRun, for_person: bool) -> Option<HeapFigures> {
    if run.clock() != Clock::Live {
        return None;
    }
    run.ask(|run| run.begin_count(now(), for_person))
}

fn count(pipeline: &Pipeline, run: &ObservedRun, heap: &HeapFigures) {
    let key = run.key();
    let reading = read(key.pid, key.start_time, heap);
    pipeline.hand(run, Input::Counted(reading.map(Box::new)));
}
