//! Values that are texts in a document: read by their `FromStr`, in the schema with a format.

/// A type is read from a text: `Type, format, examples` or `Type, format, pattern, examples`.
macro_rules! read_from_text {
    ($type:ty, $format:literal, $pattern:literal, $examples:expr) => {
        $crate::config::text::read_from_text!(@ $type, $format, {
            "type": "string", "format": $format, "pattern": $pattern, "examples": $examples
        });
    };
    ($type:ty, $format:literal, $examples:expr) => {
        $crate::config::text::read_from_text!(@ $type, $format, {
            "type": "string", "format": $format, "examples": $examples
        });
    };
    (@ $type:ty, $format:literal, $schema:tt) => {
        impl<'de> ::serde::Deserialize<'de> for $type {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <::std::borrow::Cow<'de, str> as ::serde::Deserialize>::deserialize(deserializer)?;
                text.parse().map_err(::serde::de::Error::custom)
            }
        }

        impl ::schemars::JsonSchema for $type {
            fn schema_name() -> ::std::borrow::Cow<'static, str> {
                $format.into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut ::schemars::SchemaGenerator) -> ::schemars::Schema {
                ::schemars::json_schema!($schema)
            }
        }
    };
}

/// The same, and written as it is displayed.
macro_rules! written_as_text {
    ($type:ty, $($form:tt)+) => {
        impl ::serde::Serialize for $type {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        $crate::config::text::read_from_text!($type, $($form)+);
    };
}

pub(crate) use {read_from_text, written_as_text};
