//! The parts that the commands share: pipeline, delivery, rules, own metrics, listener.

mod kept;

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use gc_telemetry::origin::Origin;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tracing::{info, warn};

use self::kept::Kept;
use crate::daemon::bursts::Bursts;
use crate::daemon::history_keeping::HistoryKeeping;
use crate::daemon::incident_file::IncidentFile;
use crate::daemon::outlet::DeliveryOutlet;
use crate::daemon::own::{Own, RunParts, Sources};
use crate::daemon::rules::RuleFiles;
use crate::daemon::stall::Stalls;
use crate::daemon::state::StateDirectory;
use crate::pipeline::{OWN_START, Pipeline, Records};
use base::clock::now_unix_ns;
use base::run_key::RunKey;
use config::options::Options;
use delivery::alerts::Notifier;
use delivery::alerts::settings::AlertSettings;
use delivery::otlp::stats::{Lost, SignalStats};
use delivery::otlp::{Exporter, Note, Running};
use evidence::black_box::BlackBox;
use evidence::store::Store;
use gc_telemetry::definition::resource::HOST_NAME;
use kubernetes::Events;
use targets::BlackBoxes;
use targets::host::{clocks, now};
use web::{PartAge, Server, Site, WatcherInfo as _};

/// Limit on flushing the queues at shutdown.
const FLUSH: Duration = Duration::from_secs(4);

/// gcwatch is behind from then on: streams are read several times a second.
const BEHIND: Duration = Duration::from_secs(5);

/// Limit on completing the recordings of incidents.
const COMPLETE: Duration = Duration::from_secs(1);

/// Limit on open requests to the listener after that.
const CLOSE_WEB: Duration = Duration::from_secs(1);

/// The pipeline with everything that exports and shows its data: what `run`, `replay` and `demo` have in common.
#[derive(Debug)]
pub struct Services {
    /// Observes processes.
    pub pipeline: Pipeline,
    /// The OTLP client.
    pub exporter: Exporter,
    /// Sends alerts.
    pub notifier: Notifier,
    running: Running,
    pub(super) own: Arc<Own>,
    export_own_metrics: bool,
    ready: Arc<AtomicBool>,
    web: Option<(watch::Sender<bool>, JoinHandle<io::Result<()>>)>,
    address: Option<SocketAddr>,
    /// What outlives this daemon; nobody else uses the directory meanwhile.
    state: Option<(StateDirectory, IncidentFile)>,
    history: Arc<HistoryKeeping>,
    /// Records severe incidents.
    black_box: Option<BlackBox>,
    /// Keeps evidence outside of the host.
    store: Option<Store>,
    /// The bursts that incidents ask for.
    pub(super) bursts: Arc<Bursts>,
    /// What the opening found, for the log, which begins later.
    notes: Vec<Note>,
}

/// What became of what was given for export.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ended {
    /// Lost because the daemon ended.
    pub lost: Lost,
    /// Dropped, or rejected by a receiver, before that.
    pub before: Lost,
    /// On disk, for the next daemon.
    pub kept: Lost,
}

