//! Tells every garbage collection of every .NET process on the host, exactly.
//!
//! # Layers
//!
//! ```text
//! source      a file, plain or packed, as bytes
//!   |
//! recording   bytes -> collections of every process in it   (crates: nettrace, clr-gc)
//!   |
//! rules       collections -> alerts; pure, the daemon uses it too
//!   |
//! report      collections, alerts -> tables for people, records for programs
//!   |
//! commands    what the user asked for; the only part that knows the command line, standard output and exit codes
//! ```
//!
//! The daemon has a way of its own: [`targets`] -> [`pipeline`] (with [`telemetry`] and [`rules`]) -> [`export`], [`web`]; [`daemon`] and
//! [`config`] put it together.
//!
//! One direction, no way back: a layer knows the types of the one before it and nothing of the one after. What a
//! collection is and how it is rebuilt is in the crate [`clr_gc`]; how a process is found and asked is in
//! [`dotnet_diagnostics`].

pub mod commands;
pub mod config;
pub mod container;
pub mod daemon;
pub mod kubernetes;
pub mod pipeline;
pub mod process;
pub mod recording;
pub mod records;
pub mod report;
pub mod targets;
pub mod web;
