//! Liveness of the daemon's parts, as reported by `/livez` and to the watchdog of the service supervisor.
//!
//! | Part | Reported by | How |
//! |---|---|---|
//! | reading | the thread that reads all sessions | a task on that thread, every second |
//! | supervisor | the task that finds processes and attaches | in its loop, every second |
//! | exporter | the tasks that send spans, metrics and logs | each task, every second, also while it sends |
//!
//! The same thread answers `/livez` and runs the last two parts. If this thread hangs, there is no answer at all, which
//! a probe treats as a failure. A task that panics ends the daemon, which logs the reason.

use std::time::Duration;

use tokio::time::Instant;

use delivery::otlp::Exporter;
use targets::Heartbeats;
use web::PartAge;

/// Age after which a part is late: ten times the expected interval, because the machine can be busy.
const LATE: Duration = Duration::from_secs(10);

/// Returns each part with the time since its last report.
pub(crate) fn parts(alive: &Heartbeats, exporter: &Exporter, now: Instant) -> Vec<PartAge> {
    let [reading, supervisor] = alive.ages(now);
    [reading, supervisor, ("exporter", exporter.idle_for(now))]
        .into_iter()
        .map(|(name, age)| PartAge {
            name,
            age,
            is_late: age > LATE,
        })
        .collect()
}
