//! The state of every rule for one process.
//!
//! ```text
//! collection -> windows of gc.*       -> rules on: gc, on: process -> windows by key -> groups -> Verdict
//! suspension -> windows of suspension.*
//! tick       -> windows of process.*, stream.* -> rules on: process, ends -> groups -> Transitions
//! ```
//!
//! # A rule
//!
//! | State | When |
//! |---|---|
//! | not selected | its `select` is false or unknown; evaluated again when more is known of the process |
//! | inactive | the condition is false |
//! | unknown | the condition is unknown, or its evaluation failed (which is counted): no alert. Pending rules are reset |
//! | pending | the condition holds, not yet for `for`; or the cooldown is not over |
//! | firing | there is an alert. `on: process`: until the condition was false (or `clear` true) for `keep_firing_for`, or unknown for [`HELD_UNKNOWN_NS`]. `on: gc`: until `keep_firing_for` after the last occurrence, or a collection on which `clear` holds |
//! | inhibited | as firing, but a more severe one of its group, or an equal one that was first, fires instead |
//! | excepted | the condition holds and an exception applies |
//!
//! The cooldown begins when an alert was cleared or became unknown. Occurrences of a rule `on: gc` during it, and
//! alerts of other rules that would begin and end during it, are counted as suppressed in the next alert; a condition
//! that holds until its end fires then.
//!
//! # Groups
//!
//! Of the rules of a group that hold at once, one fires: the most severe; of equals the one that fires already, else
//! the first in the files. A more severe one ends the previous one as superseded. When it ends, the most severe one
//! that still holds fires. What people see of a group is an [incident](super::incident).
//!
//! # Texts
//!
//! While a rule holds, the summary, annotations and values of its alert are rendered anew: `on: process` at each tick,
//! `on: gc` at each occurrence, at most once a second. After that the last ones stay. Labels stay: they identify it.
//!
//! # Time
//!
//! The time is that of the last [`Engine::advance`]. Observations can be up to [`AHEAD_NS`] ahead of it and
//! [`BEHIND_NS`] behind; times beyond are limited to that, so that a stream cannot move the clock arbitrarily. There is
//! a tick at every full second; a gap of more than [`TICKS_DENSE`] seconds continues in at most [`TICKS_SPARSE`] longer
//! steps. Up to that gap, the number of steps makes no difference.
//!
//! Rules `on: process` are evaluated at each tick and at collections, but not at one of generation 0 or 1 that comes
//! within [`APART_NS`] of the one before it: a process with ten a second would else cost ten times the work for
//! conditions on its last minutes. What such a one did is seen at the next tick, or when the process or the recording
//! ends.
//!
//! All times are [`Moment`]s: a `for` of five minutes is one of five minutes that passed, however the wall clock is
//! set. Only the date on which an exception expires is compared with what the wall clock shows ([`StreamFacts::wall`]).
//!
//! # Edges of a session
//!
//! The first collection after an attach and the last before an end miss parts. Their values are unknown and so are
//! conditions with them. They are evaluated like all others: the last collection before an out-of-memory exit matters.
//!
//! # Memory
//!
//! [`Engine::most_memory`] is the upper limit for one process: for each rule its state and, while it holds, an alert,
//! and the samples of its windows, which are most of it (see [`window`](super::window)); `benches/rules.rs` measures
//! it. Rules that are not for this process take no memory, and a process without collections almost none.
//!
//! # Speed
//!
//! A host has hundreds of processes, so the memory of one is cold at its next collection. What each collection touches
//! is close together: equal conditions and values of windows are evaluated once (`plan`), so are parts of conditions
//! that several rules have (`conditions`). The part of a window's condition that depends on the kind of a collection
//! alone is evaluated for the first one of that kind (`kinds`). Half of the series keep no samples: of these a
//! collection touches four bytes (`windows`). Windows are read only when a condition needs them, and of a rule without
//! a change only the condition is read, which all processes share.

mod groups;
mod kinds;
mod preceding;
mod round;
mod run;
mod state;
mod windows;

use std::sync::Arc;

use clr_gc::gc::{Collection, Suspension};

use super::alert::{Alert, CollectionVerdict, Ending, Holding, Transition};
use super::field::{self, GcFacts, MemoryTrends, NoWindows, ProcessFacts, Scope, StreamFacts, WindowValues};
use super::memory::MemoryHistory;
use super::plan::When;
use super::rule::{On, Rule};
use super::rule_set::RuleSet;
use super::window::{Asked, Key};
use base::time::{Moment, TimeBase, Wall};
use groups::{Groups, winner};
use kinds::{KindTruths, Kinds};
use preceding::Preceding;
use round::Round;
use run::{Change, RuleRun};
use windows::Windows;

