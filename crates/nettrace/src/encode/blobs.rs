//! The blobs of a block that is being written.

use super::BLOCK_BYTES;
use crate::blob::BlobHeader;
use crate::frame::BlockHeader;
use crate::header::Format;

/// Blobs with delta-encoded headers.
#[derive(Debug)]
pub(super) struct Blobs {
    v6: bool,
    pub(super) compressed: bool,
    out: Vec<u8>,
    before: BlobHeader,
    /// Timestamps of the oldest and the newest blob, in ticks; `None` if there are no blobs.
    span: Option<(i64, i64)>,
}

impl Blobs {
    pub(super) fn new(format: Format) -> Self {
        Self {
            v6: format != Format::V4,
            compressed: true,
            out: Vec::new(),
            before: BlobHeader::default(),
            span: None,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// Returns whether a blob with a payload of this size belongs in the next block.
    pub(super) fn is_full(&self, payload: usize) -> bool {
        !self.is_empty() && self.out.len() + payload > BLOCK_BYTES
    }

    pub(super) fn push(&mut self, header: &BlobHeader, payload: &[u8]) {
        match (self.compressed, self.v6) {
            (true, false) => header.write_compressed::<false>(&self.before, &mut self.out),
            (true, true) => header.write_compressed::<true>(&self.before, &mut self.out),
            (false, false) => header.write_whole::<false>(&mut self.out),
            (false, true) => header.write_whole::<true>(&mut self.out),
        }
        self.out.extend(payload);
        if !self.compressed && !self.v6 {
            // The size of the block header is a multiple of 4, too.
            self.out.resize(self.out.len().next_multiple_of(4), 0);
        }
        self.before = *header;
        let (oldest, newest) = self.span.unwrap_or((header.timestamp, header.timestamp));
        self.span = Some((oldest.min(header.timestamp), newest.max(header.timestamp)));
    }

    /// Returns the content of the block and starts the next block. `now` is the time of a block without blobs.
    pub(super) fn take(&mut self, now: i64) -> Vec<u8> {
        let (oldest, newest) = self.span.take().unwrap_or((now, now));
        let mut content = Vec::with_capacity(BlockHeader::MIN_BYTES + self.out.len());
        content.extend((BlockHeader::MIN_BYTES as u16).to_le_bytes());
        content.extend(if self.compressed { BlockHeader::COMPRESSED } else { 0 }.to_le_bytes());
        content.extend(oldest.to_le_bytes());
        content.extend(newest.to_le_bytes());
        content.append(&mut self.out);
        self.before = BlobHeader::default();
        content
    }
}
