//! The queue on disk for the tasks that send: each call is made on a thread that may block, within a bound, and a disk
//! that does not work is reported once.

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
use crate::store::{Bounds, LOGS, Store, Stored};

/// How long a call may take.
const WITHIN: Duration = Duration::from_secs(5);

/// How long a disk that did not work is not asked again.
const REST: Duration = Duration::from_secs(5);

/// A disk on which this long nothing failed works.
const CALM: Duration = Duration::from_secs(60);

/// How long the start waits for the queue to be opened: the headers of 3 GiB are read from a slow disk in a minute.
const OPENED_WITHIN: Duration = Duration::from_secs(2);

/// What the calls left behind.
#[derive(Debug, Default)]
struct Status {
    /// Bytes of each log.
    bytes: [u64; LOGS],
    /// Dropped items of each log that its signal has not counted yet.
    drops: [Vec<(Reason, u64)>; LOGS],
    /// When the disk did not work last, unless something was written since; `None`: it works.
    failed: Option<Instant>,
    /// When it did not work last, until it works and that is logged. A disk that is full takes small requests, and is
    /// read all the time.
    reported: Option<Instant>,
    /// Other bounds, for the next call.
    bounds: Option<Bounds>,
}

/// The queue on disk of all signals.
#[derive(Debug)]
pub(crate) struct StoreHandle {
    /// `None`: it could not be opened, or is being opened.
    store: Mutex<Option<Store>>,
    status: Mutex<Status>,
    /// One call at a time: a disk that hangs takes one thread.
    turn: Arc<Semaphore>,
    /// When it was opened, by the clock that passes evenly and by the wall clock.
    opened: (Instant, u64),
}

/// Items of each signal in a queue that was opened.
#[derive(Debug)]
pub(crate) enum Found {
    Now([u64; LOGS]),
    /// It takes its time.
    Later(oneshot::Receiver<[u64; LOGS]>),
}

