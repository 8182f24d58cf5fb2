//! gcwatch as a library and as a program, without processes of .NET: recordings, simulated runtimes and scripted
//! receivers.
//!
//! Tests share one process: none changes its environment, its folder or its log. What needs that runs `gcwatch` as a
//! child.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says what it does"
)]

mod alerts;
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
mod tables;
mod targets;
mod telemetry;
mod terminal;
mod top;
mod transcripts;
mod web;
