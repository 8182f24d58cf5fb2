//! Data of a run that outlives an attempt to attach, and the reports of its state.

use dotnet_diagnostics::Error;
use tokio::sync::oneshot;

use crate::inspect::Inspection;
use crate::lease::Lease;
use crate::sink::{RunSink, Sink};
use processes::text::bounded;
use processes::{Identity, RunState};

/// Data of a run that outlives an attempt to attach.
#[derive(Debug)]
pub(crate) struct KeptRun<T> {
    /// Receiver of the run's data; `None` before the first attach.
    pub(crate) sink: Option<T>,
    /// Lease of the run. No other gcwatch instance reads the run while the lease is held.
    pub(crate) lease: Option<Lease>,
    /// Whether a session has started before. If so, another session cannot end the process for lack of memory.
    pub(crate) had_session: bool,
    /// Whether the settings were read or cannot be read.
    pub(crate) settings_read: bool,
    /// Whether a stream over its memory limit was logged.
    pub(crate) memory_reported: bool,
    /// State that was logged last. A state is logged only if it differs from this state.
    pub(crate) reported: Option<RunState>,
    /// An inspection that has not returned, because the files of the process block. Another inspection would block
    /// another thread.
    pub(crate) looking: Option<oneshot::Receiver<Result<Inspection, Error>>>,
}

impl<T> Default for KeptRun<T> {
    fn default() -> Self {
        Self {
            sink: None,
            lease: None,
            had_session: false,
            settings_read: false,
            memory_reported: false,
            reported: None,
            looking: None,
        }
    }
}

impl<T: RunSink> KeptRun<T> {
    /// Reports the state of a run to the sink, and logs the state if it differs from the last logged state.
    pub(crate) fn report<S: Sink<Run = T>>(&mut self, sink: &S, identity: &Identity, state: RunState) {
        match &mut self.sink {
            Some(run) => run.state(state.clone()),
            None => sink.note(identity, state.clone()),
        }
        // Retries are not logged.
        if state == RunState::Attaching || self.reported.as_ref().is_some_and(|last| is_same(last, &state)) {
            return;
        }
        // The exit of an excluded process is not logged.
        let was_watched = self.reported.as_ref().is_some_and(|last| *last != RunState::Excluded);
        if state != RunState::Ended || was_watched {
            log(identity, &state);
        }
        self.reported = Some(state);
    }
}

/// Returns whether two states count as the same for the log.
fn is_same(last: &RunState, state: &RunState) -> bool {
    match (last, state) {
        // The detail can contain changing numbers.
        (RunState::Unattachable { reason: last, .. }, RunState::Unattachable { reason, .. }) => last == reason,
        (last, state) => last == state,
    }
}

fn log(identity: &Identity, state: &RunState) {
    let (pid, name) = (identity.key.pid, bounded(&identity.one_name()));
    match state {
        RunState::Unattachable { reason, detail } => {
            log!(warn: pid, name, reason, "cannot attach: {}", bounded(detail));
        }
        RunState::HeldElsewhere { holder } => log!(info: pid, name, "not attached; read by {}", bounded(holder)),
        RunState::OverLimit => log!(warn: pid, name, "not attached; the limit of processes is reached"),
        RunState::Excluded => {
            // Exclusion is intended and can concern most processes of a host. The page and `gcwatch ps` list them.
            log!(debug: pid, name, "excluded by the configuration");
        }
        RunState::Detached { detail } => log!(info: pid, name, "detached: {}", bounded(detail)),
        RunState::Ended => log!(info: pid, name, "process exited"),
        RunState::Found | RunState::Attaching | RunState::Attached => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: a process cannot be attached to, for the same reason with another detail, then for another reason.
    /// Guarantee: only another reason is a new state; all other states are compared completely.
    #[test]
    fn changed_detail_is_not_new_state() {
        let unattachable = |reason: &str, detail: &str| RunState::Unattachable {
            reason: reason.to_owned(),
            detail: detail.to_owned(),
        };
        assert!(is_same(&unattachable("silent", "5 s"), &unattachable("silent", "6 s")));
        assert!(!is_same(
            &unattachable("silent", "5 s"),
            &unattachable("refused", "5 s")
        ));
        let detached = |detail: &str| RunState::Detached {
            detail: detail.to_owned(),
        };
        assert!(!is_same(&detached("a"), &detached("b")) && is_same(&RunState::Excluded, &RunState::Excluded));
    }
}
