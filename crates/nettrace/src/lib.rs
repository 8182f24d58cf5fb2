//! Reads and writes nettrace, the event stream of .NET's EventPipe (V4, V5 metadata, V6).

pub mod blob;
mod capture;
mod cursor;
mod decoder;
mod definitions;
pub mod encode;
mod error;
mod frame;
mod header;
mod input;
mod intake;
mod item;
mod labels;
pub mod limits;
mod metadata;
mod options;
mod queue;
mod ranges;
mod stacks;
mod stats;
mod threads;

pub use self::decoder::Decoder;
pub use self::error::Error;
pub use self::header::{Format, PointerSize, SystemTime, TraceHeader};
pub use self::item::{Ending, Event, Gap, Item, Stack};
pub use self::metadata::{Field, FieldType, Metadata};
pub use self::options::{Interest, Options, Order};
pub use self::stats::{BlockCounts, Stats};
