//! What of a run survives from one attempt to attach to the next, and how its state is reported.

use dotnet_diagnostics::Error;
use tokio::sync::oneshot;

use crate::inspect::Inspected;
use crate::lease::Lease;
use crate::sink::{RunSink, Sink};
use processes::text::bounded;
use processes::{Identity, RunState};

/// What of a run survives from one attempt to attach to the next.
#[derive(Debug)]
pub(crate) struct KeptRun<T> {
    /// Takes what is read; `None` before the first attach.
    pub(crate) sink: Option<T>,
    /// No other gcwatch reads the run while this is held.
    pub(crate) lease: Option<Lease>,
    /// A session has begun before: another one cannot end the process for lack of memory.
    pub(crate) had_session: bool,
    /// The settings were read, or cannot be.
    pub(crate) settings_read: bool,
    /// That its stream took too much memory was logged.
    pub(crate) memory_reported: bool,
    /// The state that was logged last, so that each is logged once.
    pub(crate) reported: Option<RunState>,
    /// An inspection that has not returned: its files block, and another one would block another thread.
    pub(crate) looking: Option<oneshot::Receiver<Result<Inspected, Error>>>,
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
    /// Reports the state of a run to the sink; a state that differs from the last one is logged.
    pub(crate) fn report<S: Sink<Run = T>>(&mut self, sink: &S, identity: &Identity, state: RunState) {
        match &mut self.sink {
            Some(run) => run.state(state.clone()),
            None => sink.note(identity, state.clone()),
        }
        // A retry is no news.
        if state == RunState::Attaching || self.reported.as_ref().is_some_and(|last| is_same(last, &state)) {
            return;
        }
        // The end of a process that was not watched on purpose is no news.
        let was_watched = self.reported.as_ref().is_some_and(|last| *last != RunState::Excluded);
        if state != RunState::Ended || was_watched {
            log(identity, &state);
        }
        self.reported = Some(state);
    }
}

/// Whether a state is logged already.
fn is_same(last: &RunState, state: &RunState) -> bool {
    match (last, state) {
        // The sentence may hold numbers that change.
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
        RunState::HeldElsewhere { holder } => log!(info: pid, name, "not attached: {} reads it", bounded(holder)),
        RunState::OverLimit => log!(warn: pid, name, "not attached: the limit of processes is reached"),
        RunState::Excluded => {
            // On purpose, and one for each process of the host: the page and `gcwatch ps` list them.
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

    /// Scenario: a process that cannot be attached to, for the same reason with another sentence, then for another
    /// reason.
    /// Guarantee: only another reason is a new state; all other states are compared as a whole.
    #[test]
    fn a_sentence_that_changes_is_no_new_state() {
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
