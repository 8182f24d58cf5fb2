//! Runs one long outage under full load, after which the receiver is available again while the load continues. Measures
//! the size of the queue on disk, its cost, and the rate at which it is sent.

use std::io::Write as _;
use std::time::{Duration, Instant};

use anyhow::ensure;

use super::{SAMPLE, Soak, account};
use crate::place::{ended, log_tail};
use crate::receiver::Mode;
use crate::{Arguments, proc};

/// Time for which the receiver is available first: a signal that the receiver has never accepted would wait only in
/// memory.
const BEFORE: Duration = Duration::from_secs(15);
/// Maximum time for a backlog to drain, as a share of the outage. A drain of less than 60 s is always accepted.
const MAX_DRAIN: f64 = 0.5;
/// Minimum factor by which a backlog is sent faster than it was produced.
const TIMES: f64 = 5.0;

/// Runs the outage.
///
/// # Errors
///
/// Returns an error if a collection is missing or arrived twice, draining takes too long, or the daemon exits.
pub(crate) fn run(arguments: &Arguments, minutes: f64) -> anyhow::Result<()> {
    let folder = tempfile::Builder::new().prefix("gcwoutage").tempdir()?;
    println!("{}", proc::machine());
    println!(
        "{} processes, {} collections per second each, no receiver for {minutes} minutes",
        arguments.targets, arguments.rate
    );
    let mut soak = Soak::start(arguments, &folder.path().join("outage"))?;
    soak.pass(BEFORE)?;
    soak.receiver.become_(Mode::Refusing)?;
    let began = Instant::now();
    soak.pass(Duration::from_secs_f64(minutes * 60.0))?;
    let waiting = account::bytes_below(soak.place.state.as_deref());
    println!(
        "\n  queue on disk    {:.1} MiB when the receiver was available again",
        mib(waiting)
    );
    let away = began.elapsed();
    soak.receiver.become_(Mode::Up)?;
    let (noticed, drained, most) = soak.drain(away)?;
    let backlog = away.as_secs_f64() / drained.as_secs_f64();
    println!("  noticed after    {:.1} s", noticed.as_secs_f64());
    println!(
        "  drained in       {:.1} s under load: {backlog:.1} times the production rate; at most {most:.0} collections per second",
        drained.as_secs_f64()
    );
    let fine = soak.finish()?.print("one outage", 0);
    ensure!(fine, "a requirement is not met: see above");
    ensure!(
        backlog >= TIMES,
        "the backlog was sent at {backlog:.1} times the production rate, less than {TIMES}"
    );
    Ok(())
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

impl Soak<'_> {
    /// Runs the load for the given time.
    fn pass(&mut self, length: Duration) -> anyhow::Result<()> {
        let began = Instant::now();
        while began.elapsed() < length {
            std::thread::sleep(SAMPLE.min(length.saturating_sub(began.elapsed())));
            self.sample(began)?;
            let waiting = account::bytes_below(self.place.state.as_deref());
            print!(" {:.1} MiB on disk ", mib(waiting));
            std::io::stdout().flush()?;
            ended(&mut self.daemon)?;
        }
        Ok(())
    }

    /// Waits for the backlog after the receiver is available again. Returns the time until the first span, the time
    /// from then until only new data arrives, and the maximum number of collections in a second.
    fn drain(&mut self, away: Duration) -> anyhow::Result<(Duration, Duration, f64)> {
        const LOOK: Duration = Duration::from_secs(1);
        let load = self.arguments.targets as f64 * self.arguments.rate;
        let (began, before) = (Instant::now(), self.receiver.store().spans);
        let (mut noticed, mut calm, mut most) = (None, None, 0.0_f64);
        let (mut last, mut last_at) = (before, began);
        loop {
            std::thread::sleep(if noticed.is_some() { LOOK } else { LOOK / 20 });
            let arrived = self.receiver.store().spans;
            let Some(noticed) = noticed else {
                noticed = (arrived > before).then(Instant::now);
                (last, last_at) = (arrived, Instant::now());
                continue;
            };
            let rate = (arrived - last) as f64 / last_at.elapsed().as_secs_f64();
            (last, last_at) = (arrived, Instant::now());
            most = most.max(rate);
            // The backlog has drained if only new data has arrived for some seconds.
            let since: &mut Instant = calm.get_or_insert(last_at);
            if rate > load * 1.5 {
                *since = last_at;
            } else if since.elapsed() > LOOK * 8 {
                return Ok((noticed - began, *since - noticed, most));
            }
            ensure!(
                began.elapsed() < away.mul_f64(MAX_DRAIN).max(Duration::from_secs(60)),
                "the backlog has not arrived. {}",
                log_tail(&self.daemon)
            );
        }
    }
}
