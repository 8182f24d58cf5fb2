//! Counts the pages of processes for their ledgers: while a viewer looks, and for incidents that gather the ledger.

use std::time::Duration;

use targets::host::now;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::pipeline::observed_run::ObservedRun;
use crate::pipeline::registry::Pipeline;
use processes::container::ledger::{HeapFigures, read};
use run::Input;
use run::settings::Clock;

/// Time for which a viewer waits for the count, which usually takes 20 ms. A later result appears in the next view. The
/// web server allows an answer to take twice this time.
const COUNT_TIMEOUT: Duration = Duration::from_secs(1);

/// Counts the pages of a process for a viewer, unless they were counted in the last 10 s.
pub(crate) async fn look_at_memory(pipeline: &Pipeline, pid: u32) {
    let runs = pipeline.runs().into_iter();
    let Some(run) = runs.rev().find(|run| run.key().pid == pid) else {
        return;
    };
    if let Some(heap) = begin(&run, true) {
        let pipeline = pipeline.clone();
        let counting = spawn_blocking(move || count(&pipeline, &run, &heap));
        let _late = timeout(COUNT_TIMEOUT, counting).await;
    }
}

/// Counts the pages of processes whose open incidents gather them, one process after the other. Called once per second.
pub(crate) async fn count_for_incidents(pipeline: &Pipeline) {
    for run in pipeline.runs() {
        if let Some(heap) = begin(&run, false) {
            // A reading that panicked has no result.
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
