//! YAML text as a tree of values that know where they stand.
//!
//! Less than YAML allows, and bounded: one document, no tags (an unquoted `!` would silently change a value), no anchors
//! and aliases (a small file could stand for gigabytes), no merge keys, no key twice, text as keys. Plain scalars are what
//! the core schema of YAML 1.2 says: `yes` is a text. Every fault that does not end the reading is told, not only the first.
//!
//! Knows nothing of what a document is for: [`super::check`] compares the tree with a schema.

mod node;
mod parse;

pub use node::{Entry, Fault, Kind, Node, Position, Scalar};
pub use parse::{Bounds, parse};
