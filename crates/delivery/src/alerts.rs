//! Notifications about incidents: to Alertmanagers, webhooks and standard output.
//!
//! ```text
//!                     +-> firing  firing alerts at intervals; resolved alerts for 5 min --> POST /api/v2/alerts
//! notice -> message --+-> outbox  each change once, in order -------------------------> POST to a webhook
//!                     '-> stdout  each change ----------------------------------------> standard output
//! ```
//!
//! For a receiver, an incident is one alert. The receiver gets a message when the incident starts, when its severity
//! rises, and when it ends. Repeated messages to an Alertmanager contain the current texts.
//!
//! Layers, each of which uses only the previous layers: `settings` and `stats`; `labels`, `message`, `shares`,
//! `firing_alerts` and `outbox`, which are pure; `post` (one request), `stdout`, `queue` (one receiver with its task)
//! and [`Notifier`].
//!
//! # Invariants
//!
//! * Each receiver has its own task. An unavailable or slow receiver does not delay the other receivers, and
//!   [`Notifier::notify`] never blocks.
//! * Queues are bounded, and dropped changes are counted by reason ([`stats`]).
//! * Tenants are served in turn and have shares. A tenant with many messages neither delays nor displaces the messages
//!   of other tenants.
//! * Failed requests are retried with growing random delays, or after the delay that the receiver requests. A request
//!   whose content was refused is not retried unchanged.

pub mod settings;
pub mod stats;

mod firing_alerts;
mod labels;
mod message;
mod outbox;
mod post;
mod queue;
mod shares;
mod stdout;

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use opentelemetry_proto::tonic::resource::v1::Resource;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use crate::alerts::message::{Key, Message};
pub use crate::alerts::post::Error;
use crate::alerts::post::Post;
pub use crate::alerts::queue::UnsentChange;
use crate::alerts::queue::{ReceiverKind, ReceiverQueue};
use crate::alerts::settings::AlertSettings;
use crate::alerts::stats::{Reason, ReceiverStats};
use crate::alerts::stdout::StdoutWriter;
use crate::transport::connection::Connection;
use crate::transport::receiver::Receiver;
use base::clock::now_unix_ns;
use base::run_key::RunKey;
use base::time::Wall;
pub use gc_telemetry::notice::{IncidentNotice, Notice, Notices};
use incidents::{IncidentChange, IncidentRecord, IncidentSubject};

/// Maximum number of open incidents that are remembered for receivers added by a reload.
const MAX_FIRING: usize = 10_000;

/// A notifier that sends changes of alerts to all receivers. Clones are cheap, and no call waits for the network.
#[derive(Clone)]
pub struct Notifier {
    state: Arc<Mutex<NotifierState>>,
    /// Notified when a counter of a receiver changes.
    counted: Arc<Notify>,
}

impl fmt::Debug for Notifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notifier").finish_non_exhaustive()
    }
}

struct NotifierState {
    settings: AlertSettings,
    queues: Vec<(Arc<ReceiverQueue>, JoinHandle<()>)>,
    stdout: Option<StdoutWriter>,
    connections: Vec<Arc<Connection>>,
    /// Newest messages of the open incidents. An incident that does not fit is not remembered, so each of its messages
    /// gets new labels.
    firing: BTreeMap<Key, Arc<Message>>,
}

impl Notifier {
    /// Starts the receivers of `settings`. Connections are opened only when a message is sent.
    ///
    /// # Errors
    ///
    /// Returns an error if the settings of a receiver are invalid, or if there are receivers but no tokio runtime.
    pub fn start(settings: &AlertSettings) -> Result<Self, Error> {
        let notifier = Self {
            state: Arc::new(Mutex::new(NotifierState {
                settings: AlertSettings::default(),
                queues: Vec::new(),
                stdout: None,
                connections: Vec::new(),
                firing: BTreeMap::new(),
            })),
            counted: Arc::default(),
        };
        notifier.reconfigure(settings)?;
        Ok(notifier)
    }

