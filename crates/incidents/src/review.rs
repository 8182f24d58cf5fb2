//! Applies rules to complete histories: a recording, or the events of a test.
//!
//! A [`Review`] passes events in the order of their time to an [`Engine`], and keeps all alerts and incidents. `gcwatch
//! analyze` and `gcwatch rules test` use this module; the daemon calls the same methods of its engines.

use std::collections::BTreeMap;
use std::sync::Arc;

use clr_gc::gc::{Collection, Finalizers, StopEdges, StoppedTime, Suspension};

use crate::{Incident, IncidentChange, Incidents};
use base::time::{Moment, TimeBase, Wall};
use known_rules::KnownRules;
use rule_engine::alert::{Alert, Ending, Transition};
use rule_engine::engine::{Engine, collection_at, suspension_at};
use rule_engine::field::{OperationStarts, ProcessFacts, StreamFacts};
use rule_engine::rule::{EvaluationTrigger, Rule};
use rule_engine::rule_set::RuleSet;

mod known_rules;

pub use known_rules::UnjudgedRules;

/// Nanoseconds per second.
const SECOND: u64 = 1_000_000_000;

/// The history of one process in a recording.
#[derive(Debug, Clone, Copy, Default)]
pub struct History<'a> {
    /// Collections, sorted by GCStart; collections without a GCStart come first.
    pub collections: &'a [Collection],
    /// Suspensions without a collection, sorted by time.
    pub suspensions: &'a [Suspension],
    /// Changes of the state of the finalizer thread, sorted by time.
    pub finalizers: &'a [(i64, Finalizers)],
}

/// A repeated history, see [`repeated`].
#[derive(Debug, Default)]
pub struct RepeatedHistory {
    collections: Vec<Collection>,
    suspensions: Vec<Suspension>,
    finalizers: Vec<(i64, Finalizers)>,
}

impl RepeatedHistory {
    /// Returns the whole history.
    pub fn history(&self) -> History<'_> {
        History {
            collections: &self.collections,
            suspensions: &self.suspensions,
            finalizers: &self.finalizers,
        }
    }
}

/// One step of a history.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "there is only one at a time")]
pub enum HistoryStep<'a> {
    Collection(&'a Collection),
    /// A suspension without a collection.
    Suspension(&'a Suspension),
    /// New facts about the stream.
    Stream(StreamFacts),
    /// New state of the finalizer thread.
    Finalizers(Finalizers),
    /// New facts about the process.
    Learned(ProcessFacts),
    /// The process exits.
    End,
}

/// The most recent state of an alert.
#[derive(Debug, Clone)]
pub struct ReviewedAlert {
    pub alert: Arc<Alert>,
    /// Reason why the alert ended; `None` if it still fires.
    pub ending: Option<Ending>,
}

impl ReviewedAlert {
    /// Returns the newest change of the alert.
    pub fn transition(&self) -> Transition {
        let alert = Arc::clone(&self.alert);
        match self.ending {
            None => Transition::Fired(alert),
            Some(ending) => Transition::Ended(alert, ending),
        }
    }

    /// Returns the name of the alert's group in the alert's rule set, or `None` if the rule has no group.
    pub fn group<'r>(&self, rules: &'r RuleSet) -> Option<&'r str> {
        rules.groups.get(self.alert.rule.group?).map(|group| &*group.name)
    }
}

/// Evaluation of the rules about one process, one service or gcwatch itself.
#[derive(Debug)]
pub struct Review {
    engine: Engine,
    base: TimeBase,
    /// The newest facts about the stream.
    stream: StreamFacts,
    alerts: BTreeMap<u64, ReviewedAlert>,
    incidents: Incidents,
    /// Stopped time of the process so far.
    stopped: StoppedTime,
    /// All incidents by number, in their current or final state.
    all_incidents: BTreeMap<u64, Arc<Incident>>,
    matched: BTreeMap<u32, Vec<Arc<Rule>>>,
    judged: KnownRules,
}

impl Review {
    /// Creates a review of the rules about a process, a service or gcwatch itself. The review starts at offset 0.
    pub fn about(subject: EvaluationTrigger, rules: Arc<RuleSet>, facts: ProcessFacts, base: TimeBase) -> Self {
        let mut review = Self {
            engine: Engine::about(subject, rules, facts, base.moment(0)),
            base,
            stream: StreamFacts::default(),
            alerts: BTreeMap::new(),
            incidents: Incidents::default(),
            stopped: StoppedTime::default(),
            all_incidents: BTreeMap::new(),
            matched: BTreeMap::new(),
            judged: KnownRules::default(),
        };
        let stream = StreamFacts {
            since: Some(base.moment(0)),
            ..StreamFacts::default()
        };
        review.step(0, &HistoryStep::Stream(stream));
        review
    }

