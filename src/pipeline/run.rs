//! One run of a process, as everybody but its own task sees it.
//!
//! A run consists of parts, each in a module that knows none of the others. [`Parts`] passes facts between them,
//! [`Run`] holds the lock.
//!
//! ```text
//! Run (lock) -> Parts -> identity    who it is: its resource with the metadata over it
//!                        session     state, sessions, progress, lag, what is open
//!                        container   what its container may use and does use
//!                        ledger      where its memory is
//!                        requests    the share of its requests that collections touched
//!                        rules       the engine, and the notices of its alerts
//!                        telemetry   spans and series
//!                        history     the last half hour, for people to look at
//! ```

mod container;
mod identity;
mod ledger;
mod parts;
mod requests;
mod rules;
mod session;
mod telemetry;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gc_rules::time::{Moment, Wall};
use gc_telemetry::options::Temporality;
use gc_telemetry::origin::Origin;
use gc_telemetry::value::text;
use opentelemetry_proto::tonic::metrics::v1::Metric;

use crate::pipeline::service::{ServiceBook, ServiceKey};
use crate::pipeline::settings::Clock;
use processes::{Identity, RunKey, RunState};

pub use parts::Measured;
pub(crate) use parts::Parts;
pub use rules::RuleCounts;

/// One run of a process.
#[derive(Debug)]
pub struct Run {
    key: RunKey,
    clock: Clock,
    parts: Mutex<Parts>,
}

impl Run {
    pub(crate) fn new(identity: Identity, clock: Clock, now: Moment, wall: Wall) -> Self {
        Self {
            key: identity.key,
            clock,
            parts: Mutex::new(Parts::new(identity, now, wall)),
        }
    }

    /// Pid and start time.
    pub fn key(&self) -> RunKey {
        self.key
    }

    /// Whether a session reads its process now.
    pub fn is_attached(&self) -> bool {
        self.parts().session.state == RunState::Attached
    }

    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    /// The first number of its runtime's version.
    pub(crate) fn major(&self) -> Option<u32> {
        self.parts().identity.major()
    }

    /// Beginning of the round of finalizers that is open for longer than that.
    pub(crate) fn long_finalizers(&self, now: Moment, longer_ns: u64) -> Option<Moment> {
        self.parts().session.long_finalizers(now, longer_ns)
    }

    /// How much of the time the finalizer thread had a CPU in the round that began then; `None`: unknown.
    pub(crate) fn know_finalizer_cpu(&self, begun: Moment, share: Option<f64>) {
        self.parts().session.know_finalizer_cpu(begun, share);
    }

    /// No collection has come for a minute, or none at all.
    pub(crate) fn rests(&self, now: Moment) -> bool {
        self.parts().session.rests(now)
    }

    pub(crate) fn parts(&self) -> MutexGuard<'_, Parts> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_state(&self, state: RunState, now: Moment) {
        self.parts().session.set_state(state, now);
    }

    /// It is among the living of its service, once it was attached to.
    pub(crate) fn enter_service(&self, parts: &Parts, book: &mut ServiceBook) {
        let resource = parts.identity.resource();
        let Some(attached) = parts.session.first_attach else {
            return;
        };
        if self.clock != Clock::Live || book.is_current(self.key, resource) {
            return;
        }
        let who = parts.identity.who();
        let key = ServiceKey::of(who, &resource.attributes);
        let began = text(&resource.attributes, "process.creation.time");
        let began = began.and_then(|time| time.parse::<jiff::Timestamp>().ok());
        let began = began.and_then(|time| u64::try_from(time.as_nanosecond()).ok());
        let began = began.map(|unix_ns| parts.wall.moment(unix_ns));
        book.belongs(
            self.key,
            key,
            (&who.name, resource, &who.provenance.container),
            began.unwrap_or(attached),
        );
    }

    /// The process exited: only what people look at is kept. `false`: nothing was ever read from it.
    pub(crate) fn has_exited(&self) -> bool {
        let mut parts = self.parts();
        parts.forget_all_but_history();
        parts.session.first_attach.is_some()
    }

    /// Adds what its rules counted since the last call.
    pub(crate) fn count_rules(&self, totals: &mut BTreeMap<Arc<str>, RuleCounts>) {
        if let Some(rules) = self.parts().rules.as_mut() {
            rules.count(totals);
        }
    }

    /// Its metrics; `None` before the first attach.
    pub(crate) fn metrics(&self, now_unix_ns: u64, temporality: Temporality) -> Option<(Arc<Origin>, Vec<Metric>)> {
        let mut parts = self.parts();
        let metrics = parts.metrics(now_unix_ns, temporality)?;
        Some((Arc::clone(parts.identity.resource()), metrics))
    }
}
