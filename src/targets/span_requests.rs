//! Requests that their own spans report, laid over the stops of the process's main session.

use clr_gc::gc::LIVE_SETTLE_NS;
use clr_gc::stream::{GcStream, Observed};
use gc_requests::requests::Requests;
use gc_rules::time::TimeBase;
use tokio::time::{Duration, Instant};

use crate::targets::directory::Registered;
use crate::targets::host::clocks;
use crate::targets::options::RequestOptions;
use crate::targets::requests::Batch;

/// How often spans that came are looked at: exporters send them seconds late.
const EVERY: Duration = Duration::from_secs(1);

/// Those of one process.
#[derive(Debug)]
pub(crate) struct SpanRequests {
    place: Registered,
    requests: Requests,
    next: Instant,
}

impl SpanRequests {
    /// Stops are kept for as long as the longest request whose loss can be known.
    pub(crate) fn new(place: Registered, options: &RequestOptions, now: Instant) -> Self {
        let keep = i64::try_from(options.longest.as_nanos()).unwrap_or(i64::MAX);
        Self {
            place,
            requests: Requests::live(keep).with_routes(options.routes.clone()),
            next: now + EVERY,
        }
    }

    /// An event of the main session: the edges of its stops.
    pub(crate) fn observe(&mut self, observed: &Observed<'_>) {
        self.requests.observe(observed);
    }

    /// Bytes on the heap.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.requests.memory_bytes()
    }

    /// When spans are looked at next.
    pub(crate) fn next(&self) -> Instant {
        self.next
    }

    /// The requests that came and can be judged. `is_over`: the stream is, so that nothing is waited for.
    pub(crate) fn judged(
        &mut self,
        stream: &GcStream,
        base: Option<TimeBase>,
        now: Instant,
        is_over: bool,
    ) -> Option<Batch> {
        if now < self.next && !is_over {
            return None;
        }
        self.next = now + EVERY;
        // Where the clocks' distance is not known they wait where they are.
        let (header, base) = (stream.header()?, base?);
        let unix_ns = i64::try_from(base.unix_ns(0)).ok()?;
        self.requests.set_base(unix_ns);
        let offset = i64::try_from(clocks().unix_ns)
            .unwrap_or(i64::MAX)
            .saturating_sub(unix_ns);
        let until = if is_over {
            i64::MAX
        } else {
            offset.saturating_sub(LIVE_SETTLE_NS)
        };
        let mut requests = Vec::new();
        let mut judge = |from: &mut Requests| {
            let next = || from.next(until, |from, to| stream.is_lossy(from, to));
            requests.extend(std::iter::from_fn(next));
        };
        for reported in self.place.take() {
            if !self
                .requests
                .reported(reported.ended.clone(), reported.end_unix_ns, offset)
            {
                judge(&mut self.requests);
                self.requests.reported(reported.ended, reported.end_unix_ns, offset);
            }
        }
        judge(&mut self.requests);
        (!requests.is_empty()).then_some(Batch {
            requests,
            sync_ticks: header.sync_ticks,
            // Not every request has a span that came in time: a collection without one may have stopped some.
            since_ticks: None,
        })
    }
}
