//! Events in, requests out.

use std::collections::VecDeque;

use clr_gc::stream::Observed;

use crate::payload::{Ended, EndedActivity};
use crate::request::{MAX_NAMED_STOPS, Request};
use crate::route::Routes;
use crate::session::{ACTIVITY_STOP, EVENT, MESSAGE, PROVIDER};
use crate::stops::{MAX_STOPS, Stops};

/// Requests that wait until they can be judged. More are given out unjudged: what they lost is unknown.
pub const MAX_WAITING: usize = 16_384;

/// So long after its beginning a session's own filter was read; it takes a quarter of a second.
const OWN_FILTER_WITHIN_NS: i64 = 2_000_000_000;

/// So much the distance of the clocks may change from one look at it to the next, while the wall clock is slewed.
const CLOCKS_APART_NS: i64 = 5_000_000;

/// How the start of a request, a time of the wall clock, becomes one of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Clock {
    /// Unix nanoseconds of the stream's sync point, by the host's two clocks; `None`: not known yet.
    Live(Option<i64>),
    /// A recording: the header's wall clock, which is cut to a millisecond, made better by the requests: none ended
    /// before it began, so that the shortest one shows the distance best.
    Recorded,
}

/// The requests of one process, as its events come.
#[derive(Debug)]
pub struct Requests {
    clock: Clock,
    routes: Routes,
    stops: Stops,
    waiting: VecDeque<(Ended, i64)>,
    max_waiting: usize,
    /// The greatest distance of start (Unix) and end (stream) that was seen, and the header's.
    distance: Option<i64>,
    header_unix_ns: Option<i64>,
    seen: u64,
    /// A request without a parent was sampled, which nobody but an SDK does.
    shows_sdk: bool,
    /// When another session's filter took the place of this one's.
    taken: Option<i64>,
}

impl Requests {
    /// Those of a live process. Stops are kept for `keep_ns`: as long as the longest request whose loss can be known.
    pub fn live(keep_ns: i64) -> Self {
        Self {
            max_waiting: MAX_WAITING,
            ..Self::new(Clock::Live(None), Stops::new(keep_ns, MAX_STOPS))
        }
    }

    /// Divides them into classes by their paths.
    #[must_use]
    pub fn with_routes(self, routes: Routes) -> Self {
        Self { routes, ..self }
    }

    /// Those of a recording, which is as long as it is: take them when it was read to its end.
    pub fn recorded() -> Self {
        Self::new(Clock::Recorded, Stops::new(i64::MAX, usize::MAX))
    }

    fn new(clock: Clock, stops: Stops) -> Self {
        Self {
            clock,
            routes: Routes::default(),
            stops,
            waiting: VecDeque::new(),
            max_waiting: usize::MAX,
            distance: None,
            header_unix_ns: None,
            seen: 0,
            shows_sdk: false,
            taken: None,
        }
    }

    /// Takes an event in. `false`: more requests wait than there is room for; take some.
    pub fn observe(&mut self, observed: &Observed<'_>) -> bool {
        let metadata = observed.event.metadata;
        if observed.layout.is_none() {
            if metadata.provider == PROVIDER {
                if metadata.name == EVENT {
                    if let Some(ended) = Ended::read(observed.event.payload) {
                        self.ended(ended, observed);
                    }
                } else if metadata.name == ACTIVITY_STOP {
                    if let Some(EndedActivity { ended, end_unix_ns }) =
                        EndedActivity::read(observed.event.payload, &self.routes)
                    {
                        self.reported(ended, end_unix_ns, observed.at);
                    }
                } else if metadata.name == MESSAGE && observed.at > OWN_FILTER_WITHIN_NS {
                    self.taken.get_or_insert(observed.at);
                }
            }
            return self.waiting.len() < self.max_waiting;
        }
        if self.header_unix_ns.is_none() {
            let unix_ns = observed.header.unix_ns_of_offset(0);
            self.header_unix_ns = unix_ns.and_then(|ns| i64::try_from(ns).ok());
            self.stops.begin(0);
        }
        if let Ok(clr) = &observed.decoded {
            self.stops.observe(clr, observed.event.thread, observed.at);
        }
        true
    }

