//! Ground types that most crates of gcwatch share. This crate depends on no other crate of the workspace.
//!
//! | Module | Contents |
//! |---|---|
//! | [`time`] | [`Moment`](time::Moment) and [`Wall`](time::Wall): time as a value |
//! | [`clock`] | the wall clock, for the callers that are allowed to read it |
//! | [`run_key`] | the key of a process run: pid and start time |
//! | [`words!`], [`written_as_text!`] | enums of words, and types that are strings in documents |
//! | [`units`], [`pattern`] | durations, sizes and name patterns as users write them |
//! | [`text`], [`quote`], [`error`] | foreign text and errors made safe for display and for messages |
//! | [`backoff`] | pauses between retries |
//! | [`secret`], [`directory`] | values that are never shown, and directories that only one user can read |
//!
//! A type belongs here if at least two crates need it and neither of them should depend on the other. A type that
//! is about garbage collections, rules, receivers or the wire protocol does not belong here.

// Time is passed as a value, and state has one owner: only `clock` reads a clock, and no code takes a lock
// (clippy.toml).
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod backoff;
#[expect(
    clippy::disallowed_methods,
    reason = "the clock whose time is passed to other modules"
)]
pub mod clock;
pub mod directory;
pub mod error;
pub mod pattern;
pub mod quote;
pub mod run_key;
pub mod secret;
pub mod text;
pub mod time;
pub mod units;
pub mod words;

#[doc(hidden)]
pub use {schemars, serde};
