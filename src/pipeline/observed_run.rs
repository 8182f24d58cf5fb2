//! A run that several threads have to do with: its reader, the tick, what the host finds, and people who look.
//!
//! ```text
//! hand(input) --> inbox --> Run::step, by whoever holds the run --> Deliver, while it is held
//! look() ------------------> reads it; what was handed meanwhile is done when the look ends
//! ```
//!
//! Nobody waits for who looks: a reader that finds the run held leaves its input in the inbox and goes on, and the
//! holder takes it before it lets go. So inputs are stepped in the order in which they were handed, and what follows
//! leaves in that order.
//!
//! The inbox has [`MOST_INPUTS`] places. Where it is full, an input that another one like it renews
//! ([`Input::is_renewed`]) is dropped and counted; for any other one its sender waits until the run is free.
//!
//! Delivery takes the lock of the incident owner (`incident_owner` has the order of locks): who holds that must neither
//! hand nor look.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};

use base::run_key::RunKey;
use gc_telemetry::options::Temporality;
use gc_telemetry::origin::Origin;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use processes::{Identity, RunState};
use run::settings::{Clock, PipelineSettings};
use run::{At, Input, Output, Run};

/// Places of an inbox: a busy reader's inputs of some rounds.
const MOST_INPUTS: usize = 256;

/// Where what follows from the inputs of a run goes.
pub(crate) trait Deliver: fmt::Debug + Send + Sync {
    /// Takes what followed from one step, in order; the run is held.
    fn deliver(&self, run: &Run, outputs: Vec<Output>, at: At);

    /// An input was dropped that the next one like it renews.
    fn dropped(&self);
}

/// One run of a process, shared.
#[derive(Debug)]
pub struct ObservedRun {
    key: RunKey,
    clock: Clock,
    inbox: Mutex<VecDeque<(At, Input)>>,
    run: Mutex<Run>,
    /// The pipeline that it is a run of. Once that is gone, nothing happens to a run any more.
    delivery: Weak<dyn Deliver>,
}

/// A run that is looked at.
#[derive(Debug)]
pub(crate) struct Look<'a> {
    run: MutexGuard<'a, Run>,
    /// After the lock: fields are dropped in their order.
    _rest: HandedMeanwhile<'a>,
}

/// What is handed while somebody looks, done when this is dropped.
#[derive(Debug)]
struct HandedMeanwhile<'a>(&'a ObservedRun);

impl ObservedRun {
    pub(crate) fn new(
        identity: Identity,
        settings: Arc<PipelineSettings>,
        at: At,
        delivery: Weak<dyn Deliver>,
    ) -> Self {
        Self {
            key: identity.key,
            clock: settings.clock,
            inbox: Mutex::default(),
            run: Mutex::new(Run::new(identity, settings, at)),
            delivery,
        }
    }

    /// Pid and start time.
    pub fn key(&self) -> RunKey {
        self.key
    }

    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    /// Whether a session reads its process now.
    pub fn is_attached(&self) -> bool {
        self.look().session.state == RunState::Attached
    }

    /// Something happens to it.
    pub(crate) fn hand(&self, at: At, input: Input) {
        let Some(delivery) = self.delivery.upgrade() else {
            return;
        };
        let mut inbox = self.inbox();
        if inbox.len() < MOST_INPUTS {
            inbox.push_back((at, input));
            drop(inbox);
            return self.pass(&*delivery);
        }
        drop(inbox);
        if input.is_renewed() {
            return delivery.dropped();
        }
        let mut run = self.run.lock().unwrap_or_else(PoisonError::into_inner);
        self.take_inputs(&mut run, &*delivery);
        step(&mut run, (at, input), &*delivery);
        drop(run);
        self.pass(&*delivery);
    }

