//! From what a stream tells of a process to what leaves: the same for a live process and for a recording.
//!
//! ```text
//! targets (live) --+                                 +--> rules: what is an anomaly --+
//!                  +--> Feed, one per run of a process +--> telemetry: spans, series <--+--> Outlet (export)
//! replay (files) --+                                 +--> Run: state, last collections, alerts --> web
//! ```
//!
//! A [`Feed`] belongs to the one task that reads the process; a [`Run`] is what all others see of it, behind a lock that is
//! taken per collection, never per event. Nothing here waits: what cannot leave fast enough is dropped from the exporter's
//! queues and counted there.
//!
//! Invariants:
//! * a run's totals live as long as the run: a session that ends and begins again does not restart them, and their start is the
//!   first attach;
//! * a run that ends is told a last time, then its series end;
//! * rules judge a collection before it becomes a span, so that one with an anomaly is told whatever the selection says;
//! * the rules of a live run are told the time once a second ([`Pipeline::tick`]), also when no event comes; those of a recording by its
//!   events;
//! * the numbers of runs and of remembered collections are bounded; what is over a bound is counted.

mod alert_view;
mod feed;
mod registry;
pub mod replay;
mod ruled;
mod run;
mod sink;
mod view;

pub use alert_view::{AlertView, FiringView, RuleView};
pub use feed::Feed;
pub use registry::{Clock, Counts, Outlet, Pipeline, PipelineSettings, Surroundings};
pub use ruled::RuleCounts;
pub use run::Run;
pub use view::TargetView;