impl Services {
    /// Begins to listen and to export.
    ///
    /// # Errors
    ///
    /// When the address is in use, or a receiver's settings cannot be used (a certificate that cannot be read).
    pub async fn open(options: &Options) -> anyhow::Result<Self> {
        // The address first: a second daemon that was started by mistake stops here.
        let listener = match options.listen {
            Some(address) => {
                let listener = web::listen(address).await?;
                Some(Server::new(listener, &options.web).context("cannot serve TLS")?)
            }
            None => None,
        };
        let address = listener.as_ref().and_then(Server::address);
        let mut otlp = options.otlp.clone();
        let mut notes = Vec::new();
        let kept = match &options.state_directory {
            Some(path) => Kept::open(path, options, &mut notes).await,
            None => Kept::default(),
        };
        let Kept {
            state,
            marks,
            left,
            black_box,
            history,
            store,
        } = kept;
        if state.is_none() {
            otlp.disk = None;
        }
        let (exporter, running) = Exporter::start(&otlp).context("cannot export over OTLP")?;
        notes.extend(exporter.disk_notes());
        let notifier = Notifier::start(&with_store(&options.alerts, store.as_ref()))?;
        let host = gc_telemetry::value::text(&options.own_resource, HOST_NAME.name).unwrap_or_default();
        let events = options
            .kubernetes
            .events
            .then(|| Events::start(options.kubernetes.node.clone().unwrap_or(host)));
        let outlet = DeliveryOutlet {
            exporter: exporter.clone(),
            notifier: notifier.clone(),
            store: store.clone(),
            events: events.clone(),
        };
        let pipeline = Pipeline::new(options.pipeline.clone(), Arc::new(outlet));
        if let Some(history) = history {
            pipeline.set_history(history);
        }
        if let Some(store) = &store {
            pipeline.set_store(store.clone());
        }
        if let (Some(black_box), Some(store)) = (&black_box, &store) {
            black_box.files().set_store(store.clone());
        }
        if let Some(black_box) = &black_box {
            pipeline.set_black_box(black_box.clone());
        }
        let resource = Arc::new(Origin::new(options.own_resource.clone()));
        let rules = Arc::new(RuleFiles::default());
        rules.begin(&options.rules, &pipeline).await;
        if let (Some((_, incidents)), Some(left)) = (&state, left) {
            notes.extend(incidents.resume(left, &pipeline, &notifier, now()));
        }
        let own = Arc::new(Own::new(
            resource,
            now_unix_ns(),
            Sources {
                pipeline: pipeline.clone(),
                exporter: exporter.clone(),
                notifier: notifier.clone(),
                rules: Arc::clone(&rules),
                pods: Arc::default(),
                pods_stats: Arc::default(),
                events,
            },
        ));
        let own_run = RunKey {
            pid: std::process::id(),
            start_time: OWN_START,
        };
        pipeline.set_own(own_run, own.resource());
        let bursts = Arc::new(Bursts::new(Arc::clone(&own.bursts), marks));
        bursts.configure(options.bursts, options.census, options.targets.lease_folder.clone());
        let ready = Arc::new(AtomicBool::new(false));
        let web = listener.map(|listener| {
            let mut site = Site::new(
                Arc::new(Records::of(&pipeline)),
                Arc::clone(&own) as Arc<dyn web::WatcherInfo>,
                Arc::clone(&ready),
            );
            site.trace_url = options.web.trace_url.as_deref().map(Arc::from);
            site.grafana_url = options.web.grafana_url.as_deref().map(Arc::from);
            let (close, mut closed) = watch::channel(false);
            let end = async move {
                let _closed_or_dropped = closed.wait_for(|closed| *closed).await;
            };
            (close, tokio::spawn(listener.serve(site, end)))
        });
        Ok(Self {
            pipeline,
            exporter,
            notifier,
            running,
            own,
            export_own_metrics: options.export_own_metrics,
            ready,
            web,
            address,
            state,
            black_box,
            store,
            bursts,
            history: Arc::default(),
            notes,
        })
    }

    /// Logs what the opening found.
    pub fn log_notes(&self) {
        for Note { is_warning, text } in &self.notes {
            if *is_warning {
                warn!("{text}");
            } else {
                info!("{text}");
            }
        }
    }

    /// The address of the listener, with the port that the system chose for port 0.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Where the last seconds of each stream are kept.
    pub(super) fn black_boxes(&self) -> Option<Arc<BlackBoxes>> {
        self.black_box.as_ref().map(BlackBox::boxes)
    }

    /// Where severe incidents are recorded; `None`: they are not.
    pub fn black_box_folder(&self) -> Option<&Path> {
        self.black_box.as_ref().map(|black_box| black_box.files().folder())
    }

    /// The daemon's own resource.
    pub fn own_resource(&self) -> Arc<Origin> {
        self.own.resource()
    }

    /// What is reported of the parts that only `run` has.
    pub fn set_run_parts(&self, parts: RunParts) {
        // They are set once.
        let _set_already = self.own.run.set(parts);
    }

    /// A second passed: the rules learn it, and whether gcwatch itself stalled.
    pub(super) fn tick(&self, stalls: &mut Stalls) {
        let (now, clocks) = (Instant::now(), clocks());
        let alive = self.own.run.get().map(|run| &run.alive);
        if let Some(length) = stalls.tick(now, alive.and_then(|alive| alive.take_silence())) {
            self.own.stalls.add(length);
            self.pipeline.stalled(length, clocks.moment());
            warn!(
                "gcwatch itself stalled for {:.1} s: it was stopped or had no CPU; nothing is said of processes from \
                 that time",
                length.as_secs_f64()
            );
        }
        // Without one, a command that reads by itself.
        let behind = alive.map_or(Duration::ZERO, |alive| alive.behind(now));
        self.pipeline.tick(clocks, behind);
        self.bursts.tick(
            &self.pipeline,
            &self.exporter,
            behind > BEHIND,
            std::time::Instant::now(),
        );
        if let Some((_, incidents)) = &self.state {
            incidents.tick(&self.pipeline, &self.notifier);
            self.history.tick(&self.pipeline, now);
        }
    }

    /// Ends the burst that runs, so that its process is as it was.
    pub(super) fn end_bursts(&self, within: Duration) -> JoinHandle<()> {
        let bursts = Arc::clone(&self.bursts);
        tokio::task::spawn_blocking(move || bursts.stop(within))
    }

    /// Each part that must be alive, and how long ago it was.
    pub(super) fn live_parts(&self) -> Vec<PartAge> {
        self.own.parts()
    }