    /// Reviews the history of a process in a recording. `observed_ns` is the time from the sync point to the last
    /// event. `lost_events` is the number of events that are missing in the whole recording; `None` if unknown.
    pub fn for_recording(
        rules: Arc<RuleSet>,
        facts: ProcessFacts,
        base: TimeBase,
        history: History<'_>,
        observed_ns: i64,
        lost_events: Option<u64>,
    ) -> Self {
        let mut review = Self::about(EvaluationTrigger::Process, rules, facts, base);
        let stream = |lost_events| StreamFacts {
            since: Some(base.moment(0)),
            lost_events,
            ..StreamFacts::default()
        };
        review.step(0, &HistoryStep::Stream(stream(lost_events.map(|_| 0))));
        for (at, step) in steps(history) {
            review.step(at, &step);
        }
        // The times at which events were lost are known only for individual collections, so the count stays 0 until the
        // end.
        let open = open(history, base);
        let known = review.stream;
        let at_the_end = |lost_events| {
            HistoryStep::Stream(StreamFacts {
                open: OperationStarts {
                    finalizers: known.open.finalizers,
                    ..open
                },
                finalizers_waiting: known.finalizers_waiting,
                ..stream(lost_events)
            })
        };
        review.step(observed_ns, &at_the_end(lost_events.map(|_| 0)));
        review.until(observed_ns);
        if lost_events > Some(0) {
            // Rules read the count at each full second. At the first full second after the end, the count is still 0;
            // one second later, the count is complete.
            let passed = i64::try_from(base.moment(observed_ns).ns() % SECOND).unwrap_or(0);
            let next = observed_ns.saturating_add(SECOND as i64 - passed);
            review.until(next);
            review.step(next, &at_the_end(lost_events));
            review.until(next.saturating_add(SECOND as i64));
        }
        review
    }

    /// Applies a step. `at` is the offset from the sync point, in nanoseconds.
    pub fn step(&mut self, at: i64, step: &HistoryStep<'_>) {
        let now = self.base.moment(at);
        let passed = self.engine.advance(now);
        self.take(passed, now);
        match step {
            HistoryStep::Collection(collection) => {
                let verdict = self.engine.collection(collection, self.base);
                if !verdict.matched.is_empty() {
                    self.matched
                        .entry(collection.number)
                        .or_default()
                        .extend(verdict.matched);
                }
                self.stopped.add(collection);
                self.incidents.set_stopped_time(self.base.moment(0), self.stopped);
                self.take(verdict.transitions, now);
                self.judged.at_collection(&self.engine);
            }
            HistoryStep::Suspension(suspension) => self.engine.suspension(suspension, self.base),
            HistoryStep::Stream(facts) => {
                self.stream = *facts;
                self.engine.stream(*facts);
            }
            HistoryStep::Finalizers(state) => {
                self.stream.open.finalizers = state.begun.map(|at| self.base.moment(at));
                self.stream.finalizers_waiting = state.waiting;
                self.engine.stream(self.stream);
            }
            HistoryStep::Learned(facts) => {
                let changed = self.engine.learned(facts.clone(), now);
                self.take(changed, now);
            }
            HistoryStep::End => {
                let ended = self.engine.end(now);
                self.take(ended, now);
            }
        }
    }

    /// Advances the time to `at`, and updates the state of firing alerts.
    pub fn until(&mut self, at: i64) {
        let now = self.base.moment(at);
        let mut passed = self.engine.advance(now);
        passed.extend(self.engine.catch_up());
        self.take(passed, now);
        self.judged.look(&self.engine);
        for alert in self.engine.alerts() {
            let ending = None;
            self.alerts.insert(alert.number, ReviewedAlert { alert, ending });
        }
    }

    /// Returns the rules that could not be evaluated so far. `watched_ns` is the duration for which the process has
    /// been observed.
    pub fn not_judged(&self, watched_ns: i64) -> UnjudgedRules {
        self.judged
            .others(&self.engine, u64::try_from(watched_ns).unwrap_or_default())
    }

    /// Returns the current state of the engine.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Returns all alerts in the order in which they started to fire. Firing alerts have the state of the last
    /// [`until`](Self::until).
    pub fn alerts(&self) -> impl Iterator<Item = &ReviewedAlert> {
        self.alerts.values()
    }

    /// Returns all incidents in the order in which they started, in their current or final state.
    pub fn incidents(&self) -> impl Iterator<Item = &Arc<Incident>> {
        self.all_incidents.values()
    }

    /// Returns the rules whose condition is true for the collection with this number.
    pub fn matched(&self, number: u32) -> &[Arc<Rule>] {
        self.matched.get(&number).map_or(&[], Vec::as_slice)
    }

    fn take(&mut self, transitions: Vec<Transition>, now: Moment) {
        if !transitions.is_empty() || !self.incidents.is_empty() {
            let (rules, holding) = (Arc::clone(self.engine.rules()), self.engine.holding());
            let changes = self
                .incidents
                .observe(&rules, &transitions, &holding, (now, Wall::UNIX));
            let changed = changes
                .iter()
                .map(IncidentChange::incident)
                .chain(self.incidents.open());
            for incident in changed {
                self.all_incidents.insert(incident.number, Arc::clone(incident));
            }
        }
        for transition in transitions {
            let (alert, ending) = match transition {
                Transition::Fired(alert) => (alert, None),
                Transition::Ended(alert, ending) => (alert, Some(ending)),
            };
            self.alerts.insert(alert.number, ReviewedAlert { alert, ending });
        }
    }
}

