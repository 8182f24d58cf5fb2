//! YAML for documents that people write and programs must not misread.
//!
//! ```text
//! text -> yaml: a tree of values with positions -> check: against a JSON schema -> values, or every fault with its place
//! ```
//!
//! | Module | What it is |
//! |---|---|
//! | [`yaml`] | the tree: less than YAML allows, and bounded |
//! | [`path`] | the path of a key: `otlp.traces.endpoint` |
//! | [`check`] | the tree against a schema: every fault at once, each with its position |
//! | [`schema`] | schemas as `schemars` makes them, made fit for editors |
//! | [`reference`](mod@reference) | a schema as cells of reference tables |
//! | [`units`], [`pattern`], [`text`] | values that are texts in a document: durations, sizes, patterns |
//! | [`quote`], [`decode`](mod@decode) | foreign texts in messages; bytes as text |
//!
//! # Invariants
//!
//! * **Pure.** No I/O and no clock: texts in, values or faults out.
//! * **Every fault at once**, each with line and column; what may be secret (`x-secret` in the schema) is never quoted.
//! * **Bounded.** Depth, number of values and bytes are limited while reading; no anchors, aliases or tags.
//! * **Knows nothing of what a document is for**: the configuration and the rule files of gcwatch bring their schemas.

// Time is a value: no clock is asked here (clippy.toml).
#![deny(clippy::disallowed_methods)]

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
