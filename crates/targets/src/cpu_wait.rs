//! Estimates the time for which collecting threads had no CPU during suspensions.
//!
//! For each thread, the kernel counts the time that it ran, and the time that it was ready to run and had no CPU (the
//! first and the second figure of `schedstat`). A thread that is throttled by the CPU limit of its control group also
//! counts as ready. The figures are read before and after a suspension:
//!
//! ```text
//!     reading       suspension of length L         reading          W: from reading to reading
//! -------x------[############################]-------x--------     C: the thread ran, D: it was ready and had no CPU
//! ```
//!
//! * At most `D` and at most `L` belong to the suspension.
//! * At least `D` minus the time outside the suspension, `W - L`, belongs to the suspension.
//! * A collecting thread needs a CPU during the suspension, and can also need a CPU before and after it. The estimate
//!   is therefore `L * D / (C + D)`, within the two bounds. If a thread is active only in the suspension, such as a
//!   thread of server GC, `C + D` is at most `L`, and the estimate is all of `D`.
//!
//! A thread that is neither running nor ready waits for other threads or for a page from disk. If the thread had page
//! faults that read from disk (`stat`), the part of the suspension that is neither `C` nor `D` also counts, up to
//! [`PAGE_NS`] per page fault.
//!
//! If several threads collect together, they wait for each other, and the thread with the longest wait counts. Time
//! that is attributed to one suspension is not attributed to another.
//!
//! # Cost
//!
//! A process with short suspensions has no cost. Readings start after a suspension of at least [`LONG_NS`], or after
//! shorter suspensions of this total length in 1 s, and continue for [`FOR`]. In each round, one small file is read for
//! each of at most [`MAX_THREADS_READ`] threads, and a second file for each thread that collected. The first long
//! suspension is therefore not covered. The thread of the program that will collect next is unknown. The threads of the
//! thread pool and the threads that have collected before are therefore read.
//!
//! If the kernel does not provide the figures, or does not count for a thread (`0 0 0`), the wait is unknown. The
//! throttled time of the control group can still provide an estimate.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Duration;

use clr_gc::gc::{Collection, CpuWait, Pause, PauseKind};
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;
use tokio::time::Instant;

use crate::thread_names::{MAX_THREADS, own_number};
use crate::threads::Threads;
use base::run_key::RunKey;
use processes::container::Throttling;

/// Names of threads that only collect (.NET 5 and later).
const SERVER: &str = ".NET Server GC";
const BACKGROUND: &str = ".NET BGC";
/// Name of thread pool threads, which allocate most objects (.NET 6 and later).
const WORKER: &str = ".NET TP Worker";

/// Minimum length of a suspension, or of all suspensions within 1 s, that triggers readings.
const LONG_NS: i64 = 30_000_000;
/// Duration of the readings after a suspension that triggers readings.
const FOR: Duration = Duration::from_secs(120);
/// Interval between readings, which allows one reading per round.
const READ_INTERVAL: Duration = Duration::from_millis(190);
/// Maximum number of threads that are read.
const MAX_THREADS_READ: usize = 24;
/// Maximum number of server GC threads that are read. Each heap has one thread, and all threads wait for the slowest
/// thread.
const MAX_SERVER: usize = 8;
/// Number of readings that are kept, which cover a few seconds.
const MAX_KEPT: usize = 32;
/// Maximum age of a reading at the start of a suspension. An older reading has little significance.
const OLDEST_NS: i64 = 3_000_000_000;
/// Maximum time for a page from disk.
const PAGE_NS: u64 = 10_000_000;
/// A wait below 1/`MIN_PART` of a suspension counts as 0, because readings and suspensions are not simultaneous.
const MIN_PART: i64 = 100;
/// Minimum interval between scans of all thread names. Scans take at most 1/`LOOK_PARTS` of the time.
const SCAN_INTERVAL: Duration = Duration::from_secs(5);
const LOOK_PARTS: u32 = 200;

