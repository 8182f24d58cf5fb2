//! The task that sends the waiting files to the target.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::mpsc::Receiver;
use tokio::sync::oneshot;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{Instant, sleep_until};

use super::outgoing::Outgoing;
use super::queue::{Entry, Input, Limits, Output, Queue};
use super::target::{SendOutcome, Target};
use super::{Order, StoreStats};

/// The uploader: the queue, the folder and the target.
#[derive(Debug)]
pub(super) struct Uploader {
    target: Target,
    outgoing: Outgoing,
    queue: Queue,
    stats: Arc<StoreStats>,
    /// Address of the objects of this host, for messages.
    base: Arc<str>,
    began: Instant,
    /// Number of the newest file.
    number: u64,
    sending: JoinSet<AttemptOutcome>,
}

/// The end of an attempt.
#[derive(Debug)]
enum AttemptOutcome {
    Sent(SendOutcome),
    /// The file does not exist.
    Missing,
}

/// The time at which the uploader stops at the latest, and the channel that reports the stop.
type PendingStop = (Instant, oneshot::Sender<()>);

impl Uploader {
    pub(super) fn new(
        target: Target,
        outgoing: Outgoing,
        limits: Limits,
        stats: Arc<StoreStats>,
        base: Arc<str>,
    ) -> Self {
        Self {
            target,
            outgoing,
            queue: Queue::new(limits),
            stats,
            base,
            began: Instant::now(),
            number: 0,
            sending: JoinSet::new(),
        }
    }

    /// Sends queued and new files until a stop is requested or every [`Store`](super::Store) is dropped.
    pub(super) async fn run(mut self, waiting: Vec<Entry>, mut orders: Receiver<Order>) {
        for entry in waiting {
            self.number = self.number.max(entry.number);
            self.step(Input::Arrived(entry)).await;
        }
        let mut stopping: Option<PendingStop> = None;
        loop {
            let is_stopped = stopping.as_ref().is_some_and(|(at, _)| Instant::now() >= *at);
            if stopping.is_some() && (is_stopped || self.queue.count() == 0) {
                break;
            }
            let due = self.queue.due().map(|due| self.began + due);
            let until = stopping.as_ref().map(|(at, _)| *at);
            let next = due.into_iter().chain(until).min();
            tokio::select! {
                order = orders.recv(), if stopping.is_none() => match order {
                    Some(Order::Stop(within, done)) => stopping = Some((Instant::now() + within, done)),
                    Some(order) => self.take(order).await,
                    None => break,
                },
                Some(ended) = self.sending.join_next() => {
                    // A task that panicked or was aborted has sent nothing.
                    let ended = ended.unwrap_or_else(|error| AttemptOutcome::Sent(SendOutcome::Failed(error.to_string())));
                    self.ended(ended).await;
                }
                () = async { sleep_until(next.unwrap_or(self.began)).await }, if next.is_some() => {
                    self.step(Input::Elapsed).await;
                }
            }
        }
        if self.queue.count() > 0 {
            tracing::info!(
                target: "gcwatch::evidence",
                "{} files of evidence wait on disk for {}", self.queue.count(), self.base
            );
        }
        if let Some((_, done)) = stopping {
            let _nobody_waits = done.send(());
        }
    }

    /// Adds the file of an order to the folder.
    async fn take(&mut self, order: Order) {
        self.number += 1;
        let (outgoing, number) = (self.outgoing.clone(), self.number);
        let (name, added) = match order {
            Order::Link { path, key } => {
                let name = key.clone();
                (name, spawn_blocking(move || outgoing.link(number, &key, &path)).await)
            }
            Order::Write { key, bytes } => {
                let name = key.clone();
                (name, spawn_blocking(move || outgoing.write(number, &key, &bytes)).await)
            }
            Order::Stop(..) => return,
        };
        match added.unwrap_or_else(|error| Err(io::Error::other(error))) {
            Ok(entry) => self.step(Input::Arrived(entry)).await,
            Err(error) => {
                StoreStats::add(&self.stats.dropped);
                tracing::warn!(
                    target: "gcwatch::evidence",
                    "{name} is not stored at {}: cannot keep it in the queue: {error}", self.base
                );
            }
        }
    }

