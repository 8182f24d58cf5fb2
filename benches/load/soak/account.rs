//! What came of what was sent, and what the daemon kept.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::receiver::Store;
use crate::targets::Sent;

/// Memory that the daemon may gain in an hour, KiB: beyond it something grows.
const MOST_SLOPE_KIB: f64 = 4096.0;
/// Less than so long says nothing of an hour.
const SLOPE_FROM: Duration = Duration::from_secs(600);
/// Descriptors that may be more at the end than at the beginning: connections to the receiver, files of the queue.
const MORE_DESCRIPTORS: usize = 12;
/// Collections of a process that one kill may cost, in seconds of them: what is in memory, in the socket, and until the
/// process is attached to again.
const KILL_COSTS_SECONDS: f64 = 3.0;

/// What is kept for half an hour (history, windows of rules, deaths of a service) fills for so long.
const FULL_AFTER: Duration = Duration::from_secs(1800);

/// Memory over time: a line by least squares through what comes after [`FULL_AFTER`].
#[derive(Debug, Default)]
pub(super) struct Slope(Vec<(f64, f64)>);

impl Slope {
    pub(super) fn add(&mut self, after: Duration, kib: u64) {
        self.0.push((after.as_secs_f64(), kib as f64));
    }

    /// Of the first, last and most KiB.
    fn figures(&self) -> (f64, f64, f64) {
        let values = || self.0.iter().map(|(_, kib)| *kib);
        (
            values().next().unwrap_or(0.0),
            values().next_back().unwrap_or(0.0),
            values().fold(0.0, f64::max),
        )
    }

    /// KiB an hour; `None`: it was watched for too short.
    fn per_hour(&self) -> Option<f64> {
        let full = self.0.partition_point(|(at, _)| *at < FULL_AFTER.as_secs_f64());
        let later = self.0.get(full..)?;
        let length = later.last()?.0 - later.first()?.0;
        if length < SLOPE_FROM.as_secs_f64() {
            return None;
        }
        let n = later.len() as f64;
        let (x, y) = later
            .iter()
            .fold((0.0, 0.0), |(x, y), (at, kib)| (x + at / n, y + kib / n));
        let (xy, xx) = later.iter().fold((0.0, 0.0), |(xy, xx), (at, kib)| {
            (xy + (at - x) * (kib - y), xx + (at - x).powi(2))
        });
        (xx > 0.0).then(|| xy / xx * 3600.0)
    }
}

/// The account of one half.
#[derive(Debug)]
pub(super) struct Account {
    processes: usize,
    sent: u64,
    /// The targets' own buffers were full: gcwatch did not read for long.
    dropped: u64,
    arrived: u64,
    twice: u64,
    again: u64,
    /// Most collections that one process misses, in seconds of them.
    most_missing_seconds: f64,
    memory: Slope,
    descriptors: (usize, usize, usize),
    waiting: u64,
    shutdown: Duration,
}

impl Account {
    pub(super) fn new(
        rate: f64,
        sent: &[Sent],
        store: &Store,
        memory: Slope,
        descriptors: (usize, usize, usize),
        waiting: u64,
        shutdown: Duration,
    ) -> Self {
        let missing = |one: &Sent| {
            let received = store.processes.get(&i64::from(one.pid));
            let arrived = received.map_or(0, |received| received.collections.len() as u64);
            one.sent.saturating_sub(arrived) as f64 / rate.max(1e-9)
        };
        Self {
            processes: sent.len(),
            sent: sent.iter().map(|one| one.sent).sum(),
            dropped: sent.iter().map(|one| one.dropped).sum(),
            arrived: store.spans,
            twice: store.processes.values().map(|received| received.twice).sum(),
            again: store.again,
            most_missing_seconds: sent.iter().map(missing).fold(0.0, f64::max),
            memory,
            descriptors,
            waiting,
            shutdown,
        }
    }

    /// Prints it; whether every promise holds.
    pub(super) fn print(&self, title: &str, kills: u64) -> bool {
        let missing = self.sent.saturating_sub(self.arrived);
        println!("{title}");
        println!("  processes        {}", self.processes);
        println!(
            "  collections      {} written into sessions, {} dropped before",
            self.sent, self.dropped
        );
        println!("  spans            {} arrived, {missing} missing", self.arrived);
        println!(
            "  sent twice       {}, and {} whose answer was lost",
            self.twice, self.again
        );
        let (first, last, most) = self.memory.figures();
        let slope = self.memory.per_hour();
        let per_hour = slope.map_or_else(
            || "too short for a slope".to_owned(),
            |kib| format!("{:+.2} MiB an hour", kib / 1024.0),
        );
        println!(
            "  rss              {:.1} MiB at first, {:.1} at last, {:.1} at most, {per_hour}",
            first / 1024.0,
            last / 1024.0,
            most / 1024.0
        );
        let (before, peak, after) = self.descriptors;
        println!("  descriptors      {before} at first, {peak} at most, {after} at last");
        println!("  queue on disk    {} bytes when everything had arrived", self.waiting);
        println!("  shutdown         {:.2} s", self.shutdown.as_secs_f64());
        let mut promises = vec![
            ("nothing is sent twice but where the answer was lost", self.twice == 0),
            ("descriptors do not grow", after <= before + MORE_DESCRIPTORS),
            (
                "memory does not grow",
                slope.is_none_or(|slope| slope <= MOST_SLOPE_KIB),
            ),
        ];
        if kills == 0 {
            promises.push(("every collection arrives", missing == 0 && self.arrived == self.sent));
            promises.push(("no process finds its buffer full", self.dropped == 0));
        } else {
            let bound = kills as f64 * KILL_COSTS_SECONDS;
            println!(
                "  a process misses {:.1} s of its collections at most, {:.2} s a kill",
                self.most_missing_seconds,
                self.most_missing_seconds / kills as f64
            );
            promises.push((
                "a kill costs a few seconds of each process at most",
                self.most_missing_seconds <= bound,
            ));
        }
        for (promise, holds) in &promises {
            println!("  {}  {promise}", if *holds { "ok    " } else { "BROKEN" });
        }
        promises.iter().all(|(_, holds)| *holds)
    }
}

/// Bytes of the files in a directory and below.
pub(super) fn bytes_below(directory: Option<&Path>) -> u64 {
    let Some(entries) = directory.and_then(|directory| fs::read_dir(directory).ok()) else {
        return 0;
    };
    let each = entries.filter_map(|entry| {
        let entry = entry.ok()?;
        let metadata = entry.metadata().ok()?;
        Some(if metadata.is_dir() {
            bytes_below(Some(&entry.path()))
        } else {
            metadata.len()
        })
    });
    each.sum()
}
