//! The header of a record, with a description of the payload and its own checksum. Pure.

/// Length of a header, in bytes.
pub(crate) const HEADER: usize = 40;

/// Maximum length of a request: `otlp.limits.batch_bytes` allows 64 MiB.
const MAX_BYTES: u32 = 256 << 20;

/// Three letters, and the version of the format.
const MAGIC: u32 = u32::from_le_bytes(*b"GWR\x01");

/// Content of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    /// Number of the record, one more than the number of the previous record.
    pub(crate) number: u64,
    /// Time at which the record was written.
    pub(crate) unix_ns: u64,
    /// Number of spans, data points, log records or profiles.
    pub(crate) items: u32,
    /// Length of the request before compression.
    pub(crate) plain_len: u32,
    /// Length of the payload after the header.
    pub(crate) payload_len: u32,
    /// Checksum of the payload.
    pub(crate) payload_crc: u32,
}

impl Header {
    pub(crate) fn encode(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        let fields: [&[u8]; 7] = [
            &MAGIC.to_le_bytes(),
            &self.number.to_le_bytes(),
            &self.unix_ns.to_le_bytes(),
            &self.items.to_le_bytes(),
            &self.plain_len.to_le_bytes(),
            &self.payload_len.to_le_bytes(),
            &self.payload_crc.to_le_bytes(),
        ];
        let (body, end) = bytes.split_at_mut(HEADER - 4);
        for (place, byte) in body.iter_mut().zip(fields.concat()) {
            *place = byte;
        }
        end.copy_from_slice(&crc32fast::hash(body).to_le_bytes());
        bytes
    }

    /// Decodes a header; returns `None` if the bytes are not a valid header.
    pub(crate) fn decode(bytes: &[u8; HEADER]) -> Option<Self> {
        if !bytes.starts_with(&MAGIC.to_le_bytes()) {
            return None;
        }
        let (body, end) = bytes.split_at(HEADER - 4);
        if crc32fast::hash(body).to_le_bytes() != end {
            return None;
        }
        let u32_at = |at: usize| Some(u32::from_le_bytes(body.get(at..at + 4)?.try_into().ok()?));
        let u64_at = |at: usize| Some(u64::from_le_bytes(body.get(at..at + 8)?.try_into().ok()?));
        (u32_at(24)?.max(u32_at(28)?) <= MAX_BYTES).then_some(())?;
        Some(Self {
            number: u64_at(4)?,
            unix_ns: u64_at(12)?,
            items: u32_at(20)?,
            plain_len: u32_at(24)?,
            payload_len: u32_at(28)?,
            payload_crc: u32_at(32)?,
        })
    }

    /// Returns the length of the record.
    pub(crate) fn record_len(&self) -> u64 {
        HEADER as u64 + u64::from(self.payload_len)
    }
}
