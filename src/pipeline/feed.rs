//! The pipeline as the task of one process sees it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use clr_gc::gc::{Open, Outcome};
use gc_requests::request::Request;
use gc_rules::incident::Recordings;
use gc_rules::time::TimeBase;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use processes::{RunState, StreamProgress};
use run::settings::Clock;
use run::{At, Attachment, Input};
use targets::host::{clocks, now};

use crate::pipeline::observed_run::ObservedRun;
use crate::pipeline::shared::Shared;

/// Takes what one task reads of one run. Dropped without [`end`](Self::end), the run stays, detached.
#[derive(Debug)]
pub struct Feed {
    run: Arc<ObservedRun>,
    shared: Arc<Shared>,
    base: Option<TimeBase>,
    /// Outcomes were kept back this long before they came here.
    held_back_ns: u64,
    ended: bool,
}

impl Feed {
    pub(crate) fn new(run: Arc<ObservedRun>, shared: Arc<Shared>) -> Self {
        Self {
            run,
            shared,
            base: None,
            held_back_ns: 0,
            ended: false,
        }
    }

    /// The run that it belongs to.
    pub fn run(&self) -> &Arc<ObservedRun> {
        &self.run
    }

    fn hand(&self, input: Input) {
        self.run.hand(self.shared.at(now()), input);
    }

    /// What is done with the process now. [`RunState::Attached`] begins a new session: its stream is counted from its
    /// beginning.
    pub fn state(&mut self, state: RunState) {
        if state != RunState::Attached {
            return self.hand(Input::State(state));
        }
        if self.run.is_attached() {
            return;
        }
        let recordings = self.shared.black_box().map(|black_box| black_box.recordings());
        self.hand(Input::Attached(Box::new(Attachment {
            base: self.base,
            rules: self.shared.rules(),
            incidents: self.shared.incidents().waiting.take(self.run.key()),
            recordings: recordings.map(|recordings| recordings as Arc<dyn Recordings>),
        })));
    }

    /// More is known of who it is: the runtime's version, attributes of the resource (a name that is there already gets
    /// the new value). Spans and metrics from now on carry it.
    pub fn learned(&mut self, runtime: Option<String>, attributes: Vec<KeyValue>) {
        self.hand(Input::Learned { runtime, attributes });
    }

    /// Offsets of what follows lie on `base`.
    pub fn time_base(&mut self, base: TimeBase) {
        self.base = Some(base);
    }

    /// Where offsets lie. Before the first [`time_base`](Self::time_base) that is at 1970, which a caller does not come
    /// to: a stream's header comes before its events.
    fn base(&self) -> TimeBase {
        self.base.unwrap_or(TimeBase::at(0))
    }

    /// One outcome of the reconstruction.
    pub fn observe(&mut self, outcome: Outcome) {
        let base = self.base();
        let input = match outcome {
            Outcome::Collection(collection) => {
                self.shared.counters.collections.fetch_add(1, Ordering::Relaxed);
                Input::Collection {
                    collection,
                    base,
                    held_back_ns: self.held_back_ns,
                }
            }
            Outcome::Suspension(suspension) => Input::Suspension {
                suspension: Box::new(suspension),
                base,
            },
        };
        let at = match self.run.clock() {
            Clock::Live => {
                let clocks = clocks();
                At {
                    now: clocks.moment(),
                    wall: self.shared.observe_clocks(clocks),
                }
            }
            Clock::Recorded => self.shared.at(now()),
        };
        self.run.hand(at, input);
    }

    /// Outcomes are kept back for so long before they are observed: that is no lag.
    pub fn held_back(&mut self, ns: u64) {
        self.held_back_ns = ns;
    }

    /// Requests that ended: counted, and those that lost much get the pauses into their own traces.
    pub fn requests(&mut self, requests: &[Request], base: TimeBase) {
        let requests = requests.to_vec();
        self.hand(Input::Requests { requests, base });
    }

    /// Requests are not read from now on, and why; `None`: they are read again.
    pub fn requests_unread(&mut self, why: Option<String>) {
        self.hand(Input::RequestsUnread(why));
    }

    /// What has begun and not ended, by the events that came so far.
    pub fn open(&mut self, open: Open) {
        let base = self.base();
        self.hand(Input::Open { open, base });
    }

    /// How far the session's stream was read.
    pub fn progress(&mut self, progress: StreamProgress) {
        self.hand(Input::Progress(progress));
    }

    /// Whether the stream brings more than is read of it.
    pub fn undrained(&mut self, is: bool) {
        self.hand(Input::Undrained(is));
    }

    /// The stream is over. `in_order`: the runtime ended it, as it does when the process exits by itself.
    pub fn closed(&mut self, in_order: bool) {
        self.hand(Input::Closed { in_order });
    }

    /// What another tool's session left behind in the process was healed.
    pub fn healed(&mut self) {
        self.hand(Input::Healed);
    }

    /// The process exited: its metrics are exported a last time, then its series end.
    pub fn end(mut self) {
        self.ended = true;
        self.shared.end(&self.run);
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        if !self.ended {
            self.hand(Input::ReaderLeft);
        }
    }
}
