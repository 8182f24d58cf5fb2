//! The pipeline as the task of one process sees it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use clr_gc::gc::{Collection, Open, Outcome, Suspension};
use opentelemetry_proto::tonic::common::v1::KeyValue;

use crate::pipeline::run::Run;
use crate::pipeline::settings::Clock;
use crate::pipeline::shared::Shared;
use delivery::alerts::Notices;
use gc_requests::request::Request;
use gc_rules::engine::{collection_at, suspension_at};
use gc_rules::field;
use gc_rules::time::{Moment, TimeBase};
use gc_telemetry::spans::{Encoded, NotExported};
use processes::{RunState, StreamProgress};
use targets::host::clocks;
use targets::host::now;

/// Takes what one task reads of one run. Dropped without [`end`](Self::end), the run stays, detached.
#[derive(Debug)]
pub struct Feed {
    run: Arc<Run>,
    shared: Arc<Shared>,
    base: Option<TimeBase>,
    /// Outcomes were kept back this long before they came here.
    held_back_ns: u64,
    ended: bool,
}

impl Feed {
    pub(crate) fn new(run: Arc<Run>, shared: Arc<Shared>) -> Self {
        Self {
            run,
            shared,
            base: None,
            held_back_ns: 0,
            ended: false,
        }
    }

    /// The run that it belongs to.
    pub fn run(&self) -> &Arc<Run> {
        &self.run
    }

    /// What is done with the process now. [`RunState::Attached`] begins a new session: its stream is counted from its
    /// beginning.
    pub fn state(&mut self, state: RunState) {
        let now = now();
        let mut parts = self.run.parts();
        if state == RunState::Attached && parts.session.state != RunState::Attached {
            let start = match (self.run.clock(), self.base) {
                (Clock::Recorded, Some(base)) => base.moment(0),
                _ => now,
            };
            parts.begin_session(&self.shared.settings(), self.shared.rules(), start);
            if let (Some(incidents), Some(rules)) = (
                self.shared.incidents().waiting.take(self.run.key()),
                parts.rules.as_mut(),
            ) {
                rules.resume(incidents);
            }
            let share = parts.identity.share();
            if let (Some(black_box), Some(rules)) = (self.shared.black_box(), parts.rules.as_mut()) {
                rules.keep_events(share, black_box.recordings());
            }
        }
        parts.session.set_state(state, now);
    }

    /// More is known of who it is: the runtime's version, attributes of the resource (a name that is there already gets
    /// the new value). Spans and metrics from now on carry it.
    pub fn learned(&mut self, runtime: Option<String>, attributes: Vec<KeyValue>) {
        let mut parts = self.run.parts();
        let now = match (self.run.clock(), parts.session.newest) {
            (Clock::Recorded, newest) if newest > Moment::FIRST => newest,
            _ => now(),
        };
        let notices = parts.learned(runtime, attributes, now);
        self.shared.notify_of(&parts, notices);
    }

    /// Offsets of what follows lie on `base`.
    pub fn time_base(&mut self, base: TimeBase) {
        self.base = Some(base);
    }

    /// One outcome of the reconstruction. Before the first [`time_base`](Self::time_base) it is put at 1970, which a
    /// caller does not do: a stream's header comes before its events.
    pub fn observe(&mut self, outcome: Outcome) {
        let base = self.base.unwrap_or(TimeBase::at(0));
        match outcome {
            Outcome::Collection(collection) => self.collection(collection, base),
            Outcome::Suspension(suspension) => self.suspension(&suspension, base),
        }
    }

    /// No event can be later.
    fn latest(&self) -> Moment {
        match self.run.clock() {
            Clock::Live => now(),
            Clock::Recorded => Moment::NEVER,
        }
    }

    fn suspension(&mut self, suspension: &Suspension, base: TimeBase) {
        let mut parts = self.run.parts();
        let passed = match (self.run.clock(), suspension_at(suspension)) {
            (Clock::Recorded, Some(at)) => parts.advance(base.moment(at)),
            (Clock::Live, Some(at)) => {
                let clocks = clocks();
                parts.wall = self.shared.observe_clocks(clocks);
                parts.catch_up(base.moment(at), clocks.moment())
            }
            (_, None) => Notices::default(),
        };
        parts.suspension(suspension, base, self.latest());
        self.shared.notify_of(&parts, passed);
    }

