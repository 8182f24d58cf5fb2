//! Whether the threads that collect had a CPU.
//!
//! The kernel counts for each thread how long it ran, and how long it was ready to run and had no CPU (the first and
//! the second figure of `schedstat`; a thread that the CPU limit of its control group keeps from running is ready,
//! too). Around a stop the figures are read before and after it:
//!
//! ```text
//!     reading          stop of length L           reading          W: from reading to reading
//! -------x------[############################]-------x--------     C: the thread ran, D: it was ready and had no CPU
//! ```
//!
//! * At most `D` and at most `L` are the stop's.
//! * At least `D` less the time outside of the stop, `W - L`, is.
//! * A thread that collects wants a CPU all the time, as it may have before and after: so `L` in the proportion of `D`
//!   to `C + D`, within the two bounds, is the estimate. Of a thread that does nothing but collect (server GC,
//!   background GC) it is all of `D`.
//!
//! A thread that is neither running nor ready waits, for other threads or for a page from disk. As much of the stop as
//! is neither `C` nor `D` counts as well where there were such page faults (`stat`), at [`PAGE_NS`] each.
//!
//! Several threads collect together and wait for each other: the one that waited longest counts. What is given to one
//! stop is given to no other.
//!
//! # What it costs
//!
//! Nothing for a process whose stops are short. From a stop of [`LONG_NS`] on, or as much in a second, a small file of
//! at most [`MAX_THREADS_READ`] threads is read in each round, for [`FOR`], and a second one of those that collected.
//! So of the first long stop nothing is known. Which thread of the program collects next cannot be known: those of the
//! thread pool are read, and those that did so before.
//!
//! Kernels without the figures, and those that do not count for a thread (`0 0 0`), leave it unknown; the CPU limit of
//! the control group may say something all the same.

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

/// The names of threads that do nothing but collect (.NET 5 and later).
const SERVER: &str = ".NET Server GC";
const BACKGROUND: &str = ".NET BGC";
/// Those of the thread pool, which allocate most (.NET 6 and later).
const WORKER: &str = ".NET TP Worker";

/// A stop of this length, or stops within a second, are worth to read more.
const LONG_NS: i64 = 30_000_000;
/// For how long after them.
const FOR: Duration = Duration::from_secs(120);
/// From one reading to the next: once in each round.
const EVERY: Duration = Duration::from_millis(190);
/// Threads that are read at most.
const MAX_THREADS_READ: usize = 24;
/// Of them, those of server GC: each heap has one, and all of them wait for the slowest.
const MAX_SERVER: usize = 8;
/// Readings that are kept: a few seconds of them.
const MAX_KEPT: usize = 32;
/// A reading that is older when a stop begins says little of it.
const OLDEST_NS: i64 = 3_000_000_000;
/// What a page from disk takes at most.
const PAGE_NS: u64 = 10_000_000;
/// Less than one part in so many of a stop is none: readings and stops are not at the same time.
const LEAST_PART: i64 = 100;
/// The names of all threads are looked through at most so often, and for at most one part in so many of the time.
const LOOK_EVERY: Duration = Duration::from_secs(5);
const LOOK_PARTS: u32 = 200;

/// What is read of one process.
#[derive(Debug)]
pub(crate) struct CpuWaits {
    run: Option<RunKey>,
    limit: Limit,
    /// Since when stops are added up, and to how much.
    lately: Option<(Instant, i64)>,
    /// While its stops are long.
    readings: Option<Box<Readings>>,
}

impl CpuWaits {
    /// Of that run; `None`: it is not in our `/proc`. `threads` look for the limit of its control group.
    pub(crate) fn new(run: Option<RunKey>, threads: Threads) -> Self {
        Self {
            run,
            limit: Limit::new(threads),
            lately: None,
            readings: None,
        }
    }

    /// When [`Self::tick`] has something to do.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.readings.as_ref().map(|readings| readings.read_at + EVERY)
    }

    /// Time passes; `at`: nanoseconds since the stream's sync point.
    pub(crate) fn tick(&mut self, now: Instant, at: Option<i64>) {
        let Some(readings) = &mut self.readings else { return };
        match at {
            Some(at) if now < readings.until => {
                if now >= readings.read_at + EVERY {
                    readings.read(now, at, self.limit.known());
                }
            }
            _ => self.readings = None,
        }
    }

    /// Puts into the accounts of a collection's stops for how long its threads had no CPU, where that is known.
    pub(crate) fn judge(&mut self, collection: &mut Collection, now: Instant, at: Option<i64>) {
        let (Some(run), Some(at)) = (self.run, at) else { return };
        if self.is_worth_it(collection.pause_ns.unwrap_or(0), now) {
            self.limit.ask(run, now);
            let new = || Box::new(Readings::of(PathBuf::from(format!("/proc/{}/task", run.pid)), now));
            self.readings.get_or_insert_with(new).until = now + FOR;
        }
        if let Some(readings) = &mut self.readings {
            collection.cpu = readings.judge(&mut collection.pauses, now, at, self.limit.known());
        }
    }

    /// Whether stops of so long in all, now, are worth to read more.
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
/// provides, which may never respond: a thread other than the one that reads all streams looks for the limit.
///
/// A process can get a limit, or a group with a limit, while it runs. So the thread looks again for a limit that it did
/// not find.
#[derive(Debug)]
struct Limit {
    threads: Threads,
    asked_at: Option<Instant>,
    asked: Option<oneshot::Receiver<Option<Throttling>>>,
    /// `None` if there is no limit, or if the group is not visible.
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
            let asked = self.threads.run(move || Throttling::of(run.pid, run.start_time));
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

/// What a thread is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Server,
    Background,
    /// It allocates, and collects when its budget is used up.
    Other,
}

