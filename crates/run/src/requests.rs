//! Share of a process's requests that collections touched recently, counted in intervals of 10 s, and the requests that
//! lost the most time in the last 30 minutes. Pure.
//!
//! Uses at most 24 KiB, and nothing while no request is observed.

use base::time::{Moment, TimeBase, Wall};
use gc_requests::request::Request;
use rule_engine::field::RequestFacts;

use api::view::{ReportedRequests, RequestTally};

/// Number and length of the intervals in which requests are counted.
const PARTS: u64 = 6;
const PART_NS: u64 = 10_000_000_000;

/// Number and length of the intervals in which the requests that lost the most are kept, 30 minutes in total.
const LONG_PARTS: u64 = 6;
const LONG_PART_NS: u64 = 300_000_000_000;

/// Maximum number of requests kept per interval, and of stops per request.
const MAX_REQUESTS_PER_INTERVAL: usize = 8;
const KEPT_STOPS: usize = 16;

/// Maximum number of requests shown.
const MAX_SHOWN_REQUESTS: usize = 20;

/// Counts of the requests that ended in one interval.
#[derive(Debug, Clone, Copy, Default)]
struct SlicedRequests {
    number: u64,
    judged: u64,
    touched: u64,
}

/// Requests of the last minute, and the worst requests of the last 30 minutes.
#[derive(Debug, Default)]
pub struct RecentRequests {
    parts: [SlicedRequests; PARTS as usize],
    /// Whether a request has been evaluated since the session started, which means that requests are observed.
    observed: bool,
    /// Worst requests, by number of the interval.
    long: Vec<(u64, RequestTally)>,
    /// Reason why requests are not read now; `None` if they are read or were not requested.
    unread: Option<String>,
}

impl RecentRequests {
    /// Adds a finished request. A request that is part of another request does not count.
    pub(crate) fn observe(&mut self, request: &Request, base: TimeBase, wall: Wall) {
        if request.ended.is_part {
            return;
        }
        let ended = base.moment(request.end);
        // While requests are not read, only a part of them still arrives, so the share is unknown.
        if let (Some(stopped_ns), None) = (request.stopped_ns, &self.unread) {
            self.count(stopped_ns > 0, ended);
        }
        let number = ended.ns() / LONG_PART_NS;
        let newest = self.long.iter().map(|(number, _)| *number).max().unwrap_or(number);
        if number + LONG_PARTS <= newest {
            return;
        }
        if number > newest {
            self.long.retain(|(kept, _)| kept + LONG_PARTS > number);
        }
        let place = match self.long.iter().position(|(kept, _)| *kept == number) {
            Some(place) => place,
            None => {
                self.long
                    .push((number, RequestTally::new(MAX_REQUESTS_PER_INTERVAL, KEPT_STOPS)));
                self.long.len() - 1
            }
        };
        if let Some((_, tally)) = self.long.get_mut(place) {
            tally.observe(request, base.unix(wall));
        }
    }

    /// Returns the worst requests of the last 30 minutes, in steps of five minutes, or `None` if requests are not
    /// observed.
    pub fn worst(&self, now: Moment) -> Option<ReportedRequests> {
        let newest = now.ns() / LONG_PART_NS;
        let recent = self.long.iter().filter(|(number, _)| number + LONG_PARTS > newest);
        let is_any = self.observed || !self.long.is_empty();
        is_any.then(|| {
            let mut all = ReportedRequests::default();
            for (_, tally) in recent {
                all.add(tally.record(), MAX_SHOWN_REQUESTS);
            }
            all
        })
    }

    /// Counts a request that ended at `ended`. `touched` is whether a collection stopped the request. A late request
    /// counts in the interval in which it ended, unless a newer interval has replaced this interval after a minute.
    fn count(&mut self, touched: bool, ended: Moment) {
        self.observed = true;
        let number = ended.ns() / PART_NS;
        let Some(part) = self.parts.get_mut((number % PARTS) as usize) else {
            return;
        };
        if part.number < number {
            *part = SlicedRequests {
                number,
                ..SlicedRequests::default()
            };
        }
        if part.number == number {
            part.judged += 1;
            part.touched += u64::from(touched);
        }
    }

    /// Returns the counts of the last minute, or `None` if requests are not observed.
    pub fn facts(&self, now: Moment) -> Option<RequestFacts> {
        let newest = now.ns() / PART_NS;
        let recent = self.parts.iter();
        let recent = recent.filter(|part| part.number + PARTS > newest && part.number <= newest);
        self.observed.then(|| {
            recent.fold(RequestFacts::default(), |sum, part| RequestFacts {
                judged: sum.judged + part.judged,
                touched: sum.touched + part.touched,
            })
        })
    }

