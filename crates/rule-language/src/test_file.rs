//! Tests of rules: events of a process, and the expected alerts.
//!
//! ```text
//! *.test.yaml -> document (types, schema) -> script (written events) --+-> review (virtual clock) -> differences
//!                                            recording ---------------'
//! ```
//!
//! Expectations are exact. If the labels or annotations of an alert are given, the alert has no other labels or
//! annotations. `fires` lists every rule that fired at any time with at least the severity `fires_from`, so an empty
//! list asserts that no such rule fires.

pub mod document;
mod file;
mod given;
mod run;
mod script;
mod times;

pub use file::{TestFile, schema_text};
pub use run::{Difference, run};
