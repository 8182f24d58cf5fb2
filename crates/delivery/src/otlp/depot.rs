//! The queue on disk for the tasks that send: each call is made on a thread that may block, within a bound, and a disk
//! that does not work is reported once.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};

use crate::clock::now_unix_ns;
use crate::otlp::batch::Batch;
use crate::otlp::settings::DiskQueue;
use crate::otlp::signal::Signal;
use crate::otlp::stats::Reason;
use crate::store::{Bounds, LOGS, Store, Stored};

/// How long a call may take.
const WITHIN: Duration = Duration::from_secs(5);

/// How long a disk that did not work is not asked again.
const REST: Duration = Duration::from_secs(5);

/// Most calls that wait, each on a thread.
const MOST_WAITING: usize = 6;

/// What the calls left behind.
#[derive(Debug, Default)]
struct Status {
    /// Bytes of each log.
    bytes: [u64; LOGS],
    /// Dropped items of each log that its lane has not counted yet.
    drops: [Vec<(Reason, u64)>; LOGS],
    /// When the disk did not work last; `None`: it works.
    failed: Option<Instant>,
}

/// The queue on disk of all signals.
#[derive(Debug)]
pub(crate) struct Depot {
    /// `None`: it could not be opened.
    store: Mutex<Option<Store>>,
    status: Mutex<Status>,
    waiting: AtomicUsize,
    /// When it was opened, by the clock that passes evenly and by the wall clock.
    opened: (Instant, u64),
    /// What was found when it was opened, for the log.
    notes: Vec<Note>,
}

/// Something that was found when the queue on disk was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Something is wrong.
    pub is_warning: bool,
    /// A sentence.
    pub text: String,
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

impl Depot {
    /// Opens it; how many items of each signal are in it. Where that is not possible, it does not work.
    pub(crate) fn open(settings: &DiskQueue, now: Instant) -> (Self, [u64; LOGS]) {
        let names = Signal::ALL.map(Signal::name);
        let opened = Store::open(&settings.directory, names, bounds(settings));
        let path = settings.directory.display();
        let mut items = [0; LOGS];
        let mut status = Status::default();
        let mut notes = Vec::new();
        let mut note = |is_warning, text| notes.push(Note { is_warning, text });
        let store = match opened {
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
                status.note(&store);
                Some(store)
            }
            Err(error) => {
                note(
                    true,
                    format!("cannot use the queue in {path}: {error}; what receivers do not take waits in memory only"),
                );
                status.failed = Some(now);
                None
            }
        };
        let depot = Self {
            store: Mutex::new(store),
            status: Mutex::new(status),
            waiting: AtomicUsize::new(0),
            opened: (now, now_unix_ns()),
            notes,
        };
        (depot, items)
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
        self.status().failed.is_none()
    }

    /// What was found when it was opened.
    pub(crate) fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// When it may be used; `None`: never, as it could not be opened.
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
        self.noted(stored).is_some()
    }

    /// The oldest request of a signal.
    pub(crate) async fn oldest(self: &Arc<Self>, signal: Signal) -> Option<Stored> {
        let now_unix_ns = self.now_unix_ns();
        let oldest = self.call(move |store| store.oldest(place(signal), now_unix_ns)).await;
        self.noted(oldest).flatten()
    }

    /// Removes the oldest request of a signal, which has this number. False: it was dropped meanwhile.
    pub(crate) async fn remove(self: &Arc<Self>, signal: Signal, number: u64) -> bool {
        let removed = self.call(move |store| Ok(store.remove(place(signal), number))).await;
        self.noted(removed).unwrap_or(true)
    }

    /// Whether that request was not dropped meanwhile.
    pub(crate) async fn has(self: &Arc<Self>, signal: Signal, number: u64) -> bool {
        let has = self.call(move |store| Ok(store.has(place(signal), number))).await;
        self.noted(has).unwrap_or(true)
    }

    /// Other bounds, as soon as the disk is not busy.
    pub(crate) fn set_bounds(self: &Arc<Self>, settings: &DiskQueue) {
        let (depot, bounds) = (Arc::clone(self), bounds(settings));
        spawn_blocking(move || {
            if let Some(store) = &mut *depot.store.lock().unwrap_or_else(PoisonError::into_inner) {
                store.set_bounds(bounds);
            }
        });
    }

    async fn call<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&mut Store) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        if self.waiting.load(Ordering::Relaxed) >= MOST_WAITING {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let depot = Arc::clone(self);
        let task = spawn_blocking(move || {
            let mut store = depot.store.lock().unwrap_or_else(PoisonError::into_inner);
            let done = match &mut *store {
                Some(store) => {
                    let done = work(store);
                    depot.status().collect(store);
                    done
                }
                None => Err(io::ErrorKind::NotFound.into()),
            };
            depot.waiting.fetch_sub(1, Ordering::Relaxed);
            done
        });
        match timeout(WITHIN, task).await {
            Ok(Ok(done)) => done,
            Ok(Err(failed)) => Err(io::Error::other(failed)),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    /// What a call returned; a change between a disk that works and one that does not is logged.
    fn noted<T>(&self, done: io::Result<T>) -> Option<T> {
        let (done, failed) = match done {
            Ok(done) => (Some(done), None),
            Err(error) => (None, Some(error)),
        };
        let before = {
            let mut status = self.status();
            std::mem::replace(&mut status.failed, failed.is_some().then(Instant::now))
        };
        match failed {
            Some(error) if before.is_none() => tracing::warn!(
                target: "gcwatch::export",
                "the queue on disk does not work: {error}; what receivers do not take waits in memory until it does",
            ),
            None if before.is_some() => {
                tracing::info!(target: "gcwatch::export", "the queue on disk works again");
            }
            _ => {}
        }
        done
    }
}

impl Status {
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
