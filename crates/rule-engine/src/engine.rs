//! Evaluates all rules for one process and keeps their state.
//!
//! ```text
//! collection -> windows of gc.*       -> rules on: gc, on: process -> windows by key -> groups -> Verdict
//! suspension -> windows of suspension.*
//! tick       -> windows of process.*, stream.* -> rules on: process, ends -> groups -> Transitions
//! ```
//!
//! # State of a rule
//!
//! | State | Condition |
//! |---|---|
//! | not selected | `select` is false or unknown; it is evaluated again when new facts about the process arrive |
//! | inactive | the condition is false |
//! | unknown | the condition is unknown, or its evaluation failed (counted): no alert; pending rules are reset |
//! | pending | the condition is true, but not yet for the duration of `for`, or the cooldown has not ended |
//! | firing | an alert exists. `on: process`: until the condition was false (or `clear` true) for `keep_firing_for`, or unknown for [`HELD_UNKNOWN_NS`]. `on: gc`: until `keep_firing_for` after the last occurrence, or until a collection for which `clear` is true |
//! | inhibited | like firing, but a more severe rule of the group, or an equally severe earlier rule, fires instead |
//! | excepted | the condition is true, but an exception applies |
//!
//! The cooldown starts when an alert ends because its condition has cleared or was unknown for too long. Occurrences of
//! a rule `on: gc` during the cooldown, and alerts of other rules that would start and end during the cooldown, are
//! counted as suppressed in the next alert. A rule whose condition is still true at the end of the cooldown fires at
//! that time.
//!
//! # Groups
//!
//! If the conditions of several rules of a group are true, one rule fires: the most severe rule. Among equally severe
//! rules, the rule that already fires wins or, if none fires, the first rule in the files. A more severe rule ends the
//! previous alert as superseded. When the alert of the firing rule ends, the most severe remaining rule fires. For
//! users, a group is an incident (crate `incidents`).
//!
//! # Texts
//!
//! While the condition of a rule is true, the summary, annotations and values of its alert are updated: `on: process`
//! at each tick, `on: gc` at each occurrence, at most once per second. A new maximum of the main figure and a higher
//! severity are recorded at once. When the condition is no longer true, the last texts are kept. Labels identify the
//! alert and do not change.
//!
//! # Time
//!
//! The current time is the argument of the last [`Engine::advance`]. Observations can be up to [`AHEAD_NS`] ahead of it
//! and [`BEHIND_NS`] behind it. Times outside this range are clamped, so that a stream cannot move the clock
//! arbitrarily. A tick occurs at every full second. After [`TICKS_DENSE`] ticks, the rest of a longer gap is divided
//! into at most [`TICKS_SPARSE`] longer steps. For shorter gaps, the number of calls does not affect the result.
//!
//! Rules `on: process` are evaluated at each tick and at collections, but not at a collection of generation 0 or 1
//! within [`APART_NS`] of the previous collection. Otherwise, a process with ten collections per second would cost ten
//! times the work for conditions on its last minutes. The effect of a skipped collection is evaluated at the next tick,
//! or when the process or the recording ends.
//!
//! All times are [`Moment`]s, so a `for` of five minutes measures elapsed time even if the wall clock is changed. Only
//! the date on which an exception expires is compared with the wall clock ([`StreamFacts::wall`]).
//!
//! # Start and end of a session
//!
//! The first collection after an attach and the last collection before an exit lack parts. The missing values are
//! unknown, and so are conditions on them. These collections are evaluated like all others, because the last collection
//! before an out-of-memory exit matters.
//!
//! # Memory
//!
//! [`Engine::most_memory`] is the upper limit for one process: the state of each rule, an alert (without its texts)
//! while the condition is true, and the samples of the windows, which take most of the memory (see
//! [`window`](super::window)); `benches/rules.rs` measures the memory. Rules that are not selected for the process take
//! no memory, and a process without collections takes almost none.
//!
//! # Speed
//!
//! A host has hundreds of processes, so the memory of one process is not in the CPU cache at its next collection. The
//! data that a collection touches is stored close together. Equal conditions and window values are evaluated once
//! (`plan`), and so are parts of conditions that several rules share (`conditions`). The part of a window's condition
//! that depends only on the kind of a collection is evaluated for the first collection of that kind (`kinds`). Half of
//! the series keep no samples; a collection touches four bytes of each (`windows`). Windows are read only when a
//! condition needs them. For a rule without a change, only the condition is read, which all processes share.

