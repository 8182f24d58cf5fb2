//! What one burst may hold: its stacks, methods and names, and all that is made of them.
//!
//! A process says what is in its stream, so each thing is counted when it is met, together with what reports, profiles
//! and pictures take for it. What has no place is counted where it belongs, and is not looked at again.

/// Bytes of a burst with all that is made of it, the decoder of a live one included.
pub const BURST_BYTES: usize = 16 << 20;

/// Characters of a name that reports have.
pub const MOST_SHOWN: usize = 256;

/// Most bytes of a name of so many bytes in a report: what is harmful in it has three in its place.
pub(crate) fn shown_bytes(bytes: usize) -> usize {
    (64 + 3 * bytes).min(4 * MOST_SHOWN)
}

/// The bytes of one burst.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Budget {
    taken: usize,
    decoder: usize,
}

impl Budget {
    /// The decoder holds so many bytes now.
    pub(crate) fn set_decoder(&mut self, bytes: usize) {
        self.decoder = bytes;
    }

    /// Takes so many bytes. `false`: there is no place for them, and nothing was taken.
    pub(crate) fn take(&mut self, bytes: usize) -> bool {
        let taken = self.taken.saturating_add(bytes);
        let fits = taken.saturating_add(self.decoder) <= BURST_BYTES;
        if fits {
            self.taken = taken;
        }
        fits
    }

    /// What was taken is free again.
    pub(crate) fn give_back(&mut self, bytes: usize) {
        self.taken = self.taken.saturating_sub(bytes);
    }

    /// Bytes that are taken.
    pub fn taken(&self) -> usize {
        self.taken
    }
}
