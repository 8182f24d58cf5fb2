//! Incidents: what a person sees of one harm on one process.
//!
//! ```text
//! transitions + rules that hold -> Incidents -> Began | Worse | Explained | Refreshed | Ended -> receivers, log
//!                                            -> open  -> API, page, analyze
//! ```
//!
//! # Which alerts are one incident
//!
//! Only harm begins an incident: a symptom, or a rule without a role. It has the name of the one that it began with
//! for ever, its beginning, and the highest severity of its harms so far. All harms of a group on one process are one
//! incident, with those of groups that follow it (`follows` in a rule file); a rule without a group is alone. Where
//! the consequence begins first, its cause joins it later; where it began two incidents, they become one, and the
//! other ends as merged. Rules that their group inhibits are members: they hold, though they fire no alert.
//!
//! # What explains it
//!
//! Rules of role `cause` that hold meanwhile are members, too, with the share of the harm that they explain. They
//! never begin, name, date, worsen or prolong it. The main cause is the one that explains most, and at least
//! [`EXPLAINS_ENOUGH`]; when it is first known, or becomes another one, that is a message, at most one in
//! [`EXPLAINED_EVERY_NS`]. A cause may say that what it explains is a consequence of another symptom: with an
//! incident of that one, both are one.
//!
//! # What it says
//!
//! Its head is the gravest of its harms: among equals the first in the order of the files, of a group that follows none
//! of the others. What holds at one evaluation is one message.
//!
//! # When it ends
//!
//! [`LINGER_NS`] after the last of its members ended, so that members in turn are one incident; it ended when that
//! one did. When its process exits, its members stay as they were, and it ends [`AFTERMATH_NS`] later or when a
//! successor of the process is well. Information ends with the process.
//!
//! # When gcwatch is restarted
//!
//! Open incidents are stored ([`StoredIncident`]) and [resumed](Incidents::resume) with their numbers: what holds again
//! within [`RESUME_NS`] goes on without a message, what does not ends as unknown.

mod black_box;
mod found;
mod machine;
mod record;
mod remedy;
mod sample;
mod stored;

use std::sync::Arc;

use clr_gc::gc::StoppedTime;
use strict_yaml::words;

use crate::alert::Alert;
use crate::ledger::Ledger;
use crate::rule::{Evidence, Rule, Severity};
use crate::time::Moment;

pub use black_box::{BegunRecordings, Recordings, Share, recording_id};
pub use found::{
    Finding, Found, FoundAllocations, FoundAmount, FoundCaller, FoundCallers, FoundCensus, FoundHolder, FoundKept,
    FoundLiving, FoundSite, FoundStack, FoundStacks, FoundType, MOST_FOUND, MOST_LIVING,
};
pub use machine::Incidents;
pub use record::{CauseRecord, EvidenceRecord, IncidentRecord, IncidentSubject, MemberRecord, id_of, key_of_record};
pub use remedy::{remedy_for_a_file, remedy_for_a_process};
pub use sample::sample;
pub use stored::StoredIncident;

/// How long an incident waits for another alert after the last one ended: a minute.
pub const LINGER_NS: u64 = 60_000_000_000;

/// How long an incident continues after its process exited: 15 minutes.
pub const AFTERMATH_NS: u64 = 15 * 60_000_000_000;

/// How long a resumed incident waits for its rules to hold again: 15 minutes, in which most windows fill.
pub const RESUME_NS: u64 = 15 * 60_000_000_000;

/// Incidents of one process that begin within so long have one recording in common: that is how long it follows the
/// events, 10 seconds.
pub const RECORDED_NS: u64 = 10_000_000_000;

/// How often incidents of one rule and service are recorded, at most: 10 minutes.
pub const RECORDS_EVERY_NS: u64 = 10 * 60_000_000_000;

/// The share of a harm that a cause explains at least to be named.
pub const EXPLAINS_ENOUGH: f64 = 0.3;

/// How often another main cause of an incident is a message, at most: 5 minutes.
pub const EXPLAINED_EVERY_NS: u64 = 5 * 60_000_000_000;

/// How often the newest state of an open incident is passed on, at most: 10 seconds.
pub const REFRESH_NS: u64 = 10_000_000_000;

words! {
    /// Why an incident ended.
    pub enum IncidentEnding {
        /// None of its rules holds any more.
        Cleared = "cleared",
        /// It is no longer known whether they hold.
        Unknown = "unknown",
        /// The process exited, and nothing more was seen of it.
        ProcessEnded = "process-ended",
        /// A successor of the process is well.
        Recovered = "recovered",
        /// The process is not read any more: excluded, over a limit, or read by another gcwatch.
        Unwatched = "unwatched",
        /// It is a part of another incident.
        Merged = "merged",
        /// The rules were removed or changed, or an exception applies now.
        RuleChanged = "rule-changed",
    }
}

