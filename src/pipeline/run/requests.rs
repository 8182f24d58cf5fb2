//! Which share of a process's requests collections touched lately: counts by ten seconds. Pure.

use gc_rules::field::RequestFacts;

/// The time over which requests are counted, in parts.
const PARTS: u64 = 6;
const PART_NS: u64 = 10_000_000_000;

/// Requests that ended in one part.
#[derive(Debug, Clone, Copy, Default)]
struct Part {
    number: u64,
    judged: u64,
    touched: u64,
}

/// The requests of the last minute.
#[derive(Debug, Default)]
pub(crate) struct RecentRequests {
    parts: [Part; PARTS as usize],
    /// One was judged since the session began: they are observed.
    observed: bool,
}

impl RecentRequests {
    /// A request ended then, and it is known whether a collection stopped it. Late ones count where they ended, unless
    /// that is over a minute ago.
    pub(crate) fn observe(&mut self, touched: bool, ended_unix_ns: u64) {
        self.observed = true;
        let number = ended_unix_ns / PART_NS;
        let Some(part) = self.parts.get_mut((number % PARTS) as usize) else {
            return;
        };
        if part.number < number {
            *part = Part {
                number,
                ..Part::default()
            };
        }
        if part.number == number {
            part.judged += 1;
            part.touched += u64::from(touched);
        }
    }

    /// Those of the last minute; `None`: requests are not observed.
    pub(crate) fn facts(&self, now_unix_ns: u64) -> Option<RequestFacts> {
        let newest = now_unix_ns / PART_NS;
        let recent = self.parts.iter();
        let recent = recent.filter(|part| part.number + PARTS > newest && part.number <= newest);
        self.observed.then(|| {
            recent.fold(RequestFacts::default(), |sum, part| RequestFacts {
                judged: sum.judged + part.judged,
                touched: sum.touched + part.touched,
            })
        })
    }

    /// Nothing is known of requests any more: a session began, or the wall clock was set.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: no requests; a hundred in a minute of which every fourth is touched; then none for a minute; one that
    /// is reported two minutes late.
    /// Guarantee: unknown, then exact, then nothing; what is too late does not count.
    #[test]
    fn the_last_minute_counts() {
        let at = |second: u64| 1_767_323_040_000_000_000 + second * 1_000_000_000;
        let mut requests = RecentRequests::default();
        assert_eq!(requests.facts(at(0)), None);
        for index in 0..100 {
            requests.observe(index % 4 == 0, at(index / 2));
        }
        let all = RequestFacts {
            judged: 100,
            touched: 25,
        };
        assert_eq!(requests.facts(at(50)), Some(all));
        assert_eq!(requests.facts(at(69)).unwrap().judged, 80);
        assert_eq!(requests.facts(at(120)), Some(RequestFacts::default()));
        requests.observe(true, at(130));
        requests.observe(true, at(10));
        let one = RequestFacts { judged: 1, touched: 1 };
        assert_eq!(requests.facts(at(130)), Some(one));
        requests.forget();
        assert_eq!(requests.facts(at(130)), None);
    }
}
