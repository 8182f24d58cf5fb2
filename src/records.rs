//! The machine-readable records: one JSON object per line, or the elements of an answer of the API. Their names are a contract.
//!
//! The record of an alert's change is in [`gc_rules::record`].

pub mod event;
pub mod gc;
