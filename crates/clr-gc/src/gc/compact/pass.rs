//! Conversion of values to numbers, with one code path for writing and reading.

/// A pass over the fields of a collection that writes or reads each field.
pub(super) trait Pass {
    /// Returns the time from which other times are measured.
    fn origin(&self) -> i64;

    /// Writes or reads one number, at most 2^64.
    fn number(&mut self, value: &mut u128);

    /// Writes or reads a value through its conversion to a number.
    fn as_number<T: Copy>(&mut self, value: &mut T, to: impl Fn(T) -> u128, from: impl Fn(u128) -> T) {
        let mut number = to(*value);
        self.number(&mut number);
        *value = from(number);
    }

    fn unsigned(&mut self, value: &mut u64) {
        self.as_number(value, u128::from, low);
    }

    fn small(&mut self, value: &mut u32) {
        self.as_number(value, u128::from, low_32);
    }

    fn flag(&mut self, value: &mut bool) {
        self.as_number(value, u128::from, |number| number != 0);
    }

    fn time(&mut self, value: &mut i64) {
        let origin = self.origin();
        self.as_number(
            value,
            |at| zigzag(at.wrapping_sub(origin)),
            |number| unzigzag(low(number)).wrapping_add(origin),
        );
    }

    /// Writes or reads an optional value: 0 if it is absent, its number plus one otherwise.
    fn optional<T: Copy>(&mut self, value: &mut Option<T>, to: impl Fn(T) -> u128, from: impl Fn(u128) -> T) {
        self.as_number(
            value,
            |value| value.map_or(0, |value| to(value) + 1),
            |number| number.checked_sub(1).map(&from),
        );
    }

    fn optional_unsigned(&mut self, value: &mut Option<u64>) {
        self.optional(value, u128::from, low);
    }

    fn optional_code<T: Copy + From<u32>>(&mut self, value: &mut Option<T>, code: impl Fn(T) -> u32) {
        self.optional(value, |value| u128::from(code(value)), |number| T::from(low_32(number)));
    }

    fn optional_signed(&mut self, value: &mut Option<i64>) {
        self.optional(value, zigzag, |number| unzigzag(low(number)));
    }

    fn optional_time(&mut self, value: &mut Option<i64>) {
        let origin = self.origin();
        self.optional(
            value,
            |at| zigzag(at.wrapping_sub(origin)),
            |number| unzigzag(low(number)).wrapping_add(origin),
        );
    }

    /// Writes or reads a list. Elements are read into copies of `blank`.
    fn list<T: Clone>(&mut self, list: &mut Vec<T>, blank: &T, mut each: impl FnMut(&mut Self, &mut T)) {
        let mut length = list.len() as u64;
        self.unsigned(&mut length);
        // When reading, the length can be trusted, because this process has written the list.
        list.resize(usize::try_from(length).unwrap_or(0), blank.clone());
        for element in list {
            each(self, element);
        }
    }

    fn byte(&mut self, byte: &mut u8) {
        self.as_number(byte, u128::from, |number| number as u8);
    }

    /// Writes or reads whether a value is present, and the value if it is present.
    fn present<T: Copy>(&mut self, value: &mut Option<T>, blank: T, each: impl FnOnce(&mut Self, &mut T)) {
        let mut is_there = value.is_some();
        self.flag(&mut is_there);
        if is_there {
            each(self, value.get_or_insert(blank));
        }
    }
}

/// Returns the lowest 64 bits.
fn low(number: u128) -> u64 {
    number as u64
}

/// Returns the lowest 32 bits.
pub(super) fn low_32(number: u128) -> u32 {
    number as u32
}

/// Maps small distances in both directions to small numbers.
fn zigzag(value: i64) -> u128 {
    u128::from(((value << 1) ^ (value >> 63)).cast_unsigned())
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -((number & 1).cast_signed())
}