mod groups;
mod kinds;
mod preceding;
mod round;
mod run;
mod state;
mod windows;

use std::sync::Arc;

use clr_gc::gc::{Collection, Suspension};

use super::alert::{Alert, CollectionVerdict, Ending, HoldingRule, Transition};
use super::field::{self, GcFacts, MemoryTrends, NoWindows, ProcessFacts, Scope, StreamFacts, WindowValues};
use super::memory::MemoryHistory;
use super::plan::SampleTrigger;
use super::rule::{EvaluationTrigger, Rule};
use super::rule_set::RuleSet;
use super::window::{Key, ReadContext};
use base::time::{Moment, TimeBase, Wall};
use groups::{Groups, winner};
use kinds::{KindTruths, Kinds};
use preceding::PrecedingRestarts;
use round::Round;
use run::{Change, RuleRun};
use windows::Windows;

pub use run::HELD_UNKNOWN_NS;
pub use state::{RuleState, State};

/// Maximum time by which an observation can be ahead of the engine's time.
pub const AHEAD_NS: u64 = 10_000_000_000;

/// Maximum time by which an observation can be behind the engine's time.
pub const BEHIND_NS: u64 = 3_600_000_000_000;

/// Maximum number of one-second ticks in a call of [`Engine::advance`].
pub const TICKS_DENSE: u64 = 1024;

/// Maximum number of longer steps for the rest of a gap, after [`TICKS_DENSE`] ticks.
pub const TICKS_SPARSE: u64 = 512;

/// Minimum time between a collection of generation 0 or 1 and the previous collection. If the time is shorter, the
/// rules `on: process` are not evaluated at the collection.
pub const APART_NS: u64 = 1_000_000_000;

const TICK_NS: u64 = 1_000_000_000;

/// Returns the time of a collection as an offset in its stream: its end or, if the end is missing, its last event.
pub fn collection_at(collection: &Collection) -> i64 {
    collection.end.unwrap_or(collection.last_event)
}

/// Returns the time of a suspension without a collection as an offset in its stream: its last known edge, or `None` if
/// no edge is known.
pub fn suspension_at(suspension: &Suspension) -> Option<i64> {
    let edges = &suspension.edges;
    let restarted = edges.restart_end.or(edges.restart_begin);
    restarted.or(edges.suspend_end).or(edges.suspend_begin)
}

/// The collection on which conditions are evaluated, if any.
#[derive(Debug, Clone, Copy, Default)]
struct CurrentCollection<'a> {
    gc: Option<GcFacts<'a>>,
    key: Option<Key>,
    /// Number of the collection, or of the newest collection whose evaluation was deferred until now.
    number: Option<u32>,
}

/// All rules of one process. See the [module documentation](self).
#[derive(Debug)]
pub struct Engine {
    rules: Arc<RuleSet>,
    /// The subject whose rules are evaluated: see [`EvaluationTrigger::subject`].
    subject: EvaluationTrigger,
    facts: ProcessFacts,
    stream: StreamFacts,
    /// Start of observation, used if the stream facts do not state a start.
    began: Moment,
    /// The time of the last [`Engine::advance`].
    advanced: Moment,
    /// The newest time of an advance or an observation.
    now: Moment,
    /// The last tick, in seconds of the clock.
    ticked: u64,
    windows: Windows,
    kinds: Kinds,
    preceding: PrecedingRestarts,
    memory: MemoryHistory,
    runs: Vec<RuleRun>,
    on_gc: Round,
    on_process: Round,
    groups: Groups,
    next_number: u64,
    /// Time at which the last collection was observed.
    collected: Moment,
    /// Number of the last collection; `None` if the rules `on: process` have been evaluated since.
    unjudged: Option<u32>,
}