/// Returns the steps of a history, with their offsets, in the order in which a live session delivers them.
pub fn steps(history: History<'_>) -> Vec<(i64, HistoryStep<'_>)> {
    let collections = history.collections.iter();
    let collections = collections.map(|collection| (collection_at(collection), HistoryStep::Collection(collection)));
    let suspensions = history.suspensions.iter();
    let suspensions =
        suspensions.filter_map(|suspension| Some((suspension_at(suspension)?, HistoryStep::Suspension(suspension))));
    let finalizers = history.finalizers.iter();
    let finalizers = finalizers.map(|(at, state)| (*at, HistoryStep::Finalizers(*state)));
    let mut steps: Vec<_> = collections.chain(suspensions).chain(finalizers).collect();
    steps.sort_by_key(|(at, _)| *at);
    steps
}

/// Returns the operations in progress at the end of a recording: the newest collection if it has no end, and the newest
/// suspension if the threads were not restarted.
fn open(history: History<'_>, base: TimeBase) -> OperationStarts {
    let moment = |at: Option<i64>| at.map(|at| base.moment(at));
    let newest = history
        .collections
        .iter()
        .max_by_key(|collection| collection.last_event);
    let unended = newest.filter(|collection| collection.end.is_none());
    let stopped = history.suspensions.iter().map(|suspension| suspension.edges);
    let stopped = stopped.chain(
        newest
            .iter()
            .flat_map(|collection| collection.pauses.iter().map(|pause| pause.edges)),
    );
    let newest_stop = stopped.max_by_key(|edges| edges.suspend_begin);
    let begun = |background| {
        let collection = unended.filter(|collection| collection.is_concurrent() == background)?;
        moment(collection.start)
    };
    OperationStarts {
        stop: newest_stop
            .filter(|edges| edges.restart_end.is_none())
            .and_then(|edges| moment(edges.suspend_begin)),
        collection: begun(false),
        background: begun(true),
        requested_by_tool: unended.and_then(|collection| collection.requested_by_tool),
        finalizers: None,
    }
}

/// Concatenates `rounds` copies of a recording to simulate a longer run. `length_ns` is the duration of one copy.
pub fn repeated(history: History<'_>, length_ns: i64, rounds: u32) -> RepeatedHistory {
    let mut whole = RepeatedHistory::default();
    let numbers = history
        .collections
        .iter()
        .map(|collection| collection.number)
        .max()
        .unwrap_or(0);
    for round in 0..rounds {
        let by = length_ns.saturating_mul(round.into());
        let later = numbers.saturating_mul(round);
        whole.collections.extend(history.collections.iter().map(|collection| {
            let mut collection = collection.clone();
            collection.number = collection.number.saturating_add(later);
            collection.background = collection.background.map(|number| number.saturating_add(later));
            collection.last_event = collection.last_event.saturating_add(by);
            for time in [&mut collection.start, &mut collection.end] {
                delay(time, by);
            }
            for pause in &mut collection.pauses {
                delay(&mut pause.start, by);
                delay_edges(&mut pause.edges, by);
                for (from, to) in &mut pause.spans {
                    (*from, *to) = (from.saturating_add(by), to.saturating_add(by));
                }
            }
            collection
        }));
        whole.suspensions.extend(history.suspensions.iter().map(|suspension| {
            let mut suspension = suspension.clone();
            delay_edges(&mut suspension.edges, by);
            suspension
        }));
        // If a round of the finalizer thread is in progress at the end of a copy, the round continues in the next copy.
        let before = whole.finalizers.last().map(|(_, state)| *state).unwrap_or_default();
        let mut running = before.begun;
        // Waiting objects that a collection finds before the first round of a copy do not end a continued round.
        let mut is_first = true;
        whole.finalizers.extend(history.finalizers.iter().map(|(at, state)| {
            let found = is_first && state.begun.is_none() && state.waiting.is_some_and(|waiting| waiting > 0);
            is_first = found;
            let begun = match (running, state.begun) {
                (Some(since), Some(_)) => Some(since),
                (Some(since), None) if found => Some(since),
                (_, begun) => {
                    running = None;
                    begun.map(|at| at.saturating_add(by))
                }
            };
            let waited = running.and(before.waiting).unwrap_or(0);
            let waiting = state.waiting.map(|waiting| waiting.saturating_add(waited));
            (at.saturating_add(by), Finalizers { begun, waiting })
        }));
    }
    whole
}

fn delay(time: &mut Option<i64>, by: i64) {
    *time = time.map(|time| time.saturating_add(by));
}

fn delay_edges(edges: &mut StopEdges, by: i64) {
    let StopEdges {
        suspend_begin,
        suspend_end,
        restart_begin,
        restart_end,
        thread: _,
    } = edges;
    for time in [suspend_begin, suspend_end, restart_begin, restart_end] {
        delay(time, by);
    }
}
