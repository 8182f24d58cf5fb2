//! Stories of engine and incidents: rules as text, events of a process, and the expected transitions and messages.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod groups;
mod incidents;
mod laws;
mod plan;
mod reload;
mod remedies;
mod states;
mod story;
