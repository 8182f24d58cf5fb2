//! Runs the load for an hour with all faults that can occur: a receiver that is temporarily unavailable, processes that
//! start and exit, and a daemon that is killed. Counts are exact and are compared with the counts of the processes.
//!
//! ```text
//! steady half   the receiver refuses, answers UNAVAILABLE, accepts without an answer; processes exit and start
//!               -> every collection arrives, and none twice except after a lost answer
//! killed half   the same, and the daemon is killed (SIGKILL) repeatedly, with its directory
//!               -> only collections around a kill are missing, one or two seconds per kill
//! ```
//!
//! The module `outage` instead runs one outage of the given number of minutes. Afterwards, the receiver is available
//! again while the load continues.
//!
//! Memory is evaluated by its slope from the 31st minute of a half, when all data that is kept for 30 minutes has
//! reached its full size. Such a measurement needs a run of 90 minutes or more, or an outage of one hour. Descriptors
//! are evaluated by their number at the start and the end, and the directory by its size after everything has arrived.

mod account;
pub(crate) mod outage;

use std::collections::HashSet;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use rustix::process::Signal;

use self::account::{Account, Slope};
use crate::place::{Daemon, Place, TIMEOUT, ended, log_tail, stop};
use crate::receiver::{Mode, Receiver};
use crate::targets::{self, SentTotals, Target};
use crate::{Arguments, proc};

/// Duration of each behaviour of the receiver.
const BEHAVIOUR: Duration = Duration::from_secs(12);
/// Behaviours of the receiver, repeated in this order.
const BEHAVIOURS: [Mode; 6] = [
    Mode::Up,
    Mode::Refusing,
    Mode::Up,
    Mode::Unavailable,
    Mode::Up,
    Mode::Deaf,
];
/// Interval between two replacements of a process.
const CHURN: Duration = Duration::from_secs(2);
/// Interval between two samples of the daemon's memory.
const SAMPLE: Duration = Duration::from_secs(5);
/// Maximum time for the remaining data to arrive after the load has stopped: the receiver is available, and the queue
/// drains.
const DRAIN: Duration = Duration::from_secs(180);

/// Runs both halves.
///
/// # Errors
///
/// Returns an error if data is missing that no kill explains, data arrived twice, the daemon exits or keeps
/// descriptors, or a process fails.
pub(crate) fn run(arguments: &Arguments, minutes: f64, kills: u64) -> anyhow::Result<()> {
    let folder = tempfile::Builder::new().prefix("gcwsoak").tempdir()?;
    let half = Duration::from_secs_f64((minutes * 30.0).max(30.0));
    println!("{}", proc::machine());
    println!(
        "{} processes, {} collections per second each, two halves of {:.0} s",
        arguments.targets,
        arguments.rate,
        half.as_secs_f64()
    );
    let mut soak = Soak::start(arguments, &folder.path().join("steady"))?;
    soak.run(half, None)?;
    let mut fine = soak.finish()?.print("steady half, no kill", 0);
    if kills > 0 {
        let mut soak = Soak::start(arguments, &folder.path().join("killed"))?;
        soak.run(half, Some(half / u32::try_from(kills + 1).unwrap_or(u32::MAX)))?;
        fine &= soak.finish()?.print("killed half", kills);
    }
    ensure!(fine, "a requirement is not met: see above");
    Ok(())
}

/// One half.
struct Soak<'a> {
    arguments: &'a Arguments,
    place: Place,
    targets: Vec<Target>,
    /// Pids of all processes so far.
    had: HashSet<u32>,
    /// Totals of processes that have exited.
    ended: Vec<SentTotals>,
    receiver: Receiver,
    daemon: Daemon,
    kills: Vec<Instant>,
    memory: Slope,
    /// Number of descriptors at the start, and the maximum.
    descriptors: (usize, usize),
}

impl<'a> Soak<'a> {
    fn start(arguments: &'a Arguments, folder: &Path) -> anyhow::Result<Self> {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let receiver = Receiver::start()?;
        let place = Place {
            folder: folder.to_owned(),
            receiver: receiver.address,
            rules: !arguments.no_rules,
            state: Some(folder.join("state")),
        };
        let mut had = HashSet::new();
        let mut targets = (0..arguments.targets)
            .map(|_| target(arguments, folder, &mut had))
            .collect::<anyhow::Result<Vec<_>>>()?;
        targets::await_all(&mut targets, "ready", TIMEOUT)?;
        let daemon = place.start(&arguments.gcwatch);
        targets::await_all(&mut targets, "attached", TIMEOUT).with_context(|| log_tail(&daemon))?;
        let descriptors = proc::descriptors(daemon.pid()).context("gcwatch has ended")?.0;
        Ok(Self {
            arguments,
            place,
            targets,
            had,
            ended: Vec::new(),
            receiver,
            daemon,
            kills: Vec::new(),
            memory: Slope::default(),
            descriptors: (descriptors, descriptors),
        })
    }

