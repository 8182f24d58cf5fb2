//! YAML for human-written documents: a tree with positions, validated against a schema.
//!
//! ```text
//! text -> yaml: a tree of values with positions -> check: against a JSON schema -> values, or all faults with
//! positions
//! ```
//!
//! | Module | Content |
//! |---|---|
//! | [`yaml`] | the tree: a bounded subset of YAML |
//! | [`path`] | the path of a key: `otlp.traces.endpoint` |
//! | [`check`] | validates the tree against a schema: all faults at once, each with its position |
//! | [`schema`] | schemas from `schemars`, prepared for editors |
//! | [`reference`](mod@reference) | cells of reference tables from a schema |
//! | [`text`], [`units`], [`pattern`] | types that are strings in a document: enums of words, durations and sizes, patterns |
//! | [`quote`], [`decode`](mod@decode) | quotes of foreign texts in messages; UTF-8 with positions |
//!
//! # Invariants
//!
//! * **Pure.** No I/O and no clock: the input is text, the output is values or faults.
//! * **All faults at once**, each with line and column. Values that can be secret (`x-secret` in the schema) are never
//!   quoted.
//! * **Bounded.** Nesting, number of values and bytes are limited while reading. Anchors, aliases and tags are
//!   rejected.
//! * **Independent of the kind of document.** The configuration and the rule files of gcwatch provide their schemas.

// Time is passed in as a value, and all state has a single owner: no clock, no lock (clippy.toml).
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod check;
pub mod decode;
pub mod path;
pub mod pattern;
pub mod quote;
pub mod reference;
pub mod schema;
pub mod text;
pub mod units;
pub mod yaml;

#[doc(hidden)]
pub use {schemars, serde};

/// Compiles and runs the example in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
