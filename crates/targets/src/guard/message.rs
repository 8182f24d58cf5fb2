//! Messages between gcwatch and its guard: a byte for the kind, then ids of eight bytes.
//!
//! Both ends are the same program, so there are no versions. Invalid messages are ignored.

/// Maximum number of ids in a message.
pub(super) const MAX_IDS: usize = 1024;

/// Maximum size of a message, in bytes.
pub(super) const MAX_BYTES: usize = 1 + 8 * MAX_IDS;

/// A message from gcwatch to the guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ToGuard {
    /// The reading thread is alive.
    Beat,
    /// Hold the descriptor that comes with this message.
    Hold(u64),
    /// The session has ended, so the guard must release its stream.
    Release(u64),
}

/// A message from the guard to gcwatch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FromGuard {
    /// The answer to a beat.
    Alive,
    /// The guard has no descriptor left for this stream.
    NotHeld(u64),
    /// The guard closes these streams, at most [`MAX_IDS`], because no beat came.
    Closed(Vec<u64>),
}

fn encoded(kind: u8, ids: &[u64]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(1 + 8 * ids.len());
    bytes.push(kind);
    ids.iter().for_each(|id| bytes.extend_from_slice(&id.to_le_bytes()));
    bytes
}

fn decoded(bytes: &[u8]) -> Option<(u8, Vec<u64>)> {
    let (kind, rest) = bytes.split_first()?;
    let (ids, []) = rest.as_chunks::<8>() else { return None };
    Some((*kind, ids.iter().map(|id| u64::from_le_bytes(*id)).collect()))
}

impl ToGuard {
    pub(super) fn encode(self) -> Vec<u8> {
        match self {
            Self::Beat => encoded(b'b', &[]),
            Self::Hold(id) => encoded(b'h', &[id]),
            Self::Release(id) => encoded(b'r', &[id]),
        }
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        match (decoded(bytes)?.0, &*decoded(bytes)?.1) {
            (b'b', []) => Some(Self::Beat),
            (b'h', [id]) => Some(Self::Hold(*id)),
            (b'r', [id]) => Some(Self::Release(*id)),
            _ => None,
        }
    }
}

impl FromGuard {
    pub(super) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Alive => encoded(b'a', &[]),
            Self::NotHeld(id) => encoded(b'n', &[*id]),
            Self::Closed(ids) => encoded(b'c', ids),
        }
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        match decoded(bytes)? {
            (b'a', ids) if ids.is_empty() => Some(Self::Alive),
            (b'n', ids) => ids.first().copied().map(Self::NotHeld),
            (b'c', ids) => Some(Self::Closed(ids)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: each message is decoded whole and truncated.
    /// Guarantee: whole messages round-trip unchanged, truncated messages are invalid, and the largest message fits
    /// into the buffer.
    #[test]
    fn messages_round_trip() {
        for message in [ToGuard::Beat, ToGuard::Hold(u64::MAX - 1), ToGuard::Release(7)] {
            let bytes = message.encode();
            assert_eq!(ToGuard::decode(&bytes), Some(message));
            assert_eq!(ToGuard::decode(&bytes[..bytes.len() - 1]), None);
        }
        let all = FromGuard::Closed((0..MAX_IDS as u64).collect());
        assert_eq!(all.encode().len(), MAX_BYTES);
        for message in [FromGuard::Alive, FromGuard::NotHeld(3), all] {
            assert_eq!(FromGuard::decode(&message.encode()), Some(message.clone()));
        }
        assert_eq!(FromGuard::decode(b""), None);
        assert_eq!(FromGuard::decode(b"x"), None);
        assert_eq!(FromGuard::decode(b"c1234"), None);
    }
}
