//! Evidence that leaves the host: recordings, findings and heap dumps in an object store or on a mounted volume.
//!
//! ```text
//! black box: a recording is complete     ---.
//! bursts, census: a graph, a heap dump   ---+-> orders -> uploader, one task -> outgoing/, a folder: the queue on disk
//! outlet: an incident, whenever it gains ---'                  |
//!                                                              '-> queue::step -> upload | remove | wait -> target
//! ```
//!
//! The address of an object is known before it is stored: an incident and its messages name it from the beginning. The
//! address is plain and never presigned, so it grants no access.
//!
//! Layers, each of which uses only the previous ones: `queue` (pure), `outgoing` (the folder), `target` (one request),
//! `uploader` (the task), and [`Store`] in this module.
//!
//! # Invariants
//!
//! * **Callers never wait.** Orders are bounded; an order that does not fit is dropped and counted.
//! * **Bounded on disk.** The queue has a maximum number of files and bytes; the oldest file makes room.
//! * **A file leaves the folder when the store has accepted the whole file**, or when the queue drops it to free space.
//!   Dropped files are counted. The next instance sends the files that are queued when gcwatch exits.
//! * **Credentials come from the environment or the identity of the pod**, never from the configuration.

mod outgoing;
mod queue;
mod target;
mod uploader;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use self::outgoing::Outgoing;
use self::queue::Limits;
use self::target::Target;

/// Maximum number of orders that wait for the uploader.
const MAX_ORDERS: usize = 256;
/// Maximum length of the host in an address.
const MAX_HOST: usize = 100;

/// Options of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreOptions {
    /// The place of the objects: `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX`, `az://CONTAINER/PREFIX` or
    /// `file:///FOLDER`.
    pub url: String,
    /// Address of an S3-compatible server; `None` for the address from the environment, or the default of the cloud.
    pub endpoint: Option<String>,
    /// Maximum number of files that wait on disk.
    pub max_files: usize,
    /// Maximum size of the files that wait on disk, in bytes.
    pub max_bytes: u64,
}

impl StoreOptions {
    /// Default of [`max_files`](Self::max_files).
    pub const MAX_FILES: usize = 1000;
    /// Default of [`max_bytes`](Self::max_bytes).
    pub const MAX_BYTES: u64 = 512 << 20;

    /// Checks that the address names a store.
    ///
    /// # Errors
    ///
    /// Returns an error if the scheme is not supported, the bucket or the absolute folder is missing, or the address
    /// contains a user, a query or a fragment.
    pub fn check(&self) -> Result<(), StoreError> {
        target::Place::parse(&self.url).map(drop)
    }
}

/// Error returned if a store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The address does not have a supported form.
    #[error("write the address as s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX or file:///FOLDER")]
    Address,
    /// The client cannot be set up with these options.
    #[error("cannot set up the store: {0}")]
    Client(String),
    /// The folder of the queue cannot be used.
    #[error("cannot use {}: {error}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The reason.
        error: std::io::Error,
    },
}

/// A task for the uploader.
#[derive(Debug)]
enum Order {
    /// Store a file, which can be deleted before it is stored.
    Link {
        /// Path of the file.
        path: PathBuf,
        /// Name of the object below the host.
        key: String,
    },
    /// Store these bytes.
    Write {
        /// Name of the object below the host.
        key: String,
        /// The content.
        bytes: Vec<u8>,
    },
    /// Send the queued files for at most a duration, then exit.
    Stop(Duration, oneshot::Sender<()>),
}

/// Counts of the store.
#[derive(Debug, Default)]
pub struct StoreStats {
    stored: AtomicU64,
    failed: AtomicU64,
    dropped: AtomicU64,
    waiting_files: AtomicU64,
    waiting_bytes: AtomicU64,
    last_error: Mutex<Option<String>>,
}

impl StoreStats {
    /// Returns the number of objects by outcome.
    pub fn counts(&self) -> [(&'static str, u64); 3] {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        [
            ("stored", of(&self.stored)),
            ("failed", of(&self.failed)),
            ("dropped", of(&self.dropped)),
        ]
    }