/// The CPU waits of one process.
#[derive(Debug)]
pub(crate) struct CpuWaits {
    run: Option<RunKey>,
    limit: Limit,
    /// Start of the period of recent suspensions, and their total length in nanoseconds; `None` before the first
    /// suspension.
    lately: Option<(Instant, i64)>,
    /// Readings of the threads; `None` while suspensions are short.
    readings: Option<Box<Readings>>,
}

impl CpuWaits {
    /// Creates the state for a run. `run` is `None` if the process is not visible in gcwatch's `/proc`. `threads` run
    /// the search for the limit of the control group.
    pub(crate) fn new(run: Option<RunKey>, threads: Threads) -> Self {
        Self {
            run,
            limit: Limit::new(threads),
            lately: None,
            readings: None,
        }
    }

    /// Returns the next time at which [`Self::tick`] has work, or `None` while the threads are not read.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.readings.as_ref().map(|readings| readings.read_at + READ_INTERVAL)
    }

    /// Handles the passing of time. `at` is the current time in nanoseconds since the stream's sync point, or `None` if
    /// the stream's clock is unknown.
    pub(crate) fn tick(&mut self, now: Instant, at: Option<i64>) {
        let Some(readings) = &mut self.readings else { return };
        match at {
            Some(at) if now < readings.until => {
                if now >= readings.read_at + READ_INTERVAL {
                    readings.read(now, at, self.limit.known());
                }
            }
            _ => self.readings = None,
        }
    }

    /// Adds the time without a CPU to the accounts of a collection's suspensions, if known. `at` is the same as for
    /// [`Self::tick`].
    pub(crate) fn judge(&mut self, collection: &mut Collection, now: Instant, at: Option<i64>) {
        let (Some(run), Some(at)) = (self.run, at) else { return };
        if self.is_worth_it(collection.pause_ns.unwrap_or(0), now) {
            self.limit.ask(run, now);
            let new = || Box::new(Readings::new(PathBuf::from(format!("/proc/{}/task", run.pid)), now));
            self.readings.get_or_insert_with(new).until = now + FOR;
        }
        if let Some(readings) = &mut self.readings {
            collection.cpu = readings.judge(&mut collection.pauses, now, at, self.limit.known());
        }
    }

    /// Adds suspensions of this total length, and returns whether the recent suspensions trigger readings.
    fn is_worth_it(&mut self, stopped_ns: i64, now: Instant) -> bool {
        let (since, before) = self
            .lately
            .filter(|(since, _)| now.saturating_duration_since(*since) < Duration::from_secs(1))
            .unwrap_or((now, 0));
        let stopped = before.saturating_add(stopped_ns);
        self.lately = Some((since, stopped));
        stopped >= LONG_NS
    }
}

/// The CPU limit of a process's control group. The path of the group can lead through a file system that the process
/// provides and that never responds. The limit is therefore searched for on a separate thread, not on the thread that
/// reads all streams.
///
/// A process can get a limit, or a group with a limit, while it runs. A limit that was not found is therefore searched
/// for again.
#[derive(Debug)]
struct Limit {
    threads: Threads,
    asked_at: Option<Instant>,
    asked: Option<oneshot::Receiver<Option<Throttling>>>,
    /// The group with the limit; `None` if no limit was found or the group is not visible.
    known: Option<Throttling>,
}

/// Interval between searches for a limit that was not found.
const ASK_AGAIN: Duration = Duration::from_secs(60);

impl Limit {
    fn new(threads: Threads) -> Self {
        Self {
            threads,
            asked_at: None,
            asked: None,
            known: None,
        }
    }

    fn ask(&mut self, run: RunKey, now: Instant) {
        let is_due = self
            .asked_at
            .is_none_or(|at| now.saturating_duration_since(at) >= ASK_AGAIN);
        if is_due && self.asked.is_none() && self.known.is_none() {
            self.asked_at = Some(now);
            let asked = self.threads.run(move || Throttling::open(run.pid, run.start_time));
            self.asked = asked.ok();
        }
    }