impl Engine {
    /// Creates the engine of a process to which gcwatch has just attached, or of a recording at its start.
    pub fn new(rules: Arc<RuleSet>, facts: ProcessFacts, now: Moment) -> Self {
        Self::about(EvaluationTrigger::Process, rules, facts, now)
    }

    /// Creates the engine of a service or of gcwatch itself. The engine runs the rules that are
    /// [about](EvaluationTrigger::subject) this subject.
    pub fn about(subject: EvaluationTrigger, rules: Arc<RuleSet>, facts: ProcessFacts, now: Moment) -> Self {
        let mut engine = Self {
            windows: Windows::new(&rules),
            kinds: Kinds::default(),
            runs: Vec::new(),
            on_gc: Round::new(&rules, true),
            on_process: Round::new(&rules, false),
            groups: Groups::default(),
            rules,
            subject: subject.subject(),
            facts,
            stream: StreamFacts::default(),
            began: now,
            advanced: now,
            now,
            ticked: now.ns() / TICK_NS,
            preceding: PrecedingRestarts::default(),
            memory: MemoryHistory::default(),
            next_number: 1,
            collected: Moment::FIRST,
            unjudged: None,
        };
        engine.place_rules(Vec::new());
        engine.select(Moment::FIRST);
        engine
    }

    /// Returns the rules that the engine runs.
    pub fn rules(&self) -> &Arc<RuleSet> {
        &self.rules
    }

    /// Returns the wall clock of the newest stream facts.
    pub fn wall(&self) -> Wall {
        self.stream.wall
    }

    /// Returns the subject: a process, a service, or gcwatch itself.
    pub fn subject(&self) -> EvaluationTrigger {
        self.subject
    }

    /// Updates the facts about the process, and evaluates the rules with them.
    pub fn learned(&mut self, facts: ProcessFacts, now: Moment) -> Vec<Transition> {
        let mut transitions = self.advance(now);
        self.facts = facts;
        self.windows.expire(self.now);
        self.select(self.now);
        self.end_unselected(&mut transitions);
        self.judge_process(CurrentCollection::default(), &mut transitions);
        self.settle_groups(&mut transitions);
        transitions
    }

    /// Updates the facts about the stream, except for the memory trends. The new facts take effect at the next
    /// evaluation.
    pub fn stream(&mut self, facts: StreamFacts) {
        let trends = self.stream.trends;
        self.stream = StreamFacts { trends, ..facts };
    }

    /// Returns level, trend and age of the memory of the process.
    pub fn memory_trends(&self) -> &MemoryTrends {
        &self.stream.trends
    }

    /// Updates the memory facts from the newest samples.
    fn measure_memory(&mut self) {
        self.stream.trends = self.memory.trends(&self.stream, field::limits(&self.facts));
    }

    /// Observes a collection. Collections must arrive in the order in which they ended, which is the order of the
    /// reconstruction. The time of a collection is its end or, if the end is missing, its last event.
    pub fn collection(&mut self, collection: &Collection, base: TimeBase) -> CollectionVerdict {
        let time = self.observed(base.moment(collection_at(collection)));
        let mut verdict = CollectionVerdict::default();
        if self.runs.is_empty() {
            return verdict;
        }
        self.windows.touch();
        self.expire(time, &mut verdict.transitions);
        self.memory.collection(collection, time);
        self.measure_memory();
        let facts = self.preceding.collection(collection);
        let current = CurrentCollection {
            gc: Some(facts),
            key: Key::from_collection(collection),
            number: Some(collection.number),
        };
        self.windows.expire(self.now);
        let scope = scope(&self.facts, &self.stream, self.now, current.gc, &NoWindows);
        let (rules, mut kinds) = (Arc::clone(&self.rules), std::mem::take(&mut self.kinds));
        let mut truths = kinds.for_current(&scope, &rules);
        self.windows.sample(SampleTrigger::Gc, None, &scope, time, &mut truths);
        self.judge_gc(current, time, &mut truths, &mut verdict);
        let is_young = matches!(collection.generation, Some(0 | 1));
        let before = std::mem::replace(&mut self.collected, self.now);
        if !is_young || self.now >= before.after(APART_NS) {
            self.judge_process(current, &mut verdict.transitions);
        } else {
            self.unjudged = current.number;
        }
        let scope = self::scope(&self.facts, &self.stream, self.now, current.gc, &NoWindows);
        self.windows
            .sample(SampleTrigger::Keyed, current.key, &scope, time, &mut truths);
        self.kinds = kinds;
        self.settle_groups(&mut verdict.transitions);
        verdict
    }

