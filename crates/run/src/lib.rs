//! What is known of one run of a process, and what follows from each thing that happens to it.
//!
//! ```text
//! its reader        sessions, collections, how far the stream was read --+
//! the host          memory, container, pages, CPU of finalizers ---------+--> Input
//! the daemon        ticks, rules, settings, metadata, what bursts found -+      |
//!                                                                               v
//!                                                            Run::step(at, input, &mut outputs)
//!                                                                               |
//!               Output: changes of alerts and incidents, spans, what it leaves  v
//! ```
//!
//! [`Run`] is one value. Whatever changes it is an [`Input`], with the time at which it happened; what follows comes
//! out as [`Output`]s, in order. A live session, a recording and a test call the same [`Run::step`]. Whoever shares a
//! run decides how: in the daemon, `src/pipeline/observed_run.rs`.
//!
//! # Parts
//!
//! None knows of another; [`Run`] passes facts between them.
//!
//! ```text
//! Run -> identity    who it is: its resource with the metadata over it
//!        session     state, sessions, progress, lag, what is open
//!        container   what its container may use and does use
//!        heap_limit  the limit of its heap, and whether its runtime knows the present one
//!        ledger      where its memory is
//!        requests    the share of its requests that collections touched
//!        rules       the engine, and the notices of its alerts
//!        telemetry   spans and series
//!        history     the last half hour, for people to look at
//! ```
//!
//! # Invariants
//!
//! * **One way in.** Nothing but `step` changes what rules, spans and history know. Questions that remember that they
//!   were asked ([`Run::metrics`], [`Run::begin_count`], [`RunRules::count`]) change only that.
//! * **No clock, no lock, no I/O.** The same inputs with the same times give the same outputs, but for the random ids
//!   of traces.
//! * **Bounded.** Each part says its limit; [`history`] is at most 21 KiB.

// Time is a value, and state has one owner: no clock, no lock (clippy.toml).
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
pub use input::{At, Attachment, Input, Measured};
pub use ledger::RunLedger;
pub use output::Output;
pub use requests::RecentRequests;
pub use rules::{RuleCounts, RunRules};
pub use run::Run;
pub use session::RunSession;
