//! Incidents: what a person sees of one process and one cause.
//!
//! ```text
//! transitions + rules that hold -> Incidents -> Began | Worse | Refreshed | Ended -> receivers, log
//!                                            -> open  -> API, page, analyze
//! ```
//!
//! # Which alerts are one incident
//!
//! All alerts of a group on one process, with those of groups that follow it (`follows` in a rule file). A rule without
//! a group is alone. Where the consequence begins first, its cause joins it later; where it began two incidents, they
//! become one, and the other ends as merged.
//!
//! # What it says
//!
//! Its cause is the first of its rules in the order of the files, of a group that follows none of the others; one that
//! is information only where all of them are. A cause is only replaced by a better one, also when it no longer holds.
//! Its severity is the highest so far. Rules that their group inhibits are members: they hold, though they fire no
//! alert.
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
mod sample;
mod stored;

use std::sync::Arc;

use strict_yaml::words;

use crate::alert::Alert;
use crate::ledger::Ledger;
use crate::rule::{Evidence, Rule, Severity};

pub use black_box::recording_id;
pub use found::{
    Finding, Found, FoundAllocations, FoundAmount, FoundCaller, FoundCallers, FoundSite, FoundType, MOST_FOUND,
};
pub use machine::Incidents;
pub(crate) use machine::follows;
pub use record::{EvidenceRecord, IncidentRecord, IncidentSubject, MemberRecord, id_of};
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
        /// Its cause began another incident, which it is a part of.
        Merged = "merged",
        /// The rules were removed or changed, or an exception applies now.
        RuleChanged = "rule-changed",
    }
}

/// A rule that holds.
#[derive(Debug, Clone)]
pub struct Holding {
    /// Its alert as it is now.
    pub alert: Arc<Alert>,
    /// False: another rule of its group fires instead.
    pub firing: bool,
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
    /// The group of the rule.
    pub group: Option<Arc<str>>,
    /// When it joined: when it began to hold.
    pub since_unix_ns: u64,
    /// When it ended; `None`: it holds, or held when the process exited.
    pub until_unix_ns: Option<u64>,
    /// Its place among the rules.
    rank: usize,
    /// Occurrences of its alerts before the newest.
    before: u64,
}

impl Member {
    /// The rule.
    pub fn rule(&self) -> &Arc<Rule> {
        &self.alert.rule
    }
}

/// An incident of one process.
#[derive(Debug, Clone)]
pub struct Incident {
    /// Its number, unique in the run of the process.
    pub number: u64,
    /// The rule that it began with. Receivers know it by that, whatever its cause is later.
    pub began_as: Arc<Rule>,
    /// The group of that rule.
    pub group: Option<Arc<str>>,
    /// The labels of the alert that it began with.
    pub labels: Arc<[(Arc<str>, Box<str>)]>,
    /// The highest severity so far.
    pub severity: Severity,
    /// When it began, Unix nanoseconds, by the time of the observed events.
    pub began_unix_ns: u64,
    /// When it ended; `None`: it is open.
    pub ended_unix_ns: Option<u64>,
    /// Why it ended.
    pub ending: Option<IncidentEnding>,
    /// When its process exited.
    pub process_ended_unix_ns: Option<u64>,
    /// Its members: the cause first, then in the order in which they joined.
    pub members: Vec<Member>,
    /// Where the memory of the process was, if a rule of a member has it gathered: as it was last, and from the
    /// process's exit on as it was then.
    pub ledger: Option<Arc<Ledger>>,
    /// The id of the recording of its process's events around its beginning; `None`: none is made.
    pub black_box: Option<Arc<str>>,
    /// What bursts found, or why there was none; `None`: nothing yet.
    pub found: Option<Arc<Found>>,
}

impl Incident {
    /// The cause; an incident has at least one member.
    pub fn cause(&self) -> Option<&Member> {
        self.members.first()
    }

    /// The alert that it began with, or the newest of its rule.
    pub fn first_alert(&self) -> Option<&Arc<Alert>> {
        let mut members = self.members.iter();
        members
            .find(|member| member.rule().id == self.began_as.id)
            .map(|member| &member.alert)
    }

    /// Whether receivers are notified of it: by the rule of one of its members.
    pub fn notifies(&self) -> bool {
        self.members.iter().any(|member| member.rule().emit.notify)
    }

    /// Whether a rule of one of its members has this gathered.
    pub fn gathers(&self, evidence: Evidence) -> bool {
        self.members
            .iter()
            .any(|member| member.rule().evidence.contains(&evidence))
    }

    /// Whether it has not ended.
    pub fn is_open(&self) -> bool {
        self.ended_unix_ns.is_none()
    }

    /// Whether its process's events are recorded, where they are kept: it is severe, or a rule of it asks for that.
    pub fn is_recorded(&self) -> bool {
        self.severity >= Severity::Error || self.gathers(Evidence::BlackBox)
    }

    /// How long it has lasted at `now`, or lasted, nanoseconds.
    pub fn lasted_ns(&self, now_unix_ns: u64) -> u64 {
        self.ended_unix_ns
            .unwrap_or(now_unix_ns)
            .saturating_sub(self.began_unix_ns)
    }
}

/// A change of an incident, with its state after it.
#[derive(Debug, Clone)]
pub enum IncidentChange {
    /// It began.
    Began(Arc<Incident>),
    /// Its severity rose from this one.
    Worse(Arc<Incident>, Severity),
    /// Its figures or members changed; not worth a message.
    Refreshed(Arc<Incident>),
    /// A burst found something, or there was none: for logs, not for people's receivers.
    Gathered(Arc<Incident>, Evidence),
    /// It ended.
    Ended(Arc<Incident>),
}

impl IncidentChange {
    /// The incident after the change.
    pub fn incident(&self) -> &Arc<Incident> {
        match self {
            Self::Began(incident)
            | Self::Worse(incident, _)
            | Self::Refreshed(incident)
            | Self::Gathered(incident, _)
            | Self::Ended(incident) => incident,
        }
    }

    /// Whether it is passed on at once: to logs, and unless it is only [gathered](Self::Gathered), to receivers.
    pub fn is_message(&self) -> bool {
        !matches!(self, Self::Refreshed(_))
    }

    /// `began`, `worse`, `refreshed`, `gathered` or `ended`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Began(_) => "began",
            Self::Worse(..) => "worse",
            Self::Refreshed(_) => "refreshed",
            Self::Gathered(..) => "gathered",
            Self::Ended(_) => "ended",
        }
    }
}

#[cfg(test)]
mod tests;
