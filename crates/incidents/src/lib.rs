//! Incidents: each incident is one harm to one process, as users see it.
//!
//! ```text
//! transitions + active rules    -> Incidents -> Began | Worse | Explained | Refreshed | Ended -> receivers, log
//!                                            -> open  -> API, page, analyze
//! ```
//!
//! # Alerts of one incident
//!
//! Only harm starts an incident: a symptom, or a rule without a role. The incident keeps the name and the start of its
//! first harm, and the highest severity of its harms. All harms of a group on one process form one incident, together
//! with harms of groups that follow this group (`follows` in a rule file). A rule without a group forms its own
//! incident. If the consequence starts first, its cause joins the incident later. If the cause and the consequence have
//! each started an incident, the incident of the consequence becomes part of the incident of the cause and ends as
//! merged. A rule that fires no alert because another rule of its group fires is also a member, because its condition
//! is true.
//!
//! # Causes
//!
//! Rules of role `cause` that are active at the same time are members too, with the share of the harm that they
//! explain. Causes never start, name, date, worsen or prolong an incident. The main cause is the cause that explains
//! the largest share, at least [`EXPLAINS_ENOUGH`]. When the main cause becomes known or changes, gcwatch sends a
//! message, at most once per [`EXPLAINED_INTERVAL_NS`]. A cause can declare that its symptoms are consequences of
//! another symptom (`consequence_of`). If the other symptom has an incident, the incident of the consequence becomes
//! part of it.
//!
//! # Texts
//!
//! The head of an incident is the harm that its texts describe. Harms of the incident's own group come before
//! consequences. Among them, harms of groups that follow fewer other groups come first, then more severe harms, then
//! the order of the files. A harm of severity info is the head only if no harm is more severe. All changes of one
//! evaluation form one message.
//!
//! # End
//!
//! An incident ends [`LINGER_NS`] after its last member ended, so that alternating members form one incident. The end
//! of the incident is the end of its last member. When the process exits, the members remain unchanged, and the
//! incident ends [`AFTERMATH_NS`] later, or earlier if a successor of the process is healthy. Incidents of severity
//! info end with the process.
//!
//! # Restart of gcwatch
//!
//! Open incidents are stored ([`StoredIncident`]) and [resumed](Incidents::resume) with their numbers. Members that
//! become active again within [`RESUME_NS`] continue without a message; other members end as unknown.

// Time is a value, and state has one owner: no clock and no lock (clippy.toml).
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod black_box;
mod found;
mod machine;
mod record;
mod remedy;
pub mod review;
mod sample;
mod stored;

use std::sync::Arc;

use base::time::Moment;
use base::words;
use clr_gc::gc::StoppedTime;

use rule_engine::alert::Alert;
use rule_engine::ledger::Ledger;
use rule_engine::rule::{Evidence, Rule, Severity};

pub use black_box::{BegunRecordings, QuotaOwner, Recordings, recording_id};
pub use found::{
    Finding, Findings, FoundAllocations, FoundAmount, FoundCaller, FoundCallers, FoundCensus, FoundHolder, FoundKept,
    FoundLiving, FoundSite, FoundStack, FoundStacks, FoundType, MAX_FOUND, MAX_LIVING,
};
pub use machine::Incidents;
pub use record::{CauseRecord, EvidenceRecord, IncidentRecord, IncidentSubject, MemberRecord, id_of, key_of_record};
pub use remedy::{remedy_for_a_file, remedy_for_a_process};
pub use sample::sample;
pub use stored::StoredIncident;

/// Time for which an incident waits for another alert after the last alert ended: one minute.
pub const LINGER_NS: u64 = 60_000_000_000;

/// Maximum time for which an incident continues after its process exited: 15 minutes.
pub const AFTERMATH_NS: u64 = 15 * 60_000_000_000;

/// Maximum time for which a resumed incident waits until its rules are active again: 15 minutes. Most windows fill
/// within this time.
pub const RESUME_NS: u64 = 15 * 60_000_000_000;

/// Duration of a recording after the start of the incident: 10 seconds. Incidents of one process that start within this
/// time share a recording.
pub const RECORDED_NS: u64 = 10_000_000_000;

/// Minimum interval between two recordings of one rule and service: 10 minutes.
pub const RECORDS_INTERVAL_NS: u64 = 10 * 60_000_000_000;

/// Minimum share of a harm that a cause must explain to be named.
pub const EXPLAINS_ENOUGH: f64 = 0.3;

