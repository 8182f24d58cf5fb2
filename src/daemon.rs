//! The daemon: assembles its parts, reloads the configuration, and shuts down.
//!
//! ```text
//! config ----> Options --+--> targets::supervise  one task per process --> pipeline --> delivery (OTLP, alerts)
//!                        +--> web                                             ^
//!  SIGHUP, file change --+    every interval: the metrics of each run --------+
//! ```
//!
//! The shutdown stops and drains the sessions, exports the metrics a last time, flushes the queues, and logs losses.
//! The steps of the shutdown share one deadline, also if the disk hangs ([`drain`]). A second signal ends the daemon
//! immediately.

mod bursts;
mod drain;
mod history_keeping;
mod incident_file;
mod incident_log;
mod liveness;
pub mod logging;
mod outlet;
pub mod own;
mod pod_events;
mod profile_keeping;
pub mod rules;
mod services;
mod stall;
mod state;
mod surroundings;
mod usage;
mod watcher;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Context as _;
use sd_notify::NotifyState;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinError;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};
use tracing::{error, info, warn};

use crate::daemon::drain::{Drain, Step};
use crate::daemon::rules::RuleWatch;
pub use crate::daemon::services::{ExportLosses, Services};
use crate::daemon::stall::Stalls;
use base::clock::now_unix_ns;
use config::options::Options;
use delivery::otlp::stats::LostItems;
use targets::{self, Readers, or_pending};
use web::PartAge;

/// Number of parts in which the metrics of one interval are exported. The metrics of hundreds of processes take
/// megabytes, and twice as much while they are sent. The allocator keeps memory that was used once, so smaller parts
/// keep the memory use of gcwatch low.
const SHARES: u32 = 8;

/// Interval at which the rules, the bursts and the stored state advance, and at which liveness is checked.
pub(crate) const TICK: Duration = Duration::from_secs(1);

/// The source of new options.
pub trait Reload: Send {
    /// Completes when the file with the options has changed.
    fn changed(&mut self) -> impl Future<Output = ()> + Send;

    /// Loads the options. Returns an error if the options are invalid or cannot be read in time; the errors have been
    /// logged.
    fn load(&mut self) -> impl Future<Output = Result<Options, OptionsError>> + Send;
}

/// Error returned if the new options are invalid or cannot be read in time. The errors have been logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionsError;

