//! The live objects on the heap of a .NET process and their holders, from the events of a heap dump.
//!
//! A *dump* is a full collection that the runtime performs for keyword 0x800000, in which it writes every object, every
//! reference and every root. This crate consumes the bytes of such a stream, live or from a file, and returns records.
//! It performs no I/O and reads no clock.
//!
//! # Layers
//!
//! | Module | Contents |
//! |---|---|
//! | [`reading`] | reads bytes, and returns a complete [`reading::Dump`] or a refusal with the reason |
//! | [`graph`] | objects and roots as numbers, references as one array |
//! | [`dominators`] | the objects that alone keep other objects alive |
//! | [`metadata`], [`statics`] | the static fields in an assembly's file, and the class of each static field with an object |
//! | [`merged`] | trees of types: paths to objects, and retained objects |
//! | [`survey`] | types, roots, paths and suspects, as records |
//! | [`diff`] | growth between two surveys |
//! | [`cost`] | forecast of the cost of a dump |
//! | [`profile`], [`snapshot`] | pprof, flame graphs, and the `.heapsnapshot` format of Chrome |
//!
//! # Invariants
//!
//! * A dump that lost events is refused, because its other events are mostly the start of the walk and not a
//!   representative sample.
//! * Memory is bounded for every stream: a graph has a budget, and a histogram has a budget of a few megabytes.
//! * No input causes a panic or recursion, or costs more than `m log n` steps for `m` references of `n` objects.
//! * Types are counted by the runtime's number, not by name, because nested types are reported without their outer
//!   type.
//! * No data is dropped silently, and unknown values are `None`.

// Time is passed as a value, and state has one owner: this crate uses no clock and no lock (clippy.toml).
#![deny(missing_docs, clippy::disallowed_methods, clippy::disallowed_types)]

pub mod cost;
pub mod diff;
pub mod dominators;
pub mod graph;
mod index;
pub mod merged;
pub mod metadata;
pub mod profile;
pub mod reading;
pub mod snapshot;
pub mod statics;
pub mod survey;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
