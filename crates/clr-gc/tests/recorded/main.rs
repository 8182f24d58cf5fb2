//! Recordings of real runtimes: all recordings of the repository or, in the published package, the small ones that it
//! contains.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints its progress"
)]

mod account;
mod agreement;
mod bounds;
mod compact;
mod cuts;
mod disorder;
mod events;
mod figures;
mod finalizers;
mod formats;
mod open;
mod recordings;
mod settling;
mod stops;
mod tools;
