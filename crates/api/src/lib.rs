//! The machine-readable records: one JSON object per line, or the elements of an API response. Their names are a
//! contract, and they are pure: values in, JSON out, without a clock.
//!
//! The record of an alert's change is in [`gc_rules::record`], that of a process's memory in [`gc_rules::ledger`];
//! those of a single command are beside its table in `report`.
//!
//! # Layers
//!
//! 1. [`event`], [`gc`], [`request`]: records of what a stream has
//! 2. [`view`]: records of what people look at
//!
//! # Invariants
//!
//! * **A contract.** Names stay, new ones may be added.
//! * **One type per record**: whoever writes it and whoever documents it use the same.
//! * **Unknown is null**: never 0, never omitted.
//! * **Pure**: no I/O, no clock, no lock.

// Time is a value, and state has one owner: no clock, no lock (clippy.toml).
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod event;
pub mod gc;
pub mod request;
pub mod view;
