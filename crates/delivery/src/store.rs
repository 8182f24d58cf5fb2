//! Stores on disk the requests that receivers have not accepted: one log of segments per signal, with a common limit.
//!
//! ```text
//! <directory>/traces/position            number of the first unsent record: two slots, each with a checksum
//! <directory>/traces/0000000000000000    segments, named after the number of their first record
//! <directory>/traces/000000000000004f      record = header with checksum, request compressed with zstd, its checksum
//! <directory>/metrics/...
//! ```
//!
//! Layers, each using only earlier layers: `disk`, `record`, `position`; `log`, for one signal; the [`Store`] here.
//!
//! # Invariants
//!
//! * A request that [`Store::append`] accepted is on the disk (`fdatasync`). The request is returned unchanged until it
//!   is removed or dropped. Only appended requests are returned. Only a power failure can bring back a removed request.
//! * A segment is never written to after a reopen or an error, so torn data can only be at its end.
//! * Memory does not grow with the stored data, except for a few words per segment.
//! * All functions block. Call them only where blocking is allowed.

mod disk;
mod log;
mod position;
mod record;

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use base::directory::create_private;

use crate::store::disk::Folder;
use crate::store::log::Log;

/// Compression level of zstd. Level 1 makes spans of collections about eight times smaller, at some hundred megabytes
/// per second.
const LEVEL: i32 = 1;

/// Maximum size of a segment, which is the amount that is dropped at once when the store is full.
const LARGEST_SEGMENT: u64 = 8 << 20;

/// Minimum size of a segment, for a store with a small limit.
const SMALLEST_SEGMENT: u64 = 64 << 10;

/// Number of logs: one per signal.
pub(crate) const LOGS: usize = 3;

/// Log of the signal that earlier versions sent.
const REMOVED_LOG: &str = "profiles";

/// Limits of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) max_bytes: u64,
    pub(crate) max_age: Duration,
}

/// Numbers of items that were dropped from one log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Drops {
    /// Items that were dropped to free space for newer items.
    pub(crate) full: u64,
    /// Items that were too old.
    pub(crate) expired: u64,
    /// Items whose checksum was wrong.
    pub(crate) damaged: u64,
}

/// A stored request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredRequest {
    pub(crate) number: u64,
    pub(crate) items: u64,
    /// The request as appended.
    pub(crate) request: Vec<u8>,
}

/// The stored requests of all signals.
#[derive(Debug)]
pub(crate) struct Store {
    logs: [Log<Folder>; LOGS],
    bounds: Bounds,
    drops: [Drops; LOGS],
    /// Number of items in the log of the signal that earlier versions sent.
    unsendable: u64,
}

impl Store {
    /// Opens the store in `directory`, and creates the directory if it does not exist. `names` are the names of the
    /// logs. Removes the log of profiles, which earlier versions sent.
    pub(crate) fn open(directory: &Path, names: [&str; LOGS], bounds: Bounds) -> io::Result<Self> {
        create_private(directory)?;
        let open = |name: &str| {
            let path = directory.join(name);
            create_private(&path)?;
            Log::open(Folder::new(path), segment_bytes(bounds.max_bytes))
        };
        let [first, second, third] = names;
        Ok(Self {
            logs: [open(first)?, open(second)?, open(third)?],
            bounds,
            drops: [Drops::default(); LOGS],
            unsendable: remove_log(directory.join(REMOVED_LOG)),
        })
    }

    /// Changes the limits.
    pub(crate) fn set_bounds(&mut self, bounds: Bounds) {
        self.bounds = bounds;
        for log in &mut self.logs {
            log.set_segment_bytes(segment_bytes(bounds.max_bytes));
        }
    }

    /// Stores a request, and drops the oldest segments if the store is full. The request is on the disk when this
    /// method returns.
    pub(crate) fn append(&mut self, which: usize, items: u64, request: &[u8], now_unix_ns: u64) -> io::Result<()> {
        let compressed = zstd::bulk::compress(request, LEVEL)?;
        self.expire(now_unix_ns);
        self.make_room(log::space(compressed.len()));
        let Some(log) = self.logs.get_mut(which) else {
            return Err(io::Error::other("no such log"));
        };
        log.append(items, request.len(), &compressed, now_unix_ns)
    }

