//! Reports: tables for a terminal, and the records that belong to one command.
//!
//! Tables are for display and may change. Records are a contract with stable names (further records are in `api`). All
//! code here is pure: it converts values to text and has no clock.
//!
//! # Layers
//!
//! 1. [`table`], [`units`], [`timeline`], [`intervals`]: cells, numbers with units, marks on a line
//! 2. one module per table, with the records of its command; modules may use parts of other modules, but not in a
//!    circle
//! 3. [`top`]: the live view
//!
//! # Invariants
//!
//! * **Errors come from the writer**: a function that writes a table fails only if the output cannot be written.
//! * **Unknown is `-`** in a table and null in a record, never 0.
//! * **Foreign text is displayed, not interpreted**: names of processes and types have no control characters.

// Time is passed as a value: this crate reads no clock (see clippy.toml).
#![deny(clippy::disallowed_methods)]

pub mod account;
pub mod advice;
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
