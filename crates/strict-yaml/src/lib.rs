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
//! | [`formats`] | the formats of durations and sizes |
//! | [`decode`](mod@decode) | UTF-8 with positions |
//!
//! # Invariants
//!
//! * **Pure.** No I/O and no clock: the input is text, the output is values or faults.
//! * **All faults at once**, each with line and column. Values that can be secret (`x-secret` in the schema) are never
//!   quoted.
//! * **Bounded.** Nesting, number of values and bytes are limited while reading. Anchors, aliases and tags are
//!   rejected.
//! * **Independent of the kind of document.** The configuration and the rule files of gcwatch provide their schemas.

// Time is passed as a value, and state has one owner: this crate uses no clock and no lock (clippy.toml).
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod check;
pub mod decode;
pub mod formats;
pub mod path;
pub mod reference;
pub mod schema;
pub mod yaml;

/// Compiles and runs the example in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
