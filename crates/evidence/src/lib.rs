//! Evidence gathered for incidents.
//!
//! # Bursts
//!
//! A burst is a session of some seconds with stacks, in addition to the permanent session.
//!
//! [`clr_evidence`] computes the results of a burst. This crate runs the session and restores the process afterwards:
//!
//! ```text
//! lease     one burst per host at a time: a lease (`lock`), shared by all gcwatch instances of the host
//! session   its own buffer; with the event filter, the stacks flag and the small rundown if the runtime supports them
//! read      until the time is up, there are enough samples, or a signal arrives
//! stop      the rundown names the methods; within a deadline
//! heal      one plain session, started and ended: without it, the runtime continues to write the burst's events while
//!           any other session is open (`targets::others` has the reason)
//! ```
//!
//! The last step is always taken, unless gcwatch is killed (see docs/evidence.md for this case).
//!
//! If the configuration allows automatic bursts, `automatic` decides whether an incident receives a burst, and
//! `schedule` decides when.
//!
//! # Heap dumps
//!
//! `heap` finds the live objects and their holders on request. For incidents of growing memory, `census` decides
//! whether heap dumps are taken, and compares two of them.
//!
//! # The black box
//!
//! `black_box` writes a file with the last seconds of a process's event stream before an incident and the first seconds
//! after its start.
//!
//! # The store
//!
//! `store` copies evidence to an object store or a mounted volume.
//!
//! # Layers
//!
//! 1. [`lock`], [`bounds`], [`flames`], [`store`]: the lease, limits, results, copies
//! 2. [`burst`], [`heap`], [`black_box`]: sessions and files
//! 3. [`automatic`], [`census`]: decisions about the evidence for an incident, without I/O
//! 4. [`schedule`]: order and limits of bursts and heap dumps for incidents, without I/O
//!
//! # Invariants
//!
//! * **One burst at a time on a host**, and the process is restored afterwards.
//! * **Bounded** in time, in memory and on disk. The owner of the most recordings loses its oldest recordings.

// Time is a value: only the modules with an exception read a clock (clippy.toml).
#![deny(clippy::disallowed_methods)]

pub mod automatic;
#[expect(clippy::disallowed_methods, reason = "a recording has a limited duration")]
pub mod black_box;
pub mod bounds;
#[expect(clippy::disallowed_methods, reason = "a burst has a limited duration and deadlines")]
pub mod burst;
pub mod census;
pub mod flames;
#[expect(clippy::disallowed_methods, reason = "a heap dump has deadlines")]
pub mod heap;
#[expect(clippy::disallowed_methods, reason = "the lease is awaited until a deadline")]
pub mod lock;
#[deny(clippy::disallowed_types)]
pub mod schedule;
#[expect(clippy::disallowed_methods, reason = "failed requests are retried after a pause")]
pub mod store;
