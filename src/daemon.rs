//! The daemon: its parts put together, reload and shutdown.
//!
//! ```text
//! config ----> Options --+--> targets::supervise  one task per process --> pipeline --> export::otlp
//!                        +--> web                                             ^
//!  SIGHUP, file change --+    once in an interval: the metrics of each run ---+
//! ```
//!
//! Shutdown, within ten seconds in all: the sessions are stopped and drained, the metrics are sent a last time, the queues are
//! flushed, and what was lost is said. A second signal ends at once.

pub mod logging;
mod outlet;
pub mod own;
pub mod rules;
mod surroundings;
mod usage;

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use gc_telemetry::origin::Origin;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use sd_notify::NotifyState;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};
use tracing::{error, info, warn};

use crate::config::options::RuleSources;
use crate::daemon::outlet::Ways;
use crate::daemon::own::{Own, Watched};
use crate::daemon::rules::{RuleFiles, RuleWatch};
use crate::kubernetes::{self, Pods};
use crate::pipeline::{Pipeline, PipelineSettings};
use crate::targets::options::TargetOptions;
use crate::targets::{self, Readers};
use crate::web::{self, OwnMetrics as _, Site};
use delivery::alerts::{self, Notifier};
use delivery::clock::now_unix_ns;
use delivery::otlp::stats::Lost;
use delivery::otlp::{Exporter, Running, settings};

/// In how many parts the metrics of one interval are sent. Those of hundreds of processes at once are megabytes, twice while they are sent,
/// and memory that was taken once stays taken.
const SHARES: u32 = 8;

/// Bound on stopping and draining the sessions at shutdown.
const STOP_TARGETS: Duration = Duration::from_secs(4);

/// Bound on flushing the queues after that.
const FLUSH: Duration = Duration::from_secs(4);

/// Bound on open requests to the listener after that.
const CLOSE_WEB: Duration = Duration::from_secs(1);

/// How often rules are told what time it is.
pub(crate) const TICK: Duration = Duration::from_secs(1);

/// Everything that the daemon is told.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Which processes, and how.
    pub targets: TargetOptions,
    /// How collections are told.
    pub pipeline: PipelineSettings,
    /// Where they go.
    pub otlp: settings::Settings,
    /// Which rules judge them.
    pub rules: RuleSources,
    /// Who is told of alerts.
    pub alerts: alerts::settings::Settings,
    /// What Kubernetes is asked about the pods of processes.
    pub kubernetes: kubernetes::settings::Settings,
    /// Where `/metrics` and the API are; `None`: nowhere.
    pub listen: Option<SocketAddr>,
    /// Attributes of the daemon's own resource.
    pub own_resource: Vec<KeyValue>,
    /// Whether the daemon's own metrics go over OTLP (they are at `/metrics` in any case).
    pub export_own_metrics: bool,
}

/// Where new options come from.
pub trait Reload: Send {
    /// Completes when the options' file changed.
    fn changed(&mut self) -> impl Future<Output = ()> + Send;

    /// The options as they are now; `Err`: they are wrong, and that was said.
    fn load(&mut self) -> Result<Options, Refused>;
}

/// The new options are wrong, and that was said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused;

/// What leaves and what is shown: what `run`, `replay` and `demo` have in common.
#[derive(Debug)]
pub struct Station {
    /// The pipeline that is told.
    pub pipeline: Pipeline,
    /// The OTLP client.
    pub exporter: Exporter,
    /// Who is told of alerts.
    pub notifier: Notifier,
    rules: Arc<RuleFiles>,
    running: Running,
    own: Arc<Own>,
    pods: Arc<Pods>,
    pods_stats: Arc<kubernetes::Stats>,
    export_own_metrics: bool,
    ready: Arc<AtomicBool>,
    web: Option<(watch::Sender<bool>, JoinHandle<std::io::Result<()>>)>,
    address: Option<SocketAddr>,
}

