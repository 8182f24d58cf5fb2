//! What is known about processes from outside: the figures of their containers, and Kubernetes.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinHandle, spawn_blocking};
use tracing::{debug, error};

use crate::container::Reader;
use crate::daemon::Services;
use crate::kubernetes::{self, settings::Settings};
use crate::pipeline::{Measured, Pipeline, Run, Surroundings};
use crate::targets::heap_limit::MemoryReader;
use delivery::clock::now_unix_ns;

/// How often the figures of processes and their containers are read.
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

/// Reads the memory and the container figures of every attached process, every [`ROUND`]. Never completes.
pub(crate) async fn measure(pipeline: Pipeline) {
    tokio::time::sleep(FIRST).await;
    let mut memory = MemoryReader::default();
    loop {
        let runs = pipeline.runs();
        // A few files of each process: the kernel may block.
        let read = spawn_blocking(move || {
            let mut reader = Reader::new();
            let measured = |run: &Arc<Run>| {
                let key = run.key();
                let attached = run.is_attached();
                let figures = attached.then(|| reader.read(key.pid, key.start_time)).flatten();
                // Without figures the process is gone, or has never been in our `/proc`.
                let (memory, heap_limit) = figures
                    .map(|figures| memory.read(key, figures.memory_limit))
                    .unwrap_or_default();
                Measured {
                    figures,
                    memory,
                    heap_limit,
                }
            };
            let read: Vec<_> = runs.iter().map(measured).collect();
            memory.keep(&runs.iter().map(|run| run.key()).collect::<Vec<_>>());
            (runs.into_iter().zip(read).collect::<Vec<_>>(), memory)
        });
        match read.await {
            Ok((read, reader)) => {
                memory = reader;
                let now = now_unix_ns();
                for (run, measured) in read {
                    pipeline.measured(&run, measured, now);
                }
                // What came between a process's first word and its being listed.
                pipeline.surroundings_changed(now);
            }
            Err(failed) => {
                memory = MemoryReader::default();
                error!("the figures of processes cannot be read: {failed}");
            }
        }
        tokio::time::sleep(ROUND).await;
    }
}
