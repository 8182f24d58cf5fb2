//! A run that several threads share: its session reader, the tick, the scans of the host, and viewers.
//!
//! ```text
//! hand(input) --> inbox --> Run::step, by the thread that holds the run --> Deliver, while it is held
//! look() ------------------> reads the run; inputs handed over during the look are processed when it ends
//! ```
//!
//! Session readers do not wait for viewers while the inbox has space: a reader that finds the run locked leaves its
//! input in the inbox and continues. The holder of the lock processes the input before the holder releases the run.
//! Inputs are therefore processed in the order in which they were handed over, and outputs leave in the same order.
//!
//! The inbox holds [`MAX_INPUTS`] inputs. If it is full, an input that a later input of the same kind replaces
//! ([`Input::is_renewed`]) is dropped and counted. The sender of any other input waits until the run is free.
//!
//! Delivery takes the lock of the incident owner (`incident_owner` defines the order of locks). A thread that holds
//! this lock must call neither `hand` nor `look`.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Weak};

use base::run_key::RunKey;
use gc_telemetry::options::Temporality;
use gc_telemetry::origin::Origin;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use processes::{Identity, RunState};
use run::settings::{Clock, PipelineSettings};
use run::{Input, InputTime, Output, Run};

use crate::pipeline::ranked_lock::{INBOX, RUN, RankedGuard, RankedMutex};

/// Maximum number of inputs in an inbox. The inputs of several rounds of a busy reader fit.
const MAX_INPUTS: usize = 256;

/// Receiver of the outputs of a run.
pub(crate) trait Deliver: fmt::Debug + Send + Sync {
    /// Accepts the outputs of one step, in order, while the run is locked.
    fn deliver(&self, run: &Run, outputs: Vec<Output>, at: InputTime);

    /// Counts a dropped input that the next input of its kind replaces.
    fn dropped(&self);
}

/// One run of a process, shared between threads.
#[derive(Debug)]
pub struct ObservedRun {
    key: RunKey,
    clock: Clock,
    inbox: RankedMutex<VecDeque<(InputTime, Input)>, INBOX>,
    run: RankedMutex<Run, RUN>,
    /// The pipeline of the run. Once the pipeline has been dropped, the run no longer accepts inputs.
    delivery: Weak<dyn Deliver>,
}

/// A locked view of a run.
#[derive(Debug)]
pub(crate) struct RunView<'a> {
    run: RankedGuard<'a, Run, RUN>,
    /// Declared after the lock: fields are dropped in declaration order, so the lock is free when the inbox is drained.
    _rest: DrainInboxOnDrop<'a>,
}

/// Guard that processes the inputs received while a viewer held the run.
#[derive(Debug)]
struct DrainInboxOnDrop<'a>(&'a ObservedRun);

impl ObservedRun {
    pub(crate) fn new(
        identity: Identity,
        settings: Arc<PipelineSettings>,
        at: InputTime,
        delivery: Weak<dyn Deliver>,
    ) -> Self {
        Self {
            key: identity.key,
            clock: settings.clock,
            inbox: RankedMutex::default(),
            run: RankedMutex::new(Run::new(identity, settings, at)),
            delivery,
        }
    }

    /// Returns the key of the run: pid and start time.
    pub fn key(&self) -> RunKey {
        self.key
    }

    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    /// Returns whether a session currently reads the process.
    pub fn is_attached(&self) -> bool {
        self.look().session.state == RunState::Attached
    }

    /// Passes an input to the run. Waits for the run only if the inbox is full and no later input replaces this input.
    pub(crate) fn hand(&self, at: InputTime, input: Input) {
        let Some(delivery) = self.delivery.upgrade() else {
            return;
        };
        let mut inbox = self.inbox();
        if inbox.len() < MAX_INPUTS {
            inbox.push_back((at, input));
            drop(inbox);
            return self.pass(&*delivery);
        }
        drop(inbox);
        if input.is_renewed() {
            return delivery.dropped();
        }
        let mut run = self.run.lock();
        self.take_inputs(&mut run, &*delivery);
        step(&mut run, (at, input), &*delivery);
        drop(run);
        self.pass(&*delivery);
    }

    /// Processes the inbox, unless another thread holds the run and will therefore process the inbox.
    fn pass(&self, delivery: &dyn Deliver) {
        // The loop finds inputs that were added after the holder's last check.
        while !self.inbox().is_empty() {
            let Some(mut run) = self.run.try_lock() else { return };
            self.take_inputs(&mut run, delivery);
        }
    }

    fn take_inputs(&self, run: &mut Run, delivery: &dyn Deliver) {
        loop {
            let next = self.inbox().pop_front();
            let Some(next) = next else { return };
            step(run, next, delivery);
        }
    }