    /// Observes a suspension without a collection. The time of the suspension is its last known edge.
    pub fn suspension(&mut self, suspension: &Suspension, base: TimeBase) {
        if self.runs.is_empty() {
            return;
        }
        self.preceding.suspension(suspension);
        let Some(edge) = suspension_at(suspension) else { return };
        let time = self.observed(base.moment(edge));
        self.windows.expire(self.now);
        let scope = Scope {
            suspension: Some(suspension),
            ..Scope::new(&self.facts, &self.stream, self.now)
        };
        self.windows.sample(
            SampleTrigger::Suspension,
            None,
            &scope,
            time,
            &mut KindTruths::default(),
        );
    }

    /// Advances the time. Must be called about once per second. In a recording, it must also be called before each
    /// collection and suspension, with the time of this event.
    pub fn advance(&mut self, now: Moment) -> Vec<Transition> {
        self.advanced = self.advanced.max(now);
        let mut transitions = Vec::new();
        let until = self.advanced.ns() / TICK_NS;
        let gap = until.saturating_sub(self.ticked);
        if gap > 0 && self.on_process.is_empty() && !self.windows.has_ticks() && !self.any_active() {
            self.ticked = until;
        }
        let dense = self.ticked.saturating_add(TICKS_DENSE);
        let stride = gap.saturating_sub(TICKS_DENSE).div_ceil(TICKS_SPARSE).max(1);
        while self.ticked < until {
            let step = if self.ticked < dense { 1 } else { stride };
            self.ticked = self.ticked.saturating_add(step).min(until);
            self.now = self.now.max(Moment::from_ns(self.ticked.saturating_mul(TICK_NS)));
            self.tick(&mut transitions);
        }
        self.now = self.now.max(self.advanced);
        transitions
    }

    /// Evaluates the rules `on: process` if this was deferred at the last collection and no other event follows for
    /// now.
    pub fn catch_up(&mut self) -> Vec<Transition> {
        let mut transitions = Vec::new();
        if self.unjudged.is_some() {
            self.windows.expire(self.now);
            self.judge_process(CurrentCollection::default(), &mut transitions);
            self.settle_groups(&mut transitions);
        }
        transitions
    }

    /// Replaces the rules. A rule keeps its state if its id and meaning are unchanged; a window keeps its samples if
    /// its meaning is unchanged.
    pub fn adopt(&mut self, rules: Arc<RuleSet>, now: Moment) -> Vec<Transition> {
        let mut transitions = self.advance(now);
        self.wake();
        self.rules = rules;
        let windows = std::mem::replace(&mut self.windows, Windows::new(&self.rules));
        self.windows = windows.adopt(&self.rules);
        self.kinds = Kinds::default();
        let runs = std::mem::take(&mut self.runs);
        for gone in self.place_rules(runs) {
            if let Some(alert) = gone.status.firing() {
                transitions.push(Transition::Ended(ended(alert, self.now), Ending::RuleChanged));
            }
        }
        self.select(self.now);
        self.end_unselected(&mut transitions);
        self.settle_groups(&mut transitions);
        transitions
    }

    /// Evaluates the rules `on: process` with the last facts about a process that has exited.
    pub fn last(&mut self, facts: StreamFacts, now: Moment) -> Vec<Transition> {
        let mut transitions = self.advance(now);
        self.stream(facts);
        self.windows.expire(self.now);
        self.judge_process(CurrentCollection::default(), &mut transitions);
        self.settle_groups(&mut transitions);
        transitions
    }