    fn known(&mut self) -> Option<&Throttling> {
        if let Some(asked) = &mut self.asked {
            match asked.try_recv() {
                Ok(limit) => (self.known, self.asked) = (limit, None),
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Closed) => self.asked = None,
            }
        }
        self.known.as_ref()
    }
}

/// Purpose of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Server,
    Background,
    /// A thread that allocates, and collects when its budget is used up.
    Other,
}

impl Role {
    fn from_name(name: &str) -> Self {
        match name {
            SERVER => Self::Server,
            BACKGROUND => Self::Background,
            _ => Self::Other,
        }
    }
}

/// Counters of a thread at one time, in nanoseconds and page faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sample {
    at: i64,
    ran: u64,
    waited: u64,
    /// Page faults that read from disk; `None` for a thread that is not identified as a collecting thread.
    faults: Option<u64>,
    /// Part of the wait since the previous sample that was attributed to suspensions.
    given: u64,
}

/// Activity of a thread between two readings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ThreadActivity {
    over: u64,
    ran: u64,
    waited: u64,
    faults: Option<u64>,
    given: u64,
}

/// Time for which a thread had no CPU during a suspension, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct WaitTime {
    /// Time in the run queue.
    ns: u64,
    /// Time waiting for pages.
    paging_ns: u64,
    faults: Option<u64>,
}

impl ThreadActivity {
    /// Returns the estimated wait in a suspension of this length, in nanoseconds. Returns `None` if the thread neither
    /// ran nor waited: a collecting thread must have run, so the kernel does not count.
    fn wait_during(&self, length: u64) -> Option<WaitTime> {
        let ready = self.ran.checked_add(self.waited).filter(|ready| *ready > 0)?;
        let left = self.waited.saturating_sub(self.given);
        let most = left.min(length);
        let outside = self.over.saturating_sub(length);
        let least = left.saturating_sub(outside).min(most);
        let part = u128::from(length) * u128::from(self.waited) / u128::from(ready);
        let ns = u64::try_from(part).unwrap_or(most).clamp(least, most);
        let idle = length.saturating_sub(ready);
        let paging_ns = idle
            .min(self.faults.unwrap_or(0).saturating_mul(PAGE_NS))
            .min(length - ns);
        Some(WaitTime {
            ns,
            paging_ns,
            faults: self.faults,
        })
    }
}

/// A suspension from the point of view of one collection.
#[derive(Debug, Clone, Copy)]
struct Stop {
    from: i64,
    to: i64,
    length: u64,
    thread: u64,
    kind: PauseKind,
}

impl Stop {
    fn from_pause(pause: &Pause) -> Option<Self> {
        let (from, to) = (pause.spans.first()?.0, pause.spans.last()?.1);
        let length = u64::try_from(pause.pause_ns?).ok().filter(|_| from <= to)?;
        Some(Self {
            from,
            to,
            length,
            thread: pause.edges.thread,
            kind: pause.kind,
        })
    }
}

#[derive(Debug)]
struct Thread {
    /// Thread id in the process's own namespace, as in the stream.
    number: u64,
    folder: PathBuf,
    role: Role,
    /// Start time of the thread, which detects a reused thread id; `None` if unknown.
    started: Option<u64>,
    samples: VecDeque<Sample>,
    /// Time at which the thread last suspended the other threads; `None` if the thread has not suspended the other
    /// threads since it was first read.
    used: Option<Instant>,
}