    /// Sets the reason why requests are no longer read, or `None` if they are read again. The requests of the last 30
    /// minutes are kept, and the last minute becomes unknown.
    pub(crate) fn set_unread(&mut self, why: Option<String>) {
        if why.is_some() {
            (self.parts, self.observed) = Default::default();
        }
        self.unread = why;
    }

    /// Returns the reason why requests are not read now, or `None` if they are read or were not requested.
    pub fn unread(&self) -> Option<&str> {
        self.unread.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a request of 5 ms.
    fn request(end: i64, stopped_ns: Option<i64>) -> Request {
        Request {
            ended: gc_requests::payload::CompletedRequest::default(),
            start: Some(end - 5_000_000),
            end,
            stopped_ns,
            stops: 1,
            hits: Vec::new(),
        }
    }

    /// Scenario: there are no requests; then 100 requests in a minute, every fourth of them touched; then no requests
    /// for a minute; then one request is reported on time and one request two minutes late.
    /// Guarantee: the counts are unknown, then exact, then zero, and the late request does not count.
    #[test]
    fn requests_of_last_minute_are_counted() {
        let at = |second: u64| Moment::from_ns(1_767_323_040_000_000_000 + second * 1_000_000_000);
        let mut requests = RecentRequests::default();
        assert_eq!(requests.facts(at(0)), None);
        for index in 0..100 {
            requests.count(index % 4 == 0, at(index / 2));
        }
        let all = RequestFacts {
            judged: 100,
            touched: 25,
        };
        assert_eq!(requests.facts(at(50)), Some(all));
        assert_eq!(requests.facts(at(69)).unwrap().judged, 80);
        assert_eq!(requests.facts(at(120)), Some(RequestFacts::default()));
        requests.count(true, at(130));
        requests.count(true, at(10));
        let one = RequestFacts { judged: 1, touched: 1 };
        assert_eq!(requests.facts(at(130)), Some(one));
    }

    /// Scenario: requests are read, then no longer read, then read again.
    /// Guarantee: while they are not read, the last minute is unknown and the reason is available; the worst requests
    /// from before are still shown.
    #[test]
    fn unread_requests_are_unknown() {
        let base = TimeBase::at(1_767_322_800_000_000_000);
        let request = request(5_000_000, Some(1_000_000));
        let now = base.moment(6_000_000);
        let mut requests = RecentRequests::default();
        requests.observe(&request, base, Wall::UNIX);
        assert_eq!(requests.facts(now).unwrap().touched, 1);
        requests.set_unread(Some("too many".to_owned()));
        assert_eq!(requests.facts(now), None);
        assert_eq!(requests.unread(), Some("too many"));
        assert_eq!(requests.worst(now).unwrap().hit, 1);
        requests.observe(&request, base, Wall::UNIX);
        assert_eq!(requests.facts(now), None);
        requests.set_unread(None);
        requests.observe(&request, base, Wall::UNIX);
        assert_eq!(requests.facts(now).unwrap().judged, 1);
        assert_eq!(requests.unread(), None);
    }

    /// Scenario: two requests end per second for 40 minutes; the loss of each in nanoseconds decreases with its number,
    /// and every third loss is unknown.
    /// Guarantee: the counts cover the last 30 minutes, the list has the requests with the highest losses in that time,
    /// highest first, and the kept requests are bounded.
    #[test]
    fn worst_requests_are_kept_for_30_minutes() {
        let mut requests = RecentRequests::default();
        assert_eq!(requests.worst(Moment::FIRST), None);
        let base = TimeBase::at(1_767_322_800_000_000_000);
        let second = |second: i64| second * 1_000_000_000;
        for number in 0..4800_i64 {
            let end = second(number / 2);
            let request = request(end, (number % 3 != 0).then_some(4800 - number));
            requests.observe(&request, base, Wall::UNIX);
        }
        let all = requests.worst(base.moment(second(2399))).unwrap();
        // The interval starts at minute 10, when the losses were highest.
        assert_eq!((all.count, all.known, all.hit), (3600, 2400, 2400));
        let lost: Vec<i64> = all.worst.iter().map(|request| request.stopped_ns).collect();
        assert_eq!(lost[..4], [3599, 3598, 3596, 3595]);
        assert_eq!(lost.len(), MAX_SHOWN_REQUESTS);
        assert!(lost.is_sorted_by(|one, next| one > next), "{lost:?}");
        let kept: usize = requests.long.iter().map(|(_, tally)| tally.record().worst.len()).sum();
        assert_eq!((requests.long.len(), kept), (6, 6 * MAX_REQUESTS_PER_INTERVAL));
    }
}
