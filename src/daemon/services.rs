//! The parts of gcwatch that several commands share: pipeline, delivery, rules, own metrics, listener.

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

use self::kept::StateContents;
use crate::daemon::bursts::Bursts;
use crate::daemon::drain::{Drain, Step};
use crate::daemon::history_keeping::HistoryKeeping;
use crate::daemon::incident_file::IncidentFile;
use crate::daemon::outlet::DeliveryOutlet;
use crate::daemon::own::{OwnMetrics, RunParts, Sources};
use crate::daemon::profile_keeping::ProfileKeeping;
use crate::daemon::rules::RuleFiles;
use crate::daemon::stall::Stalls;
use crate::daemon::state::StateDirectory;
use crate::pipeline::{OWN_START, Pipeline, Records};
use base::clock::now_unix_ns;
use base::run_key::RunKey;
use config::options::Options;
use delivery::alerts::Notifier;
use delivery::alerts::settings::AlertSettings;
use delivery::otlp::stats::{LostItems, SignalStats};
use delivery::otlp::{Exporter, Note, RunningExport};
use evidence::black_box::BlackBox;
use evidence::store::Store;
use gc_telemetry::definition::resource::HOST_NAME;
use kubernetes::Events;
use targets::BlackBoxes;
use targets::host::{clocks, now};
use web::{PartAge, Server, Site, WatcherInfo as _};

/// Reading delay above which the daemon counts as behind. Streams are read several times per second.
const BEHIND: Duration = Duration::from_secs(5);

/// The pipeline and all parts that export and show its data, as shared by `run`, `replay` and `demo`.
#[derive(Debug)]
pub struct Services {
    /// Observes processes.
    pub pipeline: Pipeline,
    /// The OTLP client.
    pub exporter: Exporter,
    /// Sends alerts.
    pub notifier: Notifier,
    running: RunningExport,
    pub(super) own: Arc<OwnMetrics>,
    export_own_metrics: bool,
    ready: Arc<AtomicBool>,
    web: Option<(watch::Sender<bool>, JoinHandle<io::Result<()>>)>,
    address: Option<SocketAddr>,
    /// State that outlives this daemon; `None` if state is kept in memory only. No other process uses the directory at
    /// the same time.
    state: Option<(StateDirectory, IncidentFile)>,
    history: Arc<HistoryKeeping>,
    profiles: Arc<ProfileKeeping>,
    /// Records severe incidents; `None` if incidents are not recorded.
    black_box: Option<BlackBox>,
    /// Keeps evidence outside the host; `None` if evidence stays on the host.
    store: Option<Store>,
    /// Bursts that incidents request.
    pub(super) bursts: Bursts,
    /// Notes from opening the parts, for the log, which starts later.
    notes: Vec<Note>,
}

/// Items that were lost, and items that wait on disk, at the end of the export.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExportLosses {
    /// Items lost at shutdown.
    pub lost: LostItems,
    /// Items that were dropped, or rejected by a receiver, before the shutdown.
    pub before: LostItems,
    /// Items on disk, for the next daemon.
    pub kept: LostItems,
}

