//! One receiver: its waiting messages, and the task that sends them.

use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base::clock::now_unix_ns;
use base::secret::Secret;
use hmac::{Hmac, KeyInit as _, Mac as _};
use incidents::QuotaOwner;
use rule_engine::rule::Severity;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};
use tonic::codegen::http::{HeaderName, HeaderValue};

use crate::alerts::firing_alerts::FiringAlerts;
use crate::alerts::labels::RULE;
use crate::alerts::message::{Change, Message};
use crate::alerts::outbox::{Outbox, RETRY_FOR};
use crate::alerts::post::{Answer, Post};
use crate::alerts::settings::Links;
use crate::alerts::shares::{Shares, Verdict};
use crate::alerts::stats::{Failure, Reason, ReceiverStats};
use crate::transport::retry;

/// Maximum number of alerts in one request to an Alertmanager.
const BATCH: usize = 64;

/// Number of intervals without an update after which an Alertmanager resolves an alert.
const INTERVALS: u32 = 4;

/// Header with the signature of a webhook: `sha256=` and the HMAC of the body, in hexadecimal.
const SIGNATURE: HeaderName = HeaderName::from_static("x-gcwatch-signature");

/// The messages that wait for a receiver.
#[derive(Debug)]
pub(crate) enum PendingMessages {
    Alertmanager(FiringAlerts),
    Webhook(Outbox),
}

/// The protocol of a receiver, and its options.
#[derive(Clone, PartialEq)]
pub(crate) enum ReceiverKind {
    Alertmanager {
        resend: Duration,
        min_severity: Severity,
    },
    Webhook {
        secret: Option<Secret>,
        min_severity: Severity,
    },
}

impl ReceiverKind {
    /// Returns the minimum severity of incidents that the receiver gets.
    pub(crate) fn min_severity(&self) -> Severity {
        match self {
            Self::Alertmanager { min_severity, .. } | Self::Webhook { min_severity, .. } => *min_severity,
        }
    }
}

struct PendingAlerts {
    pending: PendingMessages,
    shares: Shares,
    stats: ReceiverStats,
    closing: bool,
}

impl PendingAlerts {
    /// Queues a message. Returns the tenant of a dropped message if the drop must be logged, or `None` otherwise.
    fn add(&mut self, message: Arc<Message>, since: Instant, now: Instant) -> Option<Arc<str>> {
        let dropped = match &mut self.pending {
            PendingMessages::Alertmanager(firing) => {
                let before = message.before.clone().and_then(|before| firing.put(before, since));
                before.into_iter().chain(firing.put(message, since)).collect()
            }
            PendingMessages::Webhook(outbox) => outbox.put(message, since),
        };
        self.stats.lose(Reason::QueueFull, dropped.len() as u64);
        let mut of_tenant = None;
        for message in dropped {
            if message.change == Change::Began {
                self.shares.forget_sent(message.incident, now);
            }
            let tenant = &message.share.tenant;
            if self.shares.is_drop_news(tenant, now) {
                of_tenant = Some(Arc::clone(tenant));
            }
        }
        of_tenant
    }
}

/// A change that a webhook did not get, to be sent by the next instance. The fields have these names in the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UnsentChange {
    /// Digest of the webhook's URL, because the URL often contains a password.
    pub receiver: String,
    /// Tenant and service of the change; empty if unknown.
    #[serde(default)]
    pub tenant: String,
    #[serde(default)]
    pub service: String,
    /// Time since which the change has waited.
    pub since_unix_ns: u64,
    /// Body of the request.
    pub body: serde_json::Value,
}

pub(crate) struct ReceiverQueue {
    /// `alertmanager host:9093`.
    pub(crate) name: String,
    pub(crate) kind: ReceiverKind,
    pub(crate) links: Links,
    pub(crate) post: Post,
    state: Mutex<PendingAlerts>,
    wake: Notify,
    /// Notified when a counter of this or another receiver changes.
    counted: Arc<Notify>,
}

/// One request.
struct Batch {
    messages: Vec<Arc<Message>>,
    body: Vec<u8>,
    signature: Option<(HeaderName, HeaderValue)>,
}

