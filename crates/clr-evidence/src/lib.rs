//! Finds the code that triggers garbage collections in a .NET process, and the code that allocates, from the stacks of
//! the runtime's events.
//!
//! A *burst* is a session of several seconds with stacks, and with a rundown at its end that names the methods. This
//! crate consumes the bytes of such a stream, live or from a file, and returns records. The crate performs no I/O and
//! has no clock.
//!
//! ```text
//! bytes -> clr_gc::stream (events, collections) -> burst -> stacks  addresses, interned while the stream runs
//!                                                    |----> method  the methods at these addresses (rundown)
//!                                                    |----> module  the owners of the methods (rundown)
//!                                                    '----> name    human-readable names
//!                                                             |
//!                                   callers: triggers, collections, time stopped
//!                                   allocations: estimates by type and site, with intervals
//!                                                             |
//!                                    folded | flame (SVG) | pprof
//! ```
//!
//! | Module | Content |
//! |---|---|
//! | [`budget`] | memory limit of a burst |
//! | [`burst`] | turns a stream into [`callers::Callers`] or [`allocations::Allocations`] |
//! | [`stacks`] | interned stacks |
//! | [`method`] | methods by address |
//! | [`module`] | modules: framework, library, or the program itself |
//! | [`name`] | readable names |
//! | [`callers`] | triggers, with their collections and stops |
//! | [`allocations`] | samples, summed by type and site |
//! | [`site`] | call sites, and the call paths to them |
//! | [`threads`] | the activity of every managed thread |
//! | [`estimate`] | bytes represented by a sample, and exact 95 % intervals |
//! | [`folded`], [`flame`], [`pprof`] | formats of other tools |
//!
//! # Invariants
//!
//! * No data is dropped silently: items without a name or a stack, and items beyond the memory limit, are counted in
//!   their category.
//! * Memory is bounded, regardless of the stream: a burst and everything derived from it share one [`budget`].
//! * Unknown values are `None`.

// Time is passed in as a value, and all state has a single owner: no clock, no lock (clippy.toml).
#![deny(missing_docs, clippy::disallowed_methods, clippy::disallowed_types)]

pub mod allocations;
pub mod budget;
pub mod burst;
mod burst_facts;
pub mod callers;
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
