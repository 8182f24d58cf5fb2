//! Reads facts about processes that are not in their event streams: the figures of their containers, and Kubernetes
//! metadata.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, timeout};
use tracing::{debug, error};

use crate::daemon::Services;
use crate::pipeline::memory_count::count_for_incidents;
use crate::pipeline::{ObservedRun, Pipeline, ProcessReading};
use base::run_key::RunKey;
use base::time::Moment;
use kubernetes::{self, settings::Settings};
use processes::RunState;
use processes::container::{Figures, KillCounts, ProcessScan, Reader};
use processes::surroundings::Surroundings;
use run::{ConfiguredCollector, Input};
use targets::exporting::Examinations;
use targets::finalizer_cpu::FinalizerCpus;
use targets::heap_limit::{CollectorSettings, MemoryReader, MemoryReading};
use targets::host;

/// Interval between readings of the figures of processes and their containers.
const ROUND: Duration = Duration::from_secs(15);

/// Timeout for one reading. A reading that takes longer is assumed to hang at one process. gcwatch skips this process
/// until the reading returns.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum number of hanging readings. While this number of readings hangs, no figures are read.
const MAX_HUNG: usize = 8;

/// Delay of the first reading.
const FIRST: Duration = Duration::from_secs(2);

/// If a memory group would be full within this time at its current growth, gcwatch reads the group every [`LOOK`].
const RUSH: Duration = Duration::from_secs(120);

/// Duration of the frequent readings after a reading that shows growth as in [`RUSH`]. A group with a limit is also
/// read frequently for this duration after its first reading.
const FAST_READING_DURATION: Duration = Duration::from_secs(10);

/// Interval between checks of long finalizer rounds, and minimum duration of a round before it is checked.
const FINALIZERS: Duration = Duration::from_secs(5);

/// Interval between checks for new and dead processes, between frequent readings of a group, and between checks for
/// processes whose pages must be counted.
const LOOK: Duration = Duration::from_secs(1);

/// Time after the last reading of a process during which the counts of its groups can still show the cause of its
/// death.
const DEAD_FOR: Duration = Duration::from_secs(60);

/// Starts a task that follows the pods on this node. No other task waits for this task.
pub(crate) fn follow_pods(settings: Settings, services: &Services) -> JoinHandle<()> {
    let (pipeline, sources) = (services.pipeline.clone(), &services.own.sources);
    let pods = Arc::clone(&sources.pods);
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
        Arc::clone(&sources.pods_stats),
        changed,
    ))
}

/// Reads the memory and the container figures of every attached process every [`ROUND`]. New processes, and processes
/// whose group fills quickly, are read every [`LOOK`]. Also reads the kill counts in the groups of dead processes, and
/// counts the pages of processes whose incidents request it. Never completes.
pub(crate) async fn measure(pipeline: Pipeline) {
    let counting = async {
        loop {
            tokio::time::sleep(LOOK).await;
            // The kernel can block while the pages of one process are counted. This separate loop keeps the count from
            // delaying the figures of other processes.
            count_for_incidents(&pipeline).await;
        }
    };
    tokio::join!(figures(pipeline.clone()), finalizers(pipeline.clone()), counting);
}

/// Reads the CPU use of finalizer threads whose round has lasted longer than [`FINALIZERS`].
async fn finalizers(pipeline: Pipeline) {
    let mut cpus = FinalizerCpus::default();
    let longer = u64::try_from(FINALIZERS.as_nanos()).unwrap_or(u64::MAX);
    loop {
        tokio::time::sleep(FINALIZERS).await;
        let runs = pipeline.runs().into_iter();
        let long = runs.filter_map(|run| {
            let begun = run.look().session.long_finalizers(host::now(), longer);
            Some((begun?, run))
        });
        let long: Vec<(Moment, Arc<ObservedRun>)> = long.collect();
        let living: Vec<RunKey> = long.iter().map(|(_, run)| run.key()).collect();
        cpus.keep(&living);
        if long.is_empty() {
            continue;
        }
        // Use a blocking thread, because the kernel can block while the files of a process are read.
        let pipeline = pipeline.clone();
        let read = spawn_blocking(move || {
            for (begun, run) in long {
                let share = cpus.read(run.key(), begun, Instant::now());
                pipeline.hand(&run, Input::FinalizerCpu { begun, share });
            }
            cpus
        });
        cpus = read.await.unwrap_or_default();
    }
}

