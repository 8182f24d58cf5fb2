//! The live objects on the heap of a .NET process and their holders, from the events of a heap dump.
//!
//! A *dump* is a full collection that the runtime performs if a session enables keyword 0x800000. During the
//! collection, the runtime writes every object, every reference and every root. This crate consumes the bytes of such a
//! stream, live or from a file, and returns records. The crate performs no I/O and reads no clock.
//!
//! # Example
//!
//! ```
//! use clr_heap::reading::{DumpDetail, DumpReading};
//! use clr_heap::survey::survey;
//!
//! /// Returns the names of the types on the heap, with the number of objects of each type.
//! fn types(stream: &[u8]) -> Result<Vec<(String, u64)>, Box<dyn std::error::Error>> {
//!     let mut reading = DumpReading::new(DumpDetail::Histogram);
//!     reading.push(stream)?;
//!     let (survey, _) = survey(reading.finish()?, None);
//!     Ok(survey.types.into_iter().map(|row| (row.r#type, row.objects)).collect())
//! }
//! # assert!(types(b"not a recording").is_err());
//! ```
//!
//! [`reading::DumpDetail::Graph`] also reads the references, so that the survey contains roots, paths and suspects.
//!
//! # Sessions
//!
//! The session enables the keywords 0x1980001 of the provider `Microsoft-Windows-DotNETRuntime` at level 4
//! (informational): collections (0x1), types with names (0x1080000), the walk of the heap (0x100000) and the forced
//! collection (0x800000). A rundown with methods and modules (keyword 0x38) names the methods whose stacks hold
//! objects, and locates the assemblies for [`reading::Dump::name_classes`]. All threads of the process are suspended
//! during the walk; [`cost`] forecasts the duration.
//!
//! # Errors
//!
//! [`reading::Refusal`] is the reason why a stream contains no complete dump: damage, a 32-bit process, no forced
//! collection (NativeAOT and Mono), or lost events. [`reading::Refusal::Incomplete`] contains the necessary buffer
//! size.
//!
//! # Layers
//!
//! | Module | Contents |
//! |---|---|
//! | [`reading`] | reads bytes, and returns a complete [`reading::Dump`] or a refusal with the reason |
//! | [`graph`] | objects and roots as numbers, references as one array |
//! | [`dominators`] | the dominator of each object: the nearest object that alone keeps the object alive |
//! | [`metadata`], [`statics`] | the static fields in an assembly's file, and the class of each static field with an object |
//! | [`merged`] | trees of types: paths to objects, and retained objects |
//! | [`survey`] | types, roots, paths and suspects, as records |
//! | [`diff`] | growth between two surveys |
//! | [`cost`] | forecast of the cost of a dump |
//! | [`profile`], [`snapshot`] | pprof, flame graphs, and the `.heapsnapshot` format of Chrome |
//!
//! # Invariants
//!
//! * A dump that lost events is refused, because the received events are mostly the start of the walk and not a
//!   representative sample.
//! * Memory is bounded for every stream: a graph has a budget, and the types and names of a histogram have maximum
//!   numbers.
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
