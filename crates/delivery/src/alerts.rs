//! Tells people of alerts: Alertmanagers, webhooks, standard output.
//!
//! ```text
//!                        +-> board   what fires, told again and again; what ended, for five minutes -> POST /api/v2/alerts
//! Notice -> message -----+-> outbox  each change once, in order ------------------------------------> POST to a webhook
//!  (labels, texts: as    '-> lines   each change -----------------------------------------------------> standard output
//!   the alert began)
//! ```
//!
//! Each receiver has a task of its own ([`line`]): one that is down or slow holds up no other, and nobody who tells of an alert waits. What
//! is to be told is bounded, what is dropped is counted by reason ([`stats`]). What fails is tried again with growing delays and chance,
//! or when the receiver says; what is refused is not.

pub mod settings;
pub mod stats;

mod board;
mod labels;
mod line;
mod message;
mod notice;
mod outbox;
mod post;
mod stdout;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use opentelemetry_proto::tonic::resource::v1::Resource;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use crate::alerts::line::{Form, Line};
use crate::alerts::message::Message;
pub use crate::alerts::notice::Notice;
pub use crate::alerts::post::Error;
use crate::alerts::post::Post;
use crate::alerts::settings::Settings;
use crate::alerts::stats::{Reason, ReceiverStats};
use crate::alerts::stdout::Lines;
use crate::transport::connection::Connection;
use crate::transport::receiver::Receiver;
use gc_rules::alert::RunKey;
use gc_rules::alert::Transition;
use gc_rules::record::AnomalyRecord;

/// Most alerts that fire and are remembered: a receiver that a reload adds is told of them.
const MOST_FIRING: usize = 10_000;

/// Which alert: the run, the rule, the alert's number in the run.
type Key = (RunKey, Arc<str>, u64);

/// Takes changes of alerts, and tells receivers. Cheap to clone; no call waits.
#[derive(Clone)]
pub struct Notifier {
    inside: Arc<Mutex<Inside>>,
}

impl fmt::Debug for Notifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notifier").finish_non_exhaustive()
    }
}

struct Inside {
    settings: Settings,
    lines: Vec<(Arc<Line>, JoinHandle<()>)>,
    stdout: Option<Lines>,
    connections: Vec<Arc<Connection>>,
    /// What fires. One that is not remembered for want of room is known at its end by what is known of it then.
    firing: BTreeMap<Key, Arc<Message>>,
}

