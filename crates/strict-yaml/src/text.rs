//! Values that are texts in a document: read by their `FromStr`, in the schema with a format.

/// A type is read from a text: `Type, format, examples` or `Type, format, pattern, examples`.
#[macro_export]
macro_rules! read_from_text {
    ($type:ty, $format:literal, $pattern:literal, $examples:expr) => {
        $crate::read_from_text!(@ $type, $format, {
            "type": "string", "format": $format, "pattern": $pattern, "examples": $examples
        });
    };
    ($type:ty, $format:literal, $examples:expr) => {
        $crate::read_from_text!(@ $type, $format, {
            "type": "string", "format": $format, "examples": $examples
        });
    };
    (@ $type:ty, $format:literal, $schema:tt) => {
        impl<'de> $crate::serde::Deserialize<'de> for $type {
            fn deserialize<D: $crate::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <::std::borrow::Cow<'de, str> as $crate::serde::Deserialize>::deserialize(deserializer)?;
                text.parse().map_err($crate::serde::de::Error::custom)
            }
        }

        impl $crate::schemars::JsonSchema for $type {
            fn schema_name() -> ::std::borrow::Cow<'static, str> {
                $format.into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut $crate::schemars::SchemaGenerator) -> $crate::schemars::Schema {
                $crate::schemars::json_schema!($schema)
            }
        }
    };
}

/// The same, and written as it is displayed.
#[macro_export]
macro_rules! written_as_text {
    ($type:ty, $($form:tt)+) => {
        impl $crate::serde::Serialize for $type {
            fn serialize<S: $crate::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        $crate::read_from_text!($type, $($form)+);
    };
}
