//! Writes payloads, independent of the tables that read them.

use clr_gc::event::PointerSize;

/// A payload under construction.
#[derive(Debug, Clone)]
pub(crate) struct Payload {
    pub(crate) bytes: Vec<u8>,
    pointer: PointerSize,
}

impl Payload {
    pub(crate) fn new(pointer: PointerSize) -> Self {
        Self {
            bytes: Vec::new(),
            pointer,
        }
    }

    fn add(mut self, bytes: &[u8]) -> Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    pub(crate) fn u8(self, number: u8) -> Self {
        self.add(&[number])
    }

    pub(crate) fn u16(self, number: u16) -> Self {
        self.add(&number.to_le_bytes())
    }

    pub(crate) fn u32(self, number: u32) -> Self {
        self.add(&number.to_le_bytes())
    }

    pub(crate) fn u64(self, number: u64) -> Self {
        self.add(&number.to_le_bytes())
    }

    pub(crate) fn f32(self, number: f32) -> Self {
        self.add(&number.to_le_bytes())
    }

    /// A pointer: the test's numbers fit 32 bits.
    pub(crate) fn ptr(self, number: u32) -> Self {
        match self.pointer {
            PointerSize::Four => self.u32(number),
            PointerSize::Eight => self.u64(number.into()),
        }
    }

    /// `count` pointers: `first`, `first + 1` ...
    pub(crate) fn ptrs(self, first: u32, count: u32) -> Self {
        (first..first + count).fold(self, Self::ptr)
    }

    /// What a C compiler leaves before the next pointer after an odd number of 32-bit fields; garbage, not zeros.
    pub(crate) fn padding_to_ptr(self) -> Self {
        match self.pointer {
            PointerSize::Four => self,
            PointerSize::Eight => self.u32(0xDEAD_BEEF),
        }
    }

    pub(crate) fn text(self, text: &str) -> Self {
        text.encode_utf16().chain([0]).fold(self, Self::u16)
    }

    pub(crate) fn raw(self, bytes: &[u8]) -> Self {
        self.add(bytes)
    }
}
