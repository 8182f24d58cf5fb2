//! State of one run of a process, and the effects of each input on this state.
//!
//! ```text
//! reader            sessions, collections, progress of the stream -------+
//! host              memory, container, pages, CPU of finalizers ---------+--> Input
//! daemon            ticks, rules, settings, metadata, findings of bursts +      |
//!                                                                               v
//!                                                            Run::step(at, input, &mut outputs)
//!                                                                               |
//!               Output: changes of alerts and incidents, spans, minutes         v
//! ```
//!
//! [`Run`] is one value. Every change is an [`Input`] with its time, and the effects are returned as [`Output`]s, in
//! order. A live session, a recording and a test call the same [`Run::step`]. This crate does not share a run between
//! threads; the daemon shares a run in `src/pipeline/observed_run.rs`.
//!
//! # Parts
//!
//! No part depends on another part. [`Run`] passes facts between the parts.
//!
//! ```text
//! Run -> identity    identity of the process: its resource, overlaid with metadata
//!        session     state, sessions, progress, lag, open operations
//!        container   limits and usage of the container
//!        heap_limit  limit of the heap, and whether the runtime knows the current limit
//!        ledger      memory by kind
//!        requests    share of the requests that collections touched
//!        rules       the engine, and the notices of its alerts
//!        telemetry   spans and series
//!        history     the last 30 minutes, for display
//!        profile     minute samples for the profile of the service, in `run/profile.rs`
//! ```
//!
//! # Invariants
//!
//! * **One entry point.** Only `step` changes the state of rules, spans and history. The queries [`Run::metrics`],
//!   [`Run::begin_count`] and [`RunRules::count`] change only the record of the last query.
//! * **No clock, no lock, no I/O.** The same inputs at the same times produce the same outputs, except for the random
//!   ids of traces.
//! * **Bounded.** Each part states its limit; [`history`] is at most 21 KiB.

// Time is a value, and state has one owner: no clock, no lock (see clippy.toml).
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod container;
mod heap_limit;
pub mod history;
mod identity;
mod input;
mod ledger;
mod output;
mod requests;
mod rules;
mod run;
mod session;
pub mod settings;
mod telemetry;

pub use container::RunContainer;
pub use heap_limit::StaleLimit;
pub use identity::{RunIdentity, SaidLimit};
pub use input::{Attachment, ConfiguredCollector, Input, InputTime, ProcessReading};
pub use ledger::RunLedger;
pub use output::Output;
pub use requests::RecentRequests;
pub use rules::{RuleCounts, RunRules};
pub use run::Run;
pub use session::RunSession;