/// Minimum interval between two messages about a changed main cause: 5 minutes.
pub const EXPLAINED_INTERVAL_NS: u64 = 5 * 60_000_000_000;

/// Minimum interval between two updates of an open incident: 10 seconds.
pub const REFRESH_NS: u64 = 10_000_000_000;

words! {
    /// The reason why an incident ended.
    pub enum IncidentEnding {
        /// The conditions of all rules of the incident became false.
        Cleared = "cleared",
        /// The conditions of the rules of the incident became unknown.
        Unknown = "unknown",
        /// The process exited, and no successor appeared.
        ProcessEnded = "process-ended",
        /// A successor of the process is healthy.
        Recovered = "recovered",
        /// The process is no longer read: it is excluded, exceeds a limit, or is read by another gcwatch instance.
        Unwatched = "unwatched",
        /// The incident became part of another incident.
        Merged = "merged",
        /// The rules were removed or changed, or an exception now applies.
        RuleChanged = "rule-changed",
    }
}

/// A rule that is part of an incident, with its newest alert.
#[derive(Debug, Clone)]
pub struct Member {
    /// Newest alert of the rule.
    pub alert: Arc<Alert>,
    /// Number of times that the condition was true, over all alerts of the rule.
    pub count: u64,
    /// Maximum value of the summary's main figure; `None` if it was never known.
    pub peak: Option<f64>,
    /// The largest share of the harm that a cause has explained so far, 0 to 1; `None` if the rule is not a cause, or
    /// if the share is unknown.
    pub share: Option<f64>,
    /// Group of the rule; `None` if the rule has no group.
    pub group: Option<Arc<str>>,
    /// Time at which the condition became true.
    pub since: Moment,
    /// Time at which the member ended; `None` if it is active, or was active when the process exited.
    pub until: Option<Moment>,
    /// Index of the rule in the rule set.
    rank: usize,
    /// Number of times that the condition was true, over all alerts of the rule except the newest alert.
    before: u64,
}

impl Member {
    pub fn rule(&self) -> &Arc<Rule> {
        &self.alert.rule
    }

    /// Returns whether the member is harm and not a cause.
    pub fn is_harm(&self) -> bool {
        self.rule().is_harm()
    }

    fn explains_enough(&self) -> bool {
        self.share.is_some_and(|share| share >= EXPLAINS_ENOUGH)
    }

    /// Records the newest state of an alert of the rule.
    fn observe(&mut self, alert: &Arc<Alert>) {
        if alert.active != self.alert.active {
            self.before = self.count;
        }
        self.count = self.before.saturating_add(alert.count);
        self.peak = match (self.peak, alert.peak) {
            (Some(known), Some(new)) => Some(known.max(new)),
            (known, new) => known.or(new),
        };
        self.until = None;
        self.alert = Arc::clone(alert);
    }
}

/// An incident of one process.
#[derive(Debug, Clone)]
pub struct Incident {
    /// Number of the incident, unique within the run of the process.
    pub number: u64,
    /// The rule that started the incident and names it permanently.
    pub symptom: Arc<Rule>,
    /// Group of the rule `symptom`; `None` if the rule has no group.
    pub group: Option<Arc<str>>,
    /// Labels of the alert that started the incident.
    pub labels: Arc<[(Arc<str>, Box<str>)]>,
    /// Highest severity so far.
    pub severity: Severity,
    /// Time at which the harm started, in the time of the observed events.
    pub began: Moment,
    /// Time at which the harm was detected.
    pub noticed: Moment,
    /// Time at which the incident ended; `None` while it is open.
    pub ended: Option<Moment>,
    /// Reason why the incident ended; `None` while it is open.
    pub ending: Option<IncidentEnding>,
    /// Time at which the process exited; `None` while the process runs.
    pub process_ended: Option<Moment>,
    /// Members: the head first, then in the order in which they joined.
    pub members: Vec<Member>,
    /// Newest memory ledger of the process, or the ledger at its exit; `None` if no rule of a member gathers ledgers,
    /// or if there is no ledger yet.
    pub ledger: Option<Arc<Ledger>>,
    /// Start, end and sums of the stopped time: the newest values, or the values at the exit of the process. `None` if
    /// the harm is not stopped time, or if unknown.
    pub stopped: Option<Arc<(Moment, Moment, StoppedTime)>>,
    /// Id of the recording of the process's events around the start of the incident; `None` if there is no recording.
    pub black_box: Option<Arc<str>>,
    /// Whether the recording belongs to an earlier incident of the same rule and service, possibly of another process.
    pub is_recorded_before: bool,
    /// Findings of bursts, or the reasons why there was no burst; `None` if there is no result yet.
    pub found: Option<Arc<Findings>>,
}

