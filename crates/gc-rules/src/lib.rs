//! Rules at run time: from collections to alerts and incidents.
//!
//! ```text
//! rule files -> rule-language -> RuleSet                                                  once, when files are read
//!                                   |
//! Collection, Suspension, counters, the time -> engine (windows, conditions, states) -> Transition -> incident
//!                                               one per process
//! ```
//!
//! What a person writes is read and checked by the crate `rule-language`, which is built on this one; here a rule is a
//! value that was checked.
//!
//! | Module | What it is |
//! |---|---|
//! | [`value`] | values of expressions |
//! | [`field`] | all fields that a rule can use: type, unit, description, accessor |
//! | [`expression`] | checked expressions: typed trees that are evaluated without allocation |
//! | [`rule`] | checked rules, windows and groups |
//! | [`template`] | strings with values in them: their rendering |
//! | [`plan`] | which samples feed which windows, computed once for all processes |
//! | [`turns`] | which rules are evaluated when, and which share a group, computed once for all processes |
//! | [`rule_set`] | all checked rules, with both of these |
//! | [`window`], [`engine`] | the state of every rule for one process |
//! | [`alert`], [`record`] | alerts and their transitions; their JSON |
//! | [`account`] | what a process was stopped for, as a record |
//! | [`ledger`] | where the memory of a process is, as a record |
//! | `memory` | level, trend and age of the memory of a process |
//! | [`incident`] | what a person sees: the alerts of one cause on one process |
//! | [`review`] | the rules applied to a complete history: a recording, or the events of a test |
//!
//! # Invariants
//!
//! * **Pure.** No I/O and no clock: time is a part of the observations, so the daemon, a recording and a rule's test
//!   run the same code.
//! * **Three values.** A value that was not seen is unknown, and an expression with it is unknown unless the other
//!   operand decides (`false && unknown` is false, `true || unknown` is true). Unknown never fires, and never clears at
//!   once.
//! * **Bounded.** Windows, alerts and strings have limits; the maximum memory of one process is known in advance
//!   ([`engine::Engine::most_memory`]).

// Time is a value, and state has one owner: no clock, no lock (clippy.toml).
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod account;
pub mod alert;
mod conditions;
pub mod engine;
pub mod expression;
pub mod field;
pub mod incident;
pub mod ledger;
mod memory;
pub mod plan;
pub mod record;
pub mod review;
pub mod rule;
pub mod rule_set;
pub mod template;
pub mod turns;
pub mod value;
pub mod window;