/// A reading that has not returned, and the process at which it hangs.
struct Hung {
    run: Option<RunKey>,
    is_over: Box<dyn Fn() -> bool + Send>,
}

/// Locks the key of the process that a reading currently examines; `None` before its first process.
fn current(at: &Mutex<Option<RunKey>>) -> MutexGuard<'_, Option<RunKey>> {
    at.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn figures(pipeline: Pipeline) {
    let mut hung: Vec<Hung> = Vec::new();
    let mut memory = MemoryReader::default();
    let mut looks = Examinations::default();
    let mut counts: HashMap<RunKey, KillReading> = HashMap::new();
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
        hung.retain(|one| !(one.is_over)());
        runs.retain(|run| {
            let is_skipped = hung.len() >= MAX_HUNG || hung.iter().any(|one| one.run == Some(run.key()));
            let is_early = counts.get(&run.key()).is_none_or(|counted| counted.rush.is_early(now));
            !is_skipped && (all || run.is_attached() && is_early)
        });
        let unexplained = pipeline.unexplained_deaths().into_iter();
        let dead = unexplained.filter_map(|run| Some((run, Arc::clone(&counts.get(&run)?.kills))));
        let dead: Vec<_> = dead.collect();
        // The counts of dead processes are kept for a while, because their groups can still exist and show a kill.
        counts.retain(|run, counted| living.contains(run) || now < counted.read + DEAD_FOR);
        if runs.is_empty() && dead.is_empty() {
            continue;
        }
        let living: Vec<RunKey> = living.into_iter().collect();
        // Use a blocking thread for the few files of each process. The kernel can block, and the path to a control
        // group can lead through a file system of the process.
        let at = Arc::new(Mutex::new(None));
        let reads_at = Arc::clone(&at);
        let mut read = spawn_blocking(move || {
            let killed = |(run, kills): (RunKey, Arc<KillCounts>)| Some((run, kills.have_grown()?));
            let killed: Vec<_> = dead.into_iter().filter_map(killed).collect();
            // Rounds between two full rounds are one second apart, so they scan the other processes of a container only
            // if the container is small.
            let mut reader = Reader::with(if all { ProcessScan::Full } else { ProcessScan::Small });
            let (host, read_at) = (host::pressure(), host::now());
            let measured = |run: Arc<ObservedRun>| {
                let key = run.key();
                *current(&reads_at) = Some(key);
                let (attached, major, rests) = {
                    let run = run.look();
                    let attached = run.session.state == RunState::Attached;
                    (attached, run.identity.major(), run.session.rests(read_at))
                };
                let figures = attached.then(|| reader.read(key.pid, key.start_time)).flatten();
                // Without figures, the process is not attached, has exited, or has never been visible in gcwatch's
                // `/proc`.
                let reading: MemoryReading = figures
                    .map(|figures| memory.read(key, major, figures.memory_limit, rests))
                    .unwrap_or_default();
                let exports_runtime = figures.and_then(|_| looks.look(key, major));
                let kills = figures.and_then(|_| reader.kills(key.pid)).unwrap_or_default();
                let measured = ProcessReading {
                    figures,
                    memory: reading.memory,
                    started: Some(host::started(key.start_time)),
                    heap_limit: reading.heap_limit,
                    follows_container: reading.follows_container,
                    machine: reading.machine,
                    host,
                    exports_runtime,
                    collector: reading.collector.map(configured),
                    cpu_ns: reading.cpu_ns,
                    allowed_cpus: reading.allowed_cpus,
                };
                (run, measured, kills)
            };
            let read: Vec<_> = runs.into_iter().map(measured).collect();
            memory.keep(&living);
            looks.keep(&living);
            (read, killed, memory, looks)
        });
        let Ok(read) = timeout(READ_TIMEOUT, &mut read).await else {
            let run = *current(&at);
            let pid = run.map(|run| run.pid);
            error!(
                pid,
                "cannot read the figures of a process: its file system does not respond; skipping the process"
            );
            (memory, looks) = (MemoryReader::default(), Examinations::default());
            let is_over = Box::new(move || read.is_finished());
            hung.push(Hung { run, is_over });
            continue;
        };
        match read {
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
                        let before = counts.remove(&run.key()).map(|counted| counted.rush);
                        let counted = KillReading {
                            kills: Arc::new(kills),
                            read: now,
                            rush: MemoryGrowthProbe::after(before, measured.figures.and_then(level), now),
                        };
                        counts.insert(run.key(), counted);
                    }
                }
                if all {
                    // Metadata can change between the first report of a process and its entry in the list of runs.
                    pipeline.surroundings_changed(read_at);
                }
            }
            Err(failed) => {
                (memory, looks) = (MemoryReader::default(), Examinations::default());
                error!("cannot read the figures of processes: {failed}");
            }
        }
    }
}