/// The signals that the daemon handles. This value must be created before all other parts, because SIGHUP ends a
/// process that has no handler for it.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    /// Installs the signal handlers.
    ///
    /// # Errors
    ///
    /// Returns an error if the system refuses a handler.
    pub fn new() -> anyhow::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate()).context("cannot handle SIGTERM")?,
            interrupt: signal(SignalKind::interrupt()).context("cannot handle Ctrl-C")?,
            hangup: signal(SignalKind::hangup()).context("cannot handle SIGHUP")?,
        })
    }

    /// Waits for a signal that ends the daemon. This method is cancel safe.
    pub async fn ended(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Runs until SIGTERM or SIGINT, then shuts down and logs unsent data. Sessions are read on `readers`; everything else
/// runs on the caller's runtime. Returns `false` if a part failed. In that case, the failure has been logged, and the
/// daemon has shut down in the same way.
#[expect(clippy::too_many_lines, reason = "one select over all events of the daemon")]
pub async fn run(
    mut options: Options,
    mut services: Services,
    mut signals: Signals,
    mut reload: impl Reload,
    readers: Readers,
) -> bool {
    let (target_options, receiver) = watch::channel(Arc::new(options.targets.clone()));
    services.bursts.set_guard(readers.guard());
    let (stop, stopped) = oneshot::channel::<()>();
    let stopped = async {
        // A dropped sender also means that the sessions must stop.
        let _stopped_or_dropped = stopped.await;
    };
    let mut supervisor = tokio::spawn(targets::supervise(
        receiver,
        services.pipeline.clone(),
        readers.keeping(services.black_boxes()),
        stopped,
    ));
    let pipeline = services.pipeline.clone();
    let mut measuring = tokio::spawn(surroundings::measure(pipeline.clone()));
    let mut following = surroundings::follow_pods(options.kubernetes.clone(), &services);
    let mut first_scan = pin!(pipeline.first_scan());
    let mut ready = false;
    let (mut late, mut followed) = (false, false);

    let mut metrics = every(options.pipeline.metrics.interval / SHARES);
    let mut shares = (0..SHARES).cycle();
    let mut ticks = every(TICK);
    let mut stalls = Stalls::new(TICK, Instant::now());
    let mut rule_watch = RuleWatch::default();
    rule_watch.set(&options.rules).await;
    // Read the rules again, to include changes from before the watch started.
    services
        .own
        .sources
        .rules
        .reload(&options.rules, &services.pipeline)
        .await;
    // Notify the service supervisor at half its timeout, as sd_watchdog_enabled(3) recommends.
    let mut watchdog = sd_notify::watchdog_enabled().map(|limit| every(limit / 2));
    let failed = loop {
        let watchdog_is_due = or_pending(watchdog.as_mut().map(Interval::tick));
        tokio::select! {
            _ = signals.terminate.recv() => break None,
            _ = signals.interrupt.recv() => break None,
            ended = &mut supervisor => break Some(PartError::new("the supervisor of the targets", ended.map(drop))),
            ended = &mut measuring => break Some(PartError::new("the task that reads the figures of containers", ended)),
            ended = &mut following, if !followed => {
                // This task completes if Kubernetes is disabled, so its completion is not a failure.
                followed = true;
                if ended.is_err() {
                    break Some(PartError::new("the task that follows the pods", ended));
                }
            }
            () = &mut first_scan, if !ready => {
                ready = true;
                services.set_ready(true);
                notify_service(&[NotifyState::Ready]);
            }
            _ = metrics.tick() => if let Some(share) = shares.next() {
                services.export_share(share, SHARES, now_unix_ns());
            },
            _ = ticks.tick() => {
                services.tick(&mut stalls);
                if let Some(part) = services.failed_part() {
                    break Some(PartError { part, why: "its task ended; the log has the reason".to_owned() });
                }
                late = say_late(&services, late);
            }
            // Notify only if no part is late, so that the service supervisor notices a part that hangs.
            _ = watchdog_is_due => if !late {
                notify_service(&[NotifyState::Watchdog]);
            },
            () = rule_watch.changed() => tokio::select! {
                () = services.own.sources.rules.reload(&options.rules, &services.pipeline) => {
                    stalls.busy_until(Instant::now());
                }
                _ = signals.terminate.recv() => break None,
                _ = signals.interrupt.recv() => break None,
            },
            () = reload_requested(&mut signals.hangup, &mut reload) => {
                let reloading = async {
                    let new = apply(&mut reload, &mut services, &options).await;
                    if let Some(new) = &new {
                        rule_watch.set(&new.rules).await;
                    }
                    let rules = new.as_ref().map_or(&options.rules, |new| &new.rules);
                    services.own.sources.rules.reload(rules, &services.pipeline).await;
                    new
                };
                // Reading the files can take time, so handle signals at the same time.
                let new = tokio::select! {
                    new = reloading => new,
                    _ = signals.terminate.recv() => break None,
                    _ = signals.interrupt.recv() => break None,
                };
                stalls.busy_until(Instant::now());
                if let Some(new) = new {
                    if new.pipeline.metrics.interval != options.pipeline.metrics.interval {
                        metrics = every(new.pipeline.metrics.interval / SHARES);
                    }
                    target_options.send_replace(Arc::new(new.targets.clone()));
                    options = new;
                }
            }
        }
    };

    if let Some(PartError { part, why }) = &failed {
        error!("{part} failed: {why}; exiting with code 1 so that the service supervisor restarts gcwatch");
    }
    info!("stopping: closing sessions and flushing queues; send the signal again to exit immediately");
    notify_service(&[NotifyState::Stopping]);
    services.set_ready(false);
    measuring.abort();
    following.abort();
    let drain = Drain::begin(Instant::now());
    let stop_sessions = drain.limit(Step::Sessions, Instant::now());
    let ending_bursts = services.end_bursts(stop_sessions);
    let orderly = async {
        drop(stop);
        if supervisor.is_finished() {
            // The supervisor failed, and its sessions end in the background.
            let _late = ending_bursts.await;
            return services.close_before(drain).await;
        }
        let (_late, stopped) = tokio::join!(ending_bursts, tokio::time::timeout(stop_sessions, supervisor));
        match stopped {
            Ok(Ok(unfinished)) => {
                for (pid, name, what) in unfinished.sessions {
                    warn!(pid, name, "the session did not end cleanly: {what}");
                }
            }
            Ok(Err(failed)) => error!("the supervisor of the targets failed: {failed}"),
            Err(_) => warn!("not every session ended within {} s", stop_sessions.as_secs()),
        }
        services.close_before(drain).await
    };
    tokio::select! {
        ended = orderly => log_end(ended),
        _ = signals.terminate.recv() => warn!("exiting after a second signal: queued data is lost"),
        _ = signals.interrupt.recv() => warn!("exiting after a second signal: queued data is lost"),
    }
    failed.is_none()
}

/// Error returned if a part of the daemon has ended although it must run until shutdown.
struct PartError {
    part: &'static str,
    why: String,
}

impl PartError {
    fn new(part: &'static str, ended: Result<(), JoinError>) -> Self {
        let why = match ended {
            Ok(()) => "the task ended by itself".to_owned(),
            Err(error) => error.to_string(),
        };
        Self { part, why }
    }
}

/// Returns whether a part is late. Logs one late part when parts become late, and logs when all parts are alive again.
fn say_late(services: &Services, were_late: bool) -> bool {
    let mut late = services.live_parts();
    late.retain(|part| part.is_late);
    match late.first() {
        Some(PartAge { name, age, .. }) if !were_late => error!(
            "{name} has not been alive for {} s: /livez answers 503 until it is",
            age.as_secs()
        ),
        None if were_late => info!("all parts are alive again"),
        _ => {}
    }
    !late.is_empty()
}

async fn reload_requested(hangup: &mut Signal, reload: &mut impl Reload) {
    tokio::select! {
        _ = hangup.recv() => {}
        () = reload.changed() => {}
    }
}

/// Applies new options. Returns `None` if the previous options stay in force.
async fn apply(reload: &mut impl Reload, services: &mut Services, old: &Options) -> Option<Options> {
    let Ok(new) = reload.load().await else {
        services.own.reloads.refused.fetch_add(1, Ordering::Relaxed);
        warn!("the new configuration is invalid: the previous one stays in force");
        return None;
    };
    if new == *old {
        return None;
    }
    notify_service(&[NotifyState::Reloading]);
    if let Err(error) = services.reconfigure(&new) {
        services.own.reloads.refused.fetch_add(1, Ordering::Relaxed);
        warn!("cannot apply the new configuration: {error:#}");
        notify_service(&[NotifyState::Ready]);
        return None;
    }
    services.own.reloads.accepted.fetch_add(1, Ordering::Relaxed);
    info!("the new configuration is in force");
    notify_service(&[NotifyState::Ready]);
    Some(new)
}

/// Logs the items lost during the shutdown, the items lost earlier, and the items that wait on disk.
fn log_end(ExportLosses { lost, before, kept }: ExportLosses) {
    let items = |lost: LostItems| {
        let LostItems { spans, points, records } = lost;
        format!("{spans} spans, {points} data points, {records} log records")
    };
    let mut text = if lost.is_nothing() {
        "stopped; nothing lost".to_owned()
    } else {
        format!("stopped; lost {} at the end", items(lost))
    };
    if !kept.is_nothing() {
        text += &format!("; {} wait on disk", items(kept));
    }
    if !before.is_nothing() {
        text += &format!("; {} were dropped or rejected since the start", items(before));
    }
    if lost.is_nothing() && before.is_nothing() {
        info!("{text}");
    } else {
        warn!("{text}");
    }
}

fn every(period: Duration) -> Interval {
    let mut interval = interval_at(Instant::now() + period, period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

/// Notifies systemd, if it supervises this process (sd_notify(3)).
fn notify_service(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        warn!("cannot notify the service supervisor: {error}");
    }
}
