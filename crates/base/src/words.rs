//! Types whose values are strings in a document: words of a fixed set, and strings parsed by `FromStr`.

/// Defines an enum of words. The definition provides the names in documents, records and messages, the descriptions in
/// the schema (the doc comments), and a parser.
///
/// ```
/// base::words! {
///     /// Urgency of a task.
///     pub enum Urgency {
///         /// The task can wait.
///         Low = "low",
///         /// The task cannot wait.
///         High = "high",
///     }
/// }
/// assert_eq!(Urgency::High.name(), "high");
/// assert_eq!("low".parse(), Ok(Urgency::Low));
/// ```
#[macro_export]
macro_rules! words {
    (
        $(#[$about:meta])*
        $visible:vis enum $name:ident { $($(#[$of:meta])* $variant:ident = $word:literal),+ $(,)? }
    ) => {
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, Hash,
            $crate::serde::Serialize, $crate::serde::Deserialize, $crate::schemars::JsonSchema,
        )]
        #[serde(crate = "::base::serde")]
        #[schemars(crate = "::base::schemars")]
        $(#[$about])*
        $visible enum $name {
            $($(#[$of])* #[serde(rename = $word)] $variant,)+
        }

        impl $name {
            /// All variants, in the order of their definition.
            #[allow(dead_code, reason = "not every enum of words is listed")]
            $visible const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Returns the word.
            $visible const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl ::std::str::FromStr for $name {
            type Err = String;

            fn from_str(word: &str) -> Result<Self, String> {
                let known = Self::ALL.iter().copied().find(|known| known.name() == word);
                known.ok_or_else(|| {
                    let words: Vec<&str> = Self::ALL.iter().map(|known| known.name()).collect();
                    format!("{} is not one of {}", $crate::quote::quoted(word), words.join(", "))
                })
            }
        }
    };
}

/// Implements deserialization from a string: `Type, format, examples` or `Type, format, pattern, examples`.
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

/// Like `read_from_text!`, and also implements serialization with `Display`.
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
