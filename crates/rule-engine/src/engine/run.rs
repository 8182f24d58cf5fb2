//! State machine of one rule: turns evaluations and the time into the start and end of its alert.

use std::sync::Arc;

use base::time::Moment;

use super::state::{RuleState, State};
use crate::alert::{Alert, Ending, HoldingRule};
use crate::expression::{EvaluationError, Expression};
use crate::field::Scope;
use crate::rule::{EvaluationTrigger, Rule, Severity};

/// Maximum duration for which an alert continues while its condition is unknown: 15 minutes.
pub const HELD_UNKNOWN_NS: u64 = 15 * 60 * 1_000_000_000;

/// Minimum interval between two renderings of an alert's texts.
const RENDERED_INTERVAL_NS: u64 = 1_000_000_000;

/// Memory of an active rule without the texts of its alert, in bytes.
pub(super) const MAX_ACTIVE: usize = size_of::<Active>() + size_of::<Alert>() + size_of::<RunHistory>();

/// An evaluation that failed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Failure {
    pub(super) error: EvaluationError,
    pub(super) at: Moment,
}

/// The result of an evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    None,
    /// The rule fires, unless its group inhibits it. The condition of the rule has been true since `active`.
    Begin {
        active: Moment,
    },
    /// The alert ended at this time.
    End(Ending, Moment),
}

/// The reason why a rule is quiet. The state of the rule does not change while its condition keeps this value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quiet {
    False,
    Unknown,
    /// The rule is not evaluated.
    NotSelected,
}

/// The result of a collection for a rule `on: gc`.
#[derive(Debug)]
pub(super) struct Occurrence {
    /// Whether the condition is true for the collection and no exception applies.
    pub(super) matched: bool,
    pub(super) change: Change,
}

#[derive(Debug)]
enum Phase {
    Inactive,
    Unknown,
    Excepted,
    /// Time since which the condition is true.
    Pending(Moment),
    /// Like `Pending`, but the duration of `for` has passed, and the cooldown has not ended.
    Cooling(Moment),
    Active(Box<Active>),
}

/// A rule that fires or is inhibited by its group.
#[derive(Debug)]
struct Active {
    alert: Arc<Alert>,
    /// Whether the alert fires. `false` if it is inhibited, or if its group is not settled yet.
    firing: bool,
    /// Time at which the rule became active; `None` after the alert has fired or has been inhibited.
    begun: Option<Moment>,
    /// Time of the newest occurrence, or time at which the condition was last true.
    last: Moment,
    count: u64,
    /// Time at which the condition became false; `None` if the condition has not been false since it was last true.
    cleared: Option<Moment>,
    /// Time since which the condition is unknown; `None` if the condition is known.
    unknown: Option<Moment>,
    /// Time of the last rendering of the texts.
    rendered: Moment,
}

/// A rule and its state.
#[derive(Debug)]
pub(super) struct RuleRun {
    pub(super) rule: Arc<Rule>,
    pub(super) status: Status,
}

/// The state of one rule.
#[derive(Debug)]
pub(super) struct Status {
    selected: bool,
    phase: Phase,
    since: Moment,
    /// Number of evaluations. While the rule is quiet, the number of the current round must be added, because each
    /// round is an evaluation; see [`Self::evaluations`].
    evaluations: u64,
    quiet: bool,
    /// `None` if the rule has never fired, failed or been suppressed. Boxed because each of hundreds of processes has
    /// dozens of rules.
    past: Option<Box<RunHistory>>,
}

/// State that most rules never need.
#[derive(Debug, Clone, Default)]
struct RunHistory {
    /// The end of the cooldown.
    cooling: Moment,
    suppressed: u64,
    failures: u64,
    last_failure: Option<Failure>,
}

impl RuleRun {
    pub(super) fn new(rule: Arc<Rule>, now: Moment) -> Self {
        Self {
            rule,
            status: Status {
                selected: false,
                phase: Phase::Inactive,
                since: now,
                evaluations: 0,
                quiet: false,
                past: None,
            },
        }
    }

    /// Returns the same state for a rule with the same meaning. A firing alert keeps its texts.
    pub(super) fn with(self, rule: Arc<Rule>) -> Self {
        Self { rule, ..self }
    }

