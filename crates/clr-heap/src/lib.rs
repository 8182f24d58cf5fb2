//! What lives on the heap of a .NET process, and what holds it, from the events of a heap dump.
//!
//! A *dump* is one full collection that the runtime makes for keyword 0x800000, in which it writes every object, every
//! reference and every root. This crate takes the bytes of such a stream, live or from a file, and returns records. It
//! does no I/O and has no clock.
//!
//! # Layers
//!
//! | Module | What it is |
//! |---|---|
//! | [`reading`] | bytes in, a [`reading::Dump`] out: complete, or refused with the reason |
//! | [`graph`] | objects and roots as numbers, references as one array |
//! | [`dominators`] | who alone keeps whom alive |
//! | [`metadata`], [`statics`] | static fields in an assembly's file; the classes of those that hold something |
//! | [`merged`] | trees of types: ways to objects, and what is retained |
//! | [`survey`] | types, roots, paths and suspects, as records |
//! | [`diff`] | what grew between two surveys |
//! | [`cost`] | what a dump will cost, before it is asked for |
//! | [`profile`], [`snapshot`] | pprof and flame graphs; `.heapsnapshot` of Chrome |
//!
//! # Invariants
//!
//! * A dump that lost events is refused: what is left of it is mostly the beginning of the walk, no sample.
//! * Memory is bounded, whatever the stream: a graph has a budget, and a histogram has one of a few megabytes.
//! * No input panics or recurses, and none costs more than `m log n` steps for `m` references of `n` objects.
//! * Types are counted by the runtime's number, not by name: nested types come without their outer type.
//! * Nothing is dropped silently, and unknown is `None`.

// Time is a value, and state has one owner: no clock, no lock (clippy.toml).
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
