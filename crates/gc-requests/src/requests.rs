//! Turns events into requests.

use std::collections::VecDeque;

use clr_gc::stream::Observed;

use crate::payload::{CompletedRequest, EndedActivity};
use crate::request::{MAX_NAMED_STOPS, Request};
use crate::route::Routes;
use crate::session::{ACTIVITY_STOP, EVENT, MESSAGE, PROVIDER};
use crate::stops::{MAX_STOPS, Stops};

/// Maximum number of requests that wait for evaluation. While this many requests wait, [`Requests::next`] returns the
/// oldest request without evaluation, with unknown lost time.
pub const MAX_WAITING: usize = 16_384;

/// Time after the start of a session within which the provider processes the filter of this session. The processing
/// takes 0.25 s.
const OWN_FILTER_TIMEOUT_NS: i64 = 2_000_000_000;

/// Maximum change of the offset between the clocks from one reading to the next, while the wall clock is slewed.
const CLOCKS_APART_NS: i64 = 5_000_000;

/// Conversion of a request's start from the wall clock to the clock of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Clock {
    /// Unix nanoseconds of the stream's sync point, from the two clocks of the host; `None` if still unknown.
    Live(Option<i64>),
    /// A recording. The wall clock of its header is truncated to 1 ms and refined by the requests: no request ended
    /// before it started, so the shortest request shows the offset best.
    Recorded,
}

/// The requests of one process.
#[derive(Debug)]
pub struct Requests {
    clock: Clock,
    routes: Routes,
    stops: Stops,
    waiting: VecDeque<(CompletedRequest, i64)>,
    max_waiting: usize,
    /// Maximum difference between the start (Unix) and the end (stream) of a request, in nanoseconds; `None` before the
    /// first request with a start.
    distance: Option<i64>,
    /// Sync point of the header, in Unix nanoseconds; `None` before the first event.
    header_unix_ns: Option<i64>,
    seen: u64,
    /// Whether a request without a parent was sampled, which only an SDK does.
    shows_sdk: bool,
    /// Time at which the filter of another session replaced the filter of this session; `None` if it was not replaced.
    taken: Option<i64>,
}

impl Requests {
    /// Creates the requests of a live process. Stops are retained for `keep_ns`, which is the maximum duration of a
    /// request whose lost time can be determined.
    pub fn live(keep_ns: i64) -> Self {
        Self {
            max_waiting: MAX_WAITING,
            ..Self::new(Clock::Live(None), Stops::new(keep_ns, MAX_STOPS))
        }
    }

    /// Sets the classes of the requests.
    #[must_use]
    pub fn with_routes(self, routes: Routes) -> Self {
        Self { routes, ..self }
    }

    /// Creates the requests of a recording, which can have any length. Take the requests after the recording has been
    /// read to its end.
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

