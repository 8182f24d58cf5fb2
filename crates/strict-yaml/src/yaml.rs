//! YAML as a tree of values with their positions.
//!
//! A subset of YAML, bounded: one document, no tags (an unquoted `!` would silently change a value), no anchors and
//! aliases (a small file could expand to gigabytes), no merge keys, no duplicate keys, only strings as keys. Plain
//! scalars follow the core schema of YAML 1.2: `yes` is a string. All faults are reported, not only the first, unless
//! one ends the reading.
//!
//! Independent of the kind of document: [`super::check`] compares the tree with a schema.

mod node;
mod parse;

pub use node::{Entry, Fault, Kind, Node, Position, Scalar};
pub use parse::{Bounds, parse};