    /// Returns the number and the size in bytes of files that wait.
    pub fn waiting(&self) -> (u64, u64) {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (of(&self.waiting_files), of(&self.waiting_bytes))
    }

    /// Returns the reason why the newest request failed, or `None` if the newest request succeeded.
    pub fn last_error(&self) -> Option<String> {
        self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_error(&self, error: Option<String>) {
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = error;
    }

    fn add(counter: &AtomicU64) -> u64 {
        counter.fetch_add(1, Ordering::Relaxed)
    }
}

/// A handle of the store. Cheap to clone; no call waits for the disk or the network.
#[derive(Debug, Clone)]
pub struct Store {
    orders: mpsc::Sender<Order>,
    stats: Arc<StoreStats>,
    /// Address of the objects of this host, without a slash at its end.
    base: Arc<str>,
}

impl Store {
    /// Starts the uploader on `runtime`, with the files below `state` that an earlier instance could not send. Blocks
    /// the calling thread during disk access.
    ///
    /// # Errors
    ///
    /// Returns an error if the address, the client or the folder cannot be used.
    pub fn start(state: &Path, host: &str, options: &StoreOptions, runtime: &Handle) -> Result<Self, StoreError> {
        let host = name_of(host);
        let target = Target::new(options, &host)?;
        let (outgoing, waiting) = Outgoing::open(state).map_err(|error| StoreError::Folder {
            path: Outgoing::folder(state),
            error,
        })?;
        let limits = Limits {
            files: options.max_files.max(1),
            bytes: options.max_bytes,
        };
        let base: Arc<str> = format!("{}/{host}", options.url.trim_end_matches('/')).into();
        let (orders, receiver) = mpsc::channel(MAX_ORDERS);
        let stats = Arc::new(StoreStats::default());
        let uploader = uploader::Uploader::new(target, outgoing, limits, Arc::clone(&stats), Arc::clone(&base));
        runtime.spawn(uploader.run(waiting, receiver));
        Ok(Self { orders, stats, base })
    }

    /// Returns the address of the objects of this host, without a slash at its end.
    pub fn base(&self) -> &Arc<str> {
        &self.base
    }

    /// Returns the counts.
    pub fn stats(&self) -> &Arc<StoreStats> {
        &self.stats
    }

    /// Stores a file under a key of letters, digits, `.`, `-`, `_` and `/`.
    pub fn store_file(&self, path: PathBuf, key: String) {
        self.order(Order::Link { path, key });
    }

    /// Stores bytes under a key. A waiting object with the same key is replaced.
    pub fn store_bytes(&self, key: String, bytes: Vec<u8>) {
        self.order(Order::Write { key, bytes });
    }

    /// Sends the queued files for at most this time. The remaining files stay on disk for the next instance.
    pub async fn close(&self, within: Duration) {
        let (done, is_done) = oneshot::channel();
        if self.orders.send(Order::Stop(within, done)).await.is_ok() {
            // A dropped sender also means that the uploader has ended.
            let _ended = is_done.await;
        }
    }

    fn order(&self, order: Order) {
        if self.orders.try_send(order).is_err() {
            let before = StoreStats::add(&self.stats.dropped);
            if before.is_multiple_of(1000) {
                tracing::warn!(
                    target: "gcwatch::evidence",
                    "evidence is not stored at {}: the disk is too slow; {} objects were dropped",
                    self.base,
                    before + 1
                );
            }
        }
    }
}

/// Returns the host as a part of an address.
fn name_of(host: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_' || c == '.';
    let name: String = host
        .chars()
        .map(|c| if is_plain(c) { c } else { '-' })
        .take(MAX_HOST)
        .collect();
    // `.` and `..` are not valid folder names.
    match name.trim_matches('.') {
        "" => "host".to_owned(),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: hosts with usual, foreign and empty names.
    /// Guarantee: the name is one part of a path, never a folder above.
    #[test]
    fn host_is_one_part_of_address() {
        for (host, name) in [
            ("node-7.local", "node-7.local"),
            ("a/b é", "a-b--"),
            ("..", "host"),
            ("", "host"),
        ] {
            assert_eq!(name_of(host), name);
        }
        assert_eq!(name_of(&"x".repeat(5000)).len(), MAX_HOST);
    }
}
