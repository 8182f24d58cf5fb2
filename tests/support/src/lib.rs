//! What the tests of the workspace share.
//!
//! | Module | For |
//! |---|---|
//! | `golden` | the comparison with committed files |
//! | `recordings` | `tests/recordings` |
//! | `harness` | tests that say `ignored` and the reason where the machine lacks what they need |
//! | `runtimes`, `target` | real .NET runtimes and processes on them |
//! | `program` | gcwatch as a command, and its records |
//! | `daemon` | `gcwatch run`, asked over its listener |
//! | `scene` | a folder, processes that are known by it, and a daemon that reads them |
//! | `service` | web services, and clients that ask them |
//! | `groups` | control groups of version 1 |
//! | `tool` | another tool with a session of its own |
//! | `supervised` | the supervisor of targets, with all that it reports |
//! | `hostile` | a fake runtime that misbehaves by a mode, also as a program |
//! | `replay` | recordings played into a pipeline |
//! | `receiver` | an OTLP receiver, Alertmanager or webhook that answers by a script |
//! | `mock` | an OTLP receiver that others wrote |
//! | `notices` | changes of alerts without a process |
//!
//! All but the first two need the feature `daemon`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a tool of tests: what fails here fails the test"
)]
#![allow(
    missing_debug_implementations,
    reason = "read beside the tests that use it; nobody else can"
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

/// A path of the repository.
pub fn repository(path: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    root.join(path)
}

/// Whether `GCWATCH_SKIP_LIVE`, a list of names or `all`, leaves this out.
pub fn is_skipped(name: &str) -> bool {
    let skip = std::env::var("GCWATCH_SKIP_LIVE").unwrap_or_default();
    skip.split(',').any(|skipped| skipped == "all" || skipped == name)
}
