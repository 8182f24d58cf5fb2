//! Rules: from collections to alerts.
//!
//! ```text
//! texts (YAML) -> document -> load, compile -> RuleSet          once, when files are read
//!                                               |
//! Collection, Suspension, counters, the time -> engine (windows, conditions, states) -> Transition
//!                                               one per process
//! ```
//!
//! | Module | What it is |
//! |---|---|
//! | [`time`], [`value`] | Unix time of a stream; values of expressions |
//! | [`field`] | all fields that a rule can use: type, unit, description, accessor |
//! | [`expression`] | checked expressions: typed trees that are evaluated without allocation |
//! | [`compile`] | from CEL to a checked expression |
//! | [`rule`] | checked rules, windows and groups |
//! | [`template`] | strings with values in them: parser and rendering |
//! | [`document`], [`load`] | rule files: types, reading and checks, all errors at once |
//! | [`page`] | the reference page, generated from the tables and the types |
//! | `plan` | which samples feed which windows, computed once for all processes |
//! | `turns` | which rules are evaluated when, and which share a group, computed once for all processes |
//! | [`rule_set`] | all checked rules, with both of these |
//! | [`window`], [`engine`] | the state of every rule for one process |
//! | [`alert`], [`record`] | alerts and their transitions; their JSON |
//! | [`account`] | what a process was stopped for, as a record |
//! | [`ledger`] | where the memory of a process is, as a record |
//! | [`incident`] | what a person sees: the alerts of one cause on one process |
//! | [`review`] | the rules applied to a complete history: a recording, or the events of a test |
//! | [`test_file`] | tests of rules |
//!
//! # Invariants
//!
//! * **Pure.** No I/O and no clock: [`load::load`] takes texts, and time is a part of the observations, so the daemon,
//!   a recording and a rule's test run the same code.
//! * **Three values.** A value that was not seen is unknown, and an expression with it is unknown unless the other
//!   operand decides (`false && unknown` is false, `true || unknown` is true). Unknown never fires, and never clears at
//!   once.
//! * **Bounded.** Windows, alerts, strings and expressions have limits that are checked when a file is read; the
//!   maximum memory of one process is known in advance ([`engine::Engine::most_memory`]).
//! * **Files are harmless.** Any file is refused with its errors, or evaluated in bounded time; after a refusal the
//!   previous rules continue.

// Time is a value, and state has one owner: no clock, no lock (clippy.toml).
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod account;
pub mod alert;
pub mod compile;
pub mod document;
pub mod engine;
pub mod expression;
pub mod field;
pub mod incident;
pub mod ledger;
pub mod load;
pub mod page;
mod plan;
pub mod record;
pub mod review;
pub mod rule;
pub mod rule_set;
pub mod template;
pub mod test_file;
pub mod time;
mod turns;
pub mod value;
pub mod window;

/// The example in the README compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
