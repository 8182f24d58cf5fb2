//! What is known about processes from outside: the figures of their containers, and Kubernetes.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinHandle, spawn_blocking};
use tracing::{debug, error};

use crate::container::Reader;
use crate::daemon::Services;
use crate::kubernetes::{self, settings::Settings};
use crate::pipeline::{Pipeline, Run, Surroundings};
use delivery::clock::now_unix_ns;

/// How often the figures of containers are read.
const ROUND: Duration = Duration::from_secs(15);

/// When they are read first.
const FIRST: Duration = Duration::from_secs(2);

/// Follows the pods of this node for as long as the task lives; nothing waits for it.
pub(crate) fn follow_pods(settings: Settings, services: &Services) -> JoinHandle<()> {
    let (pipeline, pods) = (services.pipeline.clone(), Arc::clone(&services.pods));
    pipeline.set_surroundings(Some(Arc::clone(&pods) as Arc<dyn Surroundings>));
    let changed = move || {
        let runs = pipeline.surroundings_changed(now_unix_ns());
        if runs > 0 {
            debug!(target: "gcwatch::kubernetes", "updated the resource of {runs} processes");
        }
    };
    tokio::spawn(kubernetes::follow(
        settings,
        pods,
        Arc::clone(&services.pods_stats),
        changed,
    ))
}

/// Reads the container figures of every attached process, every [`ROUND`]. Never completes.
pub(crate) async fn measure(pipeline: Pipeline) {
    tokio::time::sleep(FIRST).await;
    loop {
        let runs = pipeline.runs();
        // A few files of each process: the kernel may block.
        let read = spawn_blocking(move || {
            let mut reader = Reader::new();
            let figures = |run: &Arc<Run>| {
                let key = run.key();
                run.is_attached()
                    .then(|| reader.read(key.pid, key.start_time))
                    .flatten()
            };
            let read: Vec<_> = runs.iter().map(figures).collect();
            runs.into_iter().zip(read).collect::<Vec<_>>()
        });
        match read.await {
            Ok(read) => {
                let now = now_unix_ns();
                for (run, figures) in read {
                    pipeline.measured(&run, figures, now);
                }
                // What came between a process's first word and its being listed.
                pipeline.surroundings_changed(now);
            }
            Err(failed) => error!("the figures of containers cannot be read: {failed}"),
        }
        tokio::time::sleep(ROUND).await;
    }
}
