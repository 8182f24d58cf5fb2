//! Turns the outcomes of a stream into spans, metrics and alerts, in the same way for a live process and for a
//! recording.
//!
//! ```text
//! targets (live) --+                                                  +--> Outlet: spans, metrics, notices
//!                  +--> Feed --> ObservedRun: inbox --> Run::step --+
//! replay (files) --+                  ^       |                      +--> IncidentOwner: state that outlives a process
//! tick, host, bursts, rules ----------'       '--> look: records for API and pages
//! ```
//!
//! A [`Feed`] belongs to the one task that reads the process. The state of a run, and the outputs of each input, are
//! defined in the crate `run`. This module shares the run between threads ([`ObservedRun`]) and delivers its outputs.
//! No call in this module waits for a receiver: the exporter drops and counts items that cannot be sent fast enough.
//!
//! Invariants:
//! * the totals of a run live as long as the run: a session that ends and restarts does not reset them, and their start
//!   is the first attach;
//! * a run that ends is exported one last time, then its series end;
//! * rules evaluate a collection before it becomes a span, so a collection with an anomaly is exported regardless of
//!   the selection;
//! * the rule time of a live run advances once per second ([`Pipeline::tick`]), even without events; the rule time of a
//!   recording advances with its events;
//! * rule time does not advance while gcwatch itself is behind: unread events can change the present state;
//! * state that outlives a process (its service, the cause of its end) is in `service`, derived from the alerts and
//!   ends of all runs;
//! * an incident without a living process has exactly one owner, and all changes are sent in order (`incident_owner`);
//! * the minutes of all processes of a service are in one profile per configuration (`changes`);
//! * open incidents survive a restart of gcwatch if there is a store for them (`resumed`);
//! * the number of runs and the state kept for each run are limited.

pub(crate) mod changes;
mod evidence_requests;
mod exited;
mod feed;
mod history_folder;
mod incident_owner;
pub(crate) mod memory_count;
mod observed_run;
mod outlet;
mod ranked_lock;
pub(crate) mod records;
mod registry;
pub mod replay;
mod resumed;
mod service;
mod shared;
mod subject_incidents;

pub(crate) use evidence_requests::OF_BURSTS;
pub use feed::Feed;
pub use history_folder::HistoryFolder;
pub(crate) use incident_owner::OWN_START;
pub use observed_run::ObservedRun;
pub use outlet::Outlet;
pub use records::Records;
pub use registry::Pipeline;
pub use resumed::StoredState;
pub use run::settings::{Clock, PipelineSettings};
pub use run::{ProcessReading, RuleCounts};
pub use shared::Counts;