impl Incident {
    /// Returns the head, which is the first member. An incident has at least one member, so the result is never `None`.
    pub fn head(&self) -> Option<&Member> {
        self.members.first()
    }

    pub fn harms(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| member.is_harm())
    }

    /// Returns the causes that explain enough of the harm, the largest share first.
    pub fn causes(&self) -> Vec<&Member> {
        // A merged consequence can have another unit, so its causes do not explain this incident.
        let own = |harm: &&Member| {
            let (rule, symptom) = (harm.rule(), &self.symptom);
            rule.id == symptom.id || rule.group.is_some() && rule.group == symptom.group
        };
        let explains_own = |cause: &&Member| {
            let of = &cause.rule().of;
            self.harms().filter(own).any(|harm| of.contains(&harm.rule().id))
        };
        let causes = self.members.iter().filter(|member| member.explains_enough());
        let mut causes: Vec<&Member> = causes.filter(explains_own).collect();
        causes.sort_by(|a, b| b.share.partial_cmp(&a.share).unwrap_or(std::cmp::Ordering::Equal));
        causes
    }

    /// Returns the cause that explains the largest share of the harm, or `None` if no cause explains enough.
    pub fn main_cause(&self) -> Option<&Member> {
        self.causes().first().copied()
    }

    /// Returns whether receivers are notified of the incident, which requires a member that is harm.
    pub fn notifies(&self) -> bool {
        self.harms().next().is_some()
    }

    /// Returns whether a rule of a member gathers this evidence.
    pub fn gathers(&self, evidence: Evidence) -> bool {
        self.members
            .iter()
            .any(|member| member.rule().evidence.contains(&evidence))
    }

    /// Returns whether the incident is open.
    pub fn is_open(&self) -> bool {
        self.ended.is_none()
    }

    /// Returns whether events of the process are recorded if they are retained: the severity is error or critical, or
    /// one of the incident's rules requires a recording.
    pub fn is_recorded(&self) -> bool {
        self.severity >= Severity::Error || self.gathers(Evidence::BlackBox)
    }

    /// Returns whether all harms have ended.
    fn is_over(&self) -> bool {
        self.harms().all(|member| member.until.is_some())
    }

    fn last_end(&self) -> Moment {
        let ends = self.harms().filter_map(|member| member.until);
        ends.max().unwrap_or(self.began)
    }

    /// Returns the duration of the incident until `now` or until its end, in nanoseconds.
    pub fn lasted_ns(&self, now: Moment) -> u64 {
        self.ended.unwrap_or(now).since(self.began)
    }
}

/// A change of an incident, with the state after the change.
#[derive(Debug, Clone)]
pub enum IncidentChange {
    Began(Arc<Incident>),
    /// The severity rose from the contained value.
    Worse(Arc<Incident>, Severity),
    /// The main cause has become known or has changed.
    Explained(Arc<Incident>),
    /// Figures or members have changed. The change causes no message.
    Refreshed(Arc<Incident>),
    /// A burst or a census returned a finding. The change is sent to logs, not to receivers.
    Gathered(Arc<Incident>, Evidence),
    Ended(Arc<Incident>),
}

impl IncidentChange {
    /// Returns the incident after the change.
    pub fn incident(&self) -> &Arc<Incident> {
        match self {
            Self::Began(incident)
            | Self::Worse(incident, _)
            | Self::Explained(incident)
            | Self::Refreshed(incident)
            | Self::Gathered(incident, _)
            | Self::Ended(incident) => incident,
        }
    }

    /// Returns whether the change is passed on at once: to logs, and to receivers unless it is only
    /// [gathered](Self::Gathered).
    pub fn is_message(&self) -> bool {
        !matches!(self, Self::Refreshed(_))
    }

    /// Returns `began`, `worse`, `explained`, `refreshed`, `gathered` or `ended`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Began(_) => "began",
            Self::Worse(..) => "worse",
            Self::Explained(_) => "explained",
            Self::Refreshed(_) => "refreshed",
            Self::Gathered(..) => "gathered",
            Self::Ended(_) => "ended",
        }
    }
}