    /// Does what was handed, unless somebody holds the run: that one does it.
    fn pass(&self, delivery: &dyn Deliver) {
        // What is handed after the holder looked for the last time is found here.
        while !self.inbox().is_empty() {
            let mut run = match self.run.try_lock() {
                Ok(run) => run,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => return,
            };
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

    fn inbox(&self) -> MutexGuard<'_, VecDeque<(At, Input)>> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at it, as it is after all that was handed so far.
    pub(crate) fn look(&self) -> Look<'_> {
        let mut run = self.run.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(delivery) = self.delivery.upgrade() {
            self.take_inputs(&mut run, &*delivery);
        }
        Look {
            run,
            _rest: HandedMeanwhile(self),
        }
    }

    /// A question of which the run remembers that it was asked.
    pub(crate) fn ask<T>(&self, question: impl FnOnce(&mut Run) -> T) -> T {
        question(&mut self.look().run)
    }

    /// Its metrics; `None` before the first attach.
    pub(crate) fn metrics(&self, now_unix_ns: u64, temporality: Temporality) -> Option<(Arc<Origin>, Vec<Metric>)> {
        self.ask(|run| {
            let metrics = run.metrics(now_unix_ns, temporality)?;
            Some((Arc::clone(run.identity.resource()), metrics))
        })
    }
}

fn step(run: &mut Run, (at, input): (At, Input), delivery: &dyn Deliver) {
    let mut outputs = Vec::new();
    run.step(at, input, &mut outputs);
    if !outputs.is_empty() {
        delivery.deliver(run, outputs, at);
    }
}

impl Deref for Look<'_> {
    type Target = Run;

    fn deref(&self) -> &Run {
        &self.run
    }
}

impl Drop for HandedMeanwhile<'_> {
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

    const AT: At = At {
        now: Moment::FIRST,
        wall: Wall::UNIX,
    };

    /// Counts what was dropped.
    #[derive(Debug, Default)]
    pub(crate) struct Nowhere(AtomicU64);

    impl Deliver for Nowhere {
        fn deliver(&self, _: &Run, _: Vec<Output>, _: At) {}

        fn dropped(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A run of that pid that nothing has happened to.
    pub(crate) fn observed(pid: u32, delivery: &Arc<Nowhere>) -> ObservedRun {
        let identity = Identity::new(RunKey { pid, start_time: 1 }, "shop");
        let delivery = Arc::downgrade(delivery);
        ObservedRun::new(identity, Arc::default(), AT, delivery)
    }

    /// How often it was healed, without what waits in the inbox.
    fn healings(run: &ObservedRun) -> u64 {
        run.run.lock().unwrap().session.healings
    }

    /// Scenario: inputs are handed while somebody looks at the run.
    /// Guarantee: nobody waits, who looks sees one state, and all is done when the look ends.
    #[test]
    fn who_looks_holds_nobody_up() {
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

    /// Scenario: more is handed while somebody looks than the inbox has places: ticks, then what is not said again.
    /// Guarantee: ticks are dropped and counted; the rest waits for the look to end, and nothing of it is lost.
    #[test]
    fn a_full_inbox_drops_what_is_renewed_and_no_more() {
        let delivery = Arc::default();
        let run = observed(1, &delivery);
        let look = run.look();
        for _ in 0..MOST_INPUTS {
            run.hand(AT, Input::Healed);
        }
        for _ in 0..2 {
            run.hand(AT, Input::Tick { behind_ns: 0 });
        }
        assert_eq!(delivery.0.load(Ordering::Relaxed), 2);
        thread::scope(|scope| {
            let late = scope.spawn(|| run.hand(AT, Input::Healed));
            drop(look);
            late.join().expect("it only waits");
        });
        assert_eq!(healings(&run), MOST_INPUTS as u64 + 1);
        assert_eq!(delivery.0.load(Ordering::Relaxed), 2);
    }

    /// Scenario: four threads hand inputs to one run while two look at it all the time.
    /// Guarantee: each input is stepped once, though most find the run held.
    #[test]
    fn nothing_is_lost_between_many() {
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
