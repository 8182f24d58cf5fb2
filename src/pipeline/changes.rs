//! Profiles of services, and the comparisons that their changes need.
//!
//! ```text
//! Run::step -> Output::Minute -> ChangeOwner::minute, once per minute and process
//!                                  |
//!                                  v            a thread that can compute for long
//!                                waiting ------> compare_changes: Comparison::run -> the outlet: log record
//! ```
//!
//! The lock of the owner is taken last and held without further locks, like the locks of the settings and the rules
//! (`incident_owner` defines the order of locks).

use std::sync::Arc;

use gc_advice::configuration::Configuration;
use gc_advice::profile::Minute;
use gc_advice::services::{Comparison, Input, Output, ProcessMinute, Services};
use gc_telemetry::origin::Origin;
use processes::one_name;
use processes::service::ServiceKey;
use run::Run;

/// The profiles, and the comparisons that wait for a thread.
#[derive(Debug, Default)]
pub(crate) struct ChangeOwner {
    pub(crate) services: Services,
    waiting: Vec<WaitingComparison>,
    /// Number that changes with every minute. Stored profiles are outdated if this number has changed.
    pub(crate) revision: u64,
}

/// A comparison, with the resource of a process after the change.
#[derive(Debug)]
pub(crate) struct WaitingComparison {
    pub(crate) comparison: Box<Comparison>,
    pub(crate) resource: Arc<Origin>,
}

/// Maximum number of waiting comparisons. Beyond it, comparisons are dropped and counted: the next blocks of the same
/// change cause another comparison.
const MAX_WAITING: usize = 64;

/// Returns the identity of the service of a run.
pub(crate) fn service_of(run: &Run) -> ServiceKey {
    ServiceKey::for_process(run.identity.who(), &run.identity.resource().attributes)
}

impl ChangeOwner {
    /// Returns whether comparisons wait for a thread.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Takes the waiting comparisons.
    pub(crate) fn take_waiting(&mut self) -> Vec<WaitingComparison> {
        std::mem::take(&mut self.waiting)
    }

    /// Adds a minute of a run. Returns whether a comparison was dropped.
    pub(crate) fn minute(&mut self, run: &Run, configuration: Configuration, minute: Minute) -> bool {
        self.revision += 1;
        let resource = run.identity.resource();
        let input = Input::Minute(Box::new(ProcessMinute {
            service: service_of(run).text().to_string(),
            name: one_name(&run.identity.who().name, &resource.attributes),
            configuration,
            minute,
        }));
        let Some(Output::Compare(comparison)) = self.services.step(run.wall, input) else {
            return false;
        };
        let is_dropped = self.waiting.len() >= MAX_WAITING;
        if !is_dropped {
            self.waiting.push(WaitingComparison {
                comparison,
                resource: Arc::clone(resource),
            });
        }
        is_dropped
    }
}
