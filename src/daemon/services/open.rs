//! How the parts begin, and what the state directory has at the start.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Context as _;
use gc_telemetry::origin::Origin;
use tokio::sync::watch;

use super::Services;
use crate::daemon::OWN_RUN;
use crate::daemon::bursts::{BurstMarks, Bursts};
use crate::daemon::incident_file::{Content, IncidentFile, boot_id};
use crate::daemon::outlet::DeliveryOutlet;
use crate::daemon::own::{Own, Sources};
use crate::daemon::rules::RuleFiles;
use crate::daemon::state::StateDirectory;
use crate::pipeline::{HistoryFolder, Pipeline, Records};
use config::options::Options;
use delivery::alerts::Notifier;
use delivery::clock::now_unix_ns;
use delivery::otlp::{Exporter, Note};
use evidence::black_box::BlackBox;
use kubernetes::{self, Pods};
use processes::RunKey;
use targets::Reading;
use targets::host::now;
use web::{self, Server, Site};

/// How long the start waits for the state directory.
const STATE_WITHIN: Duration = Duration::from_secs(5);

/// What is in the state directory at the start, but for the queue of what is exported.
struct Kept {
    state: StateDirectory,
    incidents: IncidentFile,
    marks: BurstMarks,
    left: io::Result<Option<Content>>,
    black_box: Option<BlackBox>,
    history: Option<HistoryFolder>,
}

impl Kept {
    /// Reads it on a thread of its own: its file system may not respond. `None`: it cannot be used.
    async fn open(path: &Path, options: &Options, notes: &mut Vec<Note>) -> Option<Self> {
        let warning = |text| Note { is_warning: true, text };
        let (directory, recorded) = (path.to_owned(), options.black_box.clone());
        let reading = Reading::default();
        let opened = reading.within(STATE_WITHIN, move || {
            let state = StateDirectory::open(&directory)?;
            let incidents = IncidentFile::new(&directory);
            let left = incidents.read();
            let marks = BurstMarks::read(&directory);
            let black_box = recorded.enabled.then(|| BlackBox::open(&directory, &recorded));
            let history = HistoryFolder::open(&directory, boot_id().as_deref());
            Ok::<_, io::Error>((state, incidents, marks, left, black_box.transpose(), history))
        });
        let path = path.display();
        let problem = match opened.await {
            Ok(Ok((state, incidents, marks, left, black_box, history))) => {
                let not_recorded = |error| {
                    warning(format!(
                        "incidents are not recorded: cannot use {path}/black-box: {error}"
                    ))
                };
                let not_kept =
                    |error| warning(format!("the history of processes is not kept: {path}/history: {error}"));
                let history = history.map_err(|error| notes.push(not_kept(error))).ok();
                let black_box = black_box.map_err(|error| notes.push(not_recorded(error)));
                return Some(Self {
                    state,
                    incidents,
                    marks,
                    left,
                    black_box: black_box.ok().flatten(),
                    history,
                });
            }
            Ok(Err(error)) => error.to_string(),
            Err(not_read) => not_read.to_string(),
        };
        notes.push(warning(format!(
            "cannot use {path}: {problem}; what outlives gcwatch is in memory only"
        )));
        None
    }
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
            None => None,
        };
        if kept.is_none() {
            otlp.disk = None;
        }
        let (exporter, running) = Exporter::start(&otlp).context("cannot export over OTLP")?;
        notes.extend(exporter.disk_notes());
        let notifier = Notifier::start(&options.alerts)?;
        let outlet = DeliveryOutlet {
            exporter: exporter.clone(),
            notifier: notifier.clone(),
        };
        let pipeline = Pipeline::new(options.pipeline.clone(), Arc::new(outlet));
        let (state, marks, left, black_box, history) = match kept {
            Some(Kept {
                state,
                incidents,
                marks,
                left,
                black_box,
                history,
            }) => (Some((state, incidents)), Some(marks), Some(left), black_box, history),
            None => (None, None, None, None, None),
        };
        if let Some(history) = history {
            pipeline.set_history(history);
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
        let (pods, pods_stats) = (Arc::new(Pods::default()), Arc::new(kubernetes::Stats::default()));
        let own = Arc::new(Own::new(
            resource,
            now_unix_ns(),
            Sources {
                pipeline: pipeline.clone(),
                exporter: exporter.clone(),
                notifier: notifier.clone(),
                rules: Arc::clone(&rules),
                pods: Arc::clone(&pods),
                pods_stats: Arc::clone(&pods_stats),
            },
        ));
        let own_run = RunKey {
            pid: std::process::id(),
            start_time: OWN_RUN,
        };
        pipeline.set_own(own_run, own.resource());
        let bursts = Arc::new(Bursts::new(Arc::clone(&own.bursts), marks));
        bursts.configure(options.bursts, options.census, options.targets.lease_folder.clone());
        let ready = Arc::new(AtomicBool::new(false));
        let web = listener.map(|listener| {
            let mut site = Site::new(
                Arc::new(Records::of(&pipeline)),
                Arc::clone(&own) as Arc<dyn web::OwnMetrics>,
                Arc::clone(&own) as Arc<dyn web::LiveInfo>,
                Arc::clone(&rules) as Arc<dyn web::RuleInfo>,
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
            rules,
            running,
            own,
            pods,
            pods_stats,
            export_own_metrics: options.export_own_metrics,
            ready,
            web,
            address,
            state,
            black_box,
            bursts,
            history: Arc::default(),
            notes,
        })
    }
}