impl Role {
    fn of(name: &str) -> Self {
        match name {
            SERVER => Self::Server,
            BACKGROUND => Self::Background,
            _ => Self::Other,
        }
    }
}

/// The counters of a thread at one time, in nanoseconds and page faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sample {
    at: i64,
    ran: u64,
    waited: u64,
    /// Unknown of a thread that does not collect.
    faults: Option<u64>,
    /// What of the wait since the sample before was given to stops.
    given: u64,
}

/// What a thread did from one reading to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Between {
    over: u64,
    ran: u64,
    waited: u64,
    faults: Option<u64>,
    given: u64,
}

/// For how long a thread had no CPU in a stop.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Waited {
    /// In the run queue.
    ns: u64,
    /// For pages.
    paging_ns: u64,
    faults: Option<u64>,
}

impl Between {
    /// What of it a stop of that length had. `None`: the kernel does not count, as a thread that collects runs.
    fn of_stop(&self, length: u64) -> Option<Waited> {
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
        Some(Waited {
            ns,
            paging_ns,
            faults: self.faults,
        })
    }
}

/// One stop, from the view of one collection.
#[derive(Debug, Clone, Copy)]
struct Stop {
    from: i64,
    to: i64,
    length: u64,
    thread: u64,
    kind: PauseKind,
}

