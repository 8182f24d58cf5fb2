//! Evaluates rules: turns collections into alerts.
//!
//! ```text
//! rule files -> rule-language -> RuleSet                                                  once, when files are read
//!                                   |
//! Collection, Suspension, counters, the time -> engine (windows, conditions, states) -> Transition
//!                                               one per process
//! ```
//!
//! The crate `rule-language`, which depends on this crate, reads and checks rule files. In this crate, a rule is a
//! checked value. The crate `incidents` forms incidents from transitions.
//!
//! | Module | Content |
//! |---|---|
//! | [`value`] | values of expressions |
//! | [`field`] | all fields that a rule can use: type, unit, description, accessor |
//! | [`expression`] | checked expressions: typed trees that are evaluated without allocation |
//! | [`rule`] | checked rules, windows and groups |
//! | [`template`] | templates with values, and their rendering |
//! | [`plan`] | assignment of samples to windows, computed once for all processes |
//! | [`turns`] | evaluation order and groups of rules, computed once for all processes |
//! | [`rule_set`] | all checked rules, with their plan and turns |
//! | [`window`], [`engine`] | the state of every rule for one process |
//! | [`alert`], [`record`] | alerts and their transitions; their JSON |
//! | [`account`] | stopped time of a process by cause, as a record |
//! | [`ledger`] | memory of a process by use, as a record |
//! | `memory` | level, trend and age of the memory of a process |
//!
//! # Invariants
//!
//! * **Pure.** No I/O and no clock. Time is part of the observations, so the daemon, a recording and a test of a rule
//!   run the same code.
//! * **Three values.** A value that was not observed is unknown, and an expression with it is unknown unless the other
//!   operand decides (`false && unknown` is false, `true || unknown` is true). An unknown condition never fires an
//!   alert, and never clears an alert at once.
//! * **Bounded.** Windows, alerts and strings have limits. The maximum memory of one process is known in advance
//!   ([`engine::Engine::most_memory`]).

// Time is a value, and state has one owner: no clock and no lock (clippy.toml).
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod account;
pub mod alert;
mod conditions;
pub mod engine;
pub mod expression;
pub mod field;
pub mod ledger;
mod memory;
pub mod plan;
pub mod record;
pub mod rule;
pub mod rule_set;
pub mod template;
pub mod turns;
pub mod value;
pub mod window;