/// A rule of an incident.
#[derive(Debug, Clone)]
pub struct Member {
    /// Its newest alert.
    pub alert: Arc<Alert>,
    /// How often its condition held, over all its alerts.
    pub count: u64,
    /// The highest value so far of the figure that its summary is about.
    pub peak: Option<f64>,
    /// Of a cause: the largest share of the harm that it explained so far, 0 to 1; `None`: it is no cause, or unknown.
    pub share: Option<f64>,
    /// The group of the rule.
    pub group: Option<Arc<str>>,
    /// When it joined: when it began to hold.
    pub since: Moment,
    /// When it ended; `None`: it holds, or held when the process exited.
    pub until: Option<Moment>,
    /// Its place among the rules.
    rank: usize,
    /// Occurrences of its alerts before the newest.
    before: u64,
}

impl Member {
    pub fn rule(&self) -> &Arc<Rule> {
        &self.alert.rule
    }

    /// Whether it is harm, and no cause.
    pub fn is_harm(&self) -> bool {
        self.rule().is_harm()
    }

    fn explains_enough(&self) -> bool {
        self.share.is_some_and(|share| share >= EXPLAINS_ENOUGH)
    }

    /// The newest state of an alert of its rule.
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
    /// Its number, unique in the run of the process.
    pub number: u64,
    /// The rule that it began with, which names it for ever.
    pub symptom: Arc<Rule>,
    /// The group of that rule.
    pub group: Option<Arc<str>>,
    /// The labels of the alert that it began with.
    pub labels: Arc<[(Arc<str>, Box<str>)]>,
    /// The highest severity so far.
    pub severity: Severity,
    /// When the harm began, by the time of the observed events.
    pub began: Moment,
    /// When it was noticed.
    pub noticed: Moment,
    /// When it ended; `None`: it is open.
    pub ended: Option<Moment>,
    /// Why it ended.
    pub ending: Option<IncidentEnding>,
    /// When its process exited.
    pub process_ended: Option<Moment>,
    /// Its members: the head first, then in the order in which they joined.
    pub members: Vec<Member>,
    /// Where the memory of the process was, if a rule of a member has it gathered: as it was last, and from the
    /// process's exit on as it was then.
    pub ledger: Option<Arc<Ledger>>,
    /// What the process was stopped for, of a harm by stopped time: since when, until when, and the sums. As it was last,
    /// and from the process's exit on as it was then.
    pub stopped: Option<Arc<(Moment, Moment, StoppedTime)>>,
    /// The id of the recording of its process's events around its beginning; `None`: none is made.
    pub black_box: Option<Arc<str>>,
    /// That recording is of an earlier incident of the same rule and service, maybe of another process.
    pub is_recorded_before: bool,
    /// What bursts found, or why there was none; `None`: nothing yet.
    pub found: Option<Arc<Found>>,
}

impl Incident {
    /// The gravest of its harms; an incident has at least one member.
    pub fn head(&self) -> Option<&Member> {
        self.members.first()
    }

    pub fn harms(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| member.is_harm())
    }

    /// What explains enough of it, the largest share first.
    pub fn causes(&self) -> Vec<&Member> {
        // What explains a consequence that became a part of it, in another unit, is not what explains this.
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

    /// What explains most of it, and enough.
    pub fn main_cause(&self) -> Option<&Member> {
        self.causes().first().copied()
    }

    /// Whether receivers are notified of it: by the rule of one of its members.
    pub fn notifies(&self) -> bool {
        self.harms().any(|member| member.rule().emit.notify)
    }

    /// Whether a rule of one of its members has this gathered.
    pub fn gathers(&self, evidence: Evidence) -> bool {
        self.members
            .iter()
            .any(|member| member.rule().evidence.contains(&evidence))
    }

    /// Whether it has not ended.
    pub fn is_open(&self) -> bool {
        self.ended.is_none()
    }

    /// Whether its process's events are recorded, where they are kept: it is severe, or a rule of it asks for that.
    pub fn is_recorded(&self) -> bool {
        self.severity >= Severity::Error || self.gathers(Evidence::BlackBox)
    }

    /// Whether all of its harms ended.
    fn is_over(&self) -> bool {
        self.harms().all(|member| member.until.is_some())
    }

    fn last_end(&self) -> Moment {
        let ends = self.harms().filter_map(|member| member.until);
        ends.max().unwrap_or(self.began)
    }

    /// How long it has lasted at `now`, or lasted, nanoseconds.
    pub fn lasted_ns(&self, now: Moment) -> u64 {
        self.ended.unwrap_or(now).since(self.began)
    }
}

/// A change of an incident, with its state after it.
#[derive(Debug, Clone)]
pub enum IncidentChange {
    Began(Arc<Incident>),
    /// Its severity rose from this one.
    Worse(Arc<Incident>, Severity),
    /// Its main cause is known now, or is another one.
    Explained(Arc<Incident>),
    /// Its figures or members changed; not worth a message.
    Refreshed(Arc<Incident>),
    /// A burst found something, or there was none: for logs, not for people's receivers.
    Gathered(Arc<Incident>, Evidence),
    Ended(Arc<Incident>),
}

impl IncidentChange {
    /// The incident after the change.
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

    /// Whether it is passed on at once: to logs, and unless it is only [gathered](Self::Gathered), to receivers.
    pub fn is_message(&self) -> bool {
        !matches!(self, Self::Refreshed(_))
    }

    /// `began`, `worse`, `explained`, `refreshed`, `gathered` or `ended`.
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
