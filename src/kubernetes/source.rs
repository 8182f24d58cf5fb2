//! Follows a source for as long as gcwatch runs: asks, waits longer after each failure, asks again.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kube::{Client, Config};
use tokio::time::sleep;
use tracing::{info, warn};

use super::pod::Pod;
use super::pods::{Pods, Put};
use super::settings::{Settings, Source};
use super::stats::Stats;
use super::watch::{Event, Failed, Watch, kubelet, list};
use crate::process::text::bounded;

/// How long is waited after the first failure, and at most.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// Changes that follow one another within this time are told once.
const TOGETHER: Duration = Duration::from_millis(200);

/// Where a pod's service account lies.
const TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

/// Follows what the settings say. Completes when there is nothing to follow; `changed` is called when something is known that was not.
pub async fn follow(settings: Settings, pods: Arc<Pods>, stats: Arc<Stats>, changed: impl Fn() + Send) {
    let source = match settings.source {
        Source::Auto if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() && Path::new(TOKEN).exists() => {
            Source::ApiServer
        }
        Source::Auto => Source::Nowhere,
        chosen => chosen,
    };
    let config = match source {
        Source::Auto | Source::Nowhere => return,
        Source::ApiServer => Config::incluster().map_err(|error| error.to_string()),
        Source::Kubelet => kubelet_config(&settings),
    };
    let client = config.and_then(|mut config| {
        // How often and when is decided here.
        config.default_retry = false;
        Client::try_from(config).map_err(|error| error.to_string())
    });
    let client = match client {
        Ok(client) => client,
        Err(problem) => {
            warn!(target: "gcwatch::kubernetes", "no metadata of pods: {}", bounded(&problem));
            stats.failure();
            return;
        }
    };
    if source == Source::ApiServer && settings.node.is_none() {
        warn!(
            target: "gcwatch::kubernetes",
            "the pods of all nodes are watched: name this one by NODE_NAME or kubernetes.node_name"
        );
    }
    let follower = Follower {
        pauses: PAUSES,
        client,
        settings,
        pods,
        stats,
        changed,
        is_refused: AtomicBool::new(false),
    };
    match source {
        Source::Kubelet => follower.poll().await,
        _ => follower.watch().await,
    }
}

fn kubelet_config(settings: &Settings) -> Result<Config, String> {
    let url = settings.kubelet_url.parse();
    let url: http::Uri = url.map_err(|error| format!("kubernetes.kubelet_url: {error}"))?;
    let mut config = Config::new(url);
    // The service account names gcwatch to the kubelet, too; outside of a pod there is none.
    if let Ok(inside) = Config::incluster() {
        config.auth_info = inside.auth_info;
        config.root_cert = inside.root_cert;
    }
    if let Some(path) = &settings.kubelet_certificate {
        config.root_cert_file = Some(path.clone());
    }
    config.accept_invalid_certs = !settings.kubelet_verify;
    Ok(config)
}

/// One source that is followed.
pub(crate) struct Follower<F> {
    /// How long is waited after the first failure, and at most.
    pub(crate) pauses: (Duration, Duration),
    pub(crate) client: Client,
    pub(crate) settings: Settings,
    pub(crate) pods: Arc<Pods>,
    pub(crate) stats: Arc<Stats>,
    pub(crate) changed: F,
    /// It answers, but not to gcwatch's token: somebody has to do something.
    pub(crate) is_refused: AtomicBool,
}

