//! Fields of a definition, for all versions of the format.

/// A field of an event's payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Name from the provider.
    pub name: String,
    /// Layout in the payload.
    pub kind: FieldType,
}

/// The layout of a field. The number of a type is a value of .NET's TypeCode. Numbers of 19 and above are specific to
/// the format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldType {
    /// 1: a sequence of fields.
    Object(Vec<Field>),
    /// 3: a boolean, four bytes.
    Bool32,
    /// 4: a UTF-16 unit.
    Utf16Unit,
    /// 5: one byte.
    I8,
    /// 6: one byte.
    U8,
    /// 7: two bytes.
    I16,
    /// 8: two bytes.
    U16,
    /// 9: four bytes.
    I32,
    /// 10: four bytes.
    U32,
    /// 11: eight bytes.
    I64,
    /// 12: eight bytes.
    U64,
    /// 13: four bytes.
    F32,
    /// 14: eight bytes.
    F64,
    /// 15: sixteen bytes.
    Decimal,
    /// 16: eight bytes.
    DateTime,
    /// 17: sixteen bytes.
    Guid,
    /// 18: UTF-16, terminated by a zero unit.
    Utf16String,
    /// 19: a u16 count, then that number of elements.
    Array(Box<FieldType>),
    /// 20 (V6): LEB128, zigzag.
    VarInt,
    /// 21 (V6): LEB128.
    VarUint,
    /// 22 (V6): a fixed number of elements, without a count in the payload.
    FixedArray(Box<FieldType>, u16),
    /// 23 (V6): a UTF-8 unit.
    Utf8Unit,
    /// 24 (V6): a u32. The high half is the size in bytes, the low half is the position in bytes from the end of this
    /// u32.
    RelativeLocation(Box<FieldType>),
    /// 25 (V6): a u32. The high half is the size in bytes, the low half is the position in bytes from the start of the
    /// payload.
    DataLocation(Box<FieldType>),
    /// 26 (V6): a boolean, one byte.
    Bool8,
    /// A type with an unknown number.
    Other(u32),
}

/// The types, except `Bool8`, that are fully described by their number.
const PLAIN: [(u32, FieldType); 19] = [
    (3, FieldType::Bool32),
    (4, FieldType::Utf16Unit),
    (5, FieldType::I8),
    (6, FieldType::U8),
    (7, FieldType::I16),
    (8, FieldType::U16),
    (9, FieldType::I32),
    (10, FieldType::U32),
    (11, FieldType::I64),
    (12, FieldType::U64),
    (13, FieldType::F32),
    (14, FieldType::F64),
    (15, FieldType::Decimal),
    (16, FieldType::DateTime),
    (17, FieldType::Guid),
    (18, FieldType::Utf16String),
    (20, FieldType::VarInt),
    (21, FieldType::VarUint),
    (23, FieldType::Utf8Unit),
];

/// Numbers of the types that need further description.
pub(super) const OBJECT: u32 = 1;
pub(super) const ARRAY: u32 = 19;
pub(super) const FIXED_ARRAY: u32 = 22;
pub(super) const RELATIVE_LOCATION: u32 = 24;
pub(super) const DATA_LOCATION: u32 = 25;
const BOOL8: u32 = 26;

impl FieldType {
    /// Returns the type of a number that needs no further description, or `Other` if the number is unknown.
    pub(super) fn plain(code: u32) -> Self {
        if code == BOOL8 {
            return Self::Bool8;
        }
        PLAIN
            .iter()
            .find(|(known, _)| *known == code)
            .map_or(Self::Other(code), |(_, kind)| kind.clone())
    }

    /// Returns the number of the type.
    pub(super) fn code(&self) -> u32 {
        match self {
            Self::Object(_) => OBJECT,
            Self::Array(_) => ARRAY,
            Self::FixedArray(..) => FIXED_ARRAY,
            Self::RelativeLocation(_) => RELATIVE_LOCATION,
            Self::DataLocation(_) => DATA_LOCATION,
            Self::Bool8 => BOOL8,
            Self::Other(code) => *code,
            plain => PLAIN
                .iter()
                .find(|(_, kind)| kind == plain)
                .map_or(0, |(code, _)| *code),
        }
    }

    /// Returns the element type, or `None` if the type has no elements.
    pub(super) fn element(&self) -> Option<&Self> {
        match self {
            Self::Array(element)
            | Self::FixedArray(element, _)
            | Self::RelativeLocation(element)
            | Self::DataLocation(element) => Some(element),
            _ => None,
        }
    }
}

/// Returns the memory of a field list, in bytes.
pub(super) fn memory(fields: &[Field]) -> usize {
    fields
        .iter()
        .map(|field| size_of::<Field>() + field.name.len() + inner_memory(&field.kind))
        .sum()
}

fn inner_memory(kind: &FieldType) -> usize {
    match kind {
        FieldType::Object(fields) => memory(fields),
        other => other
            .element()
            .map_or(0, |element| size_of::<FieldType>() + inner_memory(element)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: the numbers include every known number and larger numbers.
    /// Guarantee: each number round-trips through its type, so no two types share a number.
    #[test]
    fn type_number_round_trips() {
        for code in 0..40 {
            assert_eq!(FieldType::plain(code).code(), code);
        }
    }
}
