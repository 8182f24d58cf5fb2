//! gcwatch as a library and as a program, without .NET processes: recordings, simulated runtimes and scripted
//! receivers.
//!
//! All tests share one process, so no test changes the environment, the working directory or the log of the process.
//! Tests that need such a change run `gcwatch` as a child process.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints its steps"
)]

mod advise;
mod alerts;
mod changes;
mod cli;
mod config;
mod crates;
mod daemon;
mod evidence;
mod house;
mod mcp;
mod otlp;
mod pipeline;
mod pipeline_rules;
mod recordings;
mod replay;
mod report;
mod requests;
mod restart;
mod rules;
mod sizing;
mod tables;
mod targets;
mod telemetry;
mod terminal;
mod top;
mod transcripts;
mod web;
