//! Notifies people of incidents: Alertmanagers, webhooks, standard output.
//!
//! ```text
//!                     +-> firing  what is firing, again and again; what resolved, 5 min -> POST /api/v2/alerts
//! notice -> message --+-> outbox  each change once, in order -------------------------> POST to a webhook
//!                     '-> stdout  each change ----------------------------------------> standard output
//! ```
//!
//! To a receiver an incident is one alert: one message when it begins, one for each rise of its severity, one when it
//! ends. What an Alertmanager gets again has the newest texts.
//!
//! Layers, each using only those before it: `settings`, `stats`; `labels`, `message`, `shares`, `firing_alerts` and
//! `outbox`, which are pure; `post` (one request) and `stdout`; `queue` (one receiver with its task); and the
//! [`Notifier`] here.
//!
//! # Invariants
//!
//! * Each receiver has a task of its own: one that is down or slow delays no other, and [`Notifier::notify`] never
//!   blocks.
//! * What waits is bounded; what is dropped is counted by reason ([`stats`]).
//! * Tenants have turns and shares: one that has many messages neither delays nor pushes out those of others.
//! * Failures are retried with growing random delays, or when the receiver asks for it; refusals are not.

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
use gc_rules::incident::{IncidentChange, IncidentRecord, IncidentSubject};
pub use gc_telemetry::notice::{IncidentNotice, Notice, Notices};

/// Most open incidents that are remembered, for receivers that a reload adds.
const MAX_FIRING: usize = 10_000;

/// Sends changes of alerts to all receivers. Cheap to clone; no call waits for the network.
#[derive(Clone)]
pub struct Notifier {
    state: Arc<Mutex<NotifierState>>,
    /// A counter of a receiver changed.
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
    /// What is firing. One that did not fit gets its labels when it resolves.
    firing: BTreeMap<Key, Arc<Message>>,
}

impl Notifier {
    /// Starts the receivers of `settings`; nothing is connected before there is something to send.
    ///
    /// # Errors
    ///
    /// When a receiver's settings cannot be used, or outside a tokio runtime.
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

    /// Continues with other settings. A receiver that stays the same keeps its queue; a new Alertmanager gets what is
    /// firing; what waits for a removed one is dropped and counted.
    ///
    /// # Errors
    ///
    /// When a receiver's settings cannot be used; then nothing changes.
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
        // From here on nothing fails.
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

    /// The settings in force.
    pub fn settings(&self) -> AlertSettings {
        self.state().settings.clone()
    }

    /// Whether each change is also exported as a log record.
    pub fn logs(&self) -> bool {
        self.state().settings.log
    }

    /// Sends changes of one process's incidents.
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
                // A record of strings and numbers always has a form in JSON.
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
                    // It never got what was less severe.
                    IncidentChange::Worse(_, before) if before < queue.kind.min_severity() => {
                        queue.put(&Arc::new(message.as_first()));
                    }
                    _ => queue.put(&message),
                }
            }
        }
    }

    /// Incidents that receivers know already, from before gcwatch was restarted. Alertmanagers get them again as
    /// firing, as they do all the time; webhooks and standard output get nothing before they change.
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

    /// A number that is another one when others of them wait; 0: none do.
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

    /// The changes that webhooks did not get, though they wait for at least so long.
    pub fn unsent(&self, least: Duration) -> Vec<UnsentChange> {
        let state = self.state();
        state.queues.iter().flat_map(|(queue, _)| queue.unsent(least)).collect()
    }

    /// Sends what an earlier gcwatch could not. Returns how many changes are for webhooks that there are.
    pub fn resume_unsent(&self, changes: &[UnsentChange]) -> usize {
        let state = self.state();
        let is_taken = |change: &&UnsentChange| state.queues.iter().any(|(queue, _)| queue.resume(change));
        changes.iter().filter(is_taken).count()
    }

    /// Completes when the counters of the receivers are as `is` says.
    pub async fn until(&self, is: impl Fn(&[(String, ReceiverStats)]) -> bool) {
        loop {
            let mut counted = pin!(self.counted.notified());
            // From here on no change is missed; only then the counters may be read.
            counted.as_mut().enable();
            if is(&self.stats()) {
                return;
            }
            counted.await;
        }
    }

    /// A receiver's task has ended, though nobody shut it down: it panicked.
    pub fn has_failed(&self) -> bool {
        self.state().queues.iter().any(|(_, task)| task.is_finished())
    }

    /// The counters of each receiver.
    pub fn stats(&self) -> Vec<(String, ReceiverStats)> {
        let state = self.state();
        let queues = state
            .queues
            .iter()
            .map(|(queue, _)| (queue.name.clone(), queue.stats()));
        let stdout = state.stdout.iter().map(|stdout| ("stdout".to_owned(), stdout.stats()));
        queues.chain(stdout).collect()
    }

    /// Accepts no more changes and sends what waits, for `within` at most. Returns how many changes were not sent, and
    /// those of them that the next gcwatch can send.
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
                // Awaited, so that nothing is sent after this.
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
    /// The incident as it is now, with the labels that it had when it began.
    fn message(&mut self, resource: &Resource, notice: &IncidentNotice, wall: Wall) -> Arc<Message> {
        let key = (notice.run, notice.change.incident().number);
        let known = self.firing.get(&key);
        let message = Arc::new(match (&notice.change, known) {
            (_, None) => Message::of(notice, resource, wall),
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

/// Whose incident it is, as its record says.
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

/// The receivers with their names; equal names are numbered.
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