    fn state(&self) -> MutexGuard<'_, NotifierState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies other settings. An unchanged receiver keeps its queue, and a new Alertmanager gets the firing alerts.
    /// Changes that wait for a removed receiver are dropped and counted.
    ///
    /// # Errors
    ///
    /// Returns an error if the settings of a receiver are invalid, or if there are receivers but no tokio runtime. In
    /// these cases, nothing changes.
    pub fn reconfigure(&self, settings: &AlertSettings) -> Result<(), Error> {
        let mut state = self.state();
        let wanted = wanted(settings);
        let runtime = match Handle::try_current() {
            Ok(runtime) => Some(runtime),
            Err(_) if wanted.is_empty() => None,
            Err(_) => {
                return Err(Error {
                    receiver: "alerts".to_owned(),
                    reason: "they must be started inside a tokio runtime".to_owned(),
                });
            }
        };
        let mut known = state.connections.clone();
        let mut posts = Vec::new();
        for (name, kind, receiver) in wanted {
            let same = state.queues.iter().position(|(queue, _)| {
                queue.name == name
                    && queue.kind == kind
                    && queue.links == settings.links
                    && queue.post.receiver() == receiver
            });
            let post = match same {
                Some(_) => None,
                None => Some(Post::new(receiver, &mut known)?),
            };
            posts.push((name, kind, same, post));
        }
        // The following steps cannot fail.
        let mut old: Vec<Option<_>> = std::mem::take(&mut state.queues).into_iter().map(Some).collect();
        let mut queues = Vec::new();
        for (name, kind, same, post) in posts {
            let kept = same.and_then(|place| old.get_mut(place).and_then(Option::take));
            if let Some(kept) = kept {
                queues.push(kept);
            } else if let (Some(post), Some(runtime)) = (post, &runtime) {
                let queue = Arc::new(ReceiverQueue::new(
                    name,
                    kind,
                    settings.links.clone(),
                    post,
                    Arc::clone(&self.counted),
                ));
                if matches!(queue.kind, ReceiverKind::Alertmanager { .. }) {
                    let firing = state.firing.values();
                    firing.for_each(|message| queue.put(&Arc::new(message.as_again())));
                }
                let task = runtime.spawn(Arc::clone(&queue).run());
                queues.push((queue, task));
            }
        }
        for (queue, task) in old.into_iter().flatten() {
            let lost = queue.abandon(Reason::Disabled);
            task.abort();
            if lost > 0 {
                tracing::warn!(
                    target: "gcwatch::export", receiver = queue.name,
                    "dropped {lost} changes of alerts: a reload removed the receiver",
                );
            }
        }
        known.retain(|one| {
            queues
                .iter()
                .any(|(queue, _)| Arc::ptr_eq(queue.post.connection(), one))
        });
        state.connections = known;
        state.queues = queues;
        if settings.stdout && state.stdout.is_none() {
            state.stdout = Some(StdoutWriter::begin(std::io::stdout()));
        } else if !settings.stdout {
            state.stdout = None;
        }
        state.settings = settings.clone();
        Ok(())
    }

    /// Returns the current settings.
    pub fn settings(&self) -> AlertSettings {
        self.state().settings.clone()
    }

    /// Returns whether each change is also exported as a log record.
    pub fn logs(&self) -> bool {
        self.state().settings.log
    }