    /// Closes all alerts because the process has exited.
    pub fn end(&mut self, now: Moment) -> Vec<Transition> {
        let mut transitions = self.advance(now);
        transitions.extend(self.catch_up());
        let now = self.now;
        for run in &mut self.runs {
            if let Some(alert) = run.status.firing() {
                transitions.push(Transition::Ended(ended(alert, now), Ending::ProcessEnded));
            }
            run.status.forget(now);
        }
        transitions
    }

    /// Returns the alerts that fire.
    pub fn alerts(&self) -> Vec<Arc<Alert>> {
        self.runs.iter().filter_map(|run| run.status.firing()).collect()
    }

    /// Returns the rules whose condition is true, including rules that their group inhibits.
    pub fn holding(&self) -> Vec<HoldingRule> {
        self.runs.iter().filter_map(RuleRun::holding).collect()
    }

    /// Returns the state of each rule in the order of the set.
    pub fn states(&self) -> Vec<RuleState> {
        let mut runs = self.runs.iter();
        let state = |rule: &Arc<Rule>| {
            let run = if rule.enabled { runs.next() } else { None };
            run.map_or_else(
                || RuleState {
                    since: self.began,
                    ..RuleState::default()
                },
                |run| {
                    let round = if rule.on == EvaluationTrigger::Gc {
                        &self.on_gc
                    } else {
                        &self.on_process
                    };
                    let (failures, last) = self.windows.failures(rule);
                    run.state(self.now, round.number, (failures, last))
                },
            )
        };
        self.rules.rules.iter().map(state).collect()
    }

    /// Returns the current memory of the samples of this process, in bytes.
    pub fn memory(&self) -> usize {
        self.windows.memory()
    }

    /// Returns the maximum memory of one process with these rules, in bytes. The texts of alerts are not included
    /// because alerts share them with notifications.
    pub fn most_memory(rules: &RuleSet) -> usize {
        let enabled = rules.rules.iter().filter(|rule| rule.enabled).count();
        size_of::<Self>()
            + MemoryHistory::MAX_BYTES
            + Kinds::most_memory(rules)
            + enabled * (size_of::<RuleRun>() + run::MAX_ACTIVE)
            + Self::most_window_memory(rules).map(|(_, bytes)| bytes).sum::<usize>()
    }

    /// Returns, for each series of samples of one process with these rules, the index of its window in the set and its
    /// maximum memory, in bytes.
    pub fn most_window_memory(rules: &RuleSet) -> impl Iterator<Item = (usize, usize)> {
        Windows::most_memory(rules)
    }

    /// Creates a run for each rule and returns previous runs that no longer have a rule.
    fn place_rules(&mut self, mut before: Vec<RuleRun>) -> Vec<RuleRun> {
        let now = self.now;
        let enabled = self.rules.rules.iter().filter(|rule| rule.enabled);
        self.runs.reserve_exact(enabled.clone().count());
        for rule in enabled {
            let same = |run: &RuleRun| run.rule.id == rule.id && run.rule.meaning == rule.meaning;
            let run = match before.iter().position(same) {
                Some(place) => before.swap_remove(place).with(Arc::clone(rule)),
                None => RuleRun::new(Arc::clone(rule), now),
            };
            self.runs.push(run);
        }
        self.groups = Groups::new(self.rules.turns.groups());
        self.on_gc = Round::new(&self.rules, true);
        self.on_process = Round::new(&self.rules, false);
        before
    }

    /// Wakes all rules: no rule is quiet until it is evaluated again.
    fn wake(&mut self) {
        self.on_gc.wake(&self.rules, &mut self.runs);
        self.on_process.wake(&self.rules, &mut self.runs);
    }

    /// Selects the rules for this process. Windows of other rules are not sampled. New windows start at `began`.
    fn select(&mut self, began: Moment) {
        self.wake();
        let scope = Scope::new(&self.facts, &self.stream, self.now);
        for run in &mut self.runs {
            run.select(&scope, self.subject);
        }
        let selected = self.runs.iter().filter(|run| run.status.is_selected());
        self.windows.select(selected.map(|run| &*run.rule), began);
    }

    fn end_unselected(&mut self, transitions: &mut Vec<Transition>) {
        for place in 0..self.runs.len() {
            if self.runs.get(place).is_some_and(|run| !run.status.is_selected()) {
                self.end_run(place, Ending::RuleChanged, self.now, transitions);
            }
        }
    }