impl Thread {
    fn take(&mut self, started: Option<u64>, sample: Sample) {
        if started.is_some() && self.started.is_some() && started != self.started {
            self.samples.clear();
        }
        self.started = started.or(self.started);
        if self.samples.len() >= MAX_KEPT {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
    }

    /// Returns the positions of the last sample before a suspension and of the first sample after the suspension, or
    /// `None` if one is missing or the last sample before the suspension is too old.
    fn around(&self, stop: &Stop) -> Option<(usize, usize)> {
        let before = self.samples.iter().rposition(|sample| sample.at <= stop.from)?;
        let after = self.samples.iter().position(|sample| sample.at >= stop.to)?;
        let is_near = stop.from.saturating_sub(self.samples.get(before)?.at) <= OLDEST_NS;
        (is_near && before < after).then_some((before, after))
    }

    fn between(&self, stop: &Stop) -> Option<ThreadActivity> {
        let (before, after) = self.around(stop)?;
        let given = self.samples.range(before + 1..=after).map(|sample| sample.given);
        let given = given.fold(0, u64::saturating_add);
        let (before, after) = (self.samples.get(before)?, self.samples.get(after)?);
        Some(ThreadActivity {
            over: u64::try_from(after.at.saturating_sub(before.at)).ok()?,
            ran: after.ran.checked_sub(before.ran)?,
            waited: after.waited.checked_sub(before.waited)?,
            faults: after
                .faults
                .zip(before.faults)
                .and_then(|(after, before)| after.checked_sub(before)),
            given,
        })
    }

    fn give(&mut self, stop: &Stop, ns: u64) {
        if let Some((_, after)) = self.around(stop)
            && let Some(sample) = self.samples.get_mut(after)
        {
            sample.given = sample.given.saturating_add(ns);
        }
    }

    fn read(&mut self, at: i64) {
        let text = |name: &str| std::fs::read_to_string(self.folder.join(name)).ok();
        let read = || {
            let (ran, waited) = sched(&text("schedstat")?)?;
            // Reading `stat` costs more, and `stat` is not needed for a thread that does not collect.
            let collects = self.used.is_some() || self.role != Role::Other;
            let stat = if collects {
                Some(task_stat(&text("stat")?)?)
            } else {
                None
            };
            let sample = Sample {
                at,
                ran,
                waited,
                faults: stat.map(|(faults, _)| faults),
                given: 0,
            };
            Some((stat.map(|(_, started)| started), sample))
        };
        match read() {
            Some((started, sample)) => self.take(started, sample),
            None => self.samples.clear(),
        }
    }
}

/// The readings of a process while its suspensions are long.
#[derive(Debug)]
struct Readings {
    until: Instant,
    /// Time of the last reading, and the same time in nanoseconds since the stream's sync point.
    read_at: Instant,
    read_to: i64,
    tasks: PathBuf,
    threads: Vec<Thread>,
    /// Throttled time of the control group with the CPU limit, with the time of each reading.
    throttled: VecDeque<(i64, u64)>,
    /// Time before which the threads are not scanned again.
    look_at: Instant,
}

impl Readings {
    fn new(tasks: PathBuf, now: Instant) -> Self {
        Self {
            until: now,
            read_at: now,
            read_to: i64::MIN,
            tasks,
            threads: Vec::new(),
            throttled: VecDeque::new(),
            look_at: now,
        }
    }

    /// Adds the estimates to the accounts of suspensions. Returns the reasons of the waits, or `None` if all waits are
    /// unknown.
    fn judge(&mut self, pauses: &mut [Pause], now: Instant, at: i64, limit: Option<&Throttling>) -> Option<CpuWait> {
        let mut newest = None;
        for stop in pauses.iter().filter_map(Stop::from_pause) {
            self.want(stop.thread, now);
            newest = newest.max(Some(stop.to));
        }
        // Read now, because the suspension has just ended.
        if newest.is_some_and(|until| self.read_to < until) {
            self.read(now, at, limit);
        }
        let mut known: Option<CpuWait> = None;
        for pause in pauses {
            let Some(stop) = Stop::from_pause(pause) else { continue };
            let (Some((ns, why)), Some(account)) = (self.measure_wait(&stop), pause.account.as_mut()) else {
                continue;
            };
            account.had_no_cpu(i64::try_from(ns).unwrap_or(i64::MAX));
            let known = known.get_or_insert_default();
            if let Some(ns) = why.throttled_ns {
                known.throttled_ns = Some(known.throttled_ns.unwrap_or(0).saturating_add(ns));
            }
            known.page_faults = known.page_faults.max(why.page_faults);
        }
        known
    }

