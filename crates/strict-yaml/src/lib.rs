//! YAML for documents that people write: a tree with positions, checked against a schema.
//!
//! ```text
//! text -> yaml: a tree of values with positions -> check: against a JSON schema -> values, or all faults with
//! positions
//! ```
//!
//! | Module | What it is |
//! |---|---|
//! | [`yaml`] | the tree: a bounded subset of YAML |
//! | [`path`] | the path of a key: `otlp.traces.endpoint` |
//! | [`check`] | the tree against a schema: all faults at once, each with its position |
//! | [`schema`] | schemas of `schemars`, prepared for editors |
//! | [`reference`](mod@reference) | a schema as cells of reference tables |
//! | [`formats`] | the formats of durations and sizes |
//! | [`decode`](mod@decode) | UTF-8 with positions |
//!
//! # Invariants
//!
//! * **Pure.** No I/O and no clock: texts in, values or faults out.
//! * **All faults at once**, each with line and column; what may be secret (`x-secret` in the schema) is never quoted.
//! * **Bounded.** Nesting, number of values and bytes are limited while reading; no anchors, aliases or tags.
//! * **Independent of the kind of document**: the configuration and the rule files of gcwatch provide their schemas.

// Time is a value, and state has one owner: no clock, no lock (clippy.toml).
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod check;
pub mod decode;
pub mod formats;
pub mod path;
pub mod reference;
pub mod schema;
pub mod yaml;

/// The example in the README compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
