//! The position up to which a log was sent: two slots that are written alternately, so that a torn write leaves the
//! other slot intact.

use std::io;

use crate::store::disk::Disk;

/// Name of the file.
const NAME: &str = "position";

/// Size of a slot in bytes: a counter, the number, and a checksum.
const SLOT: usize = 20;

/// Offset of the second slot, in another sector than the first.
const SECOND: u64 = 4096;

/// The number of the first record that was not sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Position {
    turn: u64,
    pub(crate) number: u64,
}

impl Position {
    /// Returns the newer valid slot, or the start of the log if neither slot is valid.
    pub(crate) fn read(disk: &mut impl Disk) -> Self {
        let slots = [0, SECOND].into_iter().filter_map(|offset| {
            let mut slot = [0; SLOT];
            disk.read_at(NAME, offset, &mut slot).ok()?;
            Self::decode(&slot)
        });
        slots.max_by_key(|position| position.turn).unwrap_or_default()
    }

    /// Writes another number.
    pub(crate) fn write(&mut self, number: u64, disk: &mut impl Disk) -> io::Result<()> {
        let next = Self {
            turn: self.turn + 1,
            number,
        };
        let offset = if next.turn.is_multiple_of(2) { 0 } else { SECOND };
        disk.write_at(NAME, offset, &next.encode())?;
        *self = next;
        Ok(())
    }

    fn encode(self) -> [u8; SLOT] {
        let mut slot = [0; SLOT];
        let (body, end) = slot.split_at_mut(SLOT - 4);
        let (turn, number) = body.split_at_mut(8);
        turn.copy_from_slice(&self.turn.to_le_bytes());
        number.copy_from_slice(&self.number.to_le_bytes());
        end.copy_from_slice(&crc32fast::hash(body).to_le_bytes());
        slot
    }

    fn decode(slot: &[u8; SLOT]) -> Option<Self> {
        let (body, end) = slot.split_at(SLOT - 4);
        if crc32fast::hash(body).to_le_bytes() != end {
            return None;
        }
        let (turn, number) = body.split_at(8);
        Some(Self {
            turn: u64::from_le_bytes(turn.try_into().ok()?),
            number: u64::from_le_bytes(number.try_into().ok()?),
        })
    }
}
