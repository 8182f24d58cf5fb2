//! Name of a process as stored by the kernel.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Maximum length of a name, in bytes. The kernel stores 15 bytes and a terminating zero (`TASK_COMM_LEN`).
const MAX_BYTES: usize = 15;

/// Name of a process as stored by the kernel (`comm`), at most 15 bytes. The type implements `Copy`, so that the facts
/// that contain it can be copied too.
///
/// A process chooses its own name. Replace characters that are not safe to display before you create a value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CommandName {
    bytes: [u8; MAX_BYTES],
    length: u8,
}

impl CommandName {
    /// Creates a name, truncated at the last character that fits.
    pub fn new(name: &str) -> Self {
        let mut cut = Self {
            bytes: [0; MAX_BYTES],
            length: 0,
        };
        let mut end = name.len().min(MAX_BYTES);
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        for (byte, from) in cut.bytes.iter_mut().zip(name.bytes().take(end)) {
            *byte = from;
            cut.length += 1;
        }
        cut
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        let bytes = self.bytes.get(..usize::from(self.length)).unwrap_or_default();
        // The bytes come from a `str` that was cut between characters.
        std::str::from_utf8(bytes).unwrap_or_default()
    }
}

impl fmt::Debug for CommandName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl Serialize for CommandName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for CommandName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::new(&Cow::<str>::deserialize(deserializer)?))
    }
}

impl JsonSchema for CommandName {
    fn schema_name() -> Cow<'static, str> {
        "CommandName".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        String::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: names fit, are empty, are too long, or have a 15th byte inside a character.
    /// Guarantee: the name is cut between characters, and its JSON string round-trips unchanged.
    #[test]
    fn name_is_cut_between_characters() {
        for (name, cut) in [
            ("dotnet", "dotnet"),
            ("", ""),
            (".NET TP Worker 1", ".NET TP Worker "),
            ("abcdefghijklmné", "abcdefghijklmn"),
        ] {
            let name = CommandName::new(name);
            assert_eq!(name.as_str(), cut);
            let json = serde_json::to_string(&name).unwrap();
            assert_eq!(json, format!("\"{cut}\""));
            assert_eq!(serde_json::from_str::<CommandName>(&json).unwrap(), name);
        }
    }
}
