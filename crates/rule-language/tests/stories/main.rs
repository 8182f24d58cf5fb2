//! Engine and incidents in stories: rules as text, what comes to a process, and the transitions and messages that it
//! must make.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod groups;
mod incidents;
mod laws;
mod plan;
mod reload;
mod remedies;
mod states;
mod story;
