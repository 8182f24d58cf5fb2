//! Definitions: what kind of event a metadata id stands for.
//!
//! Events of native code (all of `Microsoft-Windows-DotNETRuntime`) have neither names nor fields here: their layout is
//! known by provider, event id and version only. EventSource providers name theirs.

mod fields;
mod v4;
mod v6;

pub use self::fields::{Field, FieldType};
pub(crate) use self::v6::put_utf8;

use std::borrow::Cow;

use crate::error::Error;

/// The providers of a runtime, which nearly all definitions of a live stream have: no definition keeps their names.
const OF_RUNTIME: [&str; 4] = [
    "Microsoft-Windows-DotNETRuntime",
    "Microsoft-Windows-DotNETRuntimePrivate",
    "Microsoft-Windows-DotNETRuntimeRundown",
    "Microsoft-DotNETCore-SampleProfiler",
];

/// The name as it is kept.
fn provider(name: String) -> Cow<'static, str> {
    let known = OF_RUNTIME.into_iter().find(|known| **known == *name);
    known.map_or(Cow::Owned(name), Cow::Borrowed)
}

/// The definition of a kind of event. Ids are given in the order of first use and are valid in one stream only.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Metadata {
    /// The id by which events refer to it.
    pub id: u32,
    /// The provider that defines the event, for example `Microsoft-Windows-DotNETRuntime`.
    pub provider: Cow<'static, str>,
    /// The provider's number for the event.
    pub event_id: u32,
    /// The event's name; empty for native events.
    pub name: String,
    /// Version of the payload's layout; `None` when the writer does not say (V6 without the optional).
    pub version: Option<u32>,
    /// 1 critical to 5 verbose; `None` when the writer does not say.
    pub level: Option<u32>,
    /// The provider's keywords that the event belongs to; `None` when the writer does not say.
    pub keywords: Option<u64>,
    /// Phase of an activity (1 start, 2 stop); `None` when the writer does not say, which stands for 0.
    pub opcode: Option<u8>,
    /// What the payload is made of; empty for native events and where the stream's description cannot be followed.
    pub fields: Vec<Field>,
}

impl Metadata {
    /// Reads the payload of a blob in a V4 metadata block, with or without V5's tags.
    ///
    /// # Errors
    ///
    /// When it is cut off or beyond the [limits](crate::limits). `base` is where it begins in the stream.
    pub fn read_v4(payload: &[u8], base: u64) -> Result<Self, Error> {
        v4::read(payload, base)
    }

    /// Reads a row of a V6 metadata block, without its length.
    ///
    /// # Errors
    ///
    /// When it is cut off or beyond the [limits](crate::limits). `base` is where it begins in the stream.
    pub fn read_v6(row: &[u8], base: u64) -> Result<Self, Error> {
        v6::read(row, base)
    }

    /// The payload of a blob in a V4 metadata block. Fields that V4's first list cannot say (arrays) go into V5's tag.
    pub(crate) fn write_v4(&self, out: &mut Vec<u8>) {
        v4::write(self, out);
    }

    /// A row of a V6 metadata block, without its length; `None` when a part is too long for its length field.
    pub(crate) fn write_v6(&self) -> Option<Vec<u8>> {
        v6::write(self)
    }

    /// Bytes of memory that it takes.
    pub(crate) fn memory(&self) -> usize {
        let provider = match &self.provider {
            Cow::Borrowed(_) => 0,
            Cow::Owned(name) => name.len(),
        };
        size_of::<Self>() + provider + self.name.len() + fields::memory(&self.fields)
    }
}
