//! The machine-readable records: one JSON object per line, or the elements of an API response. Their names are a
//! contract, and they are pure: values in, JSON out, without a clock.
//!
//! The record of an alert's change is in [`gc_rules::record`], that of a process's memory in [`gc_rules::ledger`];
//! those of a single command are beside its table in `report`.

pub mod event;
pub mod gc;
pub mod request;
pub mod view;
