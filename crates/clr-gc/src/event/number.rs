//! Fields that consist of one 32-bit number.

/// Implements reading and display of the value for a type with one public number.
macro_rules! number {
    ($name:ident) => {
        impl From<u32> for $name {
            #[inline]
            fn from(number: u32) -> Self {
                Self(number)
            }
        }

        impl crate::event::fields::ToValue for $name {
            fn to_value(&self) -> crate::event::fields::Value<'_> {
                crate::event::fields::Value::U64(self.0.into())
            }
        }

        impl crate::event::reader::Wire<'_> for $name {
            type Value = Self;
            #[inline]
            fn least(_: nettrace::PointerSize) -> usize {
                4
            }
            #[inline]
            fn read(
                cursor: &mut crate::event::reader::Cursor<'_>,
                field: &'static str,
            ) -> Result<Self, crate::event::reader::PayloadTooShort> {
                u32::read(cursor, field).map(Self)
            }
        }
    };
}

pub(super) use number;
