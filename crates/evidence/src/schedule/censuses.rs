//! The heap dumps of the schedule: the first dumps that wait for their second dump, and the times of censuses by
//! service. The schedule keeps a few megabytes per incident, for at most [`MAX_FIRST`] incidents.

use std::collections::BTreeMap;

use base::time::Moment;
use clr_heap::survey::Survey;
use incidents::{Finding, FoundCensus, QuotaOwner};

use crate::census::{self, First, History, Plan};

use super::{RequestKey, passed, remember};

/// Maximum number of first dumps that wait for their second dump. Beyond this number, the oldest incident gets no
/// comparison.
const MAX_FIRST: usize = 4;

/// The heap dumps of a schedule.
#[derive(Debug, Default)]
pub(super) struct Censuses {
    /// The first dump of each incident, the end time of the dump, and its finding.
    first: BTreeMap<RequestKey, (Moment, First, FoundCensus)>,
    /// Time of the first dump of the newest census of each service.
    of_service: BTreeMap<QuotaOwner, Moment>,
}

impl Censuses {
    /// Returns the history of dumps for an incident.
    pub(super) fn history(&self, key: &RequestKey, share: &QuotaOwner, now: Moment) -> History {
        let ago = |at: Moment| passed(at, now);
        History {
            first: self.first.get(key).map(|(at, first, _)| (ago(*at), first.seen)),
            of_service: self.of_service.get(share).map(|at| ago(*at)),
        }
    }

    /// Records that a dump was requested, whatever its outcome. The first dump of an incident counts as the census of
    /// its service.
    pub(super) fn had(&mut self, key: &RequestKey, share: &QuotaOwner, now: Moment) {
        if !self.first.contains_key(key) {
            remember(&mut self.of_service, share.clone(), now);
        }
    }

    /// Records a dump, and returns the finding for its incident.
    pub(super) fn surveyed(&mut self, key: RequestKey, survey: Survey, plan: Plan, now: Moment) -> Finding {
        if let Some((at, first, _)) = self.first.remove(&key) {
            return Finding::Census(census::compared(&first, &survey, passed(at, now)));
        }
        let found = census::alone(&survey);
        let first = First::from_survey(survey, plan.live_bytes);
        self.first.insert(key, (now, first, found.clone()));
        if self.first.len() > MAX_FIRST {
            let oldest = self.first.iter().min_by_key(|(_, (at, ..))| *at);
            if let Some(oldest) = oldest.map(|(key, _)| *key) {
                self.first.remove(&oldest);
            }
        }
        Finding::Census(found)
    }

    /// Returns the finding for an incident whose dump failed for the given reason. If there was a first dump, its
    /// finding is kept.
    pub(super) fn none(&mut self, key: &RequestKey, because: String) -> Finding {
        Finding::Census(match self.first.remove(key) {
            Some((.., found)) => FoundCensus {
                alone_because: Some(because),
                ..found
            },
            None => FoundCensus::none(because),
        })
    }

    /// Drops the incidents that no longer request a dump.
    pub(super) fn retain(&mut self, wants: impl Fn(&RequestKey) -> bool) {
        self.first.retain(|key, _| wants(key));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clr_heap::survey::TypeRow;
    use rule_engine::rule::Evidence;

    use super::*;
    use base::run_key::RunKey;

    fn at(seconds: u64) -> Moment {
        Moment::from_ns(seconds * 1_000_000_000)
    }

    fn key(incident: u64) -> RequestKey {
        let run = RunKey { pid: 7, start_time: 5 };
        (run, incident, Evidence::Census)
    }

    fn share() -> QuotaOwner {
        QuotaOwner {
            tenant: "shop".into(),
            service: "orders".into(),
        }
    }

    fn survey(objects: u64) -> Survey {
        let mut survey = Survey::default();
        survey.heap.pid = Some(7);
        (survey.heap.objects, survey.heap.bytes) = (objects, objects * 24);
        survey.types.push(TypeRow {
            r#type: "Leaked".to_owned(),
            raw_type: String::new(),
            type_id: 1,
            module: 1,
            objects,
            bytes: objects * 24,
            retained: None,
        });
        survey
    }

    fn found(finding: Finding) -> FoundCensus {
        match finding {
            Finding::Census(found) => found,
            other => panic!("{other:?}"),
        }
    }

    const PLAN: Plan = Plan {
        buffer_mb: 1,
        live_bytes: 24_000,
    };

    /// Scenario: an incident gets two dumps; another incident gets a first dump, and its second dump is refused; a
    /// third incident gets only a refusal.
    /// Guarantee: the first dump lists the live objects, and the second dump lists the growth. A refusal keeps the
    /// finding of the first dump and adds the reason. The first dump counts as the census of the service, and the
    /// second does not.
    #[test]
    fn second_dump_is_compared_with_first() {
        let (mut censuses, share) = (Censuses::default(), share());
        censuses.had(&key(1), &share, at(0));
        let first = found(censuses.surveyed(key(1), survey(1_000), PLAN, at(0)));
        assert!(!first.is_final() && first.types[0].objects == 1_000);
        let history = censuses.history(&key(1), &share, at(300));
        let (ago, seen) = history.first.unwrap();
        assert_eq!((ago.as_secs(), seen.live_bytes, seen.objects), (300, 24_000, 1_000));
        censuses.had(&key(1), &share, at(300));
        let second = found(censuses.surveyed(key(1), survey(1_500), PLAN, at(300)));
        assert_eq!((second.apart_s, second.types[0].grown_objects), (Some(300), Some(500)));
        let history = censuses.history(&key(1), &share, at(301));
        assert_eq!(
            (history.first, history.of_service),
            (None, Some(Duration::from_secs(301)))
        );

        let _alone = censuses.surveyed(key(2), survey(9), PLAN, at(400));
        let refused = found(censuses.none(&key(2), "the container is full".to_owned()));
        assert_eq!(refused.alone_because.as_deref(), Some("the container is full"));
        assert!(refused.none_because.is_none() && refused.types[0].objects == 9);
        let none = found(censuses.none(&key(3), "busy".to_owned()));
        assert_eq!(none, FoundCensus::none("busy".to_owned()));
    }

    /// Scenario: more incidents have a first dump than are kept; then incidents end.
    /// Guarantee: the oldest first dump is dropped, and so are first dumps whose incidents no longer request a dump.
    #[test]
    fn number_of_kept_first_dumps_is_limited() {
        let (mut censuses, share) = (Censuses::default(), share());
        for incident in 0..=MAX_FIRST as u64 {
            let _alone = censuses.surveyed(key(incident), survey(1), PLAN, at(incident));
        }
        let has = |censuses: &Censuses, incident| censuses.history(&key(incident), &share, at(9)).first.is_some();
        assert!(!has(&censuses, 0) && has(&censuses, 1) && has(&censuses, MAX_FIRST as u64));
        censuses.retain(|key| key.1 == 1);
        assert!(has(&censuses, 1) && !has(&censuses, 2));
    }
}