    /// Evaluates whether the rule applies to the subject of the engine.
    pub(super) fn select(&mut self, scope: &Scope<'_>, subject: EvaluationTrigger) {
        let status = &mut self.status;
        let selected = match &self.rule.select {
            _ if self.rule.on.subject() != subject => false,
            _ if self.rule.by.is_some() != scope.process.is_of_version() => false,
            None => true,
            Some(select) => {
                select.holds(scope).unwrap_or_else(|error| {
                    status.failed(error, scope.now);
                    None
                }) == Some(true)
            }
        };
        if selected != status.selected {
            status.selected = selected;
            status.since = scope.now;
            if !selected && !status.is_active() {
                status.phase = Phase::Inactive;
            }
        }
    }

    /// Renders the texts of the alert, at most once per second, so that the alert describes the current state and not
    /// its start. A new maximum of the main figure and a higher severity are recorded at once. When the condition is no
    /// longer true, the last texts are kept, because "0 processes were killed" is not a reason for an alert. Returns
    /// whether the severity rose.
    pub(super) fn refresh(&mut self, scope: &Scope<'_>) -> bool {
        let Phase::Active(active) = &mut self.status.phase else {
            return false;
        };
        if active.cleared.is_some() {
            return false;
        }
        let figure = self.rule.summary.figure(scope);
        let due = scope.now >= active.rendered.after(RENDERED_INTERVAL_NS);
        let severity = self.rule.severity_now(scope).max(active.alert.severity);
        let higher = figure.filter(|figure| active.alert.peak.is_none_or(|peak| *figure > peak));
        let is_worse = severity > active.alert.severity;
        if !due && higher.is_none() && !is_worse {
            return false;
        }
        let alert = Arc::make_mut(&mut active.alert);
        alert.peak = higher.or(alert.peak);
        alert.severity = severity;
        if due {
            active.rendered = scope.now;
            alert.render(&self.rule, scope);
        }
        is_worse
    }

    /// Returns the severity of the alert, or the severity of the rule if there is no alert.
    pub(super) fn severity(&self) -> Severity {
        let active = self.status.active();
        active.map_or(self.rule.severity, |active| active.alert.severity)
    }

    /// Returns the current alert of the rule, or `None` if the rule is not active.
    pub(super) fn holding(&self) -> Option<HoldingRule> {
        let active = self.status.active()?;
        Some(HoldingRule {
            alert: active.now(),
            firing: active.firing,
        })
    }

    /// Returns the time at which the alert of a rule `on: gc` ended because there was no occurrence for
    /// `keep_firing_for`. Returns `None` if the rule has no alert, or if the alert has not ended.
    pub(super) fn expired(&self, now: Moment) -> Option<Moment> {
        let end = self.status.active()?.last.after(self.rule.keep_firing_ns);
        (end <= now).then_some(end)
    }

    /// Closes the alert. Returns the alert, or `None` if it did not fire.
    pub(super) fn end(&mut self, ending: Ending, at: Moment) -> Option<Arc<Alert>> {
        let alert = self.status.firing();
        self.status.enter(Phase::Inactive, at);
        if alert.is_some() && matches!(ending, Ending::Cleared | Ending::Unknown) {
            self.status.past().cooling = at.after(self.rule.cooldown_ns);
        }
        alert
    }

    /// Returns the state after `round` rounds. `of_windows` is the number of failed samples of the rule's windows, and
    /// the newest failure.
    pub(super) fn state(&self, now: Moment, round: u64, of_windows: (u64, Option<Failure>)) -> RuleState {
        let status = &self.status;
        let state = match &status.phase {
            _ if !status.selected => State::NotSelected,
            Phase::Inactive => State::Inactive,
            Phase::Unknown => State::Unknown,
            Phase::Excepted => State::Excepted,
            Phase::Pending(_) | Phase::Cooling(_) => State::Pending,
            Phase::Active(active) if active.firing => State::Firing,
            Phase::Active(_) => State::Inhibited,
        };
        let past = status.past.as_deref().cloned().unwrap_or_default();
        let failures = past.last_failure.into_iter().chain(of_windows.1);
        RuleState {
            state,
            since: status.since,
            cooling_until: Some(past.cooling).filter(|until| *until > now),
            suppressed: past.suppressed,
            evaluations: status.evaluations(round),
            failures: past.failures.saturating_add(of_windows.0),
            last_failure: failures
                .max_by_key(|failure| failure.at)
                .map(|failure| failure.error.to_string()),
        }
    }
}

impl Active {
    fn now(&self) -> Arc<Alert> {
        let mut alert = Arc::clone(&self.alert);
        if alert.last != self.last || alert.count != self.count {
            let alert = Arc::make_mut(&mut alert);
            alert.last = self.last;
            alert.count = self.count;
        }
        alert
    }

