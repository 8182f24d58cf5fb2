//! Encodes blocks and the header of a stream.

use super::{EncodeError, Encoder};
use crate::frame::{BLOCK_VERSION, BlockKind, TAG_BEGIN, TAG_END, TAG_NULL, TRACE_VERSION};
use crate::header::{Format, TraceHeader};
use crate::limits::MAX_BLOCK_BYTES;
use crate::metadata::put_utf8;

impl Encoder {
    pub(super) fn block(&mut self, kind: BlockKind, content: &[u8]) -> Result<(), EncodeError> {
        if content.len() >= MAX_BLOCK_BYTES {
            return Err(EncodeError::TooLong { what: kind.reading() });
        }
        let size = content.len() as u32;
        if self.format != Format::V4 {
            self.out.extend((kind.number() << 24 | size).to_le_bytes());
            self.out.extend(content);
            return Ok(());
        }
        let version = if kind == BlockKind::Trace {
            TRACE_VERSION
        } else {
            BLOCK_VERSION
        };
        let name = kind.type_name();
        self.out.extend([TAG_BEGIN, TAG_BEGIN, TAG_NULL]);
        for number in [version, version, name.len() as u32] {
            self.out.extend(number.to_le_bytes());
        }
        self.out.extend(name.as_bytes());
        self.out.push(TAG_END);
        if kind != BlockKind::Trace {
            self.out.extend(size.to_le_bytes());
            let at = self.taken + self.out.len() as u64;
            let filling = at.next_multiple_of(4) - at;
            self.out.extend(std::iter::repeat_n(0, filling as usize));
        }
        self.out.extend(content);
        self.out.push(TAG_END);
        Ok(())
    }
}

impl TraceHeader {
    pub(super) fn write_clock(&self, out: &mut Vec<u8>) {
        self.system_time.write(out);
        out.extend(self.sync_ticks.to_le_bytes());
        out.extend(self.frequency.to_le_bytes());
        out.extend((self.pointer_size.bytes() as u32).to_le_bytes());
    }

    pub(super) fn write_properties(&self, out: &mut Vec<u8>) {
        let known = [
            ("HardwareThreadCount", self.processors),
            ("ProcessId", self.process_id),
            ("ExpectedCPUSamplingRate", self.sampling_rate_ns),
        ];
        let known = known
            .into_iter()
            .filter_map(|(key, value)| Some((key.to_owned(), value?.to_string())));
        let pairs: Vec<(String, String)> = known.chain(self.properties.iter().cloned()).collect();
        out.extend((pairs.len() as u32).to_le_bytes());
        for (key, value) in pairs {
            put_utf8(out, &key);
            put_utf8(out, &value);
        }
    }
}

/// Returns a length as `u32`, or an error if the length does not fit into a block.
pub(super) fn length(length: usize, what: &'static str) -> Result<u32, EncodeError> {
    // The remaining space is for the headers of the block and the event.
    if length >= MAX_BLOCK_BYTES - 1024 {
        Err(EncodeError::TooLong { what })
    } else {
        Ok(length as u32)
    }
}
