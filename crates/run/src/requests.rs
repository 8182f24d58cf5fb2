//! Which share of a process's requests collections touched lately, counted by ten seconds, and which requests lost most
//! in the last half hour. Pure.
//!
//! At most 24 KiB, and nothing while no request is observed.

use base::time::{Moment, TimeBase, Wall};
use gc_requests::request::Request;
use gc_rules::field::RequestFacts;

use api::view::{ReportedRequests, RequestTally};

/// The time over which requests are counted, in parts.
const PARTS: u64 = 6;
const PART_NS: u64 = 10_000_000_000;

/// Requests that lost most are kept by so many parts of the half hour.
const LONG_PARTS: u64 = 6;
const LONG_PART_NS: u64 = 300_000_000_000;

/// How many are kept in each part, and how many stops of each.
const KEPT: usize = 8;
const KEPT_STOPS: usize = 16;

/// How many are shown.
const SHOWN: usize = 20;

/// Requests that ended in one part.
#[derive(Debug, Clone, Copy, Default)]
struct SlicedRequests {
    number: u64,
    judged: u64,
    touched: u64,
}

/// The requests of the last minute.
#[derive(Debug, Default)]
pub struct RecentRequests {
    parts: [SlicedRequests; PARTS as usize],
    /// One was judged since the session began: they are observed.
    observed: bool,
    /// By the number of the part.
    long: Vec<(u64, RequestTally)>,
    /// Why they are not read now.
    unread: Option<String>,
}

impl RecentRequests {
    /// A request ended. A part of another one does not count here.
    pub(crate) fn observe(&mut self, request: &Request, base: TimeBase, wall: Wall) {
        if request.ended.is_part {
            return;
        }
        let ended = base.moment(request.end);
        // Those that still come are a part of them: no share of them is known.
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
                self.long.push((number, RequestTally::new(KEPT, KEPT_STOPS)));
                self.long.len() - 1
            }
        };
        if let Some((_, tally)) = self.long.get_mut(place) {
            tally.observe(request, base.unix(wall));
        }
    }

    /// Those of the last half hour, in steps of five minutes; `None`: requests are not observed.
    pub fn worst(&self, now: Moment) -> Option<ReportedRequests> {
        let newest = now.ns() / LONG_PART_NS;
        let recent = self.long.iter().filter(|(number, _)| number + LONG_PARTS > newest);
        let is_any = self.observed || !self.long.is_empty();
        is_any.then(|| {
            let mut all = ReportedRequests::default();
            for (_, tally) in recent {
                all.add(tally.record(), SHOWN);
            }
            all
        })
    }

    /// A request ended then, and it is known whether a collection stopped it. Late ones count where they ended, unless
    /// that is over a minute ago.
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

    /// Those of the last minute; `None`: requests are not observed.
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

    /// They are not read from now on, and why; `None`: they are read again. What was seen in the last half hour stays,
    /// the last minute is unknown.
    pub(crate) fn set_unread(&mut self, why: Option<String>) {
        if why.is_some() {
            (self.parts, self.observed) = Default::default();
        }
        self.unread = why;
    }

    /// Why they are not read now; `None`: they are, or nobody asked for them.
    pub fn unread(&self) -> Option<&str> {
        self.unread.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request of 5 ms.
    fn request(end: i64, stopped_ns: Option<i64>) -> Request {
        Request {
            ended: gc_requests::payload::Ended::default(),
            start: Some(end - 5_000_000),
            end,
            stopped_ns,
            stops: 1,
            hits: Vec::new(),
        }
    }

    /// Scenario: no requests; a hundred in a minute of which every fourth is touched; then none for a minute; one that
    /// is reported two minutes late.
    /// Guarantee: unknown, then exact, then nothing; what is too late does not count.
    #[test]
    fn the_last_minute_counts() {
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

    /// Scenario: requests are read, then not any more; they are read again.
    /// Guarantee: from then on the last minute is unknown and the reason is kept; what lost most before is shown.
    #[test]
    fn what_is_not_read_any_more_is_unknown() {
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

    /// Scenario: for forty minutes two requests end each second; each loses as many nanoseconds as its number, of every
    /// third it is not known.
    /// Guarantee: the counts are of the last half hour, the list has those that lost most in it, most first, and what is
    /// kept is bounded.
    #[test]
    fn those_that_lost_most_are_kept_for_half_an_hour() {
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
        // Since minute 10, and the most was lost then.
        assert_eq!((all.count, all.known, all.hit), (3600, 2400, 2400));
        let lost: Vec<i64> = all.worst.iter().map(|request| request.stopped_ns).collect();
        assert_eq!(lost[..4], [3599, 3598, 3596, 3595]);
        assert_eq!(lost.len(), SHOWN);
        assert!(lost.is_sorted_by(|one, next| one > next), "{lost:?}");
        let kept: usize = requests.long.iter().map(|(_, tally)| tally.record().worst.len()).sum();
        assert_eq!((requests.long.len(), kept), (6, 6 * KEPT));
    }
}
