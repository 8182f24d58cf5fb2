//! Decides which incidents are recorded, and names the recordings.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::Arc;

use base::run_key::RunKey;
use base::time::{Moment, Wall};

use super::record::id_of;
use super::{Incident, RECORDED_NS, RECORDS_INTERVAL_NS};

/// Maximum length of the process name in an id, in characters.
const MAX_NAME: usize = 40;

/// Maximum number of recordings that are remembered. The oldest recording is evicted.
const MAX_BEGUN: usize = 4096;

/// The owner of a share of resources that all processes have in common: queue slots, turns, files.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QuotaOwner {
    /// The namespace, pod, container or user, which a process cannot choose.
    pub tenant: Arc<str>,
    /// The service within the tenant. A process can choose this name.
    pub service: Arc<str>,
}

/// Registry of started recordings of all processes: a [`BegunRecordings`] behind the lock of its owner.
pub trait Recordings: Debug + Send + Sync {
    /// See [`BegunRecordings::begin`].
    ///
    /// # Errors
    ///
    /// Returns the id of the existing recording if the rule of this service was recorded in the last ten minutes. No
    /// recording starts in this case.
    fn begin(&self, share: &QuotaOwner, rule: &Arc<str>, at: Moment, id: &Arc<str>) -> Result<(), Arc<str>>;
}

/// The recordings of all processes that started in the last ten minutes ([`RECORDS_INTERVAL_NS`]). Each rule of a
/// service has at most one recording in this time.
#[derive(Debug, Default)]
pub struct BegunRecordings(VecDeque<StartedRecording>);

#[derive(Debug)]
struct StartedRecording {
    at: Moment,
    share: QuotaOwner,
    rule: Arc<str>,
    id: Arc<str>,
}

impl BegunRecordings {
    /// Starts a recording for a rule or for another reason.
    ///
    /// # Errors
    ///
    /// Returns the id of the existing recording if the rule of this service was recorded in the last ten minutes. No
    /// recording starts in this case.
    pub fn begin(&mut self, share: &QuotaOwner, rule: &Arc<str>, at: Moment, id: &Arc<str>) -> Result<(), Arc<str>> {
        let begun = &mut self.0;
        begun.retain(|one| at.since(one.at) < RECORDS_INTERVAL_NS);
        if let Some(one) = begun.iter().find(|one| one.rule == *rule && one.share == *share) {
            return Err(Arc::clone(&one.id));
        }
        if begun.len() >= MAX_BEGUN {
            begun.pop_front();
        }
        begun.push_back(StartedRecording {
            at,
            share: share.clone(),
            rule: Arc::clone(rule),
            id: Arc::clone(id),
        });
        Ok(())
    }

    /// Removes a recording that was not written, so that the next recording can start.
    pub fn forget(&mut self, id: &str) {
        self.0.retain(|one| *one.id != *id);
    }

    /// Returns the owner of the recording with this id, or `None` if there is no such recording.
    pub fn share(&self, id: &str) -> Option<QuotaOwner> {
        let mut begun = self.0.iter();
        begun.find(|one| *one.id == *id).map(|one| one.share.clone())
    }
}

/// The recorder of a process whose events are retained.
#[derive(Debug)]
pub(super) struct Recorder {
    run: RunKey,
    process: Arc<str>,
    share: QuotaOwner,
    recordings: Arc<dyn Recordings>,
    /// Start and id of the newest recording; `None` before the first recording.
    newest: Option<(Moment, Arc<str>)>,
}

impl Recorder {
    pub(super) fn new(run: RunKey, process: Arc<str>, share: QuotaOwner, recordings: Arc<dyn Recordings>) -> Self {
        Self {
            run,
            process,
            share,
            recordings,
            newest: None,
        }
    }

    /// Changes the owner of the process.
    pub(super) fn belongs(&mut self, share: QuotaOwner) {
        self.share = share;
    }