    fn run(&mut self, length: Duration, kill_every: Option<Duration>) -> anyhow::Result<()> {
        let began = Instant::now();
        let (mut behaviour, mut churn, mut sample) = (0, began + CHURN, began + SAMPLE);
        let mut kill = kill_every.map(|every| began + every);
        while began.elapsed() < length {
            std::thread::sleep(Duration::from_millis(50));
            let now = Instant::now();
            let place = (began.elapsed().as_secs() / BEHAVIOUR.as_secs()) as usize;
            if place != behaviour {
                behaviour = place;
                let mode = BEHAVIOURS.get(place % BEHAVIOURS.len()).copied().unwrap_or(Mode::Up);
                self.receiver.become_(mode)?;
            }
            if now >= churn {
                churn = now + CHURN;
                self.churn()?;
            }
            if now >= sample {
                sample = now + SAMPLE;
                self.sample(began)?;
            }
            if let (Some(at), Some(every)) = (kill, kill_every)
                && now >= at
            {
                kill = Some(at + every);
                self.kill();
            }
            ended(&mut self.daemon)?;
        }
        Ok(())
    }

    /// Replaces the oldest process by a new one.
    fn churn(&mut self) -> anyhow::Result<()> {
        let mut oldest = self.targets.remove(0);
        oldest.quiet()?;
        self.ended.push(oldest.totals(TIMEOUT)?);
        drop(oldest);
        let mut next = target(self.arguments, &self.place.folder, &mut self.had)?;
        targets::await_all(std::slice::from_mut(&mut next), "ready", TIMEOUT)?;
        self.targets.push(next);
        Ok(())
    }

    fn sample(&mut self, began: Instant) -> anyhow::Result<()> {
        let pid = self.daemon.pid();
        let rss = proc::status(pid, "VmRSS").context("gcwatch has ended")?;
        self.memory.add(began.elapsed(), rss);
        let (open, _) = proc::descriptors(pid).unwrap_or_default();
        self.descriptors.1 = self.descriptors.1.max(open);
        print!(
            "\r{:6.0} s  {:.1} MiB  {open} descriptors  {} kills ",
            began.elapsed().as_secs_f64(),
            rss as f64 / 1024.0,
            self.kills.len()
        );
        std::io::stdout().flush()?;
        Ok(())
    }

    fn kill(&mut self) {
        self.kills.push(Instant::now());
        self.receiver.store().interrupted();
        self.daemon.signal(Signal::KILL);
        self.daemon.await_end();
        self.daemon = self.place.start(&self.arguments.gcwatch);
    }

    /// Stops the load and waits for the remaining data.
    fn finish(mut self) -> anyhow::Result<Account> {
        println!();
        self.receiver.become_(Mode::Up)?;
        for target in &mut self.targets {
            target.quiet()?;
        }
        for target in &mut self.targets {
            self.ended.push(target.totals(TIMEOUT)?);
        }
        let until = Instant::now() + DRAIN;
        let mut last = (0, Instant::now());
        // Wait until no more data arrives: in the killed half, some data never arrives.
        while Instant::now() < until && last.1.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(200));
            let arrived = self.receiver.store().spans;
            if arrived != last.0 {
                last = (arrived, Instant::now());
            }
            if self.kills.is_empty() && arrived >= self.ended.iter().map(|sent| sent.sent).sum() {
                break;
            }
        }
        let waiting = account::bytes_below(self.place.state.as_deref());
        let (open, _) = proc::descriptors(self.daemon.pid()).unwrap_or_default();
        let (took, status) = stop(&mut self.daemon)?;
        ensure!(
            status.success(),
            "gcwatch ended with {status}. {}",
            log_tail(&self.daemon)
        );
        Ok(Account::new(
            self.arguments.rate,
            &self.ended,
            &self.receiver.store(),
            self.memory,
            (self.descriptors.0, self.descriptors.1, open),
            waiting,
            took,
        ))
    }
}

/// Starts a process with a pid that no earlier process had: received data is identified by pid, and a busy host assigns
/// all pids within minutes.
fn target(arguments: &Arguments, folder: &Path, had: &mut HashSet<u32>) -> anyhow::Result<Target> {
    loop {
        let target = Target::start(folder, arguments)?;
        if had.insert(target.pid()) {
            return Ok(target);
        }
    }
}