pub use run::HELD_UNKNOWN_NS;
pub use state::{RuleState, State};

/// How far the time of an observation can be ahead of the engine's.
pub const AHEAD_NS: u64 = 10_000_000_000;

/// How far it can be behind.
pub const BEHIND_NS: u64 = 3_600_000_000_000;

/// Maximum number of one-second ticks in a call of [`Engine::advance`].
pub const TICKS_DENSE: u64 = 1024;

/// Maximum number of longer steps for the rest of the gap.
pub const TICKS_SPARSE: u64 = 512;

/// Rules `on: process` are evaluated at a collection of generation 0 or 1 that comes so long after the one before it.
pub const APART_NS: u64 = 1_000_000_000;

const TICK_NS: u64 = 1_000_000_000;

/// The time of a collection: its end, or if that was not seen its last event. Offset in its stream.
pub fn collection_at(collection: &Collection) -> i64 {
    collection.end.unwrap_or(collection.last_event)
}

/// The time of a suspension without a collection: its last known edge. Offset in its stream.
pub fn suspension_at(suspension: &Suspension) -> Option<i64> {
    let edges = &suspension.edges;
    let restarted = edges.restart_end.or(edges.restart_begin);
    restarted.or(edges.suspend_end).or(edges.suspend_begin)
}

/// The current collection, if conditions are evaluated on one.
#[derive(Debug, Clone, Copy, Default)]
struct Current<'a> {
    gc: Option<GcFacts<'a>>,
    key: Option<Key>,
    /// Its number, or that of the newest one whose evaluation was left to this one.
    number: Option<u32>,
}

/// Every rule of one process. See the [module](self).
#[derive(Debug)]
pub struct Engine {
    rules: Arc<RuleSet>,
    /// Whose rules it evaluates: see [`On::subject`].
    subject: On,
    facts: ProcessFacts,
    stream: StreamFacts,
    /// When watching began, unless the stream facts say.
    began: Moment,
    /// The time of the last [`Engine::advance`].
    advanced: Moment,
    /// The newest time of an advance or an observation.
    now: Moment,
    /// The last tick, in seconds of the clock.
    ticked: u64,
    windows: Windows,
    kinds: Kinds,
    preceding: Preceding,
    memory: MemoryHistory,
    runs: Vec<RuleRun>,
    on_gc: Round,
    on_process: Round,
    groups: Groups,
    next_number: u64,
    /// When the last collection was observed.
    collected: Moment,
    /// The number of the last collection, if the rules `on: process` were not evaluated since.
    unjudged: Option<u32>,
}

impl Engine {
    /// The state of a process that was just attached to, or of a recording at its beginning.
    pub fn new(rules: Arc<RuleSet>, facts: ProcessFacts, now: Moment) -> Self {
        Self::about(On::Process, rules, facts, now)
    }

    /// The state of a service, or of gcwatch itself: of the rules those that are [about](On::subject) it.
    pub fn about(subject: On, rules: Arc<RuleSet>, facts: ProcessFacts, now: Moment) -> Self {
        let mut engine = Self {
            windows: Windows::new(&rules),
            kinds: Kinds::default(),
            runs: Vec::new(),
            on_gc: Round::of(&rules, true),
            on_process: Round::of(&rules, false),
            groups: Groups::default(),
            rules,
            subject: subject.subject(),
            facts,
            stream: StreamFacts::default(),
            began: now,
            advanced: now,
            now,
            ticked: now.ns() / TICK_NS,
            preceding: Preceding::default(),
            memory: MemoryHistory::default(),
            next_number: 1,
            collected: Moment::FIRST,
            unjudged: None,
        };
        engine.place_rules(Vec::new());
        engine.select(Moment::FIRST);
        engine
    }

    /// The rules that it runs.
    pub fn rules(&self) -> &Arc<RuleSet> {
        &self.rules
    }

    /// What the wall clock shows, by the newest facts on the stream.
    pub fn wall(&self) -> Wall {
        self.stream.wall
    }

    /// What it is about: a process, a service, gcwatch itself.
    pub fn subject(&self) -> On {
        self.subject
    }