    /// Returns the time of an observation, clamped to the range around the engine's time.
    fn observed(&mut self, at: Moment) -> Moment {
        let oldest = self.advanced.before(BEHIND_NS);
        let time = at.clamp(oldest, self.advanced.after(AHEAD_NS));
        self.now = self.now.max(time);
        time
    }

    fn any_active(&self) -> bool {
        self.runs.iter().any(|run| run.status.is_active())
    }

    fn watched(&self) -> u64 {
        self.now.since(self.stream.since.unwrap_or(self.began))
    }

    fn tick(&mut self, transitions: &mut Vec<Transition>) {
        self.windows.touch();
        self.expire(self.now, transitions);
        self.windows.expire(self.now);
        let limits = field::limits(&self.facts);
        self.memory.observe(self.now, &self.stream, limits);
        self.measure_memory();
        let scope = Scope::new(&self.facts, &self.stream, self.now);
        self.windows
            .sample(SampleTrigger::Tick, None, &scope, self.now, &mut KindTruths::default());
        self.judge_process(CurrentCollection::default(), transitions);
        self.settle_groups(transitions);
        self.refresh();
        self.settle_groups(transitions);
    }

    // Evaluation of the rules, and the resulting transitions.

    /// Closes alerts of rules `on: gc` that had no occurrence for `keep_firing_for`.
    fn expire(&mut self, now: Moment, transitions: &mut Vec<Transition>) {
        let expired = self.on_gc.awake(&self.rules);
        let expired = expired.filter_map(|place| Some((place, self.runs.get(place)?.expired(now)?)));
        for (place, at) in expired.collect::<Vec<_>>() {
            self.end_run(place, Ending::Cleared, at, transitions);
        }
    }

    fn judge_gc(
        &mut self,
        current: CurrentCollection<'_>,
        time: Moment,
        truths: &mut KindTruths<'_>,
        verdict: &mut CollectionVerdict,
    ) {
        let values = self.windows.values(current.key, self.asked());
        let scope = scope(&self.facts, &self.stream, self.now, current.gc, &values);
        let mut changes = Vec::new();
        self.on_gc
            .evaluate(&self.rules, &mut self.runs, &scope, truths, |place, run| {
                let occurrence = run.status.occurrence(&run.rule, &scope, time);
                if occurrence.matched {
                    verdict.matched.push(Arc::clone(&run.rule));
                    run.refresh(&scope);
                }
                if occurrence.change != Change::None {
                    changes.push((place, occurrence.change));
                }
            });
        self.apply(changes, current, &mut verdict.transitions);
    }

    fn judge_process(&mut self, current: CurrentCollection<'_>, transitions: &mut Vec<Transition>) {
        let left = self.unjudged.take();
        let current = CurrentCollection {
            number: current.number.or(left),
            ..current
        };
        let values = self.windows.values(current.key, self.asked());
        // Conditions of these rules do not use a collection because a tick has no collection.
        let scope = scope(&self.facts, &self.stream, self.now, None, &values);
        let mut changes = Vec::new();
        self.on_process.evaluate(
            &self.rules,
            &mut self.runs,
            &scope,
            &mut KindTruths::default(),
            |place, run| {
                let change = run.status.condition(&run.rule, &scope);
                if change != Change::None {
                    changes.push((place, change));
                }
            },
        );
        self.apply(changes, current, transitions);
    }

    /// Updates the texts of alerts of rules `on: process`. Alerts of rules `on: gc` are updated at each occurrence. If
    /// the severity of a rule rose, its group is settled again because the rule can supersede the alert that fires.
    fn refresh(&mut self) {
        let values = self.windows.values(None, self.asked());
        let scope = scope(&self.facts, &self.stream, self.now, None, &values);
        let active = self.runs.iter_mut().filter(|run| run.status.is_active());
        for run in active.filter(|run| run.rule.on != EvaluationTrigger::Gc) {
            if run.refresh(&scope)
                && let Some(group) = run.rule.group
            {
                self.groups.touch(group);
            }
        }
    }