    /// Records an incident that is severe enough and not recorded yet. Returns whether the incident now has a
    /// recording: a recording of the current events, or an existing recording of the same rule and service.
    pub(super) fn record(&mut self, incident: &mut Incident, now: Moment, wall: Wall) -> bool {
        if incident.black_box.is_some() || incident.process_ended.is_some() || !incident.is_recorded() {
            return false;
        }
        if let Some((began, id)) = &self.newest
            && now.since(*began) < RECORDED_NS
        {
            incident.black_box = Some(Arc::clone(id));
            return true;
        }
        let what = id_of(incident, Some(self.run));
        let id = recording_id(wall.unix_ns(now), &self.process, self.run.pid, &what);
        let begun = self.recordings.begin(&self.share, &incident.symptom.id, now, &id);
        incident.is_recorded_before = begun.is_err();
        incident.black_box = Some(match begun {
            Ok(()) => {
                self.newest = Some((now, Arc::clone(&id)));
                id
            }
            Err(earlier) => earlier,
        });
        true
    }
}

/// Returns the id of a recording, built from its time and subject: `20261123T114742Z-shop-4711-1f2e3d4c5b6a7988`. The
/// id is part of a file name and of a path.
pub fn recording_id(unix_ns: u64, process: &str, pid: u32, what: &str) -> Arc<str> {
    let time = jiff::Timestamp::from_nanosecond(unix_ns.into()).unwrap_or_default();
    let time = time.strftime("%Y%m%dT%H%M%SZ");
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let name: String = process
        .chars()
        .map(|c| if is_plain(c) { c } else { '-' })
        .take(MAX_NAME)
        .collect();
    let name = name.trim_matches('-');
    let name = if name.is_empty() { "process" } else { name };
    format!("{time}-{name}-{pid}-{what}").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: two rules of two services of two tenants start recordings, again within ten minutes and afterwards;
    /// one recording is not written; more recordings start than are remembered.
    /// Guarantee: each rule and service has one recording in ten minutes, later requests get its id, and the registry
    /// is bounded.
    #[test]
    fn rule_of_service_has_one_recording_per_ten_minutes() {
        let mut recordings = BegunRecordings::default();
        let share = |tenant: &str, service: &str| QuotaOwner {
            tenant: tenant.into(),
            service: service.into(),
        };
        let begin = |recordings: &mut BegunRecordings, (tenant, service, rule): (&str, &str, &str), at, id: &str| {
            recordings.begin(&share(tenant, service), &rule.into(), Moment::from_ns(at), &id.into())
        };
        let slow = ("a", "shop", "slow");
        let (start, later) = (RECORDS_INTERVAL_NS, RECORDS_INTERVAL_NS + 1);
        assert_eq!(begin(&mut recordings, slow, start, "1"), Ok(()));
        for other in [("b", "shop", "slow"), ("a", "cart", "slow"), ("a", "shop", "full")] {
            assert_eq!(begin(&mut recordings, other, later, &format!("{other:?}")), Ok(()));
        }
        let last = start + RECORDS_INTERVAL_NS - 1;
        assert_eq!(begin(&mut recordings, slow, last, "2"), Err("1".into()));
        let other = r#"("b", "shop", "slow")"#;
        assert_eq!(recordings.share(other), Some(share("b", "shop")));
        assert_eq!(begin(&mut recordings, slow, last + 1, "3"), Ok(()));
        assert_eq!(recordings.share("1"), None);
        recordings.forget("3");
        assert_eq!(begin(&mut recordings, slow, last + 2, "4"), Ok(()));
        for number in 0..2 * MAX_BEGUN {
            let own = number.to_string();
            assert_eq!(begin(&mut recordings, ("c", &own, "slow"), last, "any"), Ok(()));
        }
        assert_eq!(recordings.0.len(), MAX_BEGUN);
    }

    /// Scenario: processes have common, non-ASCII, long or empty names.
    /// Guarantee: an id contains only letters, digits, `-` and `_`, no path separator, and has a limited length.
    #[test]
    fn recording_id_is_valid_file_name() {
        let at = 1_795_434_462_000_000_000;
        let id = |name: &str| recording_id(at, name, 4711, "died").to_string();
        assert_eq!(id("Shop.Api"), "20261123T114742Z-Shop-Api-4711-died");
        assert_eq!(id("../../etc/é"), "20261123T114742Z-etc-4711-died");
        assert_eq!(id(""), "20261123T114742Z-process-4711-died");
        assert!(id(&"x".repeat(5000)).len() < 100);
    }
}