    async fn ended(&mut self, ended: AttemptOutcome) {
        let input = match ended {
            AttemptOutcome::Missing => Input::Missing,
            AttemptOutcome::Sent(SendOutcome::Stored) => {
                StoreStats::add(&self.stats.stored);
                if self.stats.last_error().is_some() {
                    self.stats.set_error(None);
                    tracing::info!(target: "gcwatch::evidence", "evidence is stored again at {}", self.base);
                }
                Input::Stored
            }
            AttemptOutcome::Sent(SendOutcome::Failed(reason)) => {
                StoreStats::add(&self.stats.failed);
                if self.stats.last_error().is_none() {
                    tracing::warn!(
                        target: "gcwatch::evidence",
                        "cannot store evidence at {}: {reason}; {} files wait, and are sent again",
                        self.base,
                        self.queue.count()
                    );
                }
                self.stats.set_error(Some(reason));
                Input::Failed
            }
        };
        self.step(input).await;
    }

    async fn step(&mut self, input: Input) {
        let chance = fastrand::f64();
        for output in self.queue.step(input, self.began.elapsed(), chance) {
            match output {
                Output::Send(entry) => self.send(entry),
                Output::Delete(entry) | Output::Replace(entry) => self.remove(entry).await,
                Output::Drop(entry) => {
                    StoreStats::add(&self.stats.dropped);
                    tracing::warn!(
                        target: "gcwatch::evidence",
                        "dropped {}, which waited for {}: evidence.store limits what waits", entry.key, self.base
                    );
                    self.remove(entry).await;
                }
            }
        }
        let files = u64::try_from(self.queue.count()).unwrap_or(u64::MAX);
        self.stats.waiting_files.store(files, Ordering::Relaxed);
        self.stats.waiting_bytes.store(self.queue.bytes(), Ordering::Relaxed);
    }

    fn send(&mut self, entry: Entry) {
        let (target, outgoing) = (self.target.clone(), self.outgoing.clone());
        self.sending.spawn(async move {
            let (key, bytes) = (entry.key.clone(), entry.bytes);
            let opened = spawn_blocking(move || outgoing.read(&entry)).await;
            let opened: io::Result<Option<File>> = opened.unwrap_or_else(|error| Err(io::Error::other(error)));
            match opened {
                Ok(Some(file)) => AttemptOutcome::Sent(target.send(&key, file, bytes).await),
                Ok(None) => AttemptOutcome::Missing,
                Err(error) => AttemptOutcome::Sent(SendOutcome::Failed(error.to_string())),
            }
        });
    }

    async fn remove(&self, entry: Entry) {
        let outgoing = self.outgoing.clone();
        let removed = spawn_blocking(move || outgoing.remove(&entry)).await;
        if let Err(error) = removed.unwrap_or_else(|error| Err(io::Error::other(error))) {
            tracing::warn!(
                target: "gcwatch::evidence",
                "cannot delete a file that was sent to {}: {error}; it is sent again after a restart", self.base
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use tokio::runtime::Handle;

    use super::super::{Store, StoreOptions};
    use super::*;

    fn options(volume: &std::path::Path) -> StoreOptions {
        StoreOptions {
            url: format!("file://{}", volume.display()),
            endpoint: None,
            max_files: 10,
            max_bytes: 1 << 20,
        }
    }

    /// Scenario: the volume cannot be used; two objects are ordered, and the store is closed. A second instance starts
    /// with a usable volume.
    /// Guarantee: the first instance keeps both files on disk. The second instance stores both files, byte for byte,
    /// and its queue is empty.
    #[tokio::test]
    async fn objects_survive_an_outage_and_a_restart() {
        let (state, volume) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let recording = state.path().join("r.nettrace");
        fs::write(&recording, "recording").unwrap();
        // A file is in the place of the folder.
        let blocked = volume.path().join("blocked");
        fs::write(&blocked, "").unwrap();
        let store = Store::start(state.path(), "node7", &options(&blocked), &Handle::current()).unwrap();
        store.store_file(recording.clone(), "r.nettrace".to_owned());
        store.store_bytes("0f/incident.json".to_owned(), b"{}".to_vec());
        store.close(Duration::ZERO).await;
        fs::remove_file(&recording).unwrap();
        assert_eq!(store.stats().waiting().0, 2);
        assert_eq!(fs::read_dir(Outgoing::folder(state.path())).unwrap().count(), 2);

        let store = Store::start(state.path(), "node7", &options(volume.path()), &Handle::current()).unwrap();
        assert_eq!(&**store.base(), format!("file://{}/node7", volume.path().display()));
        store.close(Duration::from_secs(60)).await;
        let read = |name: &str| fs::read_to_string(volume.path().join("node7").join(name)).unwrap();
        assert_eq!(
            (read("r.nettrace").as_str(), read("0f/incident.json").as_str()),
            ("recording", "{}")
        );
        assert_eq!(store.stats().counts()[0], ("stored", 2));
        assert_eq!(fs::read_dir(Outgoing::folder(state.path())).unwrap().count(), 0);
    }
}
