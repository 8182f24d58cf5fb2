//! From the outcomes of a stream to spans, metrics and alerts: the same for a live process and for a recording.
//!
//! ```text
//! targets (live) --+                                                  +--> Outlet: spans, metrics, notices
//!                  +--> Feed --> ObservedRun: inbox --> Run::step --+
//! replay (files) --+                  ^       |                      +--> IncidentOwner: what outlives a process
//! tick, host, bursts, rules ----------'       '--> look: Records, of API and page
//! ```
//!
//! A [`Feed`] belongs to the one task that reads the process. What is known of a run, and what follows from each thing
//! that happens to it, is in the crate `run`; here it is shared ([`ObservedRun`]), and what follows is delivered.
//! Nothing here waits: what cannot leave fast enough is dropped from the exporter's queues and counted there.
//!
//! Invariants:
//! * a run's totals live as long as the run: a session that ends and begins again does not restart them, and their
//!   start is the first attach;
//! * a run that ends is exported a last time, then its series end;
//! * rules judge a collection before it becomes a span, so that one with an anomaly is exported whatever the selection
//!   is;
//! * the time of the rules of a live run advances once a second ([`Pipeline::tick`]), also when no event comes; that of
//!   the rules of a recording by its events;
//! * that time does not pass while gcwatch itself is behind: what is not read yet says nothing of the present;
//! * what outlives a process (its service, how it ended) is in `service`, from the alerts and ends of all runs;
//! * an incident that no living process has is in one place, and all changes are sent in order (`incident_owner`);
//! * open incidents outlive gcwatch itself, where there is a place for them (`resumed`);
//! * the numbers of runs and what is remembered of each are limited.

mod exited;
mod feed;
mod history_folder;
mod incident_owner;
pub(crate) mod memory_count;
mod observed_run;
mod outlet;
pub(crate) mod records;
mod registry;
pub mod replay;
mod resumed;
mod service;
mod shared;
mod subject_incidents;
mod wants;

pub use feed::Feed;
pub use history_folder::HistoryFolder;
pub(crate) use incident_owner::OWN_START;
pub use observed_run::ObservedRun;
pub use outlet::Outlet;
pub use records::Records;
pub use registry::Pipeline;
pub use resumed::StoredState;
pub use run::settings::{Clock, PipelineSettings};
pub use run::{Measured, RuleCounts};
pub use shared::Counts;
pub(crate) use wants::OF_BURSTS;
pub use wants::Want;
