//! The queue on disk for the sending tasks. Each call runs on a blocking thread with a timeout. A disk failure is
//! reported once.

use std::io;
use std::sync::mpsc::{RecvTimeoutError, SendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use base::clock::now_unix_ns;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};

use crate::otlp::batch::Batch;
use crate::otlp::settings::DiskQueue;
use crate::otlp::signal::Signal;
use crate::otlp::stats::Reason;
use crate::store::{Bounds, LOGS, Store, StoredRequest};

/// Timeout of a call.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// Time for which a failed disk is not used.
const DISK_RETRY_DELAY: Duration = Duration::from_secs(5);

/// Time without failures after which the disk counts as working.
const DISK_RECOVERY_PERIOD: Duration = Duration::from_secs(60);

/// Maximum wait at the start until the queue is open. Reading the headers of 3 GiB from a slow disk takes a minute.
const OPEN_TIMEOUT: Duration = Duration::from_secs(2);

/// State left behind by calls.
#[derive(Debug, Default)]
struct Status {
    /// Number of bytes of each log.
    bytes: [u64; LOGS],
    /// Dropped items of each log that its signal has not counted yet.
    drops: [Vec<(Reason, u64)>; LOGS],
    /// Time of the last failure, unless data was written since; `None` if the disk works.
    failed: Option<Instant>,
    /// Time of the last failure, until the recovery was logged; `None` afterwards. A full disk accepts small requests
    /// and can always be read.
    reported: Option<Instant>,
    /// New limits for the next call; `None` if they have not changed.
    bounds: Option<Bounds>,
}

/// The queue on disk of all signals.
#[derive(Debug)]
pub(crate) struct StoreHandle {
    /// The store; `None` if it could not be opened or is being opened.
    store: Mutex<Option<Store>>,
    status: Mutex<Status>,
    /// Allows one call at a time, so that a blocked disk occupies only one thread.
    turn: Arc<Semaphore>,
    /// Time of the opening, on the steady clock and on the wall clock.
    opened: (Instant, u64),
}

/// Items of each signal in an opened queue.
#[derive(Debug)]
pub(crate) enum StoredItems {
    Now([u64; LOGS]),
    /// The opening takes longer; the items follow when the queue is open.
    Later(oneshot::Receiver<[u64; LOGS]>),
}

/// A finding from opening the queue on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Whether the finding is a warning.
    pub is_warning: bool,
    /// The finding, as a sentence.
    pub text: String,
}

impl Note {
    fn log(&self) {
        if self.is_warning {
            tracing::warn!(target: "gcwatch::export", "{}", self.text);
        } else {
            tracing::info!(target: "gcwatch::export", "{}", self.text);
        }
    }
}

fn bounds(settings: &DiskQueue) -> Bounds {
    Bounds {
        max_bytes: settings.max_bytes,
        max_age: settings.max_age,
    }
}

fn place(signal: Signal) -> usize {
    signal as usize
}

impl StoreHandle {
    /// Opens the queue. If the opening fails, no data is stored. If the opening takes more than [`OPEN_TIMEOUT`], data
    /// is stored once the queue is open.
    pub(crate) fn open(settings: &DiskQueue, now: Instant) -> (Arc<Self>, Vec<Note>, StoredItems) {
        let store_handle = Arc::new(Self {
            store: Mutex::new(None),
            status: Mutex::new(Status {
                failed: Some(now),
                ..Status::default()
            }),
            turn: Arc::new(Semaphore::new(1)),
            opened: (now, now_unix_ns()),
        });
        let path = settings.directory.display().to_string();
        let (opened, is_opened) = sync_channel(0);
        let (later, is_later) = oneshot::channel();
        let opens = {
            let (store_handle, path) = (Arc::clone(&store_handle), path.clone());
            let (directory, bounds) = (settings.directory.clone(), bounds(settings));
            move || {
                let store = Store::open(&directory, Signal::ALL.map(Signal::name), bounds);
                if let Err(SendError((items, notes))) = opened.send(store_handle.opened(&path, store)) {
                    notes.iter().for_each(Note::log);
                    let _ended_meanwhile = later.send(items);
                }
            }
        };
        let thread = thread::Builder::new().name("queue".to_owned()).spawn(opens);
        let failed = |error| store_handle.opened(&path, Err(error));
        let now = match thread.map(|_| is_opened.recv_timeout(OPEN_TIMEOUT)) {
            Ok(Ok(found)) => Some(found),
            Ok(Err(RecvTimeoutError::Timeout)) => None,
            Ok(Err(RecvTimeoutError::Disconnected)) => Some(failed(io::Error::other("the thread panicked"))),
            Err(error) => Some(failed(error)),
        };
        match now {
            Some((items, notes)) => (store_handle, notes, StoredItems::Now(items)),
            None => {
                let text = format!(
                    "opening the queue in {path} takes more than {} s; until it is open, unaccepted data waits \
                     in memory only",
                    OPEN_TIMEOUT.as_secs()
                );
                (
                    store_handle,
                    vec![Note { is_warning: true, text }],
                    StoredItems::Later(is_later),
                )
            }
        }
    }

