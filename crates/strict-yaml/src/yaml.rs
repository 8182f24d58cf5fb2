//! YAML as a tree of values with their positions.
//!
//! The parser accepts a bounded subset of YAML: one document, no tags (an unquoted `!` would silently change a value),
//! no anchors and aliases (a small file could expand to gigabytes), no merge keys, no duplicate keys, and only strings
//! as keys. Plain scalars follow the core schema of YAML 1.2: `yes` is a string. All faults are reported, not only the
//! first, unless a fault stops the parser.
//!
//! The tree is independent of the kind of document: [`super::check`] compares it with a schema.

mod node;
mod parse;

pub use node::{Entry, Fault, Kind, Node, Position, Scalar};
pub use parse::{Bounds, parse};
