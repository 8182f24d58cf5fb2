//! Rules: from collections to alerts.
//!
//! ```text
//! files (YAML) -> document -> check, lower -> RuleSet            once, when files are read
//!                                               |
//! Collection, Suspension, counters, the time -> engine (windows, conditions, states) -> Transition -> export
//!                                               one per process
//! ```
//!
//! | Module | What it is |
//! |---|---|
//! | [`value`] | what an expression yields |
//! | [`field`] | the vocabulary: every name a rule may use, with type, unit, meaning and where it is read |
//! | [`expression`] | conditions after the check: typed trees that are evaluated without allocation |
//! | [`compile`] | from CEL text to a checked expression |
//! | [`rule`] | rules, windows and groups after the check: a [`rule::RuleSet`] |
//! | [`alert`] | what a rule says of a process, and when that changes |
//! | [`document`], [`load`] | rule files: their types, their reading and their check, every mistake at once |
//! | [`template`] | texts with values in them: read, and written |
//! | [`page`] | the reference page, made from the tables and the types |
//! | [`file`](mod@file) | the edge: rule files from the disk |
//! | `plan` | which samples feed which windows, worked out once for all processes |
//! | [`engine`], [`window`] | the state of every rule for one process |
//! | [`review`] | an engine over what is already there: a recording, or written events |
//! | [`test_file`] | tests of rules |
//!
//! # Invariants
//!
//! * **Pure.** No I/O (but in [`file`](mod@file)), no clock: time comes in with what is observed, so that the daemon, a recording and a rule's own test are one.
//! * **Three values.** What was never seen is unknown, and an expression with it is unknown unless the rest decides
//!   (`false && unknown` is false, `true || unknown` is true). Unknown is never an alert, and never clears one at once.
//! * **Bounded.** Windows, alerts, texts and expressions have limits that are checked when a file is read; the memory of one process is
//!   known before it comes.
//! * **A file never harms.** Whatever it holds, it is refused with its faults or it is evaluated in bounded time; the rules before it run on.

// Time is a value: no clock is asked here (clippy.toml).
#![deny(clippy::disallowed_methods)]

pub mod alert;
pub mod compile;
pub mod document;
pub mod engine;
pub mod expression;
pub mod field;
pub mod load;
pub mod page;
mod plan;
pub mod record;
pub mod review;
pub mod rule;
pub mod template;
pub mod test_file;
pub mod time;
pub mod value;
pub mod window;