    fn condition(&mut self, holds: Option<bool>, keep: u64, now: Moment) -> Change {
        match holds {
            Some(true) => {
                (self.cleared, self.unknown) = (None, None);
                self.last = now;
            }
            Some(false) => {
                self.unknown = None;
                self.cleared.get_or_insert(now);
            }
            None => {
                self.unknown.get_or_insert(now);
            }
        }
        if let Some(end) = self.cleared.map(|since| since.after(keep)).filter(|end| *end <= now) {
            return Change::End(Ending::Cleared, end);
        }
        let held = self.unknown.map(|since| since.after(HELD_UNKNOWN_NS));
        match held.filter(|end| *end <= now) {
            Some(end) => Change::End(Ending::Unknown, end),
            None => Change::None,
        }
    }
}

impl Status {
    pub(super) fn is_selected(&self) -> bool {
        self.selected
    }

    /// Returns the reason why the rule is quiet, or `None` if it is not quiet.
    pub(super) fn quiet(&self) -> Option<Quiet> {
        match self.phase {
            _ if !self.selected => Some(Quiet::NotSelected),
            Phase::Inactive => Some(Quiet::False),
            Phase::Unknown => Some(Quiet::Unknown),
            _ => None,
        }
    }

    /// Marks the rule as quiet, starting with round `round`.
    pub(super) fn quiet_since(&mut self, round: u64) {
        if !std::mem::replace(&mut self.quiet, true) {
            self.evaluations = self.evaluations.wrapping_sub(round);
        }
    }

    /// Marks the rule as no longer quiet. The rule was evaluated up to round `round`.
    pub(super) fn woken(&mut self, round: u64) {
        self.evaluations = self.evaluations(round);
        self.quiet = false;
    }

    /// Returns the number of evaluations up to round `round`.
    fn evaluations(&self, round: u64) -> u64 {
        let rounds = if self.quiet { round } else { 0 };
        self.evaluations.wrapping_add(rounds)
    }

    pub(super) fn is_active(&self) -> bool {
        matches!(self.phase, Phase::Active(_))
    }

    pub(super) fn is_firing(&self) -> bool {
        self.active().is_some_and(|active| active.firing)
    }

    /// Returns the current alert, or `None` if no alert fires.
    pub(super) fn firing(&self) -> Option<Arc<Alert>> {
        self.active().filter(|active| active.firing).map(Active::now)
    }

    fn active(&self) -> Option<&Active> {
        match &self.phase {
            Phase::Active(active) => Some(active),
            _ => None,
        }
    }

    fn enter(&mut self, phase: Phase, now: Moment) {
        let same = matches!(
            (&self.phase, &phase),
            (Phase::Inactive, Phase::Inactive)
                | (Phase::Unknown, Phase::Unknown)
                | (Phase::Excepted, Phase::Excepted)
                | (
                    Phase::Pending(_) | Phase::Cooling(_),
                    Phase::Pending(_) | Phase::Cooling(_)
                )
        );
        if !same {
            self.since = now;
        }
        self.phase = phase;
    }

    fn past(&mut self) -> &mut RunHistory {
        self.past.get_or_insert_default()
    }

    /// Returns the end of the cooldown.
    fn cooling(&self) -> Moment {
        self.past.as_ref().map_or(Moment::FIRST, |past| past.cooling)
    }

    fn suppress(&mut self) {
        let past = self.past();
        past.suppressed = past.suppressed.saturating_add(1);
    }

    fn failed(&mut self, error: EvaluationError, at: Moment) {
        let past = self.past();
        past.failures = past.failures.saturating_add(1);
        past.last_failure = Some(Failure { error, at });
    }

    /// Activates the rule at time `at`.
    pub(super) fn begin(&mut self, alert: Alert, at: Moment) {
        let active = Active {
            last: at.max(alert.active),
            alert: Arc::new(alert),
            firing: false,
            begun: Some(at),
            count: 1,
            cleared: None,
            unknown: None,
            rendered: at,
        };
        self.enter(Phase::Active(Box::new(active)), at);
    }

    /// Fires the alert and returns it, or returns `None` if it already fires.
    pub(super) fn fire(&mut self, number: u64, now: Moment) -> Option<Arc<Alert>> {
        let Phase::Active(active) = &mut self.phase else {
            return None;
        };
        if active.firing {
            return None;
        }
        active.firing = true;
        let now = active.begun.take().unwrap_or(now);
        let alert = Arc::make_mut(&mut active.alert);
        alert.number = number;
        alert.started = now.max(alert.active);
        alert.suppressed = self
            .past
            .as_mut()
            .map_or(0, |past| std::mem::take(&mut past.suppressed));
        self.since = now;
        Some(active.now())
    }

