//! Compares received data with sent data, and checks the resources that the daemon kept.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::receiver::Store;
use crate::targets::SentTotals;

/// Maximum growth of memory per hour, in KiB. More growth indicates a leak.
const MAX_SLOPE_KIB: f64 = 4096.0;
/// Minimum duration for a slope. A shorter period is not representative of an hour.
const SLOPE_FROM: Duration = Duration::from_secs(600);
/// Maximum additional descriptors at the end compared to the start: connections to the receiver, and files of the
/// queue.
const MORE_DESCRIPTORS: usize = 12;
/// Maximum loss per kill, in seconds of a process's collections. A kill loses data in memory, data in the socket, and
/// data until the process is attached again.
const KILL_COSTS_SECONDS: f64 = 3.0;

/// Time until data that is kept for 30 minutes (history, windows of rules, deaths of a service) has reached its full
/// size.
const FULL_AFTER: Duration = Duration::from_secs(1800);

/// Memory over time: a least-squares line through the values after [`FULL_AFTER`].
#[derive(Debug, Default)]
pub(super) struct Slope(Vec<(f64, f64)>);

impl Slope {
    pub(super) fn add(&mut self, after: Duration, kib: u64) {
        self.0.push((after.as_secs_f64(), kib as f64));
    }

    /// Returns the first, last and maximum values in KiB.
    fn figures(&self) -> (f64, f64, f64) {
        let values = || self.0.iter().map(|(_, kib)| *kib);
        (
            values().next().unwrap_or(0.0),
            values().next_back().unwrap_or(0.0),
            values().fold(0.0, f64::max),
        )
    }

    /// Returns the slope in KiB per hour, or `None` if the observed period is too short.
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

/// The results of one half.
#[derive(Debug)]
pub(super) struct Account {
    processes: usize,
    sent: u64,
    /// Collections dropped because the buffers of the targets were full: gcwatch did not read for a long time.
    dropped: u64,
    arrived: u64,
    twice: u64,
    again: u64,
    /// Maximum loss of one process, in seconds of its collections.
    most_missing_seconds: f64,
    memory: Slope,
    descriptors: (usize, usize, usize),
    waiting: u64,
    shutdown: Duration,
}

impl Account {
    pub(super) fn new(
        rate: f64,
        sent: &[SentTotals],
        store: &Store,
        memory: Slope,
        descriptors: (usize, usize, usize),
        waiting: u64,
        shutdown: Duration,
    ) -> Self {
        let missing = |one: &SentTotals| {
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

    /// Prints the results. Returns whether every requirement is met.
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
            "  sent twice       {}, plus {} after a lost answer",
            self.twice, self.again
        );
        let (first, last, most) = self.memory.figures();
        let slope = self.memory.per_hour();
        let per_hour = slope.map_or_else(
            || "too short for a slope".to_owned(),
            |kib| format!("{:+.2} MiB per hour", kib / 1024.0),
        );
        println!(
            "  rss              {:.1} MiB first, {:.1} last, {:.1} maximum, {per_hour}",
            first / 1024.0,
            last / 1024.0,
            most / 1024.0
        );
        let (before, peak, after) = self.descriptors;
        println!("  descriptors      {before} first, {peak} maximum, {after} last");
        println!("  queue on disk    {} bytes after everything had arrived", self.waiting);
        println!("  shutdown         {:.2} s", self.shutdown.as_secs_f64());
        let mut promises = vec![
            (
                "no collection is sent twice except after a lost answer",
                self.twice == 0,
            ),
            ("descriptors do not grow", after <= before + MORE_DESCRIPTORS),
            ("memory does not grow", slope.is_none_or(|slope| slope <= MAX_SLOPE_KIB)),
        ];
        if kills == 0 {
            promises.push(("every collection arrives", missing == 0 && self.arrived == self.sent));
            promises.push(("no process finds its buffer full", self.dropped == 0));
        } else {
            let bound = kills as f64 * KILL_COSTS_SECONDS;
            println!(
                "  a process misses at most {:.1} s of its collections, {:.2} s per kill",
                self.most_missing_seconds,
                self.most_missing_seconds / kills as f64
            );
            promises.push((
                "a kill costs each process at most a few seconds",
                self.most_missing_seconds <= bound,
            ));
        }
        for (promise, holds) in &promises {
            println!("  {}  {promise}", if *holds { "ok    " } else { "BROKEN" });
        }
        promises.iter().all(|(_, holds)| *holds)
    }
}

/// Returns the total size of the files in a directory and its subdirectories, in bytes.
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