    fn inbox(&self) -> RankedGuard<'_, VecDeque<(InputTime, Input)>, INBOX> {
        self.inbox.lock()
    }

    /// Locks the run, processes every input handed over so far, and returns a view of the run. Blocks while another
    /// thread holds the run.
    pub(crate) fn look(&self) -> RunView<'_> {
        let mut run = self.run.lock();
        if let Some(delivery) = self.delivery.upgrade() {
            self.take_inputs(&mut run, &*delivery);
        }
        RunView {
            run,
            _rest: DrainInboxOnDrop(self),
        }
    }

    /// Runs a query that can modify the run. For example, a query for delta metrics starts the next delta.
    pub(crate) fn ask<T>(&self, question: impl FnOnce(&mut Run) -> T) -> T {
        question(&mut self.look().run)
    }

    /// Returns the metrics of the run, or `None` before the first attach.
    pub(crate) fn metrics(&self, now_unix_ns: u64, temporality: Temporality) -> Option<(Arc<Origin>, Vec<Metric>)> {
        self.ask(|run| {
            let metrics = run.metrics(now_unix_ns, temporality)?;
            Some((Arc::clone(run.identity.resource()), metrics))
        })
    }
}

fn step(run: &mut Run, (at, input): (InputTime, Input), delivery: &dyn Deliver) {
    let mut outputs = Vec::new();
    run.step(at, input, &mut outputs);
    if !outputs.is_empty() {
        delivery.deliver(run, outputs, at);
    }
}

impl Deref for RunView<'_> {
    type Target = Run;

    fn deref(&self) -> &Run {
        &self.run
    }
}

impl Drop for DrainInboxOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(delivery) = self.0.delivery.upgrade() {
            self.0.pass(&*delivery);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;

    use base::time::{Moment, Wall};

    use super::*;

    const AT: InputTime = InputTime {
        now: Moment::FIRST,
        wall: Wall::UNIX,
    };

    /// A receiver that ignores outputs and counts dropped inputs.
    #[derive(Debug, Default)]
    pub(crate) struct DropCounter(AtomicU64);

    impl Deliver for DropCounter {
        fn deliver(&self, _: &Run, _: Vec<Output>, _: InputTime) {}

        fn dropped(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Creates a run with the given pid that has received no inputs.
    pub(crate) fn observed(pid: u32, delivery: &Arc<DropCounter>) -> ObservedRun {
        let identity = Identity::new(RunKey { pid, start_time: 1 }, "shop");
        let delivery = Arc::downgrade(delivery);
        ObservedRun::new(identity, Arc::default(), AT, delivery)
    }

    /// Returns the number of processed `Healed` inputs. Inputs in the inbox do not count.
    fn healings(run: &ObservedRun) -> u64 {
        run.run.lock().session.healings
    }

    /// Scenario: inputs are handed over while a viewer holds the run.
    /// Guarantee: the senders do not wait, the viewer sees a single state, and all inputs are processed when the viewer
    /// releases the run.
    #[test]
    fn viewer_does_not_block_senders() {
        let delivery = Arc::default();
        let run = observed(1, &delivery);
        let look = run.look();
        for _ in 0..3 {
            run.hand(AT, Input::Healed);
        }
        assert_eq!(look.session.healings, 0);
        drop(look);
        assert_eq!(healings(&run), 3);
    }

    /// Scenario: a viewer holds the run, and the inbox is full; two ticks arrive, then an input that no later input
    /// replaces.
    /// Guarantee: the ticks are dropped and counted. The sender of the last input waits until the viewer releases the
    /// run, and every input except the ticks is processed.
    #[test]
    fn full_inbox_drops_only_renewed_inputs() {
        let delivery = Arc::default();
        let run = observed(1, &delivery);
        let look = run.look();
        for _ in 0..MAX_INPUTS {
            run.hand(AT, Input::Healed);
        }
        for _ in 0..2 {
            run.hand(AT, Input::Tick { behind_ns: 0 });
        }
        assert_eq!(delivery.0.load(Ordering::Relaxed), 2);
        thread::scope(|scope| {
            let late = scope.spawn(|| run.hand(AT, Input::Healed));
            drop(look);
            late.join().expect("the sender finishes once the run is free");
        });
        assert_eq!(healings(&run), MAX_INPUTS as u64 + 1);
        assert_eq!(delivery.0.load(Ordering::Relaxed), 2);
    }

    /// Scenario: four threads hand inputs to one run while two threads repeatedly view the run.
    /// Guarantee: each input is processed exactly once.
    #[test]
    fn inputs_of_concurrent_senders_are_all_processed() {
        let delivery = Arc::default();
        let run = observed(1, &delivery);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..500).for_each(|_| run.hand(AT, Input::Healed)));
            }
            for _ in 0..2 {
                scope.spawn(|| (0..500).for_each(|_| drop(run.look())));
            }
        });
        assert_eq!(healings(&run), 2000);
    }
}
