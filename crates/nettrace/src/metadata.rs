//! Definitions, which map a metadata id to a kind of event.
//!
//! Events of native code (all events of `Microsoft-Windows-DotNETRuntime`) have neither names nor fields here: only
//! provider, event id and version identify their layout. EventSource providers name their events and fields.

mod fields;
mod v4;
mod v6;

pub use self::fields::{Field, FieldType};
pub(crate) use self::v6::put_utf8;

use std::borrow::Cow;

use crate::error::Error;

/// The providers of a runtime. Almost all definitions of a live stream have one of these providers, so definitions do
/// not store copies of these names.
const OF_RUNTIME: [&str; 4] = [
    "Microsoft-Windows-DotNETRuntime",
    "Microsoft-Windows-DotNETRuntimePrivate",
    "Microsoft-Windows-DotNETRuntimeRundown",
    "Microsoft-DotNETCore-SampleProfiler",
];

/// Returns a provider name in its stored form: borrowed if [`OF_RUNTIME`] contains the name, otherwise owned.
fn provider(name: String) -> Cow<'static, str> {
    let known = OF_RUNTIME.into_iter().find(|known| **known == *name);
    known.map_or(Cow::Owned(name), Cow::Borrowed)
}

/// The definition of a kind of event. Ids are assigned in the order of first use and are valid within one stream.
///
/// Events of native code (all events of `Microsoft-Windows-DotNETRuntime`) have neither names nor fields in a stream:
/// only provider, event id and version identify their layout. EventSource providers name their events and fields.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Metadata {
    /// Id by which events refer to the definition.
    pub id: u32,
    /// Provider that defines the event, for example `Microsoft-Windows-DotNETRuntime`.
    pub provider: Cow<'static, str>,
    /// Id of the event in its provider.
    pub event_id: u32,
    /// Name of the event; empty for native events.
    pub name: String,
    /// Version of the payload layout; `None` if the writer does not report it (V6 without the optional field).
    pub version: Option<u32>,
    /// Level from 1 (critical) to 5 (verbose); `None` if the writer does not report it.
    pub level: Option<u32>,
    /// Keywords of the provider to which the event belongs; `None` if the writer does not report them.
    pub keywords: Option<u64>,
    /// Phase of an activity (1 start, 2 stop); `None` if the writer does not report it, which is equivalent to 0.
    pub opcode: Option<u8>,
    /// Fields of the payload; empty for native events and if the description in the stream cannot be parsed.
    pub fields: Vec<Field>,
}

impl Metadata {
    /// Reads the payload of a blob in a V4 metadata block, with or without V5 tags. `base` is the offset of the payload
    /// in the stream, in bytes.
    ///
    /// # Errors
    ///
    /// Returns an error if the payload is truncated or exceeds the [limits](crate::limits).
    pub fn read_v4(payload: &[u8], base: u64) -> Result<Self, Error> {
        v4::read(payload, base)
    }

    /// Reads a row of a V6 metadata block, without its length. `base` is the offset of the row in the stream, in bytes.
    ///
    /// # Errors
    ///
    /// Returns an error if the row is truncated or exceeds the [limits](crate::limits).
    pub fn read_v6(row: &[u8], base: u64) -> Result<Self, Error> {
        v6::read(row, base)
    }

    /// Writes the payload of a blob in a V4 metadata block. If V4's first list cannot express a field (for example an
    /// array), all fields go into a V5 tag.
    pub(crate) fn write_v4(&self, out: &mut Vec<u8>) {
        v4::write(self, out);
    }

    /// Returns a row of a V6 metadata block without its length, or `None` if a part is too long for its length field.
    pub(crate) fn write_v6(&self) -> Option<Vec<u8>> {
        v6::write(self)
    }

    /// Returns the memory of the definition, in bytes.
    pub(crate) fn memory(&self) -> usize {
        let provider = match &self.provider {
            Cow::Borrowed(_) => 0,
            Cow::Owned(name) => name.len(),
        };
        size_of::<Self>() + provider + self.name.len() + fields::memory(&self.fields)
    }
}
