//! gcwatch across containers: namespaces made with `unshare` stand for them, with real runtimes inside as other users.
//!
//! They need root and the programs of util-linux; where either is missing, or the kernel refuses namespaces, a test says that it is left
//! out. Nothing of the host is changed: mounts are made in namespaces that end with their test, files in folders that it deletes.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says what it does"
)]

mod attacks;
mod container;
mod everywhere;
mod gcwatch;
mod kinds;
mod matrix;
#[path = "../live/runtimes.rs"]
#[allow(dead_code, reason = "the live tests use more of it")]
mod runtimes;
mod sidecar;
