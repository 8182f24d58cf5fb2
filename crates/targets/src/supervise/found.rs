//! Handles the results of scans: new runs, runs that are newly selected or excluded, and runs that have exited.

use std::sync::{Arc, PoisonError};

use crate::identity::{key_of, sketch};
use crate::kept_run::KeptRun;
use crate::look::{ScanResult, ScannedProcess};
use crate::order::Order;
use crate::registry::Phase;
use crate::sink::{RunSink, Sink};
use crate::supervise::Supervisor;
use crate::supervise::known::KnownRun;
use base::run_key::RunKey;
use processes::{Identity, RunState};

impl<S: Sink> Supervisor<S> {
    pub(crate) fn take_look(&mut self, look: ScanResult) {
        *self.shared.named.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(look.named);
        for seen in look.seen {
            self.take_seen(&seen);
        }
        for key in look.gone {
            self.take_gone(key);
        }
        // The process has exited, so no runtime is left to resume.
        self.arrivals.retain(|pid, _| !look.asked.contains(pid));
        if look.all_pids.is_some() {
            self.shared.sink.scanned();
        }
        if let Some(directories) = look.directories {
            self.scans.request.all |= self.directories.follow(&directories);
        }
    }

    fn take_seen(&mut self, seen: &ScannedProcess) {
        let arrival = self.arrivals.remove(&seen.process.pid);
        self.take_process(seen);
        let (key, Some(arrival)) = (key_of(&seen.process), arrival) else {
            return;
        };
        let Some(entry) = self.registry.get_mut(key) else {
            return;
        };
        entry.run.reverse = Some(arrival.endpoint);
        // An arrival whose run is excluded, held off or already attached is dropped, which resumes it at once.
        if matches!(entry.phase, Phase::Ready | Phase::Waiting(_)) && !entry.held_off() {
            entry.run.begun = Some(arrival.begun);
            self.registry.hurry(key);
        }
    }

    fn take_process(&mut self, seen: &ScannedProcess) {
        let (process, key) = (&seen.process, key_of(&seen.process));
        let obstacle = process.obstacle.as_ref();
        let Some(entry) = self.registry.get_mut(key) else {
            let mut run = KnownRun {
                identity: sketch(process, seen.service.clone()),
                kept: Some(KeptRun::default()),
                orders: None,
                looked_gone: false,
                visible: process.visible,
                reverse: None,
                begun: None,
            };
            let (state, phase) = match seen.wanted {
                Some(false) => (RunState::Excluded, Phase::Excluded),
                _ => (RunState::Found, Phase::Ready),
            };
            run.report(&self.shared.sink, state);
            self.registry.insert(key, phase, run);
            return;
        };
        match (seen.wanted, entry.phase) {
            (Some(false), Phase::Running) => entry.run.order(Order::Exclude),
            (Some(false), Phase::Ready | Phase::Waiting(_)) => {
                entry.phase = Phase::Excluded;
                entry.run.begun = None;
                if let Some(kept) = &mut entry.run.kept {
                    kept.lease = None;
                }
                entry.run.report(&self.shared.sink, RunState::Excluded);
            }
            (Some(true), Phase::Excluded) => entry.phase = Phase::Ready,
            // The run was not attachable without a socket, and now has one.
            (_, Phase::Waiting(_)) if obstacle.is_none() && entry.run.waits_for_socket() => self.registry.hurry(key),
            _ => {}
        }
    }

    /// Handles a run that has exited. A run that is being read detects its exit by the end of its stream.
    fn take_gone(&mut self, key: RunKey) {
        let Some(entry) = self.registry.get_mut(key) else {
            return;
        };
        if entry.phase == Phase::Running {
            entry.run.looked_gone = true;
            return;
        }
        if let Some(entry) = self.registry.remove(key) {
            self.end(&entry.run.identity, entry.run.kept.unwrap_or_default());
        }
    }

    /// Reports that the process of a run has exited.
    pub(crate) fn end(&self, identity: &Identity, mut kept: KeptRun<S::Run>) {
        kept.report(&self.shared.sink, identity, RunState::Ended);
        match kept.sink {
            Some(run) => run.end(),
            None => self.shared.sink.forget(identity.key),
        }
    }
}
