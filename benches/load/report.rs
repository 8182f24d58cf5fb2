//! Formats the results of the measurement.

use std::fmt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::place::{Daemon, ended};
use crate::proc;
use crate::receiver::{ReceivedData, Receiver, Store};
use crate::targets::{SentTotals, Target};

/// Interval between two samples of the daemon's memory and descriptors.
const SAMPLE: Duration = Duration::from_secs(1);

/// Resources that the daemon used in the measured time.
#[derive(Debug)]
pub(crate) struct Window {
    length: Duration,
    cpu: Duration,
    /// CPU time of the fake runtimes. This time does not belong to the daemon, but the fake runtimes share the machine
    /// with the daemon.
    targets_cpu: Duration,
    rss_first_kib: u64,
    rss_last_kib: u64,
    rss_peak_kib: u64,
    threads: u64,
    descriptors: usize,
    sockets: usize,
}

impl Window {
    pub(crate) fn measure(daemon: &mut Daemon, targets: &[Target], length: Duration) -> anyhow::Result<Self> {
        let pid = daemon.pid();
        let targets_cpu = || {
            targets
                .iter()
                .filter_map(|target| proc::cpu_time(target.pid()))
                .sum::<Duration>()
        };
        let (since, cpu, others) = (Instant::now(), proc::cpu_time(pid), targets_cpu());
        let rss_first_kib = proc::status(pid, "VmRSS").context("gcwatch has ended")?;
        let (mut threads, mut descriptors, mut sockets) = (0, 0, 0);
        while since.elapsed() < length {
            std::thread::sleep(SAMPLE.min(length.saturating_sub(since.elapsed())));
            ended(daemon)?;
            threads = threads.max(proc::status(pid, "Threads").unwrap_or(0));
            let (open, connected) = proc::descriptors(pid).unwrap_or_default();
            (descriptors, sockets) = (descriptors.max(open), sockets.max(connected));
        }
        let spent = |before: Option<Duration>| Some(proc::cpu_time(pid)?.saturating_sub(before?));
        Ok(Self {
            length: since.elapsed(),
            cpu: spent(cpu).context("gcwatch has ended")?,
            targets_cpu: targets_cpu().saturating_sub(others),
            rss_first_kib,
            rss_last_kib: proc::status(pid, "VmRSS").unwrap_or(0),
            rss_peak_kib: proc::status(pid, "VmHWM").unwrap_or(0),
            threads,
            descriptors,
            sockets,
        })
    }

    /// Describes the cost of the viewers compared to a window without viewers.
    pub(crate) fn beside(&self, without: &Self, view: &str, viewers: usize, bytes: u64) -> String {
        let share = |window: &Self| 100.0 * window.cpu.as_secs_f64() / window.length.as_secs_f64();
        let more = share(self) - share(without);
        format!(
            "{viewers} viewers, {view:<9} {:.2} % of one core, {:.3} % each; {:.1} kB per second each; rss {:.1} MiB\n",
            share(self),
            more / viewers as f64,
            bytes as f64 / 1e3 / self.length.as_secs_f64() / viewers as f64,
            self.rss_last_kib as f64 / 1024.0,
        )
    }
}