    /// Queues changes of incidents of one process for all receivers.
    pub fn notify(&self, resource: &Resource, notices: &[IncidentNotice], wall: Wall) {
        let mut state = self.state();
        for notice in notices {
            let incident = notice.change.incident();
            if !incident.notifies() {
                continue;
            }
            let refreshes = matches!(
                notice.change,
                IncidentChange::Refreshed(_) | IncidentChange::Gathered(..)
            );
            if let Some(stdout) = state.stdout.as_ref().filter(|_| !refreshes) {
                let record = IncidentRecord::new(incident, &subject(notice.run, &notice.process, resource), wall);
                let record = record.in_store(state.settings.links.store.as_deref());
                // A record of strings and numbers can always be written as JSON.
                if let Ok(mut line) = serde_json::to_string(&record) {
                    line.push('\n');
                    stdout.put(line);
                }
            }
            let message = state.message(resource, notice, wall);
            let severity = incident.severity;
            for (queue, _) in state
                .queues
                .iter()
                .filter(|(queue, _)| severity >= queue.kind.min_severity())
            {
                match notice.change {
                    _ if refreshes => queue.refresh(&message),
                    // The receiver did not get the less severe alert.
                    IncidentChange::Worse(_, before) if before < queue.kind.min_severity() => {
                        queue.put(&Arc::new(message.as_first()));
                    }
                    _ => queue.put(&message),
                }
            }
        }
    }

    /// Adds incidents that receivers know from before a restart of gcwatch. Alertmanagers continue to get them as
    /// firing; webhooks and standard output only get later changes.
    pub fn resumed(&self, resource: &Resource, notices: &[IncidentNotice], wall: Wall) {
        let mut state = self.state();
        for notice in notices.iter().filter(|notice| notice.change.incident().notifies()) {
            let message = state.message(resource, notice, wall);
            let queues = state.queues.iter().map(|(queue, _)| queue);
            let severity = notice.change.incident().severity;
            let alertmanagers = queues.filter(|queue| {
                matches!(queue.kind, ReceiverKind::Alertmanager { .. }) && severity >= queue.kind.min_severity()
            });
            alertmanagers.for_each(|queue| queue.put(&message));
        }
    }

    /// Returns a number that identifies the set of changes that have waited for webhooks for at least `least`, or 0 if
    /// there is no such change.
    pub fn unsent_mark(&self, least: Duration) -> u64 {
        let state = self.state();
        let waiting = state.queues.iter().map(|(queue, _)| queue.waiting(least));
        let waiting: Vec<_> = waiting.collect();
        if waiting.iter().all(Option::is_none) {
            return 0;
        }
        let mut hasher = DefaultHasher::new();
        waiting.hash(&mut hasher);
        hasher.finish().max(1)
    }

    /// Returns the changes that have waited for webhooks for at least `least`.
    pub fn unsent(&self, least: Duration) -> Vec<UnsentChange> {
        let state = self.state();
        state.queues.iter().flat_map(|(queue, _)| queue.unsent(least)).collect()
    }

    /// Queues changes that an earlier instance could not send. Returns the number of changes whose webhook is
    /// configured.
    pub fn resume_unsent(&self, changes: &[UnsentChange]) -> usize {
        let state = self.state();
        let is_taken = |change: &&UnsentChange| state.queues.iter().any(|(queue, _)| queue.resume(change));
        changes.iter().filter(is_taken).count()
    }

    /// Waits until `is` returns true for the counters of the receivers.
    pub async fn until(&self, is: impl Fn(&[(String, ReceiverStats)]) -> bool) {
        loop {
            let mut counted = pin!(self.counted.notified());
            // Changes are not missed after this call, so the counters can be read now.
            counted.as_mut().enable();
            if is(&self.stats()) {
                return;
            }
            counted.await;
        }
    }

    /// Returns whether the task of a receiver has panicked: it ended without a shutdown.
    pub fn has_failed(&self) -> bool {
        self.state().queues.iter().any(|(_, task)| task.is_finished())
    }

    /// Returns the counters of each receiver.
    pub fn stats(&self) -> Vec<(String, ReceiverStats)> {
        let state = self.state();
        let queues = state
            .queues
            .iter()
            .map(|(queue, _)| (queue.name.clone(), queue.stats()));
        let stdout = state.stdout.iter().map(|stdout| ("stdout".to_owned(), stdout.stats()));
        queues.chain(stdout).collect()
    }

