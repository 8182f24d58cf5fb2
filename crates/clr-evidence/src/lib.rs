//! Who makes a .NET runtime collect, and who allocates: from the stacks of its events.
//!
//! A *burst* is a session of some seconds with stacks, and with a rundown at its end that names the methods. This crate
//! takes the bytes of such a stream, live or from a file, and returns records. It does no I/O and has no clock.
//!
//! ```text
//! bytes -> clr_gc::stream (events, collections) -> burst -> stacks  addresses, interned while the stream runs
//!                                                    |----> method  the methods at these addresses (rundown)
//!                                                    |----> module  whose code they are (rundown)
//!                                                    '----> name    a name that a person reads
//!                                                             |
//!                                   callers: who asked, collections, time stopped
//!                                   allocations: estimates by type and site, with intervals
//!                                                             |
//!                                    folded | flame (SVG) | pprof | diff
//! ```
//!
//! | Module | What it is |
//! |---|---|
//! | [`budget`] | how many bytes a burst may take |
//! | [`burst`] | a stream in, [`callers::Callers`] or [`allocations::Allocations`] out |
//! | [`stacks`] | interned stacks |
//! | [`method`] | methods by address |
//! | [`module`] | modules: framework, library, or the program's own |
//! | [`name`] | readable names |
//! | [`callers`] | triggers, and which collections and stops are theirs |
//! | [`allocations`] | samples, summed by type and site |
//! | [`site`] | which stacks are one row, and the ways to it |
//! | [`threads`] | what every managed thread is doing |
//! | [`estimate`] | how many bytes a sample stands for, and exact 95 % intervals |
//! | [`folded`], [`flame`], [`pprof`] | formats of other tools |
//! | [`diff`] | two outputs side by side |
//!
//! # Invariants
//!
//! * Nothing is dropped silently: what has no name, no stack or no place is counted where it belongs.
//! * Memory is bounded, whatever the stream: a burst with all that is made of it has one [`budget`].
//! * Unknown is `None`.

// Time is a value, and state has one owner: no clock, no lock (clippy.toml).
#![deny(missing_docs, clippy::disallowed_methods, clippy::disallowed_types)]

pub mod allocations;
pub mod budget;
pub mod burst;
mod burst_facts;
pub mod callers;
pub mod diff;
pub mod estimate;
pub mod flame;
pub mod folded;
pub mod method;
pub mod module;
pub mod name;
pub mod pprof;
pub mod site;
pub mod stacks;
pub mod threads;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