impl ReceiverQueue {
    pub(crate) fn new(name: String, kind: ReceiverKind, links: Links, post: Post, counted: Arc<Notify>) -> Self {
        let pending = match kind {
            ReceiverKind::Alertmanager { resend, .. } => PendingMessages::Alertmanager(FiringAlerts::new(resend)),
            ReceiverKind::Webhook { .. } => PendingMessages::Webhook(Outbox::default()),
        };
        Self {
            name,
            kind,
            links,
            post,
            state: Mutex::new(PendingAlerts {
                pending,
                shares: Shares::default(),
                stats: ReceiverStats::default(),
                closing: false,
            }),
            wake: Notify::new(),
            counted,
        }
    }

    fn state(&self) -> MutexGuard<'_, PendingAlerts> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a new state of an alert. Never blocks.
    pub(crate) fn put(&self, message: &Arc<Message>) {
        let now = Instant::now();
        let mut state = self.state();
        if state.closing {
            state.stats.lose(Reason::Shutdown, 1);
            return;
        }
        let rule = || message.labels.get(RULE).map(String::as_str);
        let tenant = &message.share.tenant;
        let message = match state.shares.judge(message, now) {
            Verdict::Send => Arc::clone(message),
            Verdict::SendAlone => Arc::new(message.alone()),
            Verdict::SumUp { is_first } => {
                state.stats.summed_up += 1;
                drop(state);
                if is_first {
                    tracing::warn!(
                        target: "gcwatch::export", receiver = self.name, tenant = &**tenant, rule = rule(),
                        "a tenant has used its share of messages; further incidents share one message",
                    );
                    self.wake.notify_one();
                }
                return;
            }
            Verdict::Drop => {
                state.stats.lose(Reason::QueueFull, 1);
                return;
            }
        };
        let of_tenant = state.add(message, now, now);
        drop(state);
        self.log_drop(of_tenant);
        self.wake.notify_one();
    }

    fn log_drop(&self, of_tenant: Option<Arc<str>>) {
        if let Some(tenant) = of_tenant {
            tracing::warn!(
                target: "gcwatch::export", receiver = self.name, tenant = &*tenant,
                "the queue is full; dropped changes of alerts of the largest tenant",
            );
        }
    }

    /// Sets newer texts of a firing alert, which are sent with the next repetition. A webhook gets each change once, so
    /// it does not get newer texts.
    pub(crate) fn refresh(&self, message: &Arc<Message>) {
        if let PendingMessages::Alertmanager(firing) = &mut self.state().pending {
            firing.refresh(message);
        }
    }

    pub(crate) fn stats(&self) -> ReceiverStats {
        let state = self.state();
        let queued = match &state.pending {
            PendingMessages::Alertmanager(firing) => firing.count_due(Instant::now()),
            PendingMessages::Webhook(outbox) => outbox.len(),
        };
        let mut stats = state.stats.clone();
        stats.queued = queued;
        stats
    }

    fn is_webhook(&self) -> bool {
        matches!(self.kind, ReceiverKind::Webhook { .. })
    }

    /// Accepts no more messages. The task sends the waiting messages and then ends.
    pub(crate) fn close(&self) {
        self.state().closing = true;
        self.wake.notify_one();
    }