    /// Accepts no more changes, and sends waiting changes for at most `within`. Returns the number of unsent changes,
    /// and the changes among them that the next instance can send.
    pub async fn shutdown(&self, within: Duration) -> (u64, Vec<UnsentChange>) {
        let deadline = Instant::now() + within;
        let (queues, stdout) = {
            let mut state = self.state();
            (std::mem::take(&mut state.queues), state.stdout.take())
        };
        for (queue, _) in &queues {
            queue.close();
        }
        let mut lost = 0;
        let mut unsent = Vec::new();
        for (queue, mut task) in queues {
            if timeout_at(deadline, &mut task).await.is_err() {
                task.abort();
                // Wait for the task, so that no request is sent afterwards.
                let _aborted = task.await;
                unsent.extend(queue.unsent(Duration::ZERO));
                lost += queue.abandon(Reason::Shutdown);
            }
        }
        if let Some(stdout) = stdout {
            let left = deadline.saturating_duration_since(Instant::now());
            let written = tokio::task::spawn_blocking(move || stdout.end(left)).await;
            lost += written.unwrap_or(0);
        }
        (lost, unsent)
    }
}

impl NotifierState {
    /// Returns the current state of the incident, with the labels of its start.
    fn message(&mut self, resource: &Resource, notice: &IncidentNotice, wall: Wall) -> Arc<Message> {
        let key = (notice.run, notice.change.incident().number);
        let known = self.firing.get(&key);
        let message = Arc::new(match (&notice.change, known) {
            (_, None) => Message::from_notice(notice, resource, wall),
            (IncidentChange::Worse(..), Some(known)) => known.worse(notice, wall, now_unix_ns()),
            (_, Some(known)) => known.renewed(notice, wall),
        });
        if let IncidentChange::Ended(_) = notice.change {
            self.firing.remove(&key);
        } else if known.is_some() || self.firing.len() < MAX_FIRING {
            self.firing.insert(key, Arc::clone(&message));
        }
        message
    }
}

/// Returns the subject of an incident for its record.
pub fn subject(run: RunKey, process: &str, resource: &Resource) -> IncidentSubject {
    let attributes = resource.attributes.iter();
    let attributes = attributes.filter(|attribute| !attribute.key.starts_with("process.command"));
    IncidentSubject {
        run: Some(run),
        process: Some(process.to_owned()),
        service: gc_telemetry::value::text(&resource.attributes, "service.name"),
        resource: attributes
            .filter_map(|attribute| {
                let text = labels::text(attribute).or_else(|| gc_telemetry::value::joined(attribute));
                Some((attribute.key.clone(), text?))
            })
            .collect(),
    }
}

/// Returns the receivers with their names. Equal names are numbered.
fn wanted(settings: &AlertSettings) -> Vec<(String, ReceiverKind, &Receiver)> {
    let resend = settings.resend_interval;
    let alertmanagers = settings.alertmanagers.iter().map(|alertmanager| {
        let min_severity = alertmanager.min_severity;
        let kind = ReceiverKind::Alertmanager { resend, min_severity };
        ("alertmanager", kind, &alertmanager.receiver)
    });
    let webhooks = settings.webhooks.iter().map(|webhook| {
        let (secret, min_severity) = (webhook.secret.clone(), webhook.min_severity);
        (
            "webhook",
            ReceiverKind::Webhook { secret, min_severity },
            &webhook.receiver,
        )
    });
    let mut wanted: Vec<(String, ReceiverKind, &Receiver)> = Vec::new();
    for (prefix, kind, receiver) in alertmanagers.chain(webhooks) {
        let name = format!("{prefix} {}", post::host(&receiver.endpoint));
        let mut free = name.clone();
        let mut number = 2;
        while wanted.iter().any(|(known, _, _)| *known == free) {
            free = format!("{name} ({number})");
            number += 1;
        }
        wanted.push((free, kind, receiver));
    }
    wanted
}