impl Services {
    /// Creates all parts, and starts to listen and to export.
    ///
    /// # Errors
    ///
    /// Returns an error if the address is in use, or the settings of a receiver cannot be used, for example because a
    /// certificate cannot be read.
    pub async fn open(options: &Options) -> anyhow::Result<Self> {
        // Bind the address first, so that a second daemon that was started by mistake stops here.
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
            Some(path) => StateContents::open(path, options, &mut notes).await,
            None => StateContents::default(),
        };
        let StateContents {
            state,
            marks,
            left,
            black_box,
            history,
            store,
            profiles,
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
        let (profiles, note) = ProfileKeeping::begin(options.state_directory.as_deref(), profiles, &pipeline);
        notes.extend(note);
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
        let own = Arc::new(OwnMetrics::new(
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
        let mut bursts = Bursts::new(Arc::clone(&own.bursts), marks);
        bursts.configure(options.bursts, options.census, options.targets.lease_folder.clone());
        let ready = Arc::new(AtomicBool::new(false));
        let web = listener.map(|listener| {
            let mut site = Site::new(
                Arc::new(Records::new(&pipeline)),
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
            profiles,
            notes,
        })
    }

    /// Logs the notes from opening the parts.
    pub fn log_notes(&self) {
        for Note { is_warning, text } in &self.notes {
            if *is_warning {
                warn!("{text}");
            } else {
                info!("{text}");
            }
        }
    }

    /// Returns the address of the listener, with the port that the system chose for port 0, or `None` if the listener
    /// is disabled.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Returns the buffers with the last seconds of each stream, or `None` if incidents are not recorded.
    pub(super) fn black_boxes(&self) -> Option<Arc<BlackBoxes>> {
        self.black_box.as_ref().map(BlackBox::boxes)
    }

    /// Returns the folder of incident recordings, or `None` if incidents are not recorded.
    pub fn black_box_folder(&self) -> Option<&Path> {
        self.black_box.as_ref().map(|black_box| black_box.files().folder())
    }

    /// Returns the daemon's own resource.
    pub fn own_resource(&self) -> Arc<Origin> {
        self.own.resource()
    }

    /// Sets the parts that only `run` has, so that gcwatch reports their state.
    pub fn set_run_parts(&self, parts: RunParts) {
        // Only the first call has an effect.
        let _set_already = self.own.run.set(parts);
    }

    /// Advances the rules, the bursts and the stored state, and checks whether gcwatch itself stalled. Must be called
    /// once per second.
    pub(super) fn tick(&mut self, stalls: &mut Stalls) {
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
        // A command without run parts reads its input itself, so gcwatch is never behind.
        let behind = alive.map_or(Duration::ZERO, |alive| alive.behind(now));
        self.pipeline.tick(clocks, behind);
        self.bursts.tick(&self.pipeline, behind > BEHIND, clocks.moment());
        self.profiles.tick(&self.pipeline, now);
        if let Some((_, incidents)) = &self.state {
            incidents.tick(&self.pipeline, &self.notifier);
            self.history.tick(&self.pipeline, now);
        }
    }

    /// Stops the burst in progress, so that its process returns to normal. The returned task waits up to `within` for
    /// the end of the burst.
    pub(super) fn end_bursts(&mut self, within: Duration) -> JoinHandle<()> {
        let ended = self.bursts.stop(&self.pipeline, now());
        tokio::spawn(async move {
            if let Some(ended) = ended {
                let _late = tokio::time::timeout(within, ended).await;
            }
        })
    }

    /// Returns each part that must be alive, with the time since its last report.
    pub(super) fn live_parts(&self) -> Vec<PartAge> {
        self.own.parts()
    }

    /// Returns the name of a part whose task has ended although it must run until shutdown, or `None` if there is no
    /// such part.
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

    /// Sets the state that `/readyz` reports.
    pub fn set_ready(&self, ready: bool) {
        self.ready.store(ready, Ordering::Release);
    }

    /// Exports the metrics of all runs and the daemon's own metrics.
    pub fn export_metrics(&self, now_unix_ns: u64) {
        self.pipeline.export_metrics(now_unix_ns);
        self.export_own(now_unix_ns);
    }

    /// Exports the metrics of one of `shares` parts of the runs, and with the first part also the daemon's own metrics.
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

    /// Applies new options. Returns an error and changes nothing if the settings of a receiver are invalid.
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
            // The previous settings were valid, so restoring them does not fail.
            let _restored = self.notifier.reconfigure(&alerts);
            return Err(error).context("the receivers stay unchanged");
        }
        Ok(())
    }

    /// Leaves open incidents to the next daemon if the next daemon will find the state directory. Otherwise notifies
    /// receivers that the processes are no longer monitored. Returns whether the incidents were left.
    async fn leave_incidents(&self, within: Duration) -> bool {
        match &self.state {
            Some((state, incidents)) if !state.goes_with_pod() => {
                incidents
                    .close(&self.pipeline, self.notifier.unsent(Duration::ZERO), within)
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

    /// Sends queued data, and closes all parts. Returns the items lost during and before the shutdown, and the items
    /// that wait on disk.
    pub async fn close(self) -> ExportLosses {
        self.close_before(Drain::begin(Instant::now())).await
    }

    /// Like [`close`](Self::close), as the last part of a shutdown that has begun.
    pub(super) async fn close_before(self, drain: Drain) -> ExportLosses {
        let limit = |step| drain.limit(step, Instant::now());
        self.set_ready(false);
        let are_left = self.leave_incidents(limit(Step::Incidents)).await;
        self.export_metrics(now_unix_ns());
        if self.state.is_some() {
            self.history.close(&self.pipeline, limit(Step::History)).await;
        }
        self.profiles.close(&self.pipeline, limit(Step::History)).await;
        if let Some(black_box) = self.black_box.clone() {
            // Stopping the black box waits for a disk, so a blocking thread does it.
            let within = limit(Step::Recordings);
            let stopping = tokio::task::spawn_blocking(move || black_box.stop(within));
            let _late = tokio::time::timeout(within, stopping).await;
        }
        // Close the store after the black box, because some recordings were completed just now.
        let flush = limit(Step::Receivers);
        let storing = async {
            if let Some(store) = &self.store {
                let _late = tokio::time::timeout(flush, store.close(flush)).await;
            }
        };
        let (lost, (unsent, kept), ()) =
            tokio::join!(self.running.shutdown(flush), self.notifier.shutdown(flush), storing);
        let count = kept.len() as u64;
        let is_kept = match &self.state {
            // Write the file even if all changes have been sent, because the file still lists the changes that were
            // waiting.
            Some((_, incidents)) if are_left => incidents.close(&self.pipeline, kept, limit(Step::Unsent)).await,
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
            // The listener closes the connections that are still open.
            let _closed = tokio::time::timeout(limit(Step::Listener), served).await;
        }
        let stats = self.exporter.stats();
        let of = |count: fn(&SignalStats) -> u64| LostItems {
            spans: count(&stats.traces),
            points: count(&stats.metrics),
            records: count(&stats.logs),
        };
        let all = of(|stats| stats.dropped.total() + stats.rejected);
        ExportLosses {
            lost,
            before: LostItems {
                spans: all.spans.saturating_sub(lost.spans),
                points: all.points.saturating_sub(lost.points),
                records: all.records.saturating_sub(lost.records),
            },
            kept: of(|stats| stats.stored),
        }
    }
}

/// Adds the address of the store for evidence outside the host to the settings of alerts.
fn with_store(alerts: &AlertSettings, store: Option<&Store>) -> AlertSettings {
    let mut alerts = alerts.clone();
    alerts.links.store = store.map(|store| store.base().to_string());
    alerts
}