    /// Returns the changes that have waited for a webhook for at least `least`.
    pub(crate) fn unsent(&self, least: Duration) -> Vec<UnsentChange> {
        let (now, now_unix_ns) = (Instant::now(), now_unix_ns());
        let state = self.state();
        let PendingMessages::Webhook(outbox) = &state.pending else {
            return Vec::new();
        };
        let waits = outbox.each().into_iter();
        let waits = waits.map(|waiting| (now.saturating_duration_since(waiting.since), &waiting.message));
        let unsent = waits
            .filter(|(waited, _)| *waited >= least)
            .map(|(waited, message)| UnsentChange {
                receiver: self.digest(),
                tenant: message.share.tenant.to_string(),
                service: message.share.service.to_string(),
                since_unix_ns: now_unix_ns.saturating_sub(u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX)),
                body: message.webhook(&self.links),
            });
        unsent.collect()
    }

    /// Returns the number of changes that have waited for a webhook for at least `least`, and the time since which the
    /// oldest of them has waited. Returns `None` if there are no such changes.
    pub(crate) fn waiting(&self, least: Duration) -> Option<(usize, Instant)> {
        let now = Instant::now();
        let state = self.state();
        let PendingMessages::Webhook(outbox) = &state.pending else {
            return None;
        };
        let waits = outbox.each().into_iter().map(|waiting| waiting.since);
        let mut waits = waits.filter(|since| now.saturating_duration_since(*since) >= least);
        let oldest = waits.next()?;
        Some((waits.count() + 1, oldest))
    }

    /// Queues a change that an earlier instance could not send. Returns `false` if the change is for another receiver.
    pub(crate) fn resume(&self, change: &UnsentChange) -> bool {
        let mut state = self.state();
        if !matches!(state.pending, PendingMessages::Webhook(_)) {
            return false;
        }
        if change.receiver != self.digest() {
            return false;
        }
        let waited = Duration::from_nanos(now_unix_ns().saturating_sub(change.since_unix_ns));
        let now = Instant::now();
        let since = now.checked_sub(waited.min(RETRY_FOR)).unwrap_or(now);
        let share = QuotaOwner {
            tenant: change.tenant.as_str().into(),
            service: change.service.as_str().into(),
        };
        let message = Message::stored(change.body.clone(), share);
        let of_tenant = state.add(Arc::new(message), since, now);
        drop(state);
        self.log_drop(of_tenant);
        self.wake.notify_one();
        true
    }

    /// Returns a digest of the endpoint, which identifies the receiver and reveals no secrets.
    fn digest(&self) -> String {
        let digest = Sha256::digest(self.post.receiver().endpoint.as_bytes());
        digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }

    /// Closes the queue and drops all waiting messages. Returns the number of messages that were never sent.
    pub(crate) fn abandon(&self, reason: Reason) -> u64 {
        let mut state = self.state();
        let lost = match &mut state.pending {
            PendingMessages::Alertmanager(firing) => firing.unsent(),
            PendingMessages::Webhook(outbox) => std::mem::take(outbox).len(),
        };
        state.closing = true;
        state.stats.lose(reason, lost);
        lost
    }

    /// Sends until the queue is closed and empty.
    pub(crate) async fn run(self: Arc<Self>) {
        let mut backoff = retry::BACKOFF;
        let mut most = BATCH;
        loop {
            let Some(batch) = self.next(most) else {
                let (closing, next) = {
                    let state = self.state();
                    let next = match &state.pending {
                        PendingMessages::Alertmanager(firing) => firing.next(),
                        PendingMessages::Webhook(_) => None,
                    };
                    (state.closing, next.into_iter().chain(state.shares.next()).min())
                };
                if closing {
                    return;
                }
                let until = async {
                    match next {
                        Some(at) => sleep_until(at).await,
                        None => pending().await,
                    }
                };
                tokio::select! {
                    () = self.wake.notified() => {}
                    () = until => {}
                }
                continue;
            };
            let Batch {
                messages,
                body,
                signature,
            } = batch;
            match self.post.send(body, signature).await {
                Answer::Accepted => {
                    backoff.reset();
                    self.accepted(&messages);
                    most = (most * 2).min(BATCH);
                }
                // Halving the batch finds the refused alert.
                Answer::Refused { content: true, message } if messages.len() > 1 => {
                    self.failed(Failure::Refused, &message);
                    most = messages.len() / 2;
                }
                // The receiver currently accepts no request, like a proxy whose service is being replaced.
                Answer::Refused {
                    content: false,
                    message,
                } if self.is_webhook() => {
                    self.failed(Failure::Refused, &message);
                    self.counted.notify_waiters();
                    sleep(backoff.full_jitter(fastrand::f64())).await;
                }
                Answer::Refused { content, message } => {
                    backoff.reset();
                    self.refused(&messages, content, &message);
                    most = BATCH;
                }
                Answer::Retry {
                    failure,
                    after,
                    message,
                } => {
                    self.failed(failure, &message);
                    let delay = after.unwrap_or_else(|| backoff.full_jitter(fastrand::f64()));
                    self.counted.notify_waiters();
                    sleep(delay).await;
                }
            }
            self.counted.notify_waiters();
        }
    }

    /// Adds the summaries that are due, drops expired changes, and returns the next request, or `None` if no message is
    /// due.
    fn next(&self, most: usize) -> Option<Batch> {
        let now = Instant::now();
        let mut state = self.state();
        let closing = state.closing;
        let mut of_tenant = None;
        for message in state.shares.due(now, now_unix_ns(), closing) {
            of_tenant = state.add(Arc::new(message), now, now).or(of_tenant);
        }
        let expired = match &mut state.pending {
            PendingMessages::Alertmanager(firing) => firing.forget(now),
            PendingMessages::Webhook(outbox) => outbox.forget(now),
        };
        if expired > 0 {
            state.stats.lose(Reason::Expired, expired);
        }
        let messages = match &state.pending {
            PendingMessages::Alertmanager(firing) => firing.due(now, most),
            PendingMessages::Webhook(outbox) => outbox.first().into_iter().collect(),
        };
        drop(state);
        self.log_drop(of_tenant);
        let first = messages.first()?;
        let links = &self.links;
        let (body, signature) = match &self.kind {
            ReceiverKind::Alertmanager { resend, .. } => {
                let lasts = u64::try_from((*resend * INTERVALS).as_nanos()).unwrap_or(u64::MAX);
                let until = now_unix_ns().saturating_add(lasts);
                let alerts: Vec<_> = messages.iter().map(|message| message.postable(until, links)).collect();
                (serde_json::Value::from(alerts).to_string().into_bytes(), None)
            }
            ReceiverKind::Webhook { secret, .. } => {
                let body = first.webhook(links).to_string().into_bytes();
                let signature = secret.as_ref().and_then(|secret| signature(secret, &body));
                (body, signature)
            }
        };
        Some(Batch {
            messages,
            body,
            signature,
        })
    }

    fn accepted(&self, messages: &[Arc<Message>]) {
        let mut state = self.state();
        state.stats.sent += messages.len() as u64;
        match &mut state.pending {
            PendingMessages::Alertmanager(firing) => firing.sent(messages, Instant::now()),
            PendingMessages::Webhook(outbox) => messages.iter().for_each(|message| outbox.take(message)),
        }
    }

    fn refused(&self, messages: &[Arc<Message>], content: bool, text: &str) {
        self.failed(Failure::Refused, text);
        let mut state = self.state();
        let dropped = match &mut state.pending {
            PendingMessages::Alertmanager(firing) if content => {
                firing.give_up(messages);
                messages.len() as u64
            }
            // The receiver currently accepts no request. Firing alerts are sent again when they are due.
            PendingMessages::Alertmanager(firing) => {
                firing.put_off(messages, Instant::now());
                0
            }
            PendingMessages::Webhook(outbox) => {
                messages.iter().for_each(|message| outbox.take(message));
                messages.len() as u64
            }
        };
        state.stats.lose(Reason::Refused, dropped);
    }

    /// Counts a failure, and logs the failure if it differs from the previous failure.
    fn failed(&self, failure: Failure, text: &str) {
        let text = self.post.shown(text);
        let mut state = self.state();
        state.stats.fail(failure);
        let is_news = state.stats.last_error.as_ref() != Some(&text);
        state.stats.last_error = Some(text.clone());
        drop(state);
        if is_news {
            tracing::warn!(target: "gcwatch::export", receiver = self.name, "cannot send alerts: {text}");
        }
    }
}

/// Returns the header `X-Gcwatch-Signature: sha256=…` with the HMAC-SHA256 of the body (RFC 2104, FIPS 180-4). The
/// result is always `Some`.
fn signature(secret: &Secret, body: &[u8]) -> Option<(HeaderName, HeaderValue)> {
    let mut text = String::from("sha256=");
    for byte in hmac_sha256(secret.reveal().as_bytes(), body)? {
        text.push_str(&format!("{byte:02x}"));
    }
    Some((SIGNATURE, HeaderValue::try_from(text).ok()?))
}

/// Returns the HMAC-SHA256 of a message. The result is always `Some`, because a key can have any length.
fn hmac_sha256(key: &[u8], message: &[u8]) -> Option<[u8; 32]> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).ok()?;
    mac.update(message);
    Some(mac.finalize().into_bytes().into())
}

#[cfg(test)]
mod tests;