impl Station {
    /// Begins to listen and to export.
    ///
    /// # Errors
    ///
    /// When the address is taken, or the exporter's settings cannot be used (a certificate that cannot be read).
    pub async fn open(options: &Options) -> anyhow::Result<Self> {
        // The address first: a second daemon by mistake does no harm before it notices.
        let listener = match options.listen {
            Some(address) => Some(web::listen(address).await?),
            None => None,
        };
        let address = listener.as_ref().and_then(|listener| listener.local_addr().ok());
        let (exporter, running) = Exporter::start(&options.otlp).context("cannot export over OTLP")?;
        let notifier = Notifier::start(&options.alerts)?;
        let ways = Ways {
            exporter: exporter.clone(),
            notifier: notifier.clone(),
        };
        let pipeline = Pipeline::new(options.pipeline.clone(), Arc::new(ways));
        let resource = Arc::new(Origin::new(options.own_resource.clone()));
        let rules = Arc::new(RuleFiles::default());
        rules.begin(&options.rules, &pipeline).await;
        let (pods, pods_stats) = (Arc::new(Pods::default()), Arc::new(kubernetes::Stats::default()));
        let own = Arc::new(Own::new(
            resource,
            now_unix_ns(),
            Watched {
                pipeline: pipeline.clone(),
                exporter: exporter.clone(),
                notifier: notifier.clone(),
                rules: Arc::clone(&rules),
                pods: Arc::clone(&pods),
                pods_stats: Arc::clone(&pods_stats),
            },
        ));
        let ready = Arc::new(AtomicBool::new(false));
        let web = listener.map(|listener| {
            let site = Site {
                pipeline: pipeline.clone(),
                own: Arc::clone(&own) as Arc<dyn web::OwnMetrics>,
                rules: Arc::clone(&rules) as Arc<dyn web::RuleInfo>,
                ready: Arc::clone(&ready),
            };
            let (close, mut closed) = watch::channel(false);
            let end = async move {
                let _closed_or_dropped = closed.wait_for(|closed| *closed).await;
            };
            (close, tokio::spawn(web::serve(listener, site, end)))
        });
        Ok(Self {
            pipeline,
            exporter,
            notifier,
            rules,
            running,
            own,
            pods,
            pods_stats,
            export_own_metrics: options.export_own_metrics,
            ready,
            web,
            address,
        })
    }

    /// Where it listens: the port that was chosen when port 0 was asked for.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// The daemon's own resource.
    pub fn own_resource(&self) -> Arc<Origin> {
        self.own.resource()
    }

    /// `/readyz` says so from now on.
    pub fn set_ready(&self, ready: bool) {
        self.ready.store(ready, Ordering::Release);
    }

    /// Sends the metrics of all runs and the daemon's own.
    pub fn export_metrics(&self, now_unix_ns: u64) {
        self.pipeline.export_metrics(now_unix_ns);
        self.export_own(now_unix_ns);
    }

    /// Sends those of one share of the runs of [`SHARES`], with the first one the daemon's own.
    fn export_share(&self, share: u32, now_unix_ns: u64) {
        self.pipeline.export_share(share, SHARES, now_unix_ns);
        if share == 0 {
            self.export_own(now_unix_ns);
        }
    }

    fn export_own(&self, now_unix_ns: u64) {
        if self.export_own_metrics {
            let (resource, metrics) = self.own.own_metrics(now_unix_ns);
            self.exporter.metrics(&resource, metrics);
        }
    }

    fn reconfigure(&mut self, options: &Options) -> anyhow::Result<()> {
        let alerts = self.notifier.settings();
        self.notifier
            .reconfigure(&options.alerts)
            .context("the receivers stay as they were")?;
        if let Err(error) = self.exporter.reconfigure(&options.otlp) {
            // They were usable a moment ago.
            let _as_before = self.notifier.reconfigure(&alerts);
            return Err(error).context("the receivers stay as they were");
        }
        self.pipeline.reconfigure(options.pipeline.clone());
        self.export_own_metrics = options.export_own_metrics;
        Ok(())
    }

    /// Sends what is queued, then closes. What could not be sent in time is given back, per signal.
    pub async fn close(self) -> Lost {
        self.set_ready(false);
        self.export_metrics(now_unix_ns());
        let (lost, untold) = tokio::join!(self.running.shutdown(FLUSH), self.notifier.shutdown(FLUSH));
        if untold > 0 {
            warn!("{untold} changes of alerts were not told");
        }
        if let Some((close, served)) = self.web {
            close.send_replace(true);
            // Whoever still holds a connection open is cut off.
            let _cut_off = tokio::time::timeout(CLOSE_WEB, served).await;
        }
        lost
    }
}

/// The signals that the daemon is told by. Made before anything else: until then SIGHUP would end the process.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    /// Listens from now on.
    ///
    /// # Errors
    ///
    /// When the system does not let it.
    pub fn new() -> anyhow::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?,
            interrupt: signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?,
            hangup: signal(SignalKind::hangup()).context("cannot listen for SIGHUP")?,
        })
    }
}

