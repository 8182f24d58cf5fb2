//! Memory limit of a burst: its stacks, methods and names, and everything derived from them.
//!
//! A process controls the content of its stream. Each item is therefore charged when it first occurs, including the
//! memory that reports, profiles and pictures need for it. Items that exceed the limit are counted in their category
//! and not examined further.

/// Maximum memory of a burst and everything derived from it, including the decoder of a live burst, in bytes.
pub const BURST_BYTES: usize = 16 << 20;

/// Maximum number of characters of a name in reports.
pub const MAX_SHOWN: usize = 256;

/// Returns the maximum size of a name in a report, in bytes. `bytes` is the size of the name; a harmful character is
/// replaced by three bytes.
pub(crate) fn shown_bytes(bytes: usize) -> usize {
    (64 + 3 * bytes).min(4 * MAX_SHOWN)
}

/// The memory of one burst.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Budget {
    taken: usize,
    decoder: usize,
}

impl Budget {
    /// Sets the current memory of the decoder.
    pub(crate) fn set_decoder(&mut self, bytes: usize) {
        self.decoder = bytes;
    }

    /// Reserves memory. Returns `false` without a reservation if the limit would be exceeded.
    pub(crate) fn take(&mut self, bytes: usize) -> bool {
        let taken = self.taken.saturating_add(bytes);
        let fits = taken.saturating_add(self.decoder) <= BURST_BYTES;
        if fits {
            self.taken = taken;
        }
        fits
    }

    /// Releases memory.
    pub(crate) fn give_back(&mut self, bytes: usize) {
        self.taken = self.taken.saturating_sub(bytes);
    }

    /// Returns the reserved memory, in bytes.
    pub fn taken(&self) -> usize {
        self.taken
    }
}
