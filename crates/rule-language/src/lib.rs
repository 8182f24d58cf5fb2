//! The language of rules: converts YAML files to a checked [`RuleSet`](rule_engine::rule_set::RuleSet).
//!
//! ```text
//! texts (YAML) -> document -> compile (CEL), template -> load -> RuleSet, or all errors with their positions
//!                                                          |
//!                                        test_file: tests of rules, on the engine that runs in the daemon
//! ```
//!
//! | Module | Content |
//! |---|---|
//! | [`document`] | the contents of a rule file as types; their JSON schema |
//! | [`compile`] | compiler from CEL to checked expressions |
//! | `template` | parser of templates: texts with values |
//! | [`load`] | loader: converts files to rules, with checks that report all errors at once; the shipped files |
//! | [`page`] | the reference page, generated from the tables and the types |
//! | [`test_file`] | tests of rules |
//!
//! # Invariants
//!
//! * **Pure.** No I/O and no clock: [`load::load`] takes texts.
//! * **Files are harmless.** Any file is refused with its errors, or evaluated in bounded time: expressions, windows
//!   and strings have limits that are checked when a file is read. After a refusal, the previous rules remain in force.

// Input is text, output is rules: no clock and no lock (clippy.toml).
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod compile;
pub mod document;
pub mod load;
pub mod page;
mod template;
pub mod test_file;

/// Compiles and runs the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