    /// New facts on the process.
    pub fn learned(&mut self, facts: ProcessFacts, now: Moment) -> Vec<Transition> {
        let mut transitions = self.advance(now);
        self.facts = facts;
        self.windows.expire(self.now);
        self.select(self.now);
        self.end_unselected(&mut transitions);
        self.judge_process(Current::default(), &mut transitions);
        self.settle_groups(&mut transitions);
        transitions
    }

    /// New facts on the stream. They are used from the next evaluation on.
    pub fn stream(&mut self, facts: StreamFacts) {
        let trends = self.stream.trends;
        self.stream = StreamFacts { trends, ..facts };
    }

    /// Level, trend and age of the memory of the process.
    pub fn memory_trends(&self) -> &MemoryTrends {
        &self.stream.trends
    }

    /// Brings the facts about memory up to the newest samples.
    fn measure_memory(&mut self) {
        self.stream.trends = self.memory.trends(&self.stream, field::limits(&self.facts));
    }

    /// Observes a collection. They come in the order of their ends, as from the reconstruction. Its time is its end, or
    /// if that was not seen its last event.
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
        let current = Current {
            gc: Some(facts),
            key: Key::of(collection),
            number: Some(collection.number),
        };
        self.windows.expire(self.now);
        let scope = scope(&self.facts, &self.stream, self.now, current.gc, &NoWindows);
        let (rules, mut kinds) = (Arc::clone(&self.rules), std::mem::take(&mut self.kinds));
        let mut truths = kinds.of_current(&scope, &rules);
        self.windows.sample(When::Gc, None, &scope, time, &mut truths);
        self.judge_gc(current, time, &mut truths, &mut verdict);
        let is_young = matches!(collection.generation, Some(0 | 1));
        let before = std::mem::replace(&mut self.collected, self.now);
        if !is_young || self.now >= before.after(APART_NS) {
            self.judge_process(current, &mut verdict.transitions);
        } else {
            self.unjudged = current.number;
        }
        let scope = self::scope(&self.facts, &self.stream, self.now, current.gc, &NoWindows);
        self.windows.sample(When::Keyed, current.key, &scope, time, &mut truths);
        self.kinds = kinds;
        self.settle_groups(&mut verdict.transitions);
        verdict
    }

    /// Observes a suspension without a collection. Its time is its last known edge.
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
        self.windows
            .sample(When::Suspension, None, &scope, time, &mut KindTruths::default());
    }

    /// Advances the time. Called about once a second, and before each collection and suspension of a recording with its
    /// time.
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

    /// Evaluates the rules `on: process`, if they were not since the last collection: nothing comes after it for now.
    pub fn catch_up(&mut self) -> Vec<Transition> {
        let mut transitions = Vec::new();
        if self.unjudged.is_some() {
            self.windows.expire(self.now);
            self.judge_process(Current::default(), &mut transitions);
            self.settle_groups(&mut transitions);
        }
        transitions
    }

    /// Replaces the rules. A rule keeps its state if its id and meaning are unchanged; a window keeps its samples if
    /// its meaning is.
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
        self.judge_process(Current::default(), &mut transitions);
        self.settle_groups(&mut transitions);
        transitions
    }

    /// The process exited, so its alerts end.
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

    /// The alerts that fire.
    pub fn alerts(&self) -> Vec<Arc<Alert>> {
        self.runs.iter().filter_map(|run| run.status.firing()).collect()
    }

    /// The rules that hold, with those that their group inhibits.
    pub fn holding(&self) -> Vec<Holding> {
        self.runs.iter().filter_map(RuleRun::holding).collect()
    }

    /// The state of each rule, by its place in the set.
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
                    let round = if rule.on == On::Gc {
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

    /// Current memory of the samples of this process, bytes.
    pub fn memory(&self) -> usize {
        self.windows.memory()
    }

    /// Maximum memory of one process with these rules, bytes, without its alerts, which share their texts with
    /// notifications.
    pub fn most_memory(rules: &RuleSet) -> usize {
        let enabled = rules.rules.iter().filter(|rule| rule.enabled).count();
        size_of::<Self>()
            + MemoryHistory::MAX_BYTES
            + Kinds::most_memory(rules)
            + enabled * (size_of::<RuleRun>() + run::MOST_ACTIVE)
            + Self::most_window_memory(rules).map(|(_, bytes)| bytes).sum::<usize>()
    }

    /// Maximum memory of each series of samples of one process with these rules, with the place of its window in the
    /// set.
    pub fn most_window_memory(rules: &RuleSet) -> impl Iterator<Item = (usize, usize)> {
        Windows::most_memory(rules)
    }

    /// Creates a run for each rule; returns previous runs without a rule.
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
        self.on_gc = Round::of(&self.rules, true);
        self.on_process = Round::of(&self.rules, false);
        before
    }

    /// No rule is quiet until it is evaluated again.
    fn wake(&mut self) {
        self.on_gc.wake(&self.rules, &mut self.runs);
        self.on_process.wake(&self.rules, &mut self.runs);
    }

    /// Selects the rules for this process. Windows of other rules are not sampled; new windows began at `began`.
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

    /// The time of an observation, limited relative to the engine's time.
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
            .sample(When::Tick, None, &scope, self.now, &mut KindTruths::default());
        self.judge_process(Current::default(), transitions);
        self.settle_groups(transitions);
        self.refresh();
        self.settle_groups(transitions);
    }

    // Evaluation of the rules, and the resulting transitions.

    /// Ends alerts of rules `on: gc` that had no occurrence for `keep_firing_for`.
    fn expire(&mut self, now: Moment, transitions: &mut Vec<Transition>) {
        let expired = self.on_gc.awake(&self.rules);
        let expired = expired.filter_map(|place| Some((place, self.runs.get(place)?.expired(now)?)));
        for (place, at) in expired.collect::<Vec<_>>() {
            self.end_run(place, Ending::Cleared, at, transitions);
        }
    }

    fn judge_gc(
        &mut self,
        current: Current<'_>,
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

    fn judge_process(&mut self, current: Current<'_>, transitions: &mut Vec<Transition>) {
        let left = self.unjudged.take();
        let current = Current {
            number: current.number.or(left),
            ..current
        };
        let values = self.windows.values(current.key, self.asked());
        // Their conditions do not use a collection: at a tick there is none.
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

    /// Renders alerts of rules `on: process` again. Alerts of rules `on: gc` are rendered at each occurrence. The
    /// group of a rule whose severity rose is settled again: that rule can supersede the one that fires.
    fn refresh(&mut self) {
        let values = self.windows.values(None, self.asked());
        let scope = scope(&self.facts, &self.stream, self.now, None, &values);
        let active = self.runs.iter_mut().filter(|run| run.status.is_active());
        for run in active.filter(|run| run.rule.on != On::Gc) {
            if run.refresh(&scope)
                && let Some(group) = run.rule.group
            {
                self.groups.touch(group);
            }
        }
    }

    fn apply(&mut self, changes: Vec<(usize, Change)>, current: Current<'_>, transitions: &mut Vec<Transition>) {
        for (place, change) in changes {
            match change {
                Change::None => {}
                Change::End(ending, at) => self.end_run(place, ending, at, transitions),
                Change::Begin { active } => self.begin(place, active, current, transitions),
            }
        }
    }

    fn begin(&mut self, place: usize, active: Moment, current: Current<'_>, transitions: &mut Vec<Transition>) {
        let values = self.windows.values(current.key, self.asked());
        let Some(run) = self.runs.get_mut(place) else { return };
        let on_gc = run.rule.on == On::Gc;
        let gc = current.gc.filter(|_| on_gc);
        let scope = scope(&self.facts, &self.stream, self.now, gc, &values);
        let alert = Alert::of(&run.rule, &scope, active, current.number);
        let round = if on_gc { &mut self.on_gc } else { &mut self.on_process };
        round.wake_one(&self.rules, place, run);
        run.status.begin(alert, if on_gc { active } else { self.now });
        match run.rule.group {
            Some(group) => self.groups.touch(group),
            None => self.fire(place, transitions),
        }
    }

    fn asked(&self) -> Asked {
        Asked {
            now: self.now,
            watched: self.watched(),
            so_far: false,
        }
    }

    /// What a rule would report if the process had been watched for as long as its windows require, and all of that
    /// time were like what was seen; without `for`. `None`: it would not fire, or is unknown all the same.
    pub(crate) fn so_far(&self, rule: &Rule) -> Option<String> {
        let at = Asked {
            so_far: true,
            ..self.asked()
        };
        let values = self.windows.values(None, at);
        let scope = scope(&self.facts, &self.stream, self.now, None, &values);
        let holds = rule.when.holds(&scope) == Ok(Some(true));
        holds.then(|| rule.summary.render(&scope))
    }

    /// Fires the alert of a rule that holds.
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