    fn apply(
        &mut self,
        changes: Vec<(usize, Change)>,
        current: CurrentCollection<'_>,
        transitions: &mut Vec<Transition>,
    ) {
        for (place, change) in changes {
            match change {
                Change::None => {}
                Change::End(ending, at) => self.end_run(place, ending, at, transitions),
                Change::Begin { active } => self.begin(place, active, current, transitions),
            }
        }
    }

    fn begin(
        &mut self,
        place: usize,
        active: Moment,
        current: CurrentCollection<'_>,
        transitions: &mut Vec<Transition>,
    ) {
        let values = self.windows.values(current.key, self.asked());
        let Some(run) = self.runs.get_mut(place) else { return };
        let on_gc = run.rule.on == EvaluationTrigger::Gc;
        let gc = current.gc.filter(|_| on_gc);
        let scope = scope(&self.facts, &self.stream, self.now, gc, &values);
        let alert = Alert::new(&run.rule, &scope, active, current.number);
        let round = if on_gc { &mut self.on_gc } else { &mut self.on_process };
        round.wake_one(&self.rules, place, run);
        run.status.begin(alert, if on_gc { active } else { self.now });
        match run.rule.group {
            Some(group) => self.groups.touch(group),
            None => self.fire(place, transitions),
        }
    }

    fn asked(&self) -> ReadContext {
        ReadContext {
            now: self.now,
            watched: self.watched(),
            so_far: false,
        }
    }

    /// Returns the summary that a rule would have if the process had been observed for the full length of the rule's
    /// windows, and if the whole time were like the observed part. `for` is ignored. Returns `None` if the condition of
    /// the rule would be false or unknown.
    pub fn so_far(&self, rule: &Rule) -> Option<String> {
        let at = ReadContext {
            so_far: true,
            ..self.asked()
        };
        let values = self.windows.values(None, at);
        let scope = scope(&self.facts, &self.stream, self.now, None, &values);
        let holds = rule.when.holds(&scope) == Ok(Some(true));
        holds.then(|| rule.summary.render(&scope))
    }

    /// Fires the alert of a rule whose condition is true.
    fn fire(&mut self, place: usize, transitions: &mut Vec<Transition>) {
        let now = self.now;
        if let Some(alert) = self
            .runs
            .get_mut(place)
            .and_then(|run| run.status.fire(self.next_number, now))
        {
            self.next_number += 1;
            transitions.push(Transition::Fired(alert));
        }
    }

    fn end_run(&mut self, place: usize, ending: Ending, at: Moment, transitions: &mut Vec<Transition>) {
        let Some(run) = self.runs.get_mut(place).filter(|run| run.status.is_active()) else {
            return;
        };
        if let Some(alert) = run.end(ending, at) {
            transitions.push(Transition::Ended(ended(alert, at), ending));
        }
        if let Some(group) = run.rule.group {
            self.groups.touch(group);
        }
    }

    fn settle_groups(&mut self, transitions: &mut Vec<Transition>) {
        while let Some(group) = self.groups.next_touched() {
            let members = self.rules.turns.members(group);
            let Some(winner) = winner(members, &self.runs) else {
                continue;
            };
            let others = members.iter().map(|place| *place as usize);
            for place in others.filter(|place| *place != winner) {
                let Some(run) = self.runs.get_mut(place) else { continue };
                if let Some(alert) = run.status.inhibit(self.now) {
                    transitions.push(Transition::Ended(ended(alert, self.now), Ending::Superseded));
                }
            }
            self.fire(winner, transitions);
        }
    }
}

fn scope<'a>(
    process: &'a ProcessFacts,
    stream: &'a StreamFacts,
    now: Moment,
    gc: Option<GcFacts<'a>>,
    windows: &'a dyn WindowValues,
) -> Scope<'a> {
    Scope {
        gc,
        windows,
        ..Scope::new(process, stream, now)
    }
}

fn ended(mut alert: Arc<Alert>, at: Moment) -> Arc<Alert> {
    let ended = Arc::make_mut(&mut alert);
    ended.ended = Some(at.max(ended.started));
    alert
}
