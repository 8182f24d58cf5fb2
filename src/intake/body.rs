//! The bytes of an export, within what all exports together may hold.

use std::io::Read as _;
use std::sync::Arc;

use flate2::read::MultiGzDecoder;
use http_body_util::BodyExt as _;
use hyper::body::{Body, Bytes};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Largest body of a request: a Collector's batch is a tenth of it.
pub(super) const MAX_BODY_BYTES: usize = 4 << 20;
/// Largest export, after decompression.
pub(super) const MAX_EXPORT_BYTES: usize = 8 << 20;
/// What all exports may hold that are being read.
const MAX_HELD_BYTES: usize = 16 << 20;
/// The unit of that.
const UNIT_BYTES: usize = 1 << 10;
/// How much is decompressed at once, and the least that is reserved.
const CHUNK_BYTES: usize = 16 << 10;

/// Why an export is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotRead {
    /// Others hold all the memory there is for exports.
    Full,
    /// It is larger than an export may be.
    TooLarge,
    /// It is damaged, or its sender went away.
    Damaged,
}

/// The memory that exports may hold.
#[derive(Debug, Clone)]
pub(super) struct Room(Arc<Semaphore>);

impl Default for Room {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_HELD_BYTES / UNIT_BYTES)))
    }
}

/// Bytes that count as held for as long as they exist.
#[derive(Debug)]
pub(super) struct Held {
    bytes: Vec<u8>,
    room: Room,
    permit: Option<OwnedSemaphorePermit>,
    most: usize,
}

impl Held {
    fn new(room: &Room, most: usize) -> Self {
        Self {
            bytes: Vec::new(),
            room: room.clone(),
            permit: None,
            most,
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn extend(&mut self, more: &[u8]) -> Result<(), NotRead> {
        let length = self.bytes.len().saturating_add(more.len());
        if length > self.most {
            return Err(NotRead::TooLarge);
        }
        if length > self.bytes.capacity() {
            let capacity = (self.bytes.capacity() * 2).clamp(CHUNK_BYTES, self.most).max(length);
            let units = (capacity - self.bytes.capacity()).div_ceil(UNIT_BYTES);
            let units = u32::try_from(units).map_err(|_| NotRead::TooLarge)?;
            let permit = Arc::clone(&self.room.0).try_acquire_many_owned(units);
            let permit = permit.map_err(|_| NotRead::Full)?;
            match &mut self.permit {
                Some(held) => held.merge(permit),
                held => *held = Some(permit),
            }
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
        self.bytes.extend_from_slice(more);
        Ok(())
    }
}

/// Reads a request's body to its end. Where there is no memory for it, it is read all the same, so that its sender is
/// not held up.
pub(super) async fn collect<B: Body<Data = Bytes> + Unpin>(mut body: B, room: &Room) -> Result<Held, NotRead> {
    let mut held = Ok(Held::new(room, MAX_BODY_BYTES));
    let mut length = 0_usize;
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else {
            return Err(NotRead::Damaged);
        };
        let Some(chunk) = frame.data_ref() else { continue };
        length = length.saturating_add(chunk.len());
        if length > MAX_BODY_BYTES {
            return Err(NotRead::TooLarge);
        }
        held = held.and_then(|mut held| held.extend(chunk).map(|()| held));
    }
    held
}

/// Decompresses gzip.
pub(super) fn inflate(bytes: &[u8], room: &Room) -> Result<Held, NotRead> {
    let mut held = Held::new(room, MAX_EXPORT_BYTES);
    let mut decoder = MultiGzDecoder::new(bytes);
    let mut chunk = [0; CHUNK_BYTES];
    loop {
        match decoder.read(&mut chunk) {
            Ok(0) => return Ok(held),
            Ok(count) => held.extend(&chunk[..count])?,
            Err(_) => return Err(NotRead::Damaged),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use http_body_util::Full;

    use super::*;

    fn body(length: usize) -> Full<Bytes> {
        Full::new(vec![7; length].into())
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    /// Scenario: bodies of the largest size until the memory for them is taken, and one more; then one is done.
    /// Guarantee: they are read while there is memory; what a body held is there again after it.
    #[tokio::test]
    async fn all_bodies_hold_so_much() {
        let room = Room::default();
        let mut held = Vec::new();
        for _ in 0..MAX_HELD_BYTES / MAX_BODY_BYTES {
            held.push(collect(body(MAX_BODY_BYTES), &room).await.unwrap());
        }
        assert_eq!(collect(body(1), &room).await.unwrap_err(), NotRead::Full);
        held.pop();
        let again = collect(body(MAX_BODY_BYTES), &room).await.unwrap();
        assert_eq!(again.bytes().len(), MAX_BODY_BYTES);
    }

    /// Scenario: a body, and an export in a small body, larger than they may be.
    /// Guarantee: they are refused, and nothing is held after that.
    #[tokio::test]
    async fn what_is_too_large_is_refused() {
        let room = Room::default();
        assert_eq!(
            collect(body(MAX_BODY_BYTES + 1), &room).await.unwrap_err(),
            NotRead::TooLarge
        );
        let bomb = gzip(&vec![0; MAX_EXPORT_BYTES + 1]);
        assert!(bomb.len() < MAX_BODY_BYTES / 10);
        assert_eq!(inflate(&bomb, &room).unwrap_err(), NotRead::TooLarge);
        assert_eq!(room.0.available_permits(), MAX_HELD_BYTES / UNIT_BYTES);
    }

    /// Scenario: gzip, whole and cut at each byte.
    /// Guarantee: the bytes, or damaged.
    #[test]
    fn gzip_is_decompressed() {
        let (room, whole) = (Room::default(), gzip(b"export"));
        assert_eq!(inflate(&whole, &room).unwrap().bytes(), b"export");
        for cut in 1..whole.len() {
            assert_eq!(inflate(&whole[..cut], &room).unwrap_err(), NotRead::Damaged, "{cut}");
        }
    }
}