    fn collection(&mut self, collection: Box<Collection>, base: TimeBase) {
        let settings = self.shared.settings();
        let counters = &self.shared.counters;
        counters.collections.fetch_add(1, Ordering::Relaxed);
        let mut parts = self.run.parts();
        let at = base.moment(collection_at(&collection));
        let passed = match self.run.clock() {
            Clock::Live => {
                let clocks = clocks();
                parts.wall = self.shared.observe_clocks(clocks);
                let now = clocks.moment();
                let passed = parts.catch_up(at, now);
                if let Some(end) = collection.end {
                    let end = base.moment(end);
                    let lag = (end <= now).then(|| now.since(end).saturating_sub(self.held_back_ns));
                    parts.session.set_lag(lag);
                }
                passed
            }
            Clock::Recorded => parts.advance(at),
        };
        let observed = parts.collection(collection, base, &settings, self.latest());
        self.shared.notify_of(&parts, passed);
        match observed.spans {
            Ok(spans) => {
                counters.spans.fetch_add(spans.count(), Ordering::Relaxed);
                self.shared.outlet().spans(parts.identity.resource(), spans);
            }
            Err(NotExported::NotSelected) => {}
            Err(NotExported::OverRate) => {
                counters.over_rate.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.shared.notify_of(&parts, observed.notices);
    }

    /// Outcomes are kept back for so long before they are observed: that is no lag.
    pub fn held_back(&mut self, ns: u64) {
        self.held_back_ns = ns;
    }

    /// Requests that ended: counted, and those that lost much get the pauses into their own traces.
    pub fn requests(&mut self, requests: &[Request], base: TimeBase) {
        let settings = self.shared.settings();
        let counters = &self.shared.counters;
        let mut parts = self.run.parts();
        let resource = Arc::clone(parts.identity.resource());
        let spans = requests
            .iter()
            .filter_map(|request| parts.request(request, base, &settings).ok());
        let encoded: Vec<Encoded> = spans.collect();
        drop(parts);
        for spans in encoded {
            counters.spans.fetch_add(spans.count(), Ordering::Relaxed);
            self.shared.outlet().spans(&resource, spans);
        }
    }

    /// What has begun and not ended, by the events that came so far.
    pub fn open(&mut self, open: Open) {
        let base = self.base.unwrap_or(TimeBase::at(0));
        let moment = |offset: Option<i64>| offset.map(|offset| base.moment(offset));
        let mut parts = self.run.parts();
        parts.session.finalizers_waiting = open.finalizers_waiting;
        parts.session.open = field::Open {
            stop: moment(open.stop),
            collection: moment(open.collection),
            background: moment(open.background),
            finalizers: moment(open.finalizers),
            requested_by_tool: open.requested_by_tool,
        };
    }

    /// How far the session's stream was read.
    pub fn progress(&mut self, progress: StreamProgress) {
        self.run.parts().set_progress(progress);
    }

    /// Whether the stream brings more than is read of it.
    pub fn undrained(&mut self, is: bool) {
        self.run.parts().session.set_undrained(is, now());
    }

    /// The stream is over. `in_order`: the runtime ended it, as it does when the process exits by itself.
    pub fn closed(&mut self, in_order: bool) {
        self.run.parts().session.set_closed(in_order);
    }

    /// What another tool's session left behind in the process was healed.
    pub fn healed(&mut self) {
        self.run.parts().session.healings += 1;
    }

    /// The process exited: its metrics are exported a last time, then its series end.
    pub fn end(mut self) {
        self.ended = true;
        self.run.set_state(RunState::Ended, now());
        self.shared.end(&self.run);
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let mut parts = self.run.parts();
        if matches!(parts.session.state, RunState::Attached | RunState::Attaching) {
            let detail = "its reader ended".to_owned();
            parts.session.set_state(RunState::Detached { detail }, now());
        }
    }
}
