//! Which parts of the daemon are alive: what `/livez` and the service supervisor's watchdog say.
//!
//! | Part | Who says so | How |
//! |---|---|---|
//! | reading | the thread that reads all sessions | a task on it, every second |
//! | supervisor | the task that finds and attaches | in its loop, every second |
//! | exporter | the tasks that send spans, metrics and logs | each of them, every second, also while it sends |
//!
//! `/livez` is answered on the same thread as the last two: when that hangs, there is no answer at all, which a probe
//! takes for the same. A task that panics is not waited for: the daemon ends, with the reason.

use std::time::Duration;

use tokio::time::Instant;

use delivery::otlp::Exporter;
use targets::Alive;
use web::PartAge;

/// A part that was not alive for so long is late. Ten times what it should be: the machine may be busy.
const LATE: Duration = Duration::from_secs(10);

/// Each part, and how long ago it was alive.
pub(crate) fn parts(alive: &Alive, exporter: &Exporter, now: Instant) -> Vec<PartAge> {
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
