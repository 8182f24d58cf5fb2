//! Why a stream cannot be read.

/// Why a stream cannot be read, or not further. Offsets count bytes from the `N` of the magic.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The stream ended before its first byte.
    #[error("the stream is empty: the process sent nothing, or nothing was recorded")]
    Empty,
    /// The bytes do not begin with `Nettrace`.
    #[error(
        "not a nettrace stream: it begins with the bytes {}{}; a recording of EventPipe, such as one of dotnet-trace, \
         begins with \"Nettrace\"",
        Bytes(.start),
        guess(.start)
    )]
    NotNettrace {
        /// How it begins, up to eight bytes.
        start: Vec<u8>,
    },
    /// The older format of .NET Core 2.x: the same serialization without the magic.
    #[error(
        "a NetPerf stream (.NET Core 2.x); only nettrace is read: record again with format 1 (nettrace), .NET Core \
         3.0 or newer"
    )]
    NetPerf,
    /// A format that this crate does not know.
    #[error(
        "nettrace version {major}.{minor} is not known; versions 4 (with 5's metadata) and 6 are read: a newer \
         version of this program may read it"
    )]
    UnsupportedVersion {
        /// The number that decides whether a reader can read it. In V4, the reader version that the `Trace` object
        /// requires.
        major: u32,
        /// The number that readers may ignore.
        minor: u32,
    },
    /// A kind of block asks for a newer reader.
    #[error("the object at byte {offset} asks for a reader of version {min_reader_version}; this one is of version 2")]
    UnsupportedObject {
        /// Where the object begins.
        offset: u64,
        /// The version that it requires.
        min_reader_version: u32,
    },
    /// The bytes contradict the format.
    #[error("damaged at byte {offset}, in {reading}: {problem}")]
    Corrupt {
        /// Where the thing begins that was being read.
        offset: u64,
        /// What was being read.
        reading: &'static str,
        /// How they contradict it.
        problem: &'static str,
    },
    /// A number that the format allows, but no writer uses: reading on could take unbounded memory.
    #[error("damaged or hostile at byte {offset}, in {reading}: {value} where at most {limit} is read")]
    LimitExceeded {
        /// Where the thing begins that was being read.
        offset: u64,
        /// What was being read.
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

    /// Where in the stream it was found; `None` when the stream as a whole is not readable.
    pub fn offset(&self) -> Option<u64> {
        match self {
            Self::UnsupportedObject { offset, .. }
            | Self::Corrupt { offset, .. }
            | Self::LimitExceeded { offset, .. } => Some(*offset),
            _ => None,
        }
    }
}

/// Bytes with the printable ones as characters.
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

/// What the bytes may be instead.
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

    /// Scenario: a packed recording was not unpacked.
    /// Guarantee: the message says so.
    #[test]
    fn gzip_is_recognised() {
        let error = Error::NotNettrace {
            start: vec![0x1f, 0x8b, 8],
        };
        assert_eq!(
            error.to_string(),
            "not a nettrace stream: it begins with the bytes 1f 8b 08 (gzip: unpack it first); a recording of \
             EventPipe, such as one of dotnet-trace, begins with \"Nettrace\""
        );
        assert_eq!(error.offset(), None);
    }

    /// Scenario: damage in the middle.
    /// Guarantee: the message names the byte and what was being read.
    #[test]
    fn damage_names_its_place() {
        let error = Error::corrupt(4711, "an event header", "it is cut off");
        assert_eq!(
            error.to_string(),
            "damaged at byte 4711, in an event header: it is cut off"
        );
        assert_eq!(error.offset(), Some(4711));
    }
}
