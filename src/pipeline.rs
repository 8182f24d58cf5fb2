//! From what a stream tells of a process to what leaves: the same for a live process and for a recording.
//!
//! ```text
//! targets (live) --+
//!                  +--> Feed, one per run of a process --> telemetry: spans, series --> export::otlp
//! replay (files) --+                                  \--> Run: state, last collections --> web
//! ```
//!
//! A [`Feed`] belongs to the one task that reads the process; a [`Run`] is what all others see of it, behind a lock that is
//! taken per collection, never per event. Nothing here waits: what cannot leave fast enough is dropped from the exporter's
//! queues and counted there.

mod feed;
mod run;

pub use feed::{Feed, Full, Pipeline};
pub use run::{Identity, Run, RunKey, State, StreamProgress};