    /// Handles the result of the opening. Returns the items in the queue, and the findings for the log.
    fn opened(&self, path: &str, opened: io::Result<Store>) -> ([u64; LOGS], Vec<Note>) {
        let mut items = [0; LOGS];
        let mut notes = Vec::new();
        let mut note = |is_warning, text| notes.push(Note { is_warning, text });
        match opened {
            Ok(store) => {
                for (which, items) in items.iter_mut().enumerate() {
                    *items = store.items(which);
                }
                let (waits, missing) = (items.iter().sum::<u64>(), store.missing());
                if waits > 0 {
                    note(
                        false,
                        format!("found {waits} unsent items in {path}; sending them along with new data"),
                    );
                }
                if missing > 0 {
                    note(true, format!("lost {missing} damaged requests in {path}"));
                }
                if store.unsendable() > 0 {
                    let profiles = store.unsendable();
                    note(
                        true,
                        format!("removed {profiles} unsent profiles in {path}: gcwatch no longer sends profiles"),
                    );
                }
                let mut status = self.status();
                status.note(&store);
                status.failed = None;
                *self.store.lock().unwrap_or_else(PoisonError::into_inner) = Some(store);
            }
            Err(error) => note(
                true,
                format!("cannot use the queue in {path}: {error}; unaccepted data waits in memory only"),
            ),
        }
        (items, notes)
    }

    /// Returns the time from which ages are computed: the wall clock at the opening, plus the time that has passed on
    /// the steady clock. A change of the wall clock (by years, on a host that starts without a battery) must not make
    /// all queued data count as too old.
    fn now_unix_ns(&self) -> u64 {
        let (opened, unix_ns) = self.opened;
        let passed = Instant::now().saturating_duration_since(opened).as_nanos();
        unix_ns.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX))
    }

    fn status(&self) -> MutexGuard<'_, Status> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the queue is open and works. A queue works if a write has succeeded since its last failure, or
    /// if the last failure is at least [`DISK_RECOVERY_PERIOD`] ago.
    pub(crate) fn works(&self) -> bool {
        let failed = self.status().failed;
        let is_open = self.store.try_lock().map_or(true, |store| store.is_some());
        is_open && failed.is_none_or(|failed| failed.elapsed() >= DISK_RECOVERY_PERIOD)
    }

    /// Returns the time at which the queue can be used, or `None` if the queue is not open.
    pub(crate) fn usable_at(&self, now: Instant) -> Option<Instant> {
        let failed = self.status().failed;
        // If a call holds the lock, the queue is open.
        let is_open = self.store.try_lock().map_or(true, |store| store.is_some());
        is_open.then(|| failed.map_or(now, |failed| failed + DISK_RETRY_DELAY))
    }

    /// Returns the number of bytes of one signal.
    pub(crate) fn bytes(&self, signal: Signal) -> u64 {
        self.status().bytes.get(place(signal)).copied().unwrap_or(0)
    }

    /// Returns the items of one signal that were dropped since the last call.
    pub(crate) fn take_drops(&self, signal: Signal) -> Vec<(Reason, u64)> {
        let mut status = self.status();
        let drops = status.drops.get_mut(place(signal));
        drops.map(std::mem::take).unwrap_or_default()
    }

    /// Stores a request. If this method returns `true`, the request is on the disk.
    pub(crate) async fn append(self: &Arc<Self>, signal: Signal, batch: Arc<Batch>) -> bool {
        let now_unix_ns = self.now_unix_ns();
        let stored = self.call(move |store| store.append(place(signal), batch.items(), &batch.to_bytes(), now_unix_ns));
        let stored = stored.await;
        self.noted(stored, true).is_some()
    }

    /// Returns the oldest request of a signal, or `None` if there is no request or it cannot be read.
    pub(crate) async fn oldest(self: &Arc<Self>, signal: Signal) -> Option<StoredRequest> {
        let now_unix_ns = self.now_unix_ns();
        let oldest = self.call(move |store| store.oldest(place(signal), now_unix_ns)).await;
        self.noted(oldest, false).flatten()
    }

    /// Removes the oldest request of a signal, which must have this number. Returns `false` if the request was dropped
    /// before, and `true` if the call fails.
    pub(crate) async fn remove(self: &Arc<Self>, signal: Signal, number: u64) -> bool {
        let removed = self.call(move |store| Ok(store.remove(place(signal), number))).await;
        self.noted(removed, false).unwrap_or(true)
    }

    /// Returns whether this request has not been dropped, or `true` if the call fails.
    pub(crate) async fn has(self: &Arc<Self>, signal: Signal, number: u64) -> bool {
        let has = self.call(move |store| Ok(store.has(place(signal), number))).await;
        self.noted(has, false).unwrap_or(true)
    }

    /// Sets the limits for the next calls.
    pub(crate) fn set_bounds(&self, settings: &DiskQueue) {
        self.status().bounds = Some(bounds(settings));
    }

    async fn call<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&mut Store) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let store_handle = Arc::clone(self);
        let done = async move {
            let turn = Arc::clone(&store_handle.turn)
                .acquire_owned()
                .await
                .map_err(io::Error::other)?;
            let task = spawn_blocking(move || {
                let _turn = turn;
                let bounds = store_handle.status().bounds.take();
                let mut store = store_handle.store.lock().unwrap_or_else(PoisonError::into_inner);
                let store = store.as_mut().ok_or(io::ErrorKind::NotFound)?;
                if let Some(bounds) = bounds {
                    store.set_bounds(bounds);
                }
                let done = work(store);
                store_handle.status().collect(store);
                done
            });
            task.await.map_err(io::Error::other)?
        };
        timeout(CALL_TIMEOUT, done).await.map_err(|_| io::ErrorKind::TimedOut)?
    }

    /// Handles the result of a call, and returns `None` if the call failed. `writes` is whether the call had to write.
    fn noted<T>(&self, done: io::Result<T>, writes: bool) -> Option<T> {
        let news = self.status().judge(done.is_ok(), writes, Instant::now());
        match (done, news) {
            (Ok(done), news) => {
                if news {
                    tracing::info!(target: "gcwatch::export", "the queue on disk works again");
                }
                Some(done)
            }
            (Err(error), news) => {
                if news {
                    tracing::warn!(
                        target: "gcwatch::export",
                        "the queue on disk failed: {error}; unaccepted data waits in memory until the disk works \
                         again",
                    );
                }
                None
            }
        }
    }
}