    /// Returns the oldest request of a log, or `None` if the log is empty. The request stays in the log until it is
    /// [removed](Self::remove). Damaged requests are dropped.
    pub(crate) fn oldest(&mut self, which: usize, now_unix_ns: u64) -> io::Result<Option<StoredRequest>> {
        self.expire(now_unix_ns);
        let (Some(log), Some(drops)) = (self.logs.get_mut(which), self.drops.get_mut(which)) else {
            return Ok(None);
        };
        loop {
            let (header, payload) = match log.oldest() {
                Ok(Some(found)) => found,
                Ok(None) => return Ok(None),
                Err(error) if is_damage(&error) => {
                    drops.damaged += log.drop_first();
                    continue;
                }
                Err(error) => return Err(error),
            };
            let request = payload.and_then(|payload| {
                let request = zstd::bulk::decompress(&payload, header.plain_len as usize).ok()?;
                (request.len() == header.plain_len as usize).then_some(request)
            });
            match request {
                Some(request) => {
                    return Ok(Some(StoredRequest {
                        number: header.number,
                        items: u64::from(header.items),
                        request,
                    }));
                }
                None => {
                    drops.damaged += u64::from(header.items);
                    log.remove(header.number);
                }
            }
        }
    }

    /// Removes the oldest request of a log, which must have this number. Returns `false` if the request was dropped
    /// before.
    pub(crate) fn remove(&mut self, which: usize, number: u64) -> bool {
        self.logs.get_mut(which).is_some_and(|log| log.remove(number))
    }

    /// Returns whether the request with this number is still stored.
    pub(crate) fn has(&self, which: usize, number: u64) -> bool {
        self.logs.get(which).is_some_and(|log| log.has(number))
    }

    /// Returns the number of items in a log.
    pub(crate) fn items(&self, which: usize) -> u64 {
        self.logs.get(which).map_or(0, Log::items)
    }

    /// Returns the number of bytes of all logs on the disk.
    pub(crate) fn bytes(&self) -> u64 {
        self.logs.iter().map(Log::bytes).sum()
    }

    /// Returns the number of bytes of one log on the disk.
    pub(crate) fn log_bytes(&self, which: usize) -> u64 {
        self.logs.get(which).map_or(0, Log::bytes)
    }

    /// Returns the number of requests that were missing when the store was opened because their segments were damaged.
    pub(crate) fn missing(&self) -> u64 {
        self.logs.iter().map(Log::missing).sum()
    }

    /// Returns the number of items that were removed because gcwatch no longer sends their signal.
    pub(crate) fn unsendable(&self) -> u64 {
        self.unsendable
    }

    /// Returns the items dropped from a log since the last call.
    pub(crate) fn take_drops(&mut self, which: usize) -> Drops {
        self.drops.get_mut(which).map(std::mem::take).unwrap_or_default()
    }

    /// Drops requests that are too old.
    fn expire(&mut self, now_unix_ns: u64) {
        let age = u64::try_from(self.bounds.max_age.as_nanos()).unwrap_or(u64::MAX);
        let before = now_unix_ns.saturating_sub(age);
        for (log, drops) in self.logs.iter_mut().zip(&mut self.drops) {
            while log.newest_of_first().is_some_and(|newest| newest < before) {
                drops.expired += log.drop_first();
            }
        }
    }

    /// Drops the oldest segments until `bytes` more bytes fit.
    fn make_room(&mut self, bytes: u64) {
        while self.bytes() + bytes > self.bounds.max_bytes {
            let logs = self.logs.iter_mut().zip(&mut self.drops);
            let oldest = logs
                .filter_map(|(log, drops)| Some((log.newest_of_first()?, log, drops)))
                .min_by_key(|(newest, ..)| *newest);
            let Some((_, log, drops)) = oldest else { return };
            drops.full += log.drop_first();
        }
    }
}

/// Removes a log that no signal uses. Returns the number of its unsent items, or 0 if the log does not exist or cannot
/// be removed.
fn remove_log(path: PathBuf) -> u64 {
    let log = path
        .is_dir()
        .then(|| Log::open(Folder::new(path.clone()), SMALLEST_SEGMENT));
    let items = log.and_then(Result::ok).map_or(0, |log| log.items());
    // If this fails, the next opening removes the log.
    fs::remove_dir_all(path).map_or(0, |()| items)
}

/// Returns whether the error means that a file was removed, truncated or changed.
fn is_damage(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, NotFound, UnexpectedEof};
    matches!(error.kind(), InvalidData | NotFound | UnexpectedEof)
}

/// Returns the size of a segment: 1/16 of the limit, between [`SMALLEST_SEGMENT`] and [`LARGEST_SEGMENT`]. The amount
/// that is dropped at once thus stays small compared with the stored amount.
fn segment_bytes(max_bytes: u64) -> u64 {
    (max_bytes / 16).clamp(SMALLEST_SEGMENT, LARGEST_SEGMENT)
}

#[cfg(test)]
mod tests;
