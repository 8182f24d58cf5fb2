//! Follows one source while gcwatch runs: sends requests, and waits longer after each failure.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base::backoff::Backoff;
use reqwest::Url;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use super::client::{Client, Transport};
use super::cluster::{Cluster, ServiceAccount};
use super::error::{AnswerError, SetupError};
use super::pod::Pod;
use super::pods::{Pods, PutOutcome};
use super::settings::{Settings, Source};
use super::stats::Stats;
use super::token::TokenFile;
use super::transport::{Http, Trust};
use super::watch::{Event, Watch, kubelet, list};
use processes::text::bounded;

/// Pauses after failures: from one second to one minute.
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));

/// Period within which consecutive changes are reported together.
const BATCH_PERIOD: Duration = Duration::from_millis(200);

/// Follows the source in the settings. Returns if no source is configured, or if its client cannot be set up;
/// otherwise, never returns. `changed` is called when the known data about pods changes.
pub async fn follow(settings: Settings, pods: Arc<Pods>, stats: Arc<Stats>, changed: impl Fn() + Send) {
    let source = match settings.source {
        Source::Auto if Cluster::is_at_hand() => Source::ApiServer,
        Source::Auto => Source::Nowhere,
        chosen => chosen,
    };
    let client = match source {
        Source::Auto | Source::Nowhere => return,
        Source::ApiServer => api_server(),
        // The service account is also valid for the kubelet, but it does not exist outside a pod.
        Source::Kubelet => {
            let account = Cluster::from_environment().ok().map(|cluster| cluster.account);
            kubelet_client(&settings, account.filter(ServiceAccount::is_mounted))
        }
    };
    let client = match client {
        Ok(client) => client,
        Err(error) => {
            warn!(target: "gcwatch::kubernetes", "pod metadata is not available: {error}");
            stats.counts().failures += 1;
            return;
        }
    };
    if source == Source::ApiServer && settings.node.is_none() {
        warn!(
            target: "gcwatch::kubernetes",
            "watching the pods of all nodes; set NODE_NAME or kubernetes.node_name to watch only the pods of this node"
        );
    }
    let follower = Follower {
        backoff: BACKOFF,
        client,
        settings,
        pods,
        stats,
        changed,
        is_denied: AtomicBool::new(false),
    };
    match source {
        Source::Kubelet => follower.poll().await,
        _ => follower.watch().await,
    }
}

/// Returns a client for the API server of this pod's cluster.
pub(crate) fn api_server() -> Result<Client<Http>, SetupError> {
    let Cluster { url, account } = Cluster::from_environment()?;
    let token = TokenFile::open(account.token)?;
    let http = Http::new(&url, Trust::File(account.certificates))?;
    Ok(Client::new(http, named("the API server", &url), Some(token)))
}

/// Returns a client for a kubelet. The token is sent only to a kubelet that is certified by an authority of the cluster
/// or of the file in the settings, or to any kubelet if the settings disable verification.
fn kubelet_client(settings: &Settings, account: Option<ServiceAccount>) -> Result<Client<Http>, SetupError> {
    let url = settings.kubelet_url.trim();
    let url = Url::parse(url).map_err(|error| SetupError::Url(error.to_string()))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(SetupError::Url("the URL contains a user or a password".to_owned()));
    }
    if !matches!(url.scheme(), "http" | "https") || url.query().is_some() || url.fragment().is_some() {
        return Err(SetupError::Url(bounded(url.as_str())));
    }
    let (token, certificates) = match account {
        Some(account) => (Some(TokenFile::open(account.token)?), Some(account.certificates)),
        None => (None, None),
    };
    let trust = match settings.kubelet_certificate.clone().or(certificates) {
        _ if !settings.kubelet_verify => Trust::Anyone,
        Some(file) => Trust::File(file),
        None => Trust::System,
    };
    let http = Http::new(&url, trust)?;
    Ok(Client::new(http, named("the kubelet", &url), token))
}

/// Returns the name of a server for messages.
fn named(kind: &str, url: &Url) -> String {
    format!("{kind} at {}", url.as_str().trim_end_matches('/'))
}

/// One source, and the handling of its answers.
pub(crate) struct Follower<T, F> {
    /// Pauses after failures.
    pub(crate) backoff: Backoff,
    pub(crate) client: Client<T>,
    pub(crate) settings: Settings,
    pub(crate) pods: Arc<Pods>,
    pub(crate) stats: Arc<Stats>,
    pub(crate) changed: F,
    /// Whether the last failure concerned permissions or the token, so that an operator must act.
    pub(crate) is_denied: AtomicBool,
}

impl<T: Transport, F: Fn()> Follower<T, F> {
    /// Lists all pods and then watches changes. Never returns.
    pub(crate) async fn watch(self) {
        let node = self.settings.node.clone();
        let node = node.as_deref();
        let mut pause = self.backoff.clone();
        let mut version: Option<String> = None;
        loop {
            let from = match version.take() {
                Some(version) => version,
                None => match list(&self.client, node, |object| self.kept(&object)).await {
                    Ok((pods, version)) => {
                        self.listed(pods);
                        version
                    }
                    Err(failed) => {
                        self.failed(&failed);
                        wait(&mut pause, Some(&failed)).await;
                        continue;
                    }
                },
            };
            // The next watch delivers changes that this watch did not, because it continues at the newest received
            // version.
            let mut newest = from.clone();
            if let Err(failed) = self.watched(node, from, &mut newest, &mut pause).await {
                let is_expired = matches!(failed, AnswerError::Expired);
                if is_expired {
                    self.stats.counts().failures += 1;
                } else {
                    self.failed(&failed);
                }
                version = (!is_expired).then_some(newest);
                wait(&mut pause, Some(&failed)).await;
            } else {
                version = Some(newest);
            }
        }
    }

