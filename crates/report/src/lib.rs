//! Reports: tables for a terminal, and the records that belong to one command.
//!
//! Tables are for people and may change. Records are a contract: their names stay (the others are in
//! `api`). Everything here is pure: values in, text out, without a clock.
//!
//! # Layers
//!
//! 1. [`table`], [`units`], [`timeline`], [`intervals`]: cells, numbers with units, marks on a line
//! 2. one module per table, with the records of its command; a module uses another's parts, never in a circle
//! 3. [`top`]: the live view
//!
//! # Invariants
//!
//! * **An error is the writer's**: what writes a table fails where the output cannot be written, and nowhere else.
//! * **Unknown is `-`** in a table and null in a record, never 0.
//! * **Foreign text is shown, not obeyed**: names of processes and types have no control characters.

// Time is a value: no clock is asked here (clippy.toml).
#![deny(clippy::disallowed_methods)]

pub mod account;
pub mod allocations;
pub mod anomalies;
pub mod callers;
pub mod collections;
pub mod csv;
pub mod detail;
pub mod difference;
pub mod doctor;
pub mod heap;
pub mod incidents;
pub mod intervals;
pub mod memory;
pub mod processes;
pub mod requests;
pub mod rules;
pub mod stacks;
pub mod summary;
pub mod table;
pub mod timeline;
pub mod top;
pub mod units;
