//! Spans, metrics and `/metrics` of every recording: as committed, as defined, and true to the collections.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, in its parts too"
)]

mod defined;
mod golden;
mod prometheus;
mod recordings;
mod render;
mod series;
mod spans;
mod synthetic;
