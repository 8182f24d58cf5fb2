//! The machine-readable records: one JSON object per line, or the elements of an API response. The names in the records
//! are a contract. The records are pure: they convert values to JSON and have no clock.
//!
//! The record of an alert's change is in [`rule_engine::record`], and the record of a process's memory is in
//! [`rule_engine::ledger`]. A record that only one command writes is next to the table of this command, in the crate
//! `report`.
//!
//! # Layers
//!
//! 1. [`event`], [`gc`], [`request`]: records of the contents of a stream
//! 2. [`view`]: records for display
//!
//! # Invariants
//!
//! * **A contract.** Existing names never change; new names may be added.
//! * **One type per record.** The code that writes a record and the code that documents the record use the same type.
//! * **Unknown is null**, never 0, never omitted.
//! * **Pure.** No I/O, no clock, no lock.

// Time is a value, and state has one owner: no clock, no lock (see clippy.toml).
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod event;
pub mod gc;
pub mod request;
pub mod view;
