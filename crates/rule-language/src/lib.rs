//! The language of rules: from the YAML that a person writes to a checked [`RuleSet`](gc_rules::rule_set::RuleSet).
//!
//! ```text
//! texts (YAML) -> document -> compile (CEL), template -> load -> RuleSet, or every error with its place
//!                                                          |
//!                                        test_file: tests of rules, on the engine that runs in the daemon
//! ```
//!
//! | Module | What it is |
//! |---|---|
//! | [`document`] | what a rule file may have, as types; their JSON schema |
//! | [`compile`] | from CEL to a checked expression |
//! | `template` | parser of strings with values in them |
//! | [`load`] | files to rules: reading and checks, all errors at once; the files that ship |
//! | [`page`] | the reference page, generated from the tables and the types |
//! | [`test_file`] | tests of rules |
//!
//! # Invariants
//!
//! * **Pure.** No I/O and no clock: [`load::load`] takes texts.
//! * **Files are harmless.** Any file is refused with its errors, or evaluated in bounded time: expressions, windows
//!   and strings have limits that are checked when a file is read. After a refusal the previous rules continue.

// A text in, rules out: no clock, no lock (clippy.toml).
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod compile;
pub mod document;
pub mod load;
pub mod page;
mod template;
pub mod test_file;

/// The example in the README compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