/// Converts the settings of a collector to the input of a run.
fn configured(settings: CollectorSettings) -> ConfiguredCollector {
    ConfiguredCollector {
        gen0_size: settings.gen0_size,
        conserve_memory: settings.conserve_memory,
    }
}

/// The kill counts of a process's groups, the time of their reading, and the growth of the memory group.
struct KillReading {
    kills: Arc<KillCounts>,
    read: Instant,
    rush: MemoryGrowthProbe,
}

/// Returns the memory in the group of a process that the kernel cannot reclaim (or the working set if this memory is
/// unknown), and the group's limit. Returns `None` if the memory is unknown or there is no limit.
fn level(figures: Figures) -> Option<(u64, u64)> {
    let memory = &figures.memory;
    Some((memory.held.or(memory.working_set)?, figures.memory_limit?))
}

/// A probe that decides whether the memory group of a process is read before the next round. A group that fills quickly
/// can be full before the readings of regular rounds show the growth.
#[derive(Debug, Clone, Copy, PartialEq)]
struct MemoryGrowthProbe {
    first: Instant,
    /// Time and memory use of the newest reading; `None` if the use or the limit is unknown.
    newest: Option<(Instant, u64)>,
    /// Time until which the group is read every [`LOOK`].
    until: Instant,
}

impl MemoryGrowthProbe {
    /// Returns the state after a reading, based on the previous state. `level` is the use and the limit of the group;
    /// `None` if the group has no limit or the use is unknown.
    fn after(before: Option<Self>, level: Option<(u64, u64)>, now: Instant) -> Self {
        let first = before.map_or(now, |before| before.first);
        let Some((used, limit)) = level else {
            return Self {
                first,
                newest: None,
                until: now,
            };
        };
        let fills = before.and_then(|before| before.newest).is_some_and(|(at, was)| {
            let passed = now.saturating_duration_since(at).as_secs_f64();
            let grown = used.saturating_sub(was) as f64;
            // Whether the group would be full within [`RUSH`] at its current growth.
            grown > 0.0 && limit.saturating_sub(used) as f64 * passed < grown * RUSH.as_secs_f64()
        });
        let before = before.map_or(now, |before| before.until);
        let until = if fills {
            before.max(now + FAST_READING_DURATION)
        } else {
            before
        };
        Self {
            first,
            newest: Some((now, used)),
            until: until.max(first + FAST_READING_DURATION),
        }
    }

    fn is_early(&self, now: Instant) -> bool {
        self.newest.is_some() && now < self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Scenario: one group has no limit. Another group has a limit and is read for the first time. The memory of this
    /// group grows so slowly that the group would be full after an hour, then so fast that it would be full after
    /// seconds, and finally stays constant.
    /// Guarantee: the group without a limit is never read early. The group with a limit is read early in its first
    /// seconds, and during fast growth and for a while afterwards.
    #[test]
    fn fast_growing_group_is_read_every_second() {
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        let none = MemoryGrowthProbe::after(None, None, began);
        assert!(!none.is_early(began));
        let reading =
            |before, used: u64, seconds| MemoryGrowthProbe::after(before, Some((used * MIB, 400 * MIB)), at(seconds));
        let first = reading(None, 50, 0);
        assert!(first.is_early(at(9)) && !first.is_early(at(10)));
        let slow = reading(Some(first), 51, 15);
        assert!(!slow.is_early(at(16)));
        let fast = reading(Some(slow), 151, 30);
        assert!(fast.is_early(at(39)) && !fast.is_early(at(40)));
        let faster = reading(Some(fast), 171, 31);
        assert!(faster.is_early(at(40)));
        let rests = reading(Some(faster), 171, 41);
        assert!(!rests.is_early(at(41)));
    }
}
