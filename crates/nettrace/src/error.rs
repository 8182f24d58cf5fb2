//! Errors of the decoder.

/// Error returned if a stream cannot be read, or cannot be read further. Offsets are in bytes from the `N` of the
/// magic.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The stream ended before its first byte.
    #[error("the stream is empty: the process sent no data, or nothing was recorded")]
    Empty,
    /// The bytes do not start with `Nettrace`.
    #[error(
        "not a nettrace stream: the first bytes are {}{}; a recording of EventPipe, for example from dotnet-trace, \
         starts with \"Nettrace\"",
        Bytes(.start),
        guess(.start)
    )]
    NotNettrace {
        /// The first bytes of the stream, at most eight.
        start: Vec<u8>,
    },
    /// The stream has the older format of .NET Core 2.x: the same serialization without the magic.
    #[error(
        "NetPerf streams (.NET Core 2.x) are not supported; record again in format 1 (nettrace) with .NET Core \
         3.0 or newer"
    )]
    NetPerf,
    /// The stream has a version that this crate does not support.
    #[error(
        "nettrace version {major}.{minor} is not supported; supported versions are 4 (with V5 metadata) and 6; a newer \
         version of this program may support it"
    )]
    UnsupportedVersion {
        /// Major version, which determines whether a reader can read the stream. In V4, the reader version that the
        /// `Trace` object requires.
        major: u32,
        /// Minor version, which readers can ignore.
        minor: u32,
    },
    /// A kind of block requires a newer reader.
    #[error("the object at byte {offset} requires reader version {min_reader_version}; this reader has version 2")]
    UnsupportedObject {
        /// Offset of the object.
        offset: u64,
        /// Reader version that the object requires.
        min_reader_version: u32,
    },
    /// The bytes contradict the format.
    #[error("damaged at byte {offset}, in {reading}: {problem}")]
    Corrupt {
        /// Offset of the part that was being read.
        offset: u64,
        /// The part of the stream that was being read.
        reading: &'static str,
        /// How the bytes contradict the format.
        problem: &'static str,
    },
    /// A number exceeds a limit of this crate. The format allows the number, but no writer uses it, and reading further
    /// could take unbounded memory.
    #[error("damaged or hostile at byte {offset}, in {reading}: {value} exceeds the limit of {limit}")]
    LimitExceeded {
        /// Offset of the part that was being read.
        offset: u64,
        /// The part of the stream that was being read.
        reading: &'static str,
        /// The number in the stream.
        value: u64,
        /// The limit, from [`limits`](crate::limits).
        limit: u64,
    },
}

impl Error {
    pub(crate) fn corrupt(offset: u64, reading: &'static str, problem: &'static str) -> Self {
        Self::Corrupt {
            offset,
            reading,
            problem,
        }
    }

    pub(crate) fn limit(offset: u64, reading: &'static str, value: usize, limit: usize) -> Self {
        Self::LimitExceeded {
            offset,
            reading,
            value: value as u64,
            limit: limit as u64,
        }
    }

    /// Returns the offset of the error in the stream, or `None` if the stream as a whole is not readable.
    pub fn offset(&self) -> Option<u64> {
        match self {
            Self::UnsupportedObject { offset, .. }
            | Self::Corrupt { offset, .. }
            | Self::LimitExceeded { offset, .. } => Some(*offset),
            _ => None,
        }
    }
}

/// Bytes that are displayed in hexadecimal.
struct Bytes<'a>(&'a [u8]);

impl std::fmt::Display for Bytes<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (place, byte) in self.0.iter().enumerate() {
            let space = if place == 0 { "" } else { " " };
            write!(out, "{space}{byte:02x}")?;
        }
        Ok(())
    }
}

/// Returns a hint about the actual format, or an empty text if the format is unknown.
fn guess(start: &[u8]) -> &'static str {
    match start {
        [0x1f, 0x8b, ..] => " (gzip: unpack it first)",
        [b'P', b'K', 3, 4, ..] => " (zip: unpack it first)",
        [0x28, 0xb5, 0x2f, 0xfd, ..] => " (zstd: unpack it first)",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: a compressed recording was not unpacked.
    /// Guarantee: the message names gzip.
    #[test]
    fn gzip_is_recognized() {
        let error = Error::NotNettrace {
            start: vec![0x1f, 0x8b, 8],
        };
        assert_eq!(
            error.to_string(),
            "not a nettrace stream: the first bytes are 1f 8b 08 (gzip: unpack it first); a recording of \
             EventPipe, for example from dotnet-trace, starts with \"Nettrace\""
        );
        assert_eq!(error.offset(), None);
    }

    /// Scenario: a stream is damaged in the middle.
    /// Guarantee: the message contains the byte offset and the part that was being read.
    #[test]
    fn damage_error_contains_offset() {
        let error = Error::corrupt(4711, "an event header", "it is cut off");
        assert_eq!(
            error.to_string(),
            "damaged at byte 4711, in an event header: it is cut off"
        );
        assert_eq!(error.offset(), Some(4711));
    }
}
