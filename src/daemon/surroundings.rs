//! What is known about processes from outside: the figures of their containers, and Kubernetes.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::Instant;
use tracing::{debug, error};

use crate::container::{KillCounts, Reader};
use crate::daemon::Services;
use crate::kubernetes::{self, settings::Settings};
use crate::pipeline::{Measured, Pipeline, Run, Surroundings};
use crate::process::RunKey;
use crate::targets::exporting::Looks;
use crate::targets::heap_limit::{MemoryReader, MemoryReading};
use crate::targets::host;

/// How often the figures of processes and their containers are read.
const ROUND: Duration = Duration::from_secs(15);

/// When they are read first.
const FIRST: Duration = Duration::from_secs(2);

/// How often it is looked whether there is a new process, or a dead one.
const LOOK: Duration = Duration::from_secs(1);

/// How long after the last reading of a process its groups may say how it died.
const DEAD_FOR: Duration = Duration::from_secs(60);

/// Follows the pods of this node for as long as the task lives; nothing waits for it.
pub(crate) fn follow_pods(settings: Settings, services: &Services) -> JoinHandle<()> {
    let (pipeline, pods) = (services.pipeline.clone(), Arc::clone(&services.pods));
    pipeline.set_surroundings(Some(Arc::clone(&pods) as Arc<dyn Surroundings>));
    let changed = move || {
        let runs = pipeline.surroundings_changed(host::now());
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

/// Reads the memory and the container figures of every attached process, every [`ROUND`], those of a new one within a
/// second; and what became of the groups of a process that died; and counts the pages of those whose incidents gather
/// that. Never completes.
pub(crate) async fn measure(pipeline: Pipeline) {
    let counting = async {
        loop {
            tokio::time::sleep(LOOK).await;
            // The kernel may block for one process, which keeps the figures of no other.
            pipeline.count_for_incidents().await;
        }
    };
    tokio::join!(figures(pipeline.clone()), counting);
}

async fn figures(pipeline: Pipeline) {
    let mut memory = MemoryReader::default();
    let mut looks = Looks::default();
    let mut counts: HashMap<RunKey, Counted> = HashMap::new();
    let mut all_at = Instant::now() + FIRST;
    loop {
        tokio::time::sleep(LOOK).await;
        let now = Instant::now();
        let all = now >= all_at;
        if all {
            all_at = now + ROUND;
        }
        let mut runs = pipeline.runs();
        let living: HashSet<RunKey> = runs.iter().map(|run| run.key()).collect();
        runs.retain(|run| all || (run.is_attached() && !counts.contains_key(&run.key())));
        let unexplained = pipeline.unexplained_deaths().into_iter();
        let dead = unexplained.filter_map(|run| Some((run, Arc::clone(&counts.get(&run)?.kills))));
        let dead: Vec<_> = dead.collect();
        // The dead are looked at for a while: a group may go late.
        counts.retain(|run, counted| living.contains(run) || now < counted.read + DEAD_FOR);
        if runs.is_empty() && dead.is_empty() {
            continue;
        }
        let living: Vec<RunKey> = living.into_iter().collect();
        // A few files of each process: the kernel may block.
        let read = spawn_blocking(move || {
            let killed = |(run, kills): (RunKey, Arc<KillCounts>)| Some((run, kills.have_grown()?));
            let killed: Vec<_> = dead.into_iter().filter_map(killed).collect();
            let mut reader = Reader::new();
            let (host, read_at) = (host::pressure(), host::now());
            let measured = |run: Arc<Run>| {
                let key = run.key();
                let attached = run.is_attached();
                let figures = attached.then(|| reader.read(key.pid, key.start_time)).flatten();
                // Without figures the process is gone, or has never been in our `/proc`.
                let MemoryReading {
                    memory,
                    heap_limit,
                    machine,
                } = figures
                    .map(|figures| memory.read(key, run.major(), figures.memory_limit, run.rests(read_at)))
                    .unwrap_or_default();
                let exports_runtime = figures.and_then(|_| looks.look(key, run.major()));
                let kills = figures.and_then(|_| reader.kills(key.pid)).unwrap_or_default();
                let measured = Measured {
                    figures,
                    memory,
                    heap_limit,
                    machine,
                    host,
                    exports_runtime,
                };
                (run, measured, kills)
            };
            let read: Vec<_> = runs.into_iter().map(measured).collect();
            memory.keep(&living);
            looks.keep(&living);
            (read, killed, memory, looks)
        });
        match read.await {
            Ok((read, killed, reader, looked)) => {
                (memory, looks) = (reader, looked);
                for (run, killed) in killed {
                    pipeline.oom_killed(run, killed);
                }
                let read_at = host::now();
                for (run, measured, kills) in read {
                    let has_figures = measured.figures.is_some();
                    pipeline.measured(&run, measured, read_at);
                    if has_figures {
                        let kills = Arc::new(kills);
                        counts.insert(run.key(), Counted { kills, read: now });
                    }
                }
                if all {
                    // What came between a process's first word and its being listed.
                    pipeline.surroundings_changed(read_at);
                }
            }
            Err(failed) => {
                (memory, looks) = (MemoryReader::default(), Looks::default());
                error!("the figures of processes cannot be read: {failed}");
            }
        }
    }
}

/// The kill counts of a process's groups, and when they were read.
struct Counted {
    kills: Arc<KillCounts>,
    read: Instant,
}
