//! Enumerations with names for records and for display.

/// Declares an enumeration. Each value has a name that never changes, and a name for display.
macro_rules! named {
    (
        $(#[$meta:meta])*
        pub enum $name:ident { $($(#[$value_meta:meta])* $value:ident = $id:literal $title:literal,)+ }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum $name {
            $($(#[$value_meta])* $value,)+
        }

        impl $name {
            /// Number of values.
            pub const COUNT: usize = [$($id),+].len();

            /// All values, in order.
            pub const ALL: [Self; Self::COUNT] = [$(Self::$value),+];

            /// Returns the name in records, metrics and rules, which never changes.
            pub const fn id(self) -> &'static str {
                match self {
                    $(Self::$value => $id,)+
                }
            }

            /// Returns the name for display.
            pub const fn title(self) -> &'static str {
                match self {
                    $(Self::$value => $title,)+
                }
            }
        }
    };
}

pub(crate) use named;