    /// Takes a request in that its own span reported, with its end in Unix nanoseconds of this host; the stops come by
    /// [`Self::observe`]. `now`: nanoseconds since the sync point. `false`: as in [`Self::observe`], or the distance of
    /// the clocks is not known yet; the request was not taken.
    pub fn reported(&mut self, ended: Ended, end_unix_ns: i64, now: i64) -> bool {
        let Some(base) = self.base().filter(|_| self.waiting.len() < self.max_waiting) else {
            return false;
        };
        self.seen += 1;
        let end = end_unix_ns.saturating_sub(base);
        // An end that is still to come is a wrong clock's; the start is wrong by as much.
        let start_unix_ns = ended
            .start_unix_ns
            .filter(|_| end <= now.saturating_add(CLOCKS_APART_NS));
        let ended = self.classed(Ended { start_unix_ns, ..ended });
        self.waiting.push_back((ended, end.min(now)));
        true
    }

    fn ended(&mut self, ended: Ended, observed: &Observed<'_>) {
        self.seen += 1;
        self.shows_sdk |= ended.sampled == Some(true) && ended.parent_span_id.is_none();
        // A damaged time is not after the event that says it.
        let end = observed.header.offset_ns(ended.end_ticks).min(observed.at);
        if let Some(start) = ended.start_unix_ns {
            let distance = start.saturating_sub(end);
            self.distance = Some(self.distance.map_or(distance, |known| known.max(distance)));
        }
        self.waiting.push_back((self.classed(ended), end));
    }

    /// The same with its class in the place of its path.
    fn classed(&self, mut ended: Ended) -> Ended {
        if let Some(path) = ended.path.take() {
            ended.route = self.routes.class(&path);
        }
        ended
    }

    /// Bytes on the heap.
    pub fn memory_bytes(&self) -> usize {
        self.waiting.capacity() * size_of::<(Ended, i64)>() + self.stops.memory_bytes()
    }

    /// Requests that were seen: none is no service of ASP.NET Core, or nobody asks it.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Whether the flags of a request show that an SDK listens in the process: without one, only a caller's flag makes
    /// them sampled.
    pub fn shows_sdk(&self) -> bool {
        self.shows_sdk
    }

    /// When another session asked the provider for something, nanoseconds since the sync point: there is one set of
    /// filters. From then on requests may be missing, and when that session ends all are.
    pub fn taken(&self) -> Option<i64> {
        self.taken
    }

    /// The distance of the host's two clocks, read again: Unix nanoseconds of the sync point.
    pub fn set_base(&mut self, unix_ns: i64) {
        self.clock = Clock::Live(Some(unix_ns));
    }

    /// Unix nanoseconds of the sync point.
    fn base(&self) -> Option<i64> {
        match self.clock {
            Clock::Live(base) => base,
            Clock::Recorded => {
                let header = self.header_unix_ns?;
                // Below the millisecond that the header cut off, and not below what requests prove.
                let proven = self.distance.unwrap_or(header);
                Some(proven.clamp(header, header.saturating_add(1_000_000)))
            }
        }
    }

    /// The next request that ended before `until`, with what it lost. `is_lossy`: whether events were lost between two
    /// instants. Losses show up to two passes of the runtime later, so that a live caller waits for that.
    pub fn next(&mut self, until: i64, is_lossy: impl Fn(i64, i64) -> bool) -> Option<Request> {
        let (_, end) = self.waiting.front()?;
        if *end > until && self.waiting.len() < self.max_waiting {
            return None;
        }
        let is_early = *end > until;
        let (ended, end) = self.waiting.pop_front()?;
        let base = self.base();
        let start = ended.start_unix_ns.zip(base);
        // A clock that was set makes a start after the end.
        let start = start
            .map(|(start, base)| start.saturating_sub(base))
            .filter(|start| *start <= end);
        let mut request = Request {
            ended,
            start,
            end,
            stopped_ns: None,
            stops: 0,
            hits: Vec::new(),
        };
        let known = start.filter(|start| !is_early && self.stops.knows(*start) && !is_lossy(*start, end));
        if let Some(start) = known {
            self.judge(&mut request, start);
        }
        Some(request)
    }

    fn judge(&mut self, request: &mut Request, start: i64) {
        let mut stopped = 0_i64;
        // Where two stops overlap, time counts once.
        let mut reached = start;
        for stop in self.stops.within(start, request.end) {
            let ns = stop.end.saturating_sub(stop.begin.max(reached)).max(0);
            reached = reached.max(stop.end);
            stopped = stopped.saturating_add(ns);
            request.stops = request.stops.saturating_add(1);
            if request.hits.len() < MAX_NAMED_STOPS {
                request.hits.push(stop);
            }
        }
        request.stopped_ns = Some(stopped);
    }

    /// Whether every stop from this instant on was seen, losses aside.
    pub fn knows(&self, from: i64) -> bool {
        self.stops.knows(from)
    }
}