impl Stop {
    fn of(pause: &Pause) -> Option<Self> {
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
    /// Its number in the process's own namespace, which the stream has.
    number: u64,
    folder: PathBuf,
    role: Role,
    /// When it was started: a number may be given again.
    started: Option<u64>,
    samples: VecDeque<Sample>,
    /// When it stopped the others last; `None`: not since it is read.
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

    /// The places of the last sample before a stop, and of the first after it.
    fn around(&self, stop: &Stop) -> Option<(usize, usize)> {
        let before = self.samples.iter().rposition(|sample| sample.at <= stop.from)?;
        let after = self.samples.iter().position(|sample| sample.at >= stop.to)?;
        let is_near = stop.from.saturating_sub(self.samples.get(before)?.at) <= OLDEST_NS;
        (is_near && before < after).then_some((before, after))
    }

    fn between(&self, stop: &Stop) -> Option<Between> {
        let (before, after) = self.around(stop)?;
        let given = self.samples.range(before + 1..=after).map(|sample| sample.given);
        let given = given.fold(0, u64::saturating_add);
        let (before, after) = (self.samples.get(before)?, self.samples.get(after)?);
        Some(Between {
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
            // It costs more, and says nothing of a thread that does not collect.
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

/// The readings of a process while its stops are long.
#[derive(Debug)]
struct Readings {
    until: Instant,
    /// The newest reading, and the same since the stream's sync point.
    read_at: Instant,
    read_to: i64,
    tasks: PathBuf,
    threads: Vec<Thread>,
    /// When the group with the CPU limit was read, and for how long it was throttled until then.
    throttled: VecDeque<(i64, u64)>,
    /// Its threads are not looked through again before.
    look_at: Instant,
}

impl Readings {
    fn of(tasks: PathBuf, now: Instant) -> Self {
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

    /// Puts into the accounts of stops what is known of them.
    fn judge(&mut self, pauses: &mut [Pause], now: Instant, at: i64, limit: Option<&Throttling>) -> Option<CpuWait> {
        let mut newest = None;
        for stop in pauses.iter().filter_map(Stop::of) {
            self.want(stop.thread, now);
            newest = newest.max(Some(stop.to));
        }
        // The reading after the stop: what says that it is over has just come.
        if newest.is_some_and(|until| self.read_to < until) {
            self.read(now, at, limit);
        }
        let mut known: Option<CpuWait> = None;
        for pause in pauses {
            let Some(stop) = Stop::of(pause) else { continue };
            let (Some((ns, why)), Some(account)) = (self.of_stop(&stop), pause.account.as_mut()) else {
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

    /// For how long the threads of a stop had no CPU, and why; `None`: that is not known.
    fn of_stop(&mut self, stop: &Stop) -> Option<(u64, CpuWait)> {
        let is_server = |thread: &Thread| thread.number == stop.thread && thread.role == Role::Server;
        let by_server = self.threads.iter().any(is_server);
        let collects = |thread: &Thread| {
            thread.number == stop.thread
                || by_server && thread.role == Role::Server
                || stop.kind != PauseKind::Blocking && thread.role == Role::Background
        };
        let threads = self.threads.iter_mut().filter(|thread| collects(thread));
        let waited = threads.filter_map(|thread| {
            let waited = thread.between(stop)?.of_stop(stop.length)?;
            thread.give(stop, waited.ns);
            Some(waited)
        });
        let longest = waited.max_by_key(|waited| waited.ns.saturating_add(waited.paging_ns));
        let throttled = self.throttled_around(stop);
        let (ns, page_faults) = match longest {
            Some(longest) => (longest.ns.saturating_add(longest.paging_ns), longest.faults),
            // Without the counters of threads the limit says something.
            None => (throttled.map(|(ns, over)| of_limit(ns, over, stop.length))?, None),
        };
        let is_some = i128::from(ns) * i128::from(LEAST_PART) >= i128::from(stop.length);
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

    /// For how long the control group was throttled from the reading before a stop to the one after it, and how long
    /// that was.
    fn throttled_around(&self, stop: &Stop) -> Option<(u64, u64)> {
        let before = self.throttled.iter().rfind(|(at, _)| *at <= stop.from)?;
        let after = self.throttled.iter().find(|(at, _)| *at >= stop.to)?;
        let over = u64::try_from(after.0.saturating_sub(before.0)).ok()?;
        Some((after.1.checked_sub(before.1)?, over))
    }

    /// This thread collects: it is read from now on.
    fn want(&mut self, number: u64, now: Instant) {
        if let Some(known) = self.threads.iter_mut().find(|thread| thread.number == number) {
            known.used = Some(now);
            return;
        }
        let same = self.tasks.join(number.to_string());
        if own_number(&same) == Some(number) {
            self.add(number, same, Some(now));
        } else if now >= self.look_at {
            // Its folder has the number of our namespace.
            self.look(Some(number), now);
        }
    }

    /// `used`: it has just stopped the others. One that never did is not read in the place of another.
    fn add(&mut self, number: u64, folder: PathBuf, used: Option<Instant>) {
        let name = std::fs::read_to_string(folder.join("comm")).unwrap_or_default();
        let role = Role::of(name.trim_end());
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

    /// Looks through all threads for those that collect or may, and for the one with that number in the process's own
    /// namespace, which has just stopped the others.
    fn look(&mut self, wanted: Option<u64>, now: Instant) {
        let began = Instant::now();
        let tasks = std::fs::read_dir(&self.tasks).into_iter().flatten();
        for task in tasks.take(MAX_THREADS).filter_map(Result::ok) {
            let folder = task.path();
            let name = std::fs::read_to_string(folder.join("comm")).unwrap_or_default();
            let name = name.trim_end();
            let may_collect = Role::of(name) != Role::Other || name == WORKER;
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
        self.look_at = now + LOOK_EVERY.max(began.elapsed() * LOOK_PARTS);
    }

    fn read(&mut self, now: Instant, at: i64, limit: Option<&Throttling>) {
        (self.read_at, self.read_to) = (now, at);
        if now >= self.look_at {
            self.look(None, now);
        }
        for thread in &mut self.threads {
            thread.read(at);
        }
        // One that ended is not read again, unless it stops the others.
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

/// What a stop of that length had of the time for which a control group was throttled, which is a sum over CPUs.
fn of_limit(throttled: u64, over: u64, length: u64) -> u64 {
    let part = u128::from(throttled.min(over)) * u128::from(length) / u128::from(over.max(1));
    u64::try_from(part).map_or(length, |part| part.min(length))
}

/// How long a thread ran, and was ready and did not run: of its `schedstat`. `0 0 0`: nobody counts.
fn sched(text: &str) -> Option<(u64, u64)> {
    let mut figures = text.split_ascii_whitespace().map(str::parse::<u64>);
    let (ran, waited) = (figures.next()?.ok()?, figures.next()?.ok()?);
    (ran > 0 || waited > 0).then_some((ran, waited))
}

/// Page faults that needed the disk, and when the thread was started: fields 12 and 22 of its `stat`.
fn task_stat(text: &str) -> Option<(u64, u64)> {
    let (_, after_name) = text.rsplit_once(')')?;
    let mut fields = after_name.split_ascii_whitespace();
    let faults = fields.nth(9)?.parse().ok()?;
    let started = fields.nth(9)?.parse().ok()?;
    Some((faults, started))
}

#[cfg(test)]
mod tests;