    /// Returns the longest time for which a collecting thread had no CPU in a suspension, and the reasons. Without
    /// counters of threads, the time is estimated from the throttled time of the control group. Returns `None` if the
    /// throttled time is also unknown.
    fn measure_wait(&mut self, stop: &Stop) -> Option<(u64, CpuWait)> {
        let is_server = |thread: &Thread| thread.number == stop.thread && thread.role == Role::Server;
        let by_server = self.threads.iter().any(is_server);
        let collects = |thread: &Thread| {
            thread.number == stop.thread
                || by_server && thread.role == Role::Server
                || stop.kind != PauseKind::Blocking && thread.role == Role::Background
        };
        let threads = self.threads.iter_mut().filter(|thread| collects(thread));
        let waited = threads.filter_map(|thread| {
            let waited = thread.between(stop)?.wait_during(stop.length)?;
            thread.give(stop, waited.ns);
            Some(waited)
        });
        let longest = waited.max_by_key(|waited| waited.ns.saturating_add(waited.paging_ns));
        let throttled = self.throttled_around(stop);
        let (ns, page_faults) = match longest {
            Some(longest) => (longest.ns.saturating_add(longest.paging_ns), longest.faults),
            // Without counters of threads, use the limit.
            None => (
                throttled.map(|(ns, over)| apportion_throttling(ns, over, stop.length))?,
                None,
            ),
        };
        let is_some = i128::from(ns) * i128::from(MIN_PART) >= i128::from(stop.length);
        let ns = if is_some { ns } else { 0 };
        let throttled_ns = throttled.map(|(throttled, _)| i64::try_from(throttled.min(ns)).unwrap_or(i64::MAX));
        Some((
            ns,
            CpuWait {
                throttled_ns,
                page_faults,
            },
        ))
    }

    /// Returns the throttled time of the control group between the readings before and after a suspension, and the time
    /// between these readings, or `None` if a reading is missing.
    fn throttled_around(&self, stop: &Stop) -> Option<(u64, u64)> {
        let before = self.throttled.iter().rfind(|(at, _)| *at <= stop.from)?;
        let after = self.throttled.iter().find(|(at, _)| *at >= stop.to)?;
        let over = u64::try_from(after.0.saturating_sub(before.0)).ok()?;
        Some((after.1.checked_sub(before.1)?, over))
    }

    /// Adds a collecting thread to the threads that are read.
    fn want(&mut self, number: u64, now: Instant) {
        if let Some(known) = self.threads.iter_mut().find(|thread| thread.number == number) {
            known.used = Some(now);
            return;
        }
        let same = self.tasks.join(number.to_string());
        if own_number(&same) == Some(number) {
            self.add(number, same, Some(now));
        } else if now >= self.look_at {
            // The name of the folder is the thread id in gcwatch's pid namespace, which differs from `number`.
            self.look(Some(number), now);
        }
    }

