//! The recordings of incidents: what led to them, and [`FOLLOWS`] after it, as files that `gcwatch analyze`, PerfView
//! and TraceEvent open.
//!
//! ```text
//! pipeline: an incident begins, a process died -> Order, never waits -> writer, a thread of its own:
//!     targets::black_box (what is in memory) -> nettrace::keep::Rewriter -> ID.partial
//!     the stream ends, or FOLLOWS have passed       -> end, fsync, rename        -> ID-27s-10s.nettrace
//! ```
//!
//! What is in memory is written at once: a gcwatch that is killed meanwhile leaves a file that is cut, which the next
//! one finds. Everything that waits for a disk is in the writer and in [`files`]; when it is behind, orders are dropped
//! and counted, and a recording ends where what follows it no longer fits into memory.

mod begun;
pub mod files;
pub mod page;
mod writer;

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use base::time::Moment;
use gc_rules::incident::{Recordings, Share};

use base::run_key::RunKey;
use targets::BlackBoxes;

use begun::Begun;
use files::Files;
use writer::Writer;

/// How long the stream is followed after an incident began.
pub const FOLLOWS: Duration = Duration::from_secs(10);

/// Orders that wait for the writer.
const MOST_ORDERS: usize = 1024;

/// Whether incidents are recorded, and how much of that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlackBoxOptions {
    /// If false, nothing is kept in memory or written.
    pub enabled: bool,
    /// Most files; of more, whoever has most loses the oldest.
    pub max_files: usize,
    /// Most bytes of all files, likewise.
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

/// What the writer is to do.
#[derive(Debug)]
enum Order {
    /// An incident of the run began: write a recording with this id.
    Incident(RunKey, Arc<str>),
    /// The process of that tenant and service exited: its stream is over.
    Ended(RunKey, Share),
    /// The process was killed, or ended while its memory was out; when, Unix nanoseconds.
    Died(RunKey, Moment, Arc<str>),
    /// Complete what is open, and end.
    Stop(SyncSender<()>),
}

/// Records incidents. Nothing here waits for a disk, but [`Self::stop`], which has a deadline.
#[derive(Debug, Clone)]
pub struct BlackBox {
    boxes: Arc<BlackBoxes>,
    orders: SyncSender<Order>,
    files: Arc<Files>,
    recordings: Arc<Begun>,
}

impl BlackBox {
    /// Writes into a directory below `state`, which is made. What an earlier gcwatch left unfinished is completed.
    ///
    /// # Errors
    ///
    /// When the directory cannot be made, or no thread begun.
    pub fn open(state: &Path, options: &BlackBoxOptions) -> std::io::Result<Self> {
        let files = Arc::new(Files::open(state, options)?);
        let boxes = BlackBoxes::new().ok_or_else(|| std::io::Error::other("no memory for zstd"))?;
        let (orders, receiver) = sync_channel(MOST_ORDERS);
        let recordings = Arc::new(Begun::default());
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

    /// Where streams are kept.
    pub fn boxes(&self) -> Arc<BlackBoxes> {
        Arc::clone(&self.boxes)
    }

    /// What was recorded lately: whoever has an incident recorded asks it first.
    pub fn recordings(&self) -> Arc<dyn Recordings> {
        self.recordings.clone()
    }

    pub fn files(&self) -> &Arc<Files> {
        &self.files
    }

    /// An incident of the run began. Once for each id: more often changes nothing.
    pub fn incident(&self, run: RunKey, id: &Arc<str>) {
        if !self.order(Order::Incident(run, Arc::clone(id))) {
            self.recordings.forget(id);
        }
    }

    /// The process of that tenant and service exited.
    pub fn ended(&self, run: RunKey, share: Share) {
        self.order(Order::Ended(run, share));
    }

    /// The process that exited was killed for memory, or ended while its memory was out: unless an incident was recorded
    /// up to its end, or another death of its service within ten minutes, what is left of its stream is written. More
    /// often changes nothing.
    pub fn died(&self, run: RunKey, at: Moment, id: Arc<str>) {
        self.order(Order::Died(run, at, id));
    }

    /// Completes what is open, within that time; what is not complete then is found by the next gcwatch.
    pub fn stop(&self, within: Duration) {
        let (done, is_done) = sync_channel(1);
        if self.orders.try_send(Order::Stop(done)).is_ok() {
            let _late = is_done.recv_timeout(within);
        }
    }

    /// Whether it is taken.
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

/// Until it is stopped, or everybody who can give orders is gone.
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