    /// Processes an event. Returns `false` if the maximum number of requests wait. The caller must then take requests
    /// with [`Self::next`].
    pub fn observe(&mut self, observed: &Observed<'_>) -> bool {
        let metadata = observed.event.metadata;
        if observed.layout.is_none() {
            if metadata.provider == PROVIDER {
                if metadata.name == EVENT {
                    if let Some(ended) = CompletedRequest::read(observed.event.payload) {
                        self.ended(ended, observed);
                    }
                } else if metadata.name == ACTIVITY_STOP {
                    if let Some(EndedActivity { ended, end_unix_ns }) =
                        EndedActivity::read(observed.event.payload, &self.routes)
                    {
                        self.reported(ended, end_unix_ns, observed.at);
                    }
                } else if metadata.name == MESSAGE && observed.at > OWN_FILTER_TIMEOUT_NS {
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

    /// Adds a request that its own span reported, with its end in Unix nanoseconds of this host. The stops are added by
    /// [`Self::observe`]. `now` is in nanoseconds since the sync point. Returns `false` if the request was not added,
    /// because the maximum number of requests wait, or because the offset between the clocks is still unknown.
    pub fn reported(&mut self, ended: CompletedRequest, end_unix_ns: i64, now: i64) -> bool {
        let Some(base) = self.base().filter(|_| self.waiting.len() < self.max_waiting) else {
            return false;
        };
        self.seen += 1;
        let end = end_unix_ns.saturating_sub(base);
        // An end in the future comes from a wrong clock. The start is wrong by the same amount, so it becomes unknown.
        let start_unix_ns = ended
            .start_unix_ns
            .filter(|_| end <= now.saturating_add(CLOCKS_APART_NS));
        let ended = self.classed(CompletedRequest { start_unix_ns, ..ended });
        self.waiting.push_back((ended, end.min(now)));
        true
    }

    fn ended(&mut self, ended: CompletedRequest, observed: &Observed<'_>) {
        self.seen += 1;
        self.shows_sdk |= ended.sampled == Some(true) && ended.parent_span_id.is_none();
        // A damaged time is limited to the time of the event that contains it.
        let end = observed.header.offset_ns(ended.end_ticks).min(observed.at);
        if let Some(start) = ended.start_unix_ns {
            let distance = start.saturating_sub(end);
            self.distance = Some(self.distance.map_or(distance, |known| known.max(distance)));
        }
        self.waiting.push_back((self.classed(ended), end));
    }

    /// Replaces the path of a request with its class.
    fn classed(&self, mut ended: CompletedRequest) -> CompletedRequest {
        if let Some(path) = ended.path.take() {
            ended.route = self.routes.class(&path);
        }
        ended
    }

    /// Returns the heap size, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.waiting.capacity() * size_of::<(CompletedRequest, i64)>() + self.stops.memory_bytes()
    }

    /// Returns the number of requests seen. 0 means that the process is not an ASP.NET Core service, or receives no
    /// requests.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Returns whether the flags of a request show that an SDK listens in the process. Without an SDK, a request is
    /// sampled only if its caller set the flag.
    pub fn shows_sdk(&self) -> bool {
        self.shows_sdk
    }

    /// Returns the time at which another session configured the provider, in nanoseconds since the sync point, or
    /// `None` if no other session did. All sessions share one set of filters, so requests can be missing after this
    /// time, and all requests are missing after the other session ends.
    pub fn taken(&self) -> Option<i64> {
        self.taken
    }

    /// Updates the offset between the host's two clocks, as Unix nanoseconds of the sync point.
    pub fn set_base(&mut self, unix_ns: i64) {
        self.clock = Clock::Live(Some(unix_ns));
    }

    /// Returns the Unix nanoseconds of the sync point, or `None` if they are unknown.
    fn base(&self) -> Option<i64> {
        match self.clock {
            Clock::Live(base) => base,
            Clock::Recorded => {
                let header = self.header_unix_ns?;
                // The value is within the millisecond that the header truncates, and not below the value that requests
                // prove.
                let proven = self.distance.unwrap_or(header);
                Some(proven.clamp(header, header.saturating_add(1_000_000)))
            }
        }
    }

    /// Removes and returns the next request that ended by `until`, with its lost time. Returns `None` if no such
    /// request waits. If the maximum number of requests wait, a request that ended later is returned, with unknown lost
    /// time. `is_lossy` returns whether events were lost between two times. Losses are detected up to two scans of the
    /// runtime later, so a live caller must wait for that time.
    pub fn next(&mut self, until: i64, is_lossy: impl Fn(i64, i64) -> bool) -> Option<Request> {
        let (_, end) = self.waiting.front()?;
        if *end > until && self.waiting.len() < self.max_waiting {
            return None;
        }
        let is_early = *end > until;
        let (ended, end) = self.waiting.pop_front()?;
        let base = self.base();
        let start = ended.start_unix_ns.zip(base);
        // If a clock was set, the start can be after the end.
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
        // Time in two overlapping stops counts once.
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

    /// Returns whether every stop since `from` was seen, apart from lost events.
    pub fn knows(&self, from: i64) -> bool {
        self.stops.knows(from)
    }
}
