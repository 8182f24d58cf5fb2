//! The pipeline's interface for the task that reads one process.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::time::TimeBase;
use clr_gc::gc::{OpenOperations, Outcome};
use gc_requests::request::Request;
use incidents::Recordings;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use processes::{RunState, StreamProgress};
use run::settings::Clock;
use run::{Attachment, Input, InputTime};
use targets::host::{clocks, now};
use targets::sink::RunSink;

use crate::pipeline::observed_run::ObservedRun;
use crate::pipeline::shared::Shared;

/// A feed that accepts the outcomes that one task reads from one run. If a feed is dropped without [`end`](Self::end),
/// the run stays in the pipeline, detached.
#[derive(Debug)]
pub struct Feed {
    run: Arc<ObservedRun>,
    shared: Arc<Shared>,
    base: Option<TimeBase>,
    /// Time for which outcomes were held back before they arrived here.
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

    /// Returns the run of this feed.
    pub fn run(&self) -> &Arc<ObservedRun> {
        &self.run
    }

    fn hand(&self, input: Input) {
        self.run.hand(self.shared.at(now()), input);
    }

    /// Returns the base of offsets. Before the first call to [`time_base`](Self::time_base) the base is 1970. Callers
    /// do not observe that base, because the header of a stream precedes its events.
    fn base(&self) -> TimeBase {
        self.base.unwrap_or(TimeBase::at(0))
    }
}

impl RunSink for Feed {
    fn state(&mut self, state: RunState) {
        if state != RunState::Attached {
            return self.hand(Input::State(state));
        }
        if self.run.is_attached() {
            return;
        }
        let recordings = self.shared.black_box.get().map(|black_box| black_box.recordings());
        // Take the incidents before calling `hand`, because the caller of `hand` must not hold the lock of the
        // incidents.
        let incidents = self.shared.incidents().waiting.take(self.run.key());
        self.hand(Input::Attached(Box::new(Attachment {
            base: self.base,
            rules: self.shared.rules(),
            incidents,
            recordings: recordings.map(|recordings| recordings as Arc<dyn Recordings>),
        })));
    }

    fn learned(&mut self, runtime: Option<String>, attributes: Vec<KeyValue>) {
        self.hand(Input::Learned { runtime, attributes });
    }

    fn time_base(&mut self, base: TimeBase) {
        self.base = Some(base);
    }

    fn observe(&mut self, outcome: Outcome) {
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
                InputTime {
                    now: clocks.moment(),
                    wall: self.shared.observe_clocks(clocks),
                }
            }
            Clock::Recorded => self.shared.at(now()),
        };
        self.run.hand(at, input);
    }

    fn held_back(&mut self, ns: u64) {
        self.held_back_ns = ns;
    }

    fn requests(&mut self, requests: &[Request], base: TimeBase) {
        if !requests.is_empty() {
            let requests = requests.to_vec();
            self.hand(Input::Requests { requests, base });
        }
    }

    fn requests_unread(&mut self, why: Option<String>) {
        self.hand(Input::RequestsUnread(why));
    }

    fn open(&mut self, open: OpenOperations) {
        let base = self.base();
        self.hand(Input::Open { open, base });
    }

    fn progress(&mut self, progress: StreamProgress) {
        self.hand(Input::Progress(progress));
    }

    fn undrained(&mut self, is: bool) {
        self.hand(Input::Undrained(is));
    }

    fn closed(&mut self, in_order: bool) {
        self.hand(Input::Closed { in_order });
    }

    fn healed(&mut self) {
        self.hand(Input::Healed);
    }

    fn end(mut self) {
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