impl<F: Fn()> Follower<F> {
    /// Lists, and watches what changes. Never completes.
    pub(crate) async fn watch(self) {
        let node = self.settings.node.clone();
        let node = node.as_deref();
        let mut pause = Pause::new(self.pauses);
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
                        pause.wait().await;
                        continue;
                    }
                },
            };
            // What the watch did not come to is asked for again from the newest version that was told.
            let mut newest = from.clone();
            match self.watched(node, from, &mut newest, &mut pause).await {
                Ok(()) => version = Some(newest),
                Err(Failed::Expired) => {
                    self.stats.failure();
                    pause.wait().await;
                }
                Err(failed) => {
                    self.failed(&failed);
                    version = Some(newest);
                    pause.wait().await;
                }
            }
        }
    }

    /// One watch until it ends in order.
    async fn watched(
        &self,
        node: Option<&str>,
        from: String,
        newest: &mut String,
        pause: &mut Pause,
    ) -> Result<(), Failed> {
        let mut watch = Watch::begin(&self.client, node, from).await?;
        self.current();
        // Events that come together are told together.
        let mut untold = false;
        let mut told_anything = false;
        loop {
            let next = if untold {
                match tokio::time::timeout(TOGETHER, watch.next()).await {
                    Ok(next) => next,
                    Err(_) => {
                        (self.changed)();
                        untold = false;
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
                    if untold {
                        (self.changed)();
                    }
                    // One that ends at once, again and again, is not asked in a circle.
                    return match other {
                        Ok(_) if !told_anything => {
                            pause.wait().await;
                            Ok(())
                        }
                        Ok(_) => Ok(()),
                        Err(failed) => Err(failed),
                    };
                }
            };
            told_anything = true;
            pause.reset();
            untold |= self.take(event);
        }
    }

    /// Whether something is different.
    fn take(&self, event: Event) -> bool {
        match event {
            Event::Put(object) => {
                self.stats.event();
                let Some(pod) = self.kept(&object) else { return false };
                match self.pods.put(pod) {
                    Put::Same => false,
                    Put::Changed => true,
                    Put::Full => {
                        self.stats.left_out(1);
                        false
                    }
                }
            }
            Event::Deleted(object) => {
                self.stats.event();
                object.metadata.uid.is_some_and(|uid| self.pods.remove(&uid))
            }
            Event::Bookmark => false,
            Event::Odd => {
                self.stats.left_out(1);
                false
            }
        }
    }

    /// Asks the kubelet again and again. Never completes.
    async fn poll(self) {
        let mut pause = Pause::new(self.pauses);
        loop {
            match kubelet(&self.client).await {
                Ok(objects) => {
                    let pods = objects.iter().filter_map(|object| self.kept(object)).collect();
                    self.listed(pods);
                    self.current();
                    pause.reset();
                    // Not all nodes' agents at the same moment.
                    sleep(self.settings.kubelet_interval.mul_f64(0.9 + 0.2 * fastrand::f64())).await;
                }
                Err(failed) => {
                    self.failed(&failed);
                    pause.wait().await;
                }
            }
        }
    }

    fn kept(&self, object: &super::object::PodObject) -> Option<Pod> {
        let pod = Pod::new(object, &self.settings);
        if pod.is_none() {
            self.stats.left_out(1);
        }
        pod
    }

    fn listed(&self, pods: Vec<Pod>) {
        self.stats.list();
        let (changed, full) = self.pods.replace(pods);
        if full > 0 {
            self.stats.left_out(full as u64);
        }
        if changed {
            (self.changed)();
        }
    }

    /// Said once per change.
    fn current(&self) {
        self.is_refused.store(false, Ordering::Relaxed);
        if self.stats.set_current(true) {
            info!(target: "gcwatch::kubernetes", "the metadata of {} pods is known", self.pods.count());
        }
    }

    fn failed(&self, failed: &Failed) {
        let first = self.stats.failure() == 0;
        // One that was away and now refuses is another trouble.
        let is_refused = matches!(failed, Failed::Forbidden(_) | Failed::Unauthorized(_));
        let refuses_now = is_refused && !self.is_refused.swap(true, Ordering::Relaxed);
        if self.stats.set_current(false) || first || refuses_now {
            warn!(
                target: "gcwatch::kubernetes",
                "the metadata of pods is not current, and stays as it was known ({} pods): {failed}; it is asked for again",
                self.pods.count()
            );
        }
    }
}

/// How long is waited: twice as long each time, never at the same time as others.
#[derive(Debug)]
struct Pause {
    first: Duration,
    most: Duration,
    failures: u32,
}

impl Pause {
    fn new((first, most): (Duration, Duration)) -> Self {
        Self {
            first,
            most,
            failures: 0,
        }
    }

    fn reset(&mut self) {
        self.failures = 0;
    }

    /// How long this one is, for a random number from 0 to 1.
    fn next(&mut self, random: f64) -> Duration {
        let longest = self.first.saturating_mul(1 << self.failures.min(10)).min(self.most);
        self.failures = self.failures.saturating_add(1);
        longest.mul_f64(0.5 + 0.5 * random)
    }

    async fn wait(&mut self) {
        sleep(self.next(fastrand::f64())).await;
    }
}

#[cfg(test)]
mod tests;
