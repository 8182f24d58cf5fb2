//! What is gathered for an incident.
//!
//! # Bursts
//!
//! Sessions of some seconds with stacks, beside the standing one.
//!
//! What a burst shows is computed in [`clr_evidence`]. Here is how it is had, and how the process is left as it was:
//!
//! ```text
//! turn      one burst on the host at a time: a lease (`lock`), shared by all gcwatches of the host
//! session   its own buffer; with the event filter, the stacks flag and the small rundown where the runtime knows them
//! read      to the time, or to the number of samples, or to a signal
//! stop      the rundown names the methods; within a deadline
//! heal      one plain session, begun and ended: without it the runtime goes on making what the burst asked for, for
//!           as long as any other session is open (`targets::others` has the reason)
//! ```
//!
//! The last step is taken however the others end, unless gcwatch is killed: docs/evidence.md has what is left then.
//!
//! Incidents have bursts of their own where the configuration says so: `automatic` decides.
//!
//! # Heap dumps
//!
//! What lives and what holds it, for a person who asks: `heap`. For incidents of growing memory: `census` decides, and
//! compares two.
//!
//! # The black box
//!
//! The last seconds of a process's event stream, and the first ones of its incident, as a file: `black_box`.
//!
//! # The store
//!
//! Copies of evidence in an object store or on a mounted volume: `store`.
//!
//! # Layers
//!
//! 1. [`lock`], [`bounds`], [`profile`], [`flames`], [`store`]: turns, limits, results, copies
//! 2. [`burst`], [`heap`], [`black_box`]: sessions and files
//! 3. [`automatic`], [`census`]: what an incident has of it; pure
//!
//! # Invariants
//!
//! * **One at a time on a host**, and a process is left as it was.
//! * **Bounded**: in time, in memory, on disk; whoever makes most loses the oldest of his own.

// Time is a value: only the modules that allow it ask a clock (clippy.toml).
#![deny(clippy::disallowed_methods)]

pub mod automatic;
#[expect(clippy::disallowed_methods, reason = "a recording ends by its time")]
pub mod black_box;
pub mod bounds;
#[expect(clippy::disallowed_methods, reason = "a burst ends by its time, and has deadlines")]
pub mod burst;
pub mod census;
pub mod flames;
#[expect(clippy::disallowed_methods, reason = "a heap dump has deadlines")]
pub mod heap;
#[expect(clippy::disallowed_methods, reason = "a turn is waited for within a deadline")]
pub mod lock;
pub mod profile;
#[expect(clippy::disallowed_methods, reason = "failed requests are retried after a pause")]
pub mod store;
