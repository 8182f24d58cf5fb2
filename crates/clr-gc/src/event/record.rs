//! Record declarations. One declaration creates a struct, its decoder and its list of fields.

use super::fields::{ToValue, Value};
use super::reader::{Cursor, PayloadTooShort};
use nettrace::PointerSize;

/// A sequence of fields: the payload of an event, or one row of a repeated part.
pub(crate) trait Record<'a>: Sized {
    /// Whether the length is constant for a given version and pointer size.
    const FIXED: bool;
    /// Returns the length of the newest version in bytes, or the minimum length if it varies.
    fn least(pointer: PointerSize) -> usize;
    /// Reads a record.
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, PayloadTooShort>;
    /// Returns the ClrInstanceID of the record.
    fn clr_instance(&self) -> Option<u16>;
}

/// Passes one field to `visit`.
pub(crate) fn show<'v, T: ToValue>(name: &'static str, value: &'v T, visit: &mut dyn FnMut(&'static str, Value<'v>)) {
    visit(name, value.to_value());
}

/// Declares records. Each field has a name and a type in the struct, a wire layout (`as`, if it differs from the layout
/// of the type), a name in the manifest, and the version that introduced it (`since`, which makes the field an
/// `Option`).
///
/// A payload of version v has exactly the fields that exist in v, in declaration order. This also holds for the few
/// version 0 layouts that later versions did not merely extend.
macro_rules! record {
    ($(
        $(#[$meta:meta])*
        $name:ident $(<$life:lifetime>)? {
            $(
                $(#[$field_meta:meta])*
                $field:ident: $type:ty $(as $wire:ty)? = $label:literal $(since $since:literal)?,
            )+
        }
    )+) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq)]
        pub struct $name $(<$life>)? {
            $(
                $(#[$field_meta])*
                pub $field: $crate::event::record::slot!(type $type $(, $since)?),
            )+
        }

        impl<'a> $crate::event::record::Record<'a> for $name $(<$life>)? {
            const FIXED: bool = true $(
                && <$crate::event::record::slot!(wire $type $(, $wire)?) as $crate::event::reader::Wire<'a>>::FIXED
            )+;

            #[inline]
            fn least(pointer: $crate::event::PointerSize) -> usize {
                0 $(
                    + <$crate::event::record::slot!(wire $type $(, $wire)?) as $crate::event::reader::Wire<'a>>
                        ::least(pointer)
                )+
            }

            #[inline]
            fn read(
                cursor: &mut $crate::event::reader::Cursor<'a>,
            ) -> Result<Self, $crate::event::reader::PayloadTooShort> {
                Ok(Self {
                    $($field: $crate::event::record::slot!(
                        read cursor,
                        <$crate::event::record::slot!(wire $type $(, $wire)?) as $crate::event::reader::Wire<'a>>::read,
                        $label $(, $since)?
                    ),)+
                })
            }

            #[inline]
            fn clr_instance(&self) -> Option<u16> {
                let _record = self;
                $crate::event::record::instance!(_record $($field)+)
            }
        }

        impl $(<$life>)? $crate::event::Fields for $name $(<$life>)? {
            fn fields<'v>(&'v self, visit: &mut dyn FnMut(&'static str, $crate::event::Value<'v>)) {
                $($crate::event::record::slot!(show self.$field, $label, visit $(, $since)?);)+
            }
        }
    )+};
}

/// One field of a [`record!`], with and without `since`, with and without `as`.
macro_rules! slot {
    (type $type:ty) => { $type };
    (type $type:ty, $since:literal) => { Option<$type> };
    (wire $type:ty) => { $type };
    (wire $type:ty, $wire:ty) => { $wire };
    (read $cursor:ident, $read:expr, $label:literal) => { $read($cursor, $label)? };
    (read $cursor:ident, $read:expr, $label:literal, $since:literal) => {
        if $cursor.version() >= $since { Some($read($cursor, $label)?) } else { None }
    };
    (show $field:expr, $label:literal, $visit:ident) => {
        $crate::event::record::show($label, &$field, $visit)
    };
    (show $field:expr, $label:literal, $visit:ident, $since:literal) => {
        if let Some(value) = &$field {
            $crate::event::record::show($label, value, $visit);
        }
    };
}

/// The field `clr_instance` of a record, if it has one.
macro_rules! instance {
    ($record:ident) => { None };
    ($record:ident clr_instance $($rest:ident)*) => { Option::<u16>::from($record.clr_instance) };
    ($record:ident $other:ident $($rest:ident)*) => { $crate::event::record::instance!($record $($rest)*) };
}

pub(crate) use {instance, record, slot};