    /// Adds a thread. `used` is set if the thread has just suspended the other threads. A thread of server GC beyond
    /// [`MAX_SERVER`] is not added. If [`MAX_THREADS_READ`] threads are already read, only a thread that has just
    /// suspended the other threads, or a thread that only collects, replaces another thread.
    fn add(&mut self, number: u64, folder: PathBuf, used: Option<Instant>) {
        let name = std::fs::read_to_string(folder.join("comm")).unwrap_or_default();
        let role = Role::from_name(name.trim_end());
        let servers = self.threads.iter().filter(|thread| thread.role == Role::Server);
        if role == Role::Server && servers.count() >= MAX_SERVER {
            return;
        }
        if self.threads.len() >= MAX_THREADS_READ {
            let others = self.threads.iter().enumerate();
            let others = others.filter(|(_, thread)| thread.role == Role::Other);
            let oldest = others.min_by_key(|(_, thread)| thread.used);
            let Some((oldest, _)) = oldest.filter(|_| used.is_some() || role != Role::Other) else {
                return;
            };
            self.threads.swap_remove(oldest);
        }
        self.threads.push(Thread {
            number,
            folder,
            role,
            started: None,
            samples: VecDeque::new(),
            used,
        });
    }

    /// Scans all threads and adds the threads that collect or can collect. If `wanted` is set, also adds the thread
    /// with this id in the process's own namespace, which has just suspended the other threads.
    fn look(&mut self, wanted: Option<u64>, now: Instant) {
        let began = Instant::now();
        let tasks = std::fs::read_dir(&self.tasks).into_iter().flatten();
        for task in tasks.take(MAX_THREADS).filter_map(Result::ok) {
            let folder = task.path();
            let name = std::fs::read_to_string(folder.join("comm")).unwrap_or_default();
            let name = name.trim_end();
            let may_collect = Role::from_name(name) != Role::Other || name == WORKER;
            if !may_collect && wanted.is_none() {
                continue;
            }
            if let Some(number) = own_number(&folder)
                && (may_collect || wanted == Some(number))
                && !self.threads.iter().any(|thread| thread.number == number)
            {
                self.add(number, folder, Some(now).filter(|_| wanted == Some(number)));
            }
        }
        self.look_at = now + SCAN_INTERVAL.max(began.elapsed() * LOOK_PARTS);
    }

    fn read(&mut self, now: Instant, at: i64, limit: Option<&Throttling>) {
        (self.read_at, self.read_to) = (now, at);
        if now >= self.look_at {
            self.look(None, now);
        }
        for thread in &mut self.threads {
            thread.read(at);
        }
        // Threads that have exited are removed.
        self.threads
            .retain(|thread| !thread.samples.is_empty() || thread.folder.exists());
        if let Some(ns) = limit.and_then(Throttling::read) {
            if self.throttled.len() >= MAX_KEPT {
                self.throttled.pop_front();
            }
            self.throttled.push_back((at, ns));
        }
    }
}

/// Returns the part of a control group's throttled time that belongs to a suspension, in proportion to the times, at
/// most `length`. `throttled` is a sum over CPUs, so at most `over`, the time between the readings, is used.
fn apportion_throttling(throttled: u64, over: u64, length: u64) -> u64 {
    let part = u128::from(throttled.min(over)) * u128::from(length) / u128::from(over.max(1));
    u64::try_from(part).map_or(length, |part| part.min(length))
}

/// Returns the running time and the waiting time in `schedstat`. Returns `None` if the text is invalid, or if both
/// times are 0, because the kernel then does not count.
fn sched(text: &str) -> Option<(u64, u64)> {
    let mut figures = text.split_ascii_whitespace().map(str::parse::<u64>);
    let (ran, waited) = (figures.next()?.ok()?, figures.next()?.ok()?);
    (ran > 0 || waited > 0).then_some((ran, waited))
}

/// Returns the number of major page faults and the start time of a thread (fields 12 and 22 of `stat`), or `None` if
/// the text is invalid.
fn task_stat(text: &str) -> Option<(u64, u64)> {
    let (_, after_name) = text.rsplit_once(')')?;
    let mut fields = after_name.split_ascii_whitespace();
    let faults = fields.nth(9)?.parse().ok()?;
    let started = fields.nth(9)?.parse().ok()?;
    Some((faults, started))
}

#[cfg(test)]
mod tests;