impl Status {
    /// Records the outcome of a call. Returns whether it must be logged: the first failure, or the recovery after
    /// [`DISK_RECOVERY_PERIOD`] without failures.
    fn judge(&mut self, is_done: bool, writes: bool, now: Instant) -> bool {
        if !is_done {
            self.failed = Some(now);
            return self.reported.replace(now).is_none();
        }
        if !writes {
            // A full disk can still be read.
            return false;
        }
        self.failed = None;
        let is_calm = self.reported.is_some_and(|failed| now >= failed + DISK_RECOVERY_PERIOD);
        is_calm && self.reported.take().is_some()
    }

    fn note(&mut self, store: &Store) {
        for (which, bytes) in self.bytes.iter_mut().enumerate() {
            *bytes = store.log_bytes(which);
        }
    }

    /// Collects the items that the store has dropped.
    fn collect(&mut self, store: &mut Store) {
        self.note(store);
        for (which, drops) in self.drops.iter_mut().enumerate() {
            let dropped = store.take_drops(which);
            let each = [
                (Reason::DiskFull, dropped.full),
                (Reason::Expired, dropped.expired),
                (Reason::Damaged, dropped.damaged),
            ];
            drops.extend(each.into_iter().filter(|(_, items)| *items > 0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: a full disk occasionally accepts a small request, and is always readable; later it accepts all
    /// requests.
    /// Guarantee: the failure is reported once, and the recovery is reported once, a minute after the last failure;
    /// successful reads are not reported.
    #[test]
    fn full_disk_is_reported_once() {
        let (mut status, began) = (Status::default(), Instant::now());
        let mut news = Vec::new();
        for second in 0..300 {
            let now = began + Duration::from_secs(second);
            let fails = second < 100 && second % 3 == 0;
            if status.judge(!fails, true, now) {
                news.push(second);
            }
            assert_eq!(status.failed.is_some(), fails);
            assert!(!status.judge(true, false, now), "{second}");
        }
        assert_eq!(news, [0, 99 + DISK_RECOVERY_PERIOD.as_secs()]);
    }
}
