//! Recordings of incidents: the time before the start of an incident, and [`FOLLOWS`] after the start, as files that
//! `gcwatch analyze`, PerfView and TraceEvent open.
//!
//! ```text
//! pipeline: an incident starts, a process died -> Order, never waits -> writer, a dedicated thread:
//!     targets::black_box (streams in memory) -> nettrace::keep::Rewriter -> ID.partial
//!     the stream ends, or FOLLOWS have passed         -> end, fsync, rename        -> ID-27s-10s.nettrace
//! ```
//!
//! The stream in memory is written immediately: if gcwatch is killed during the recording, it leaves a truncated file,
//! which the next instance finds. Only the writer and [`files`] wait for a disk. If the writer is behind, orders are
//! dropped and counted, and a recording ends where the following stream no longer fits into memory.

mod begun;
pub mod files;
pub mod page;
mod writer;

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use base::time::Moment;
use incidents::{QuotaOwner, Recordings};

use base::run_key::RunKey;
use targets::BlackBoxes;

use begun::RecordingRegistry;
use files::Files;
use writer::Writer;

/// Time for which the stream is recorded after the start of an incident.
pub const FOLLOWS: Duration = Duration::from_secs(10);

/// Maximum number of orders that wait for the writer.
const MAX_ORDERS: usize = 1024;

/// Whether incidents are recorded, and how many recordings are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlackBoxOptions {
    /// Whether incidents are recorded. If false, no stream is kept in memory or written.
    pub enabled: bool,
    /// Maximum number of files. If there are more files, the owner with the most files loses its oldest file.
    pub max_files: usize,
    /// Maximum size of all files, in bytes. If the files are larger, the owner with the largest files loses its oldest
    /// file.
    pub max_bytes: u64,
}

impl Default for BlackBoxOptions {
    fn default() -> Self {
        Self {
            enabled: true,
            max_files: 100,
            max_bytes: 256 << 20,
        }
    }
}

/// An order for the writer.
#[derive(Debug)]
enum Order {
    /// An incident of the run started: write a recording with this id.
    Incident(RunKey, Arc<str>),
    /// The process of the run exited, so its stream has ended. The owner consists of its tenant and service.
    Ended(RunKey, QuotaOwner),
    /// The process was killed, or exited while its memory was exhausted, at this time: write the rest of its stream as
    /// a recording with this id.
    Died(RunKey, Moment, Arc<str>),
    /// Complete open recordings, and stop.
    Stop(SyncSender<()>),
}

/// A recorder of incidents. No method waits for a disk, except [`Self::stop`], which has a deadline.
#[derive(Debug, Clone)]
pub struct BlackBox {
    boxes: Arc<BlackBoxes>,
    orders: SyncSender<Order>,
    files: Arc<Files>,
    recordings: Arc<RecordingRegistry>,
}

impl BlackBox {
    /// Opens a directory below `state`, and creates it if it does not exist. Completes recordings that an earlier
    /// instance left unfinished.
    ///
    /// # Errors
    ///
    /// Returns an error if the directory cannot be used, no memory for zstd is available, or no thread can be started.
    pub fn open(state: &Path, options: &BlackBoxOptions) -> std::io::Result<Self> {
        let files = Arc::new(Files::open(state, options)?);
        let boxes = BlackBoxes::new().ok_or_else(|| std::io::Error::other("no memory for zstd"))?;
        let (orders, receiver) = sync_channel(MAX_ORDERS);
        let recordings = Arc::new(RecordingRegistry::default());
        let writer = Writer::new(Arc::clone(&boxes), Arc::clone(&files), Arc::clone(&recordings));
        std::thread::Builder::new()
            .name("black-box".to_owned())
            .spawn(move || run(writer, &receiver))?;
        Ok(Self {
            boxes,
            orders,
            files,
            recordings,
        })
    }

    /// Returns the black boxes in which streams are kept.
    pub fn boxes(&self) -> Arc<BlackBoxes> {
        Arc::clone(&self.boxes)
    }

    /// Returns the recent recordings. A caller must register a recording there before it calls [`Self::incident`].
    pub fn recordings(&self) -> Arc<dyn Recordings> {
        self.recordings.clone()
    }

    pub fn files(&self) -> &Arc<Files> {
        &self.files
    }

    /// Requests a recording of an incident of the run that has just started. Further calls with the same id have no
    /// effect.
    pub fn incident(&self, run: RunKey, id: &Arc<str>) {
        if !self.order(Order::Incident(run, Arc::clone(id))) {
            self.recordings.forget(id);
        }
    }

    /// Reports that the process of a run has exited. `share` is its tenant and service.
    pub fn ended(&self, run: RunKey, share: QuotaOwner) {
        self.order(Order::Ended(run, share));
    }

    /// Reports that the exited process of a run was killed for memory, or exited while its memory was exhausted. The
    /// rest of its stream is written unless an incident was recorded up to its end, or another death of its service was
    /// recorded within ten minutes. Further calls have no effect.
    pub fn died(&self, run: RunKey, at: Moment, id: Arc<str>) {
        self.order(Order::Died(run, at, id));
    }

    /// Completes open recordings. Blocks the calling thread for at most the given time. The next instance finds
    /// recordings that are still incomplete.
    pub fn stop(&self, within: Duration) {
        let (done, is_done) = sync_channel(1);
        if self.orders.try_send(Order::Stop(done)).is_ok() {
            let _late = is_done.recv_timeout(within);
        }
    }

    /// Sends an order. Returns whether the order was accepted.
    fn order(&self, order: Order) -> bool {
        let is_taken = self.orders.try_send(order).is_ok();
        if !is_taken {
            let before = self.files.drop_one();
            if before.is_multiple_of(1000) {
                tracing::warn!(
                    target: "gcwatch::evidence",
                    "incidents are not recorded: the disk of {} is too slow; {} orders to the black box were dropped",
                    self.files.folder().display(),
                    before + 1
                );
            }
        }
        is_taken
    }
}

/// Runs until the writer is stopped, or all senders of orders are dropped.
fn run(mut writer: Writer, orders: &Receiver<Order>) {
    loop {
        let order = match writer.next() {
            None => orders.recv().ok(),
            Some(at) => match orders.recv_timeout(at.saturating_duration_since(Instant::now())) {
                Ok(order) => Some(order),
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
                    writer.tick(Instant::now());
                    continue;
                }
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => None,
            },
        };
        let now = Instant::now();
        match order {
            Some(Order::Incident(run, id)) => writer.incident(run, &id, now),
            Some(Order::Ended(run, share)) => writer.ended(run, share, now),
            Some(Order::Died(run, at, id)) => writer.died(run, at, &id),
            Some(Order::Stop(done)) => {
                writer.stop();
                let _nobody_waits = done.send(());
                return;
            }
            None => {
                writer.stop();
                return;
            }
        }
        writer.tick(now);
    }
}
