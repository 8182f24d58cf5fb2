//! Records: one declaration makes a struct, its decoding and its fields.

use super::fields::{ToValue, Value};
use super::reader::{Cursor, Short};
use nettrace::PointerSize;

/// A run of fields: an event's payload or one row of a repeated part.
pub(crate) trait Record<'a>: Sized {
    /// Always of the same length for one version and pointer size.
    const FIXED: bool;
    /// The length of the newest version, the least one where it varies.
    fn least(pointer: PointerSize) -> usize;
    /// Reads it.
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, Short>;
    /// Its ClrInstanceID.
    fn clr_instance(&self) -> Option<u16>;
}

/// Shows one field.
pub(crate) fn show<'v, T: ToValue>(name: &'static str, value: &'v T, visit: &mut dyn FnMut(&'static str, Value<'v>)) {
    visit(name, value.to_value());
}

/// Declares records: for each field its name and type in the struct, how it is laid out (`as`, where that is not the
/// type's own layout), its name in the manifest, and the version that brought it (`since`; it is an `Option` then).
///
/// The fields of a payload of version v are, in this order, those that v has. This holds also for the few version 0
/// layouts that later versions did not merely extend.
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
            ) -> Result<Self, $crate::event::reader::Short> {
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
