//! Tests of rules: what happens to a process, and which alerts there must be.
//!
//! ```text
//! *.test.yaml -> document (types, schema) -> script (written events) --+-> review (engine, virtual clock) -> differences
//!                                            recording ---------------'
//! ```
//!
//! Expectations are exact: an expected alert has these labels and texts, and `fires` names every rule that fired at any time, so that an
//! empty list asserts silence.

pub mod document;
mod file;
mod given;
mod run;
mod script;
mod times;

pub use file::{TestFile, schema_text};
pub use run::{Difference, TestOutcome, run};