impl Notifier {
    /// Begins to tell the receivers of `settings`; nothing is connected before there is something to tell.
    ///
    /// # Errors
    ///
    /// When a receiver's settings cannot be used, or outside a tokio runtime.
    pub fn start(settings: &Settings) -> Result<Self, Error> {
        let notifier = Self {
            inside: Arc::new(Mutex::new(Inside {
                settings: Settings::default(),
                lines: Vec::new(),
                stdout: None,
                connections: Vec::new(),
                firing: BTreeMap::new(),
            })),
        };
        notifier.reconfigure(settings)?;
        Ok(notifier)
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Goes on with other settings. A receiver that stays the same keeps what it has to be told; a new Alertmanager is told of what
    /// fires; what waits for one that is gone is dropped and counted.
    ///
    /// # Errors
    ///
    /// When a receiver's settings cannot be used; then everything is as before.
    pub fn reconfigure(&self, settings: &Settings) -> Result<(), Error> {
        let mut inside = self.inside();
        let wanted = wanted(settings);
        let runtime = match Handle::try_current() {
            Ok(runtime) => Some(runtime),
            Err(_) if wanted.is_empty() => None,
            Err(_) => {
                return Err(Error {
                    receiver: "alerts".to_owned(),
                    reason: "they are told of inside a tokio runtime".to_owned(),
                });
            }
        };
        let mut known = inside.connections.clone();
        let mut posts = Vec::new();
        for (name, form, receiver) in wanted {
            let same = inside.lines.iter().position(|(line, _)| {
                line.name == name
                    && line.form == form
                    && line.external_url == settings.external_url
                    && line.post.receiver() == receiver
            });
            let post = match same {
                Some(_) => None,
                None => Some(Post::new(receiver, &mut known)?),
            };
            posts.push((name, form, same, post));
        }
        // From here on nothing fails.
        let mut old: Vec<Option<_>> = std::mem::take(&mut inside.lines).into_iter().map(Some).collect();
        let mut lines = Vec::new();
        for (name, form, same, post) in posts {
            let kept = same.and_then(|place| old.get_mut(place).and_then(Option::take));
            if let Some(kept) = kept {
                lines.push(kept);
            } else if let (Some(post), Some(runtime)) = (post, &runtime) {
                let line = Arc::new(Line::new(name, form, settings.external_url.clone(), post));
                if matches!(line.form, Form::Alertmanager { .. }) {
                    inside.firing.values().for_each(|message| line.put(message));
                }
                let task = runtime.spawn(Arc::clone(&line).run());
                lines.push((line, task));
            }
        }
        for (line, task) in old.into_iter().flatten() {
            let lost = line.abandon(Reason::Disabled);
            task.abort();
            if lost > 0 {
                tracing::warn!(target: "gcwatch::export", receiver = line.name, "{lost} changes of alerts were not told: the receiver is none any more");
            }
        }
        known.retain(|one| lines.iter().any(|(line, _)| Arc::ptr_eq(line.post.connection(), one)));
        inside.connections = known;
        inside.lines = lines;
        if settings.stdout && inside.stdout.is_none() {
            inside.stdout = Some(Lines::begin(std::io::stdout()));
        } else if !settings.stdout {
            inside.stdout = None;
        }
        inside.settings = settings.clone();
        Ok(())
    }

    /// What it was told last.
    pub fn settings(&self) -> Settings {
        self.inside().settings.clone()
    }

    /// Each change is a log record too.
    pub fn logs(&self) -> bool {
        self.inside().settings.log
    }

    /// Tells of changes.
    pub fn notify(&self, resource: &Resource, notices: &[Notice]) {
        let mut inside = self.inside();
        for notice in notices {
            if let Some(stdout) = &inside.stdout {
                let record = AnomalyRecord::new(
                    Some(notice.run.pid),
                    Some(&notice.process),
                    notice.group.as_deref(),
                    &notice.transition,
                );
                // A record of texts and numbers always has a form in JSON.
                if let Ok(mut line) = serde_json::to_string(&record) {
                    line.push('\n');
                    stdout.put(line);
                }
            }
            if !notice.transition.alert().rule.emit.notify {
                continue;
            }
            let message = inside.message(resource, notice);
            for (line, _) in &inside.lines {
                line.put(&message);
            }
        }
    }

    /// What became of notifications, by receiver.
    pub fn stats(&self) -> Vec<(String, ReceiverStats)> {
        let inside = self.inside();
        let lines = inside.lines.iter().map(|(line, _)| (line.name.clone(), line.stats()));
        let stdout = inside.stdout.iter().map(|lines| ("stdout".to_owned(), lines.stats()));
        lines.chain(stdout).collect()
    }

    /// Takes nothing in any more, and tells what waits, for `within` at most. How many changes were not told.
    pub async fn shutdown(&self, within: Duration) -> u64 {
        let deadline = Instant::now() + within;
        let (lines, stdout) = {
            let mut inside = self.inside();
            (std::mem::take(&mut inside.lines), inside.stdout.take())
        };
        for (line, _) in &lines {
            line.close();
        }
        let mut lost = 0;
        for (line, mut task) in lines {
            if timeout_at(deadline, &mut task).await.is_err() {
                task.abort();
                // Its end is awaited, so that it sends nothing after this.
                let _aborted = task.await;
                lost += line.abandon(Reason::Shutdown);
            }
        }
        if let Some(stdout) = stdout {
            let left = deadline.saturating_duration_since(Instant::now());
            let written = tokio::task::spawn_blocking(move || stdout.end(left)).await;
            lost += written.unwrap_or(0);
        }
        lost
    }
}

impl Inside {
    /// The alert as it is now, known by what it was known by when it began.
    fn message(&mut self, resource: &Resource, notice: &Notice) -> Arc<Message> {
        let alert = notice.transition.alert();
        let key = (notice.run, Arc::clone(&alert.rule.id), alert.number);
        match &notice.transition {
            Transition::Fired(_) => {
                let message = Arc::new(Message::of(notice, resource));
                if self.firing.len() < MOST_FIRING {
                    self.firing.insert(key, Arc::clone(&message));
                }
                message
            }
            Transition::Ended(..) => Arc::new(match self.firing.remove(&key) {
                Some(message) => message.ended(alert),
                None => Message::of(notice, resource),
            }),
        }
    }
}

/// The receivers with their names; those that would read alike are numbered.
fn wanted(settings: &Settings) -> Vec<(String, Form, &Receiver)> {
    let resend = settings.resend_interval;
    let alertmanagers = settings
        .alertmanagers
        .iter()
        .map(|receiver| ("alertmanager", Form::Alertmanager { resend }, receiver));
    let webhooks = settings.webhooks.iter().map(|webhook| {
        let secret = webhook.secret.clone();
        ("webhook", Form::Webhook { secret }, &webhook.receiver)
    });
    let mut wanted: Vec<(String, Form, &Receiver)> = Vec::new();
    for (kind, form, receiver) in alertmanagers.chain(webhooks) {
        let name = format!("{kind} {}", post::host(&receiver.endpoint));
        let mut free = name.clone();
        let mut number = 2;
        while wanted.iter().any(|(known, _, _)| *known == free) {
            free = format!("{name} ({number})");
            number += 1;
        }
        wanted.push((free, form, receiver));
    }
    wanted
}
