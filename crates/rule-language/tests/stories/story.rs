//! A process with rules, and its events.

use std::sync::Arc;

use base::time::{Moment, TimeBase, Wall};
use clr_gc::event::{GcReason, GcType};
use clr_gc::gc::{Collection, Pause, PauseKind};
use rule_engine::alert::{CollectionVerdict, Transition};
use rule_engine::engine::{Engine, State};
use rule_engine::field::{OperationStarts, ProcessFacts, StreamFacts};
use rule_engine::rule_set::RuleSet;
use rule_language::load::{SourceFile, load};

pub(crate) const S: u64 = 1_000_000_000;
pub(crate) const MS: i64 = 1_000_000;

/// Start of the stories, in Unix seconds.
pub(crate) const BEGIN: u64 = 1_700_000_000;

/// A step of a story.
#[derive(Debug, Clone)]
pub(crate) enum StoryEvent {
    /// No event; time passes.
    Nothing,
    /// A collection of generation 0 with a pause in milliseconds.
    Gc(i64),
    /// A blocking collection of generation 2 with a pause in milliseconds.
    Full(i64),
    /// A collection whose data is unknown.
    Blind,
    /// The process gets this name.
    Named(&'static str),
    /// A collection has been open since this second of the story; `None` if no collection is open.
    Open(Option<u64>),
    /// The rules are replaced.
    Rules(&'static str),
    /// The process exits.
    End,
}

/// Loads rules from the text of their list.
pub(crate) fn rules(list: &str) -> Arc<RuleSet> {
    if list.is_empty() {
        return Arc::default();
    }
    let header = "apiVersion: gcwatch/v1\ngroups: {g: One group, h: Another one}\nrules:\n";
    load_file(&format!("{header}{list}"))
}

/// Loads the rules of a file.
pub(crate) fn load_file(text: &str) -> Arc<RuleSet> {
    let loaded = load(&[SourceFile::new("test.yaml", text)]);
    Arc::new(loaded.unwrap_or_else(|problems| panic!("{problems:#?}")).rules)
}

/// A process and its engine.
pub(crate) struct Story {
    pub(crate) engine: Engine,
    pub(crate) number: u32,
    wall: Wall,
    /// Second of the story since which a collection is open; `None` if no collection is open.
    open: Option<u64>,
}

impl Story {
    pub(crate) fn from_list(list: &str) -> Self {
        Self::with(rules(list))
    }

    pub(crate) fn with(rules: Arc<RuleSet>) -> Self {
        Self {
            engine: Engine::new(rules, ProcessFacts::default(), moment(0.0)),
            number: 0,
            wall: Wall::UNIX,
            open: None,
        }
    }

    /// Sets the wall clock forward by `by_seconds`, or back if `by_seconds` is negative.
    pub(crate) fn set_clock(&mut self, by_seconds: i64) {
        self.wall = Wall::ahead(self.wall.ahead_ns() + by_seconds * 1000 * MS);
        self.update_stream();
    }

    fn update_stream(&mut self) {
        let collection = self.open.map(|since| moment(since as f64));
        let open = OperationStarts {
            collection,
            ..OperationStarts::default()
        };
        self.engine.stream(StreamFacts {
            open,
            wall: self.wall,
            ..StreamFacts::default()
        });
    }

    /// Plays an event at `at` seconds and returns the transitions, without the rules that matched the collection.
    pub(crate) fn step(&mut self, at: f64, what: &StoryEvent) -> Vec<Transition> {
        let now = moment(at);
        let mut transitions = self.engine.advance(now);
        match what {
            StoryEvent::Nothing => {}
            StoryEvent::Gc(pause) => transitions.extend(self.collection(at, 0, Some(*pause)).transitions),
            StoryEvent::Full(pause) => transitions.extend(self.collection(at, 2, Some(*pause)).transitions),
            StoryEvent::Blind => transitions.extend(self.collection(at, 0, None).transitions),
            StoryEvent::Named(name) => {
                let facts = ProcessFacts::new(None, Some(name), None, []);
                transitions.extend(self.engine.learned(facts, now));
            }
            StoryEvent::Open(since) => {
                self.open = *since;
                self.update_stream();
            }
            StoryEvent::Rules(list) => transitions.extend(self.engine.adopt(rules(list), now)),
            StoryEvent::End => transitions.extend(self.engine.end(now)),
        }
        transitions
    }

    pub(crate) fn collection(&mut self, at: f64, generation: u32, pause_ms: Option<i64>) -> CollectionVerdict {
        self.number += 1;
        let collection = match pause_ms {
            Some(pause) => collection(self.number, generation, offset(at), pause * MS),
            None => blind(self.number, offset(at)),
        };
        self.engine.collection(&collection, base())
    }

    /// Plays a story: second, event, expected transitions. Every line is checked.
    pub(crate) fn play(&mut self, lines: &[(f64, StoryEvent, &str)]) {
        for (at, what, expected) in lines {
            let transitions = self.step(*at, what);
            assert_eq!(words(&transitions), *expected, "at {at} s, {what:?}");
        }
    }

    /// Returns the states of the rules in their order.
    pub(crate) fn states(&self) -> Vec<State> {
        self.engine.states().iter().map(|state| state.state).collect()
    }
}

pub(crate) fn base() -> TimeBase {
    TimeBase::at(i128::from(BEGIN * S))
}

pub(crate) fn moment(at: f64) -> Moment {
    Moment::from_ns(BEGIN * S + offset(at) as u64)
}

pub(crate) fn offset(at: f64) -> i64 {
    (at * 1e9) as i64
}

/// Returns `fired long 1.5, ended long 61.5 cleared`: the ids of the rules and the times in seconds of the story.
pub(crate) fn words(transitions: &[Transition]) -> String {
    let seconds = |at: Moment| (at.ns().cast_signed() - (BEGIN * S).cast_signed()) as f64 / 1e9;
    let word = |transition: &Transition| match transition {
        Transition::Fired(alert) => format!("fired {} {}", alert.rule.id, seconds(alert.started)),
        Transition::Ended(alert, ending) => {
            let ended = alert.ended.map(seconds).unwrap();
            format!("ended {} {ended} {}", alert.rule.id, ending.name())
        }
    };
    transitions.iter().map(word).collect::<Vec<_>>().join(", ")
}

/// Creates a collection of which only the end was observed.
pub(crate) fn blind(number: u32, end: i64) -> Collection {
    Collection {
        end: Some(end),
        last_event: end,
        ..Collection::unknown(number)
    }
}

/// Creates a blocking collection that ends, and restarts the threads, at `end`.
pub(crate) fn collection(number: u32, generation: u32, end: i64, pause: i64) -> Collection {
    Collection {
        generation: Some(generation),
        gc_type: Some(GcType::BLOCKING),
        reason: Some(GcReason::ALLOC_SMALL),
        start: Some(end - pause),
        pauses: vec![Pause::alone(end - pause, pause, Some(0), PauseKind::Blocking)],
        pause_ns: Some(pause),
        suspend_ns: Some(0),
        ..blind(number, end)
    }
}