    /// Handles one watch until it ends. Returns an error unless the server ends the watch cleanly.
    async fn watched(
        &self,
        node: Option<&str>,
        from: String,
        newest: &mut String,
        pause: &mut Backoff,
    ) -> Result<(), AnswerError> {
        let mut watch = Watch::begin(&self.client, node, from).await?;
        self.current();
        let mut has_unreported_changes = false;
        let mut had_events = false;
        loop {
            let next = if has_unreported_changes {
                match timeout(BATCH_PERIOD, watch.next()).await {
                    Ok(next) => next,
                    Err(_) => {
                        (self.changed)();
                        has_unreported_changes = false;
                        continue;
                    }
                }
            } else {
                watch.next().await
            };
            newest.clone_from(&watch.version);
            let event = match next {
                Ok(Some(event)) => event,
                other => {
                    if has_unreported_changes {
                        (self.changed)();
                    }
                    // If the server ended the watch without an event, wait, because the server can end each watch at
                    // once.
                    return match other {
                        Ok(_) if !had_events => {
                            wait(pause, None).await;
                            Ok(())
                        }
                        Ok(_) => Ok(()),
                        Err(failed) => Err(failed),
                    };
                }
            };
            had_events = true;
            pause.reset();
            has_unreported_changes |= self.take(event);
        }
    }

    /// Applies an event. Returns whether a known pod changed.
    fn take(&self, event: Event) -> bool {
        match event {
            Event::Put(object) => {
                self.stats.counts().events += 1;
                let Some(pod) = self.kept(&object) else { return false };
                match self.pods.put(pod) {
                    PutOutcome::Same => false,
                    PutOutcome::Changed => true,
                    PutOutcome::Full => {
                        self.stats.counts().left_out += 1;
                        false
                    }
                }
            }
            Event::Deleted(object) => {
                self.stats.counts().events += 1;
                object.metadata.uid.is_some_and(|uid| self.pods.remove(&uid))
            }
            Event::Bookmark => false,
            Event::Unreadable => {
                self.stats.counts().left_out += 1;
                false
            }
        }
    }

    /// Polls the kubelet at intervals. Never returns.
    pub(crate) async fn poll(self) {
        let mut pause = self.backoff.clone();
        loop {
            match kubelet(&self.client).await {
                Ok(objects) => {
                    let pods = objects.iter().filter_map(|object| self.kept(object)).collect();
                    self.listed(pods);
                    self.current();
                    pause.reset();
                    // The interval is random so that the agents of all nodes do not send requests at the same time.
                    sleep(self.settings.kubelet_interval.mul_f64(0.9 + 0.2 * fastrand::f64())).await;
                }
                Err(failed) => {
                    self.failed(&failed);
                    wait(&mut pause, Some(&failed)).await;
                }
            }
        }
    }

    fn kept(&self, object: &super::object::PodObject) -> Option<Pod> {
        let pod = Pod::new(object, &self.settings);
        if pod.is_none() {
            self.stats.counts().left_out += 1;
        }
        pod
    }

    fn listed(&self, pods: Vec<Pod>) {
        self.stats.counts().lists += 1;
        let (changed, full) = self.pods.replace(pods);
        self.stats.counts().left_out += full as u64;
        if changed {
            (self.changed)();
        }
    }

    /// Records that the source answers correctly, and logs this if it did not before.
    fn current(&self) {
        self.is_denied.store(false, Ordering::Relaxed);
        if self.stats.set_current(true) {
            let (pods, server) = (self.pods.count(), self.client.server());
            info!(target: "gcwatch::kubernetes", "pod metadata is current: {pods} pods from {server}");
        }
    }

    /// Records that the source does not answer correctly. Logs this if the source answered before, for the first
    /// failure, and when the source starts to deny access.
    fn failed(&self, failed: &AnswerError) {
        self.stats.counts().failures += 1;
        let first = self.stats.now().failures == 1;
        let denies_now = failed.is_denied() && !self.is_denied.swap(true, Ordering::Relaxed);
        if self.stats.set_current(false) || first || denies_now {
            let (pods, server) = (self.pods.count(), self.client.server());
            warn!(
                target: "gcwatch::kubernetes",
                "pod metadata is not current, keeping {pods} known pods: {server}: {failed}; retrying"
            );
        }
    }
}

/// Waits after a failure, for the duration of the backoff or of the server's request, whichever is longer.
async fn wait(pause: &mut Backoff, failed: Option<&AnswerError>) {
    let asked = failed.and_then(AnswerError::retry_after).unwrap_or_default();
    sleep(pause.next(fastrand::f64()).max(asked)).await;
}

#[cfg(test)]
mod tests;
