//! Reports: tables for a terminal, and the records that belong to one command.
//!
//! Tables are for people and may change. Records are a contract: their names stay (the others are in
//! [`crate::records`]). Everything here is pure: values in, text out, without a clock.

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
pub mod view;
