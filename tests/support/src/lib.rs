//! Code that the tests of the workspace share.
//!
//! | Module | Purpose |
//! |---|---|
//! | `golden` | comparison with committed files |
//! | `recordings` | recordings in `tests/recordings` |
//! | `harness` | tests that print `ignored` and the reason if the machine does not meet their requirements |
//! | `runtimes`, `target` | real .NET runtimes and their processes |
//! | `program` | gcwatch as a command, and its records |
//! | `daemon` | `gcwatch run`, queried over its listener |
//! | `scene` | a folder, processes marked with its name, and a daemon that reads them |
//! | `service` | web services and their clients |
//! | `groups` | control groups of version 1 |
//! | `tool` | another tool with its own session |
//! | `supervised` | the supervisor of targets, with a log of its reports |
//! | `hostile` | a fake runtime that misbehaves in a selected mode, also as a program |
//! | `replay` | recordings that are played into a pipeline |
//! | `receiver` | an OTLP receiver, Alertmanager or webhook with scripted answers |
//! | `mock` | a third-party OTLP receiver |
//! | `notices` | changes of alerts and incidents without a process |
//!
//! `golden` and `recordings` are always available. `hostile` needs the feature `hostile`. All other modules need the
//! feature `daemon`, which includes `hostile`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a panic in this test code fails the test"
)]
#![allow(
    missing_debug_implementations,
    reason = "only the tests use this code, and readers see both"
)]

use std::path::{Path, PathBuf};

#[cfg(feature = "daemon")]
pub mod daemon;
pub mod golden;
#[cfg(feature = "daemon")]
pub mod groups;
#[cfg(feature = "daemon")]
pub mod harness;
#[cfg(feature = "hostile")]
pub mod hostile;
#[cfg(feature = "daemon")]
pub mod mock;
#[cfg(feature = "daemon")]
pub mod notices;
#[cfg(feature = "daemon")]
pub mod program;
#[cfg(feature = "daemon")]
pub mod receiver;
pub mod recordings;
#[cfg(feature = "daemon")]
pub mod replay;
#[cfg(feature = "daemon")]
pub mod runtimes;
#[cfg(feature = "daemon")]
pub mod scene;
#[cfg(feature = "daemon")]
pub mod service;
#[cfg(feature = "daemon")]
pub mod supervised;
#[cfg(feature = "daemon")]
pub mod target;
#[cfg(feature = "daemon")]
pub mod tool;

/// Returns the absolute path of a file or folder in the repository.
pub fn repository(path: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    root.join(path)
}

/// Returns whether the environment variable `GCWATCH_SKIP_LIVE`, a comma-separated list, contains this name or `all`.
pub fn is_skipped(name: &str) -> bool {
    let skip = std::env::var("GCWATCH_SKIP_LIVE").unwrap_or_default();
    skip.split(',').any(|skipped| skipped == "all" || skipped == name)
}