/// Runs until SIGTERM or SIGINT, then shuts down. What could not be sent was said. Sessions are read on `readers`, everything else
/// is done where this is.
pub async fn run(
    mut options: Options,
    mut station: Station,
    mut signals: Signals,
    mut reload: impl Reload,
    readers: Readers,
) {
    let (target_options, receiver) = watch::channel(Arc::new(options.targets.clone()));
    let (stop, stopped) = oneshot::channel::<()>();
    let stopped = async {
        // A sender that is gone means the same.
        let _said_or_gone = stopped.await;
    };
    let supervisor = tokio::spawn(targets::supervise(receiver, station.pipeline.clone(), readers, stopped));
    let pipeline = station.pipeline.clone();
    let measuring = tokio::spawn(surroundings::measure(pipeline.clone()));
    let asking = surroundings::ask(options.kubernetes.clone(), &station);
    let mut first_scan = pin!(pipeline.first_scan());
    let mut ready = false;

    let mut metrics = every(options.pipeline.metrics.interval / SHARES);
    let mut shares = (0..SHARES).cycle();
    let mut ticks = every(TICK);
    let mut rule_watch = RuleWatch::default();
    rule_watch.set(&options.rules);
    // What changed before the watching began.
    station.rules.reload(&options.rules, &station.pipeline).await;
    // Half of what the service supervisor allows, as sd_watchdog_enabled(3) recommends.
    let mut watchdog = sd_notify::watchdog_enabled().map(|limit| every(limit / 2));
    loop {
        let watchdog_is_due = async {
            match watchdog.as_mut() {
                Some(watchdog) => {
                    watchdog.tick().await;
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = signals.terminate.recv() => break,
            _ = signals.interrupt.recv() => break,
            () = &mut first_scan, if !ready => {
                ready = true;
                station.set_ready(true);
                service_says(&[NotifyState::Ready]);
            }
            _ = metrics.tick() => if let Some(share) = shares.next() {
                station.export_share(share, now_unix_ns());
            },
            _ = ticks.tick() => station.pipeline.tick(now_unix_ns()),
            () = watchdog_is_due => service_says(&[NotifyState::Watchdog]),
            () = rule_watch.changed() => station.rules.reload(&options.rules, &station.pipeline).await,
            () = reloading(&mut signals.hangup, &mut reload) => {
                if let Some(new) = take(&mut reload, &mut station, &options) {
                    if new.pipeline.metrics.interval != options.pipeline.metrics.interval {
                        metrics = every(new.pipeline.metrics.interval / SHARES);
                    }
                    target_options.send_replace(Arc::new(new.targets.clone()));
                    options = new;
                    rule_watch.set(&options.rules);
                }
                station.rules.reload(&options.rules, &station.pipeline).await;
            }
        }
    }

    info!("stopping: the sessions are ended, the queues flushed; a second signal ends at once");
    service_says(&[NotifyState::Stopping]);
    station.set_ready(false);
    measuring.abort();
    asking.abort();
    let orderly = async {
        drop(stop);
        match tokio::time::timeout(STOP_TARGETS, supervisor).await {
            Ok(Ok(unfinished)) => {
                for (pid, name, what) in unfinished.sessions {
                    warn!(pid, name, "its session did not end in order: {what}");
                }
            }
            Ok(Err(failed)) => error!("the supervisor of the targets failed: {failed}"),
            Err(_) => warn!("not every session ended within {} s", STOP_TARGETS.as_secs()),
        }
        station.close().await
    };
    tokio::select! {
        lost = orderly => say_lost(lost),
        _ = signals.terminate.recv() => warn!("ended at the second signal: what was queued is lost"),
        _ = signals.interrupt.recv() => warn!("ended at the second signal: what was queued is lost"),
    }
}

async fn reloading(hangup: &mut Signal, reload: &mut impl Reload) {
    tokio::select! {
        _ = hangup.recv() => {}
        () = reload.changed() => {}
    }
}

/// Takes the new options into force where they can be; `None`: the old ones stay.
fn take(reload: &mut impl Reload, station: &mut Station, old: &Options) -> Option<Options> {
    let refused = || station.own.reloads.refused.fetch_add(1, Ordering::Relaxed);
    let Ok(new) = reload.load() else {
        refused();
        warn!("the new configuration is wrong: the old one stays in force");
        return None;
    };
    if new == *old {
        return None;
    }
    service_says(&[NotifyState::Reloading]);
    if let Err(error) = station.reconfigure(&new) {
        station.own.reloads.refused.fetch_add(1, Ordering::Relaxed);
        warn!("the new configuration is not in force: {error:#}");
        service_says(&[NotifyState::Ready]);
        return None;
    }
    station.own.reloads.accepted.fetch_add(1, Ordering::Relaxed);
    info!("the new configuration is in force");
    service_says(&[NotifyState::Ready]);
    Some(new)
}

fn say_lost(lost: Lost) {
    if lost.is_nothing() {
        info!("stopped; nothing was lost");
    } else {
        let Lost { spans, points, records } = lost;
        warn!("stopped; not sent: {spans} spans, {points} data points, {records} log records");
    }
}

fn every(period: Duration) -> Interval {
    let mut interval = interval_at(Instant::now() + period, period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

/// Tells systemd, where it listens (sd_notify(3)).
fn service_says(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        warn!("cannot tell the service supervisor: {error}");
    }
}