    /// Inhibits the alert because another rule of the group fires. Returns the alert, or `None` if it did not fire.
    pub(super) fn inhibit(&mut self, now: Moment) -> Option<Arc<Alert>> {
        let fired = self.firing();
        if let Phase::Active(active) = &mut self.phase {
            active.begun = None;
            if std::mem::take(&mut active.firing) {
                self.since = now;
            }
        }
        fired
    }

    pub(super) fn forget(&mut self, now: Moment) {
        self.enter(Phase::Inactive, now);
    }

    // Evaluation of rules `on: gc`, and of all other rules.

    /// Evaluates a condition. A failed evaluation counts as unknown.
    fn holds(&mut self, condition: &Expression, scope: &Scope<'_>) -> Option<bool> {
        condition.holds(scope).unwrap_or_else(|error| {
            self.failed(error, scope.now);
            None
        })
    }

    fn is_excepted(&mut self, rule: &Rule, scope: &Scope<'_>) -> bool {
        let now = scope.stream.wall.unix_ns(scope.now);
        let mut exceptions = rule.exceptions.iter();
        exceptions.any(|exception| exception.is_in_force(now) && self.holds(&exception.when, scope) == Some(true))
    }

    /// Evaluates a rule `on: gc` on a collection at `time`.
    pub(super) fn occurrence(&mut self, rule: &Rule, scope: &Scope<'_>, time: Moment) -> Occurrence {
        let nothing = |change| Occurrence { matched: false, change };
        self.evaluations = self.evaluations.saturating_add(1);
        let holds = self.holds(&rule.when, scope);
        if holds != Some(true) {
            if self.is_active() {
                let clear = rule.clear.as_ref();
                let cleared = clear.is_some_and(|clear| self.holds(clear, scope) == Some(true));
                return nothing(if cleared {
                    Change::End(Ending::Cleared, time)
                } else {
                    Change::None
                });
            }
            let phase = if holds.is_none() {
                Phase::Unknown
            } else {
                Phase::Inactive
            };
            self.enter(phase, time);
            return nothing(Change::None);
        }
        let excepted = self.is_excepted(rule, scope);
        if let Phase::Active(active) = &mut self.phase {
            if excepted {
                return nothing(Change::End(Ending::RuleChanged, time));
            }
            active.last = active.last.max(time);
            active.count = active.count.saturating_add(1);
            return Occurrence {
                matched: true,
                change: Change::None,
            };
        }
        if excepted {
            self.enter(Phase::Excepted, time);
            return nothing(Change::None);
        }
        self.enter(Phase::Inactive, time);
        let change = if time < self.cooling() {
            self.suppress();
            Change::None
        } else {
            Change::Begin { active: time }
        };
        Occurrence { matched: true, change }
    }

    /// Evaluates a rule that is not `on: gc`.
    pub(super) fn condition(&mut self, rule: &Rule, scope: &Scope<'_>) -> Change {
        let now = scope.now;
        self.evaluations = self.evaluations.saturating_add(1);
        if self.is_active() {
            let holds = match &rule.clear {
                None => self.holds(&rule.when, scope),
                Some(clear) => self.holds(clear, scope).map(|cleared| !cleared),
            };
            let excepted = self.is_excepted(rule, scope);
            return match &mut self.phase {
                Phase::Active(_) if excepted => Change::End(Ending::RuleChanged, now),
                Phase::Active(active) => active.condition(holds, rule.keep_firing_ns, now),
                _ => Change::None,
            };
        }
        let holds = self.holds(&rule.when, scope);
        let excepted = holds == Some(true) && self.is_excepted(rule, scope);
        let active = match self.phase {
            Phase::Pending(active) | Phase::Cooling(active) => active,
            _ => now,
        };
        let phase = match holds {
            None => Phase::Unknown,
            Some(false) => Phase::Inactive,
            Some(true) if excepted => Phase::Excepted,
            Some(true) if now.since(active) < rule.hold_ns => Phase::Pending(active),
            Some(true) if now < self.cooling() => Phase::Cooling(active),
            Some(true) => return Change::Begin { active },
        };
        if matches!(self.phase, Phase::Cooling(_)) && !matches!(phase, Phase::Cooling(_)) {
            self.suppress();
        }
        self.enter(phase, now);
        Change::None
    }
}