    /// A part whose task has ended, though it must not.
    pub(super) fn failed_part(&self) -> Option<&'static str> {
        if self.running.has_failed() {
            Some("the exporter")
        } else if self.notifier.has_failed() {
            Some("the notifier")
        } else if self.web.as_ref().is_some_and(|(_, served)| served.is_finished()) {
            Some("the listener")
        } else {
            None
        }
    }

    /// What `/readyz` reports from now on.
    pub fn set_ready(&self, ready: bool) {
        self.ready.store(ready, Ordering::Release);
    }

    /// Exports the metrics of all runs and the daemon's own.
    pub fn export_metrics(&self, now_unix_ns: u64) {
        self.pipeline.export_metrics(now_unix_ns);
        self.export_own(now_unix_ns);
    }

    /// Exports the metrics of one of `shares` parts of the runs, with the first part the daemon's own.
    pub(super) fn export_share(&self, share: u32, shares: u32, now_unix_ns: u64) {
        self.pipeline.export_share(share, shares, now_unix_ns);
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

    /// Applies new options; where one cannot be used, nothing changes.
    pub(super) fn reconfigure(&mut self, options: &Options) -> anyhow::Result<()> {
        self.reconfigure_receivers(options)?;
        self.pipeline.reconfigure(options.pipeline.clone());
        self.bursts
            .configure(options.bursts, options.census, options.targets.lease_folder.clone());
        self.export_own_metrics = options.export_own_metrics;
        Ok(())
    }

    fn reconfigure_receivers(&self, options: &Options) -> anyhow::Result<()> {
        let alerts = self.notifier.settings();
        self.notifier
            .reconfigure(&with_store(&options.alerts, self.store.as_ref()))
            .context("the receivers stay unchanged")?;
        if let Err(error) = self.exporter.reconfigure(&options.otlp) {
            // Its settings were valid a moment ago.
            let _restored = self.notifier.reconfigure(&alerts);
            return Err(error).context("the receivers stay unchanged");
        }
        Ok(())
    }

    /// Open incidents go on with the next daemon, where it will find them; else receivers are notified that nobody
    /// watches any more. Whether they are left to it.
    async fn leave_incidents(&self) -> bool {
        match &self.state {
            Some((state, incidents)) if !state.goes_with_pod() => {
                incidents
                    .close(&self.pipeline, self.notifier.unsent(Duration::ZERO), FLUSH)
                    .await
            }
            state => {
                self.pipeline.unwatch_all(now());
                if let Some((_, incidents)) = state {
                    incidents.remove();
                }
                false
            }
        }
    }

    /// Sends what is queued, then closes. Returns what was lost and what waits on disk, by signal.
    pub async fn close(self) -> Ended {
        self.set_ready(false);
        let are_left = self.leave_incidents().await;
        self.export_metrics(now_unix_ns());
        if self.state.is_some() {
            self.history.close(&self.pipeline).await;
        }
        if let Some(black_box) = self.black_box.clone() {
            // It waits for a disk.
            let stopping = tokio::task::spawn_blocking(move || black_box.stop(COMPLETE));
            let _late = tokio::time::timeout(COMPLETE, stopping).await;
        }
        // After the recordings that were completed just now.
        let storing = async {
            if let Some(store) = &self.store {
                let _late = tokio::time::timeout(FLUSH, store.close(FLUSH)).await;
            }
        };
        let (lost, (unsent, kept), ()) =
            tokio::join!(self.running.shutdown(FLUSH), self.notifier.shutdown(FLUSH), storing);
        let count = kept.len() as u64;
        let is_kept = match &self.state {
            // Also where all were sent meanwhile: the file has those that waited before.
            Some((_, incidents)) if are_left => incidents.close(&self.pipeline, kept, FLUSH).await,
            _ => false,
        };
        if is_kept && count > 0 {
            info!("{count} changes of incidents wait on disk for their webhooks");
        }
        let unsent = if is_kept { unsent.saturating_sub(count) } else { unsent };
        if unsent > 0 {
            warn!("{unsent} changes of alerts were not sent");
        }
        if let Some((close, served)) = self.web {
            close.send_replace(true);
            // Connections that are still open are closed.
            let _closed = tokio::time::timeout(CLOSE_WEB, served).await;
        }
        let stats = self.exporter.stats();
        let of = |count: fn(&SignalStats) -> u64| Lost {
            spans: count(&stats.traces),
            points: count(&stats.metrics),
            records: count(&stats.logs),
            profiles: count(&stats.profiles),
        };
        let all = of(|stats| stats.dropped.total() + stats.rejected);
        Ended {
            lost,
            before: Lost {
                spans: all.spans.saturating_sub(lost.spans),
                points: all.points.saturating_sub(lost.points),
                records: all.records.saturating_sub(lost.records),
                profiles: all.profiles.saturating_sub(lost.profiles),
            },
            kept: of(|stats| stats.stored),
        }
    }
}

/// Returns the settings of alerts with the address of evidence outside of the host.
fn with_store(alerts: &AlertSettings, store: Option<&Store>) -> AlertSettings {
    let mut alerts = alerts.clone();
    alerts.links.store = store.map(|store| store.base().to_string());
    alerts
}
