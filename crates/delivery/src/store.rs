//! What receivers did not take, on disk: one log of segments for each signal, with one bound for all of them.
//!
//! ```text
//! <directory>/traces/position            how far the log was sent: two slots, each with a checksum
//! <directory>/traces/0000000000000000    segments, by the number of their first record
//! <directory>/traces/000000000000004f      record = header with checksum, request compressed with zstd, its checksum
//! <directory>/metrics/...
//! ```
//!
//! Layers, each using only those before it: `disk`, `record`, `position`; `log`, which is one signal's; the [`Store`]
//! here.
//!
//! # Invariants
//!
//! * What [`Store::append`] accepted is on the disk (`fdatasync`) and is given back, byte for byte, until it is removed
//!   or dropped; what is given back was appended. Only after a power failure can something that was removed come back.
//! * A segment is never written to after a reopen or an error, so that what is torn is only ever at an end.
//! * Memory does not grow with what is stored, but for a few words for each segment.
//! * Everything here blocks: it is called where that is allowed.

mod disk;
mod log;
mod position;
mod record;

use std::io;
use std::path::Path;
use std::time::Duration;

use base::directory::create_private;

use crate::store::disk::Folder;
use crate::store::log::Log;

/// Level 1 makes spans of collections about eight times smaller, at some hundred megabytes per second.
const LEVEL: i32 = 1;

/// The largest segment: what is dropped at once when the store is full.
const LARGEST_SEGMENT: u64 = 8 << 20;

/// The smallest, for a store with a small bound.
const SMALLEST_SEGMENT: u64 = 64 << 10;

/// How many logs there are: one for each signal.
pub(crate) const LOGS: usize = 4;

/// The bounds of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) max_bytes: u64,
    pub(crate) max_age: Duration,
}

/// Items that were dropped from one log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Drops {
    /// Newer ones needed the space.
    pub(crate) full: u64,
    /// They were too old.
    pub(crate) expired: u64,
    /// Their checksum was wrong.
    pub(crate) damaged: u64,
}

/// A request that is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) number: u64,
    pub(crate) items: u64,
    /// As it was appended.
    pub(crate) request: Vec<u8>,
}

/// The requests of all signals.
#[derive(Debug)]
pub(crate) struct Store {
    logs: [Log<Folder>; LOGS],
    bounds: Bounds,
    drops: [Drops; LOGS],
}

impl Store {
    /// Opens the store in `directory`, which is made when it is missing. `names` are those of the logs.
    pub(crate) fn open(directory: &Path, names: [&str; LOGS], bounds: Bounds) -> io::Result<Self> {
        create_private(directory)?;
        let open = |name: &str| {
            let path = directory.join(name);
            create_private(&path)?;
            Log::open(Folder::new(path), segment_bytes(bounds.max_bytes))
        };
        let [first, second, third, fourth] = names;
        Ok(Self {
            logs: [open(first)?, open(second)?, open(third)?, open(fourth)?],
            bounds,
            drops: [Drops::default(); LOGS],
        })
    }

    /// Other bounds from now on.
    pub(crate) fn set_bounds(&mut self, bounds: Bounds) {
        self.bounds = bounds;
        for log in &mut self.logs {
            log.set_segment_bytes(segment_bytes(bounds.max_bytes));
        }
    }

    /// Stores a request. When this returns, it is on the disk.
    pub(crate) fn append(&mut self, which: usize, items: u64, request: &[u8], now_unix_ns: u64) -> io::Result<()> {
        let compressed = zstd::bulk::compress(request, LEVEL)?;
        self.expire(now_unix_ns);
        self.make_room(log::space(compressed.len()));
        let Some(log) = self.logs.get_mut(which) else {
            return Err(io::Error::other("no such log"));
        };
        log.append(items, request.len(), &compressed, now_unix_ns)
    }

    /// The oldest request of a log. It stays until it is [removed](Self::remove).
    pub(crate) fn oldest(&mut self, which: usize, now_unix_ns: u64) -> io::Result<Option<Stored>> {
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
                    return Ok(Some(Stored {
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

    /// Removes the oldest request of a log, which has this number. False: it was dropped before.
    pub(crate) fn remove(&mut self, which: usize, number: u64) -> bool {
        self.logs.get_mut(which).is_some_and(|log| log.remove(number))
    }

    /// Whether this request is still there.
    pub(crate) fn has(&self, which: usize, number: u64) -> bool {
        self.logs.get(which).is_some_and(|log| log.has(number))
    }

    /// Items in a log.
    pub(crate) fn items(&self, which: usize) -> u64 {
        self.logs.get(which).map_or(0, Log::items)
    }

    /// Bytes on the disk, of all logs.
    pub(crate) fn bytes(&self) -> u64 {
        self.logs.iter().map(Log::bytes).sum()
    }

    /// Bytes on the disk of one log.
    pub(crate) fn log_bytes(&self, which: usize) -> u64 {
        self.logs.get(which).map_or(0, Log::bytes)
    }

    /// Requests that were missing when the store was opened: their segments were damaged.
    pub(crate) fn missing(&self) -> u64 {
        self.logs.iter().map(Log::missing).sum()
    }

    /// What was dropped from a log since the last call.
    pub(crate) fn take_drops(&mut self, which: usize) -> Drops {
        self.drops.get_mut(which).map(std::mem::take).unwrap_or_default()
    }

    /// Drops what is too old.
    fn expire(&mut self, now_unix_ns: u64) {
        let age = u64::try_from(self.bounds.max_age.as_nanos()).unwrap_or(u64::MAX);
        let before = now_unix_ns.saturating_sub(age);
        for (log, drops) in self.logs.iter_mut().zip(&mut self.drops) {
            while log.newest_of_first().is_some_and(|newest| newest < before) {
                drops.expired += log.drop_first();
            }
        }
    }

    /// Drops the oldest segments until `bytes` more fit.
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

/// The file is not what was written: it was removed, cut or changed.
fn is_damage(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, NotFound, UnexpectedEof};
    matches!(error.kind(), InvalidData | NotFound | UnexpectedEof)
}

/// A sixteenth of the bound: what is dropped at once stays small beside what is kept.
fn segment_bytes(max_bytes: u64) -> u64 {
    (max_bytes / 16).clamp(SMALLEST_SEGMENT, LARGEST_SEGMENT)
}

#[cfg(test)]
mod tests;