/// Waits until every sent collection has arrived as a span, or until nothing new has arrived for a fifth of `patience`.
/// Not all collections of a burst arrive, because the daemon limits the spans of one process.
pub(crate) fn drain(receiver: &Receiver, targets: &[SentTotals], patience: Duration) {
    let until = Instant::now() + patience;
    let arrived = || -> Vec<u64> {
        let store = receiver.store();
        targets.iter().map(|target| spans_of(&store, target)).collect()
    };
    let (mut last, mut since) = (arrived(), Instant::now());
    while Instant::now() < until && since.elapsed() < patience / 5 {
        if targets.iter().zip(&last).all(|(target, spans)| *spans >= target.sent) {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
        let now = arrived();
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
}

fn spans_of(store: &Store, target: &SentTotals) -> u64 {
    let received = store.processes.get(&i64::from(target.pid));
    received.map_or(0, |received| received.collections.len() as u64)
}

/// The complete report.
#[derive(Debug)]
pub(crate) struct Report<'a> {
    pub(crate) window: Window,
    pub(crate) attached_after: Duration,
    pub(crate) shutdown: (Duration, ExitStatus),
    pub(crate) targets: Vec<SentTotals>,
    pub(crate) store: &'a Store,
}

/// Sums over all processes.
#[derive(Debug, Default)]
struct Sums {
    sent: u64,
    dropped: u64,
    sessions: u64,
    spans: u64,
    twice: u64,
    children: u64,
    counted: i64,
    unexported: i64,
    events_lost: i64,
    /// Number of processes with a missing collection, as a span or in the count.
    short: u64,
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let window = &self.window;
        let share = |cpu: Duration| 100.0 * cpu.as_secs_f64() / window.length.as_secs_f64();
        let mib = |kib: u64| kib as f64 / 1024.0;
        writeln!(
            f,
            "measured           {:.1} s, all attached after {:.2} s",
            window.length.as_secs_f64(),
            self.attached_after.as_secs_f64()
        )?;
        writeln!(
            f,
            "cpu                {:.2} % of one core (the targets: {:.1} %)",
            share(window.cpu),
            share(window.targets_cpu)
        )?;
        writeln!(
            f,
            "rss                {:.1} MiB at first, {:.1} MiB at last, peak {:.1} MiB",
            mib(window.rss_first_kib),
            mib(window.rss_last_kib),
            mib(window.rss_peak_kib)
        )?;
        writeln!(f, "threads            {}", window.threads)?;
        writeln!(
            f,
            "descriptors        {}, {} of them sockets",
            window.descriptors, window.sockets
        )?;
        let mut latencies = self.store.latencies.clone();
        latencies.sort_unstable();
        let quantile = |share: f64| {
            let last = latencies.len().saturating_sub(1);
            let at = (last as f64 * share).round() as usize;
            latencies.get(at).map_or(f64::NAN, |ns| *ns as f64 / 1e6)
        };
        writeln!(
            f,
            "end to receipt     p50 {:.0} ms, p99 {:.0} ms, max {:.0} ms over {} spans",
            quantile(0.5),
            quantile(0.99),
            quantile(1.0),
            latencies.len()
        )?;
        writeln!(
            f,
            "received           {} requests, {} sum points",
            self.store.requests, self.store.metric_points
        )?;
        let sums = self.sums();
        writeln!(f, "{} processes in {} sessions:", self.targets.len(), sums.sessions)?;
        writeln!(
            f,
            "  collections sent {}, dropped by the target {}",
            sums.sent, sums.dropped
        )?;
        writeln!(
            f,
            "  spans            {}, {} more not exported because of the rate limit, {} twice, {} children",
            sums.spans, sums.unexported, sums.twice, sums.children
        )?;
        writeln!(
            f,
            "  counted          {} collections, {} events lost",
            sums.counted, sums.events_lost
        )?;
        writeln!(
            f,
            "  lost             {} spans, {} counts, in {} processes",
            (sums.sent as i64).saturating_sub(sums.spans as i64 + sums.unexported),
            (sums.sent as i64).saturating_sub(sums.counted),
            sums.short
        )?;
        let (took, status) = self.shutdown;
        writeln!(
            f,
            "ended              {:.2} s after SIGTERM, {status}",
            took.as_secs_f64()
        )
    }
}

impl Report<'_> {
    fn sums(&self) -> Sums {
        let mut sums = Sums::default();
        let nothing = ReceivedData::default();
        for target in &self.targets {
            let received = self.store.processes.get(&i64::from(target.pid)).unwrap_or(&nothing);
            let ([counted, unexported, lost], spans) = (received.counts(), spans_of(self.store, target));
            sums.sent += target.sent;
            sums.dropped += target.dropped;
            sums.sessions += target.sessions;
            sums.spans += spans;
            sums.counted += counted;
            sums.unexported += unexported;
            sums.twice += received.twice;
            sums.children += received.children;
            sums.events_lost += lost;
            let sent = target.sent as i64;
            sums.short += u64::from(spans as i64 + unexported < sent || counted < sent);
        }
        sums
    }
}