/// Something that was found when the queue on disk was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Something is wrong.
    pub is_warning: bool,
    /// A sentence.
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
    /// Opens it. Where that is not possible, it does not work; where it takes long, not before it is open.
    pub(crate) fn open(settings: &DiskQueue, now: Instant) -> (Arc<Self>, Vec<Note>, Found) {
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
        let now = match thread.map(|_| is_opened.recv_timeout(OPENED_WITHIN)) {
            Ok(Ok(found)) => Some(found),
            Ok(Err(RecvTimeoutError::Timeout)) => None,
            Ok(Err(RecvTimeoutError::Disconnected)) => Some(failed(io::Error::other("its thread ended"))),
            Err(error) => Some(failed(error)),
        };
        match now {
            Some((items, notes)) => (store_handle, notes, Found::Now(items)),
            None => {
                let text = format!(
                    "opening the queue in {path} takes more than {} s: until it is open, what receivers do not take \
                     waits in memory only",
                    OPENED_WITHIN.as_secs()
                );
                (
                    store_handle,
                    vec![Note { is_warning: true, text }],
                    Found::Later(is_later),
                )
            }
        }
    }

    /// It was opened, or cannot be: the items in it, and what was found, for the log.
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
                        format!("{waits} items wait in {path} from before and are sent beside what is new"),
                    );
                }
                if missing > 0 {
                    note(true, format!("{missing} requests in {path} were damaged and are lost"));
                }
                let mut status = self.status();
                status.note(&store);
                status.failed = None;
                *self.store.lock().unwrap_or_else(PoisonError::into_inner) = Some(store);
            }
            Err(error) => note(
                true,
                format!("cannot use the queue in {path}: {error}; what receivers do not take waits in memory only"),
            ),
        }
        (items, notes)
    }

    /// The time by which ages are judged. A wall clock that is set (by years, where a host starts without a battery)
    /// would take everything that waits for too old.
    fn now_unix_ns(&self) -> u64 {
        let (opened, unix_ns) = self.opened;
        let passed = Instant::now().saturating_duration_since(opened).as_nanos();
        unix_ns.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX))
    }

    fn status(&self) -> MutexGuard<'_, Status> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it works, as far as is known.
    pub(crate) fn works(&self) -> bool {
        let failed = self.status().failed;
        let is_open = self.store.try_lock().map_or(true, |store| store.is_some());
        is_open && failed.is_none_or(|failed| failed.elapsed() >= CALM)
    }

    /// When it may be used; `None`: not, as it is not open.
    pub(crate) fn usable_at(&self, now: Instant) -> Option<Instant> {
        let failed = self.status().failed;
        // Held by a call: it is open.
        let is_open = self.store.try_lock().map_or(true, |store| store.is_some());
        is_open.then(|| failed.map_or(now, |failed| failed + REST))
    }

    /// Bytes of one signal.
    pub(crate) fn bytes(&self, signal: Signal) -> u64 {
        self.status().bytes.get(place(signal)).copied().unwrap_or(0)
    }

    /// What was dropped of one signal since the last call.
    pub(crate) fn take_drops(&self, signal: Signal) -> Vec<(Reason, u64)> {
        let mut status = self.status();
        let drops = status.drops.get_mut(place(signal));
        drops.map(std::mem::take).unwrap_or_default()
    }

    /// Stores a request. When this returns true, it is on the disk.
    pub(crate) async fn append(self: &Arc<Self>, signal: Signal, batch: Arc<Batch>) -> bool {
        let now_unix_ns = self.now_unix_ns();
        let stored = self.call(move |store| store.append(place(signal), batch.items(), &batch.to_bytes(), now_unix_ns));
        let stored = stored.await;
        self.noted(stored, true).is_some()
    }

    /// The oldest request of a signal.
    pub(crate) async fn oldest(self: &Arc<Self>, signal: Signal) -> Option<Stored> {
        let now_unix_ns = self.now_unix_ns();
        let oldest = self.call(move |store| store.oldest(place(signal), now_unix_ns)).await;
        self.noted(oldest, false).flatten()
    }

    /// Removes the oldest request of a signal, which has this number. False: it was dropped meanwhile.
    pub(crate) async fn remove(self: &Arc<Self>, signal: Signal, number: u64) -> bool {
        let removed = self.call(move |store| Ok(store.remove(place(signal), number))).await;
        self.noted(removed, false).unwrap_or(true)
    }

    /// Whether that request was not dropped meanwhile.
    pub(crate) async fn has(self: &Arc<Self>, signal: Signal, number: u64) -> bool {
        let has = self.call(move |store| Ok(store.has(place(signal), number))).await;
        self.noted(has, false).unwrap_or(true)
    }

    /// Other bounds from the next call on.
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
        timeout(WITHIN, done).await.map_err(|_| io::ErrorKind::TimedOut)?
    }

    /// What a call returned. `writes`: it had to write.
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
                        "the queue on disk failed: {error}; data that receivers refuse waits in memory until it \
                         does",
                    );
                }
                None
            }
        }
    }
}

impl Status {
    /// Notes the outcome of a call. Whether it is news: the first failure, or that it works, once nothing has failed for
    /// [`CALM`].
    fn judge(&mut self, is_done: bool, writes: bool, now: Instant) -> bool {
        if !is_done {
            self.failed = Some(now);
            return self.reported.replace(now).is_none();
        }
        if !writes {
            // A disk that is full can be read.
            return false;
        }
        self.failed = None;
        let is_calm = self.reported.is_some_and(|failed| now >= failed + CALM);
        is_calm && self.reported.take().is_some()
    }

    fn note(&mut self, store: &Store) {
        for (which, bytes) in self.bytes.iter_mut().enumerate() {
            *bytes = store.log_bytes(which);
        }
    }

    /// Takes over what the store dropped.
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

    /// Scenario: a disk that is full takes a small request now and then, and is read all the time; later it takes all.
    /// Guarantee: the failure is news once, and that it works is once, a minute after the last failure; what is read
    /// says nothing.
    #[test]
    fn a_full_disk_is_reported_once() {
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
        assert_eq!(news, [0, 99 + CALM.as_secs()]);
    }
}
