//! Triggers of collections and their cost.
//!
//! `GCTriggered` contains the stack of the triggering thread. The event occurs inside the stop that follows
//! (workstation GC, where the same thread suspends the other threads) or before this stop (server GC, where a thread of
//! the collector suspends the threads). A runtime triggers under a single lock, so the next stop of the collector
//! belongs to the trigger. The collections that start in that stop belong to the caller, with all their pauses,
//! including later pauses of a background collection.
//!
//! | Observation | Result |
//! |---|---|
//! | a trigger, and a stop without a collection | a request without a collection (no-GC region): `without_collection` |
//! | a stop without a trigger | an unknown trigger, because the runtime does not report it (`GC.RefreshMemoryLimit`) |
//! | a collection without a trigger | the collection started before the session, or the trigger was lost: `api` is `None` |
//! | a trigger without a stack, or without names | counted with the available data |
//! | a stack without a frame of the collector, because the call was inlined | `api` from the reason, if only one call has this reason |
//!
//! # Methods without a frame
//!
//! A method has no frame if its last action is the call and the JIT has turned it into a tail call, or if the method
//! was inlined. The stack then contains the frame of the method's caller instead.

mod api;
mod record;

use std::collections::{BTreeMap, HashMap};

use clr_gc::event::{ClrEvent, GcReason, SuspendReason};
use clr_gc::gc::{Collection, Outcome};

use crate::budget::Budget;
use crate::burst_facts::Window;
use crate::callers::api::asked;
pub use crate::callers::record::{Caller, Callers, Evidence};
use crate::name::Frame;
use crate::site::{CallPaths, Site, typical};
use crate::stacks::StackId;

/// Memory per collection or stop that has a known caller and has not ended, in bytes. The time of collections and stops
/// that exceed the memory limit is not assigned to a caller.
const PENDING_BYTES: usize = 128;
/// Maximum number of concurrent open stops.
const MAX_OPEN: usize = 64;

/// Number that represents every reason without a name. Sums are stored by reason, so the number of reasons must be
/// bounded.
const UNKNOWN: u32 = u32::MAX;

fn known(reason: GcReason) -> u32 {
    reason.name().map_or(UNKNOWN, |_| reason.0)
}

/// Reason and stack of a trigger.
type Key = (u32, Option<StackId>);

#[derive(Debug, Clone, Copy)]
struct Trigger {
    at: i64,
    key: Key,
    /// Whether the trigger is in the window.
    counts: bool,
}

#[derive(Debug)]
struct OpenStop {
    thread: u64,
    begin: i64,
    is_gc: bool,
    trigger: Option<Trigger>,
    has_collection: bool,
}

/// The triggers of one caller and their effects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    pub(crate) triggers: u64,
    pub(crate) collections: u64,
    pub(crate) without_collection: u64,
    pub(crate) stopped_ns: i64,
    /// Number of collections and stops whose time is included.
    pub(crate) timed: u64,
    /// Number of collections and stops whose time is unknown.
    pub(crate) untimed: u64,
}

impl Sum {
    fn add(&mut self, other: &Self) {
        self.triggers += other.triggers;
        self.collections += other.collections;
        self.without_collection += other.without_collection;
        self.stopped_ns = self.stopped_ns.saturating_add(other.stopped_ns);
        self.timed += other.timed;
        self.untimed += other.untimed;
    }

    fn time(&mut self, ns: Option<i64>) {
        match ns {
            Some(ns) => {
                self.stopped_ns = self.stopped_ns.saturating_add(ns);
                self.timed += 1;
            }
            None => self.untimed += 1,
        }
    }

    fn stopped(&self) -> Option<i64> {
        (self.timed > 0 || self.untimed == 0).then_some(self.stopped_ns)
    }
}

/// The triggers of one process, which [`Burst`](crate::burst::Burst) collects.
#[derive(Debug, Default)]
pub struct Triggers {
    sums: BTreeMap<Key, Sum>,
    open: Vec<OpenStop>,
    /// A trigger outside any stop, which belongs to the next stop.
    pending: Option<Trigger>,
    by_number: HashMap<u32, Trigger>,
    by_begin: HashMap<i64, Trigger>,
    /// Stops in the window without a trigger in the stream.
    unasked: Sum,
}

impl Triggers {
    /// Processes an event. The stack of the event has been interned, `at` is in nanoseconds of the stream's clock, and
    /// `counts` states whether the event is in the window.
    pub(crate) fn observe(
        &mut self,
        event: &ClrEvent<'_>,
        (thread, at): (u64, i64),
        counts: bool,
        stack: Option<StackId>,
        budget: &mut Budget,
    ) {
        match event {
            ClrEvent::GcTriggered(triggered) => {
                let key = (known(triggered.reason), stack);
                let trigger = Trigger { at, key, counts };
                if counts {
                    self.sums.entry(key).or_default().triggers += 1;
                }
                let own = self.open.iter_mut().rev().find(|stop| stop.thread == thread);
                let before = match own {
                    Some(stop) if !stop.has_collection => stop.trigger.replace(trigger),
                    _ => self.pending.replace(trigger),
                };
                if let Some(before) = before {
                    self.led_to_none(before);
                }
            }
            ClrEvent::SuspendEeBegin(begin) => {
                if self.open.len() >= MAX_OPEN {
                    self.open.remove(0);
                }
                self.open.push(OpenStop {
                    thread,
                    begin: at,
                    is_gc: begin.reason == SuspendReason::FOR_GC,
                    trigger: None,
                    has_collection: false,
                });
            }
            ClrEvent::GcStart(start) => {
                // The thread that starts a collection has suspended the other threads, except for background
                // collections. Events of different threads are out of order if more events wait than the decoder can
                // hold.
                let own = self.open.iter().rposition(|stop| stop.thread == thread);
                let place = own.or(self.open.len().checked_sub(1));
                let trigger = match place.and_then(|place| self.open.get_mut(place)) {
                    Some(stop) => {
                        stop.has_collection = true;
                        stop.trigger = stop.trigger.or_else(|| self.pending.take());
                        stop.trigger
                    }
                    None => self.pending.take(),
                };
                if let Some(trigger) = trigger
                    && budget.take(PENDING_BYTES)
                    && self.by_number.insert(start.count, trigger).is_some()
                {
                    budget.give_back(PENDING_BYTES);
                }
            }
            ClrEvent::RestartEeEnd(_) => {
                let Some(place) = self.open.iter().rposition(|stop| stop.thread == thread) else {
                    return;
                };
                let stop = self.open.remove(place);
                if stop.has_collection {
                    return;
                }
                let is_answer = |trigger: &mut Trigger| stop.is_gc && trigger.at <= stop.begin;
                let trigger = stop.trigger.or_else(|| self.pending.take_if(is_answer));
                if let Some(trigger) = trigger {
                    self.led_to_none(trigger);
                    if budget.take(PENDING_BYTES) && self.by_begin.insert(stop.begin, trigger).is_some() {
                        budget.give_back(PENDING_BYTES);
                    }
                }
            }
            _ => {}
        }
    }

    fn led_to_none(&mut self, trigger: Trigger) {
        if trigger.counts {
            self.sums.entry(trigger.key).or_default().without_collection += 1;
        }
    }

    /// Processes a collection or a stop. `sync` is the start of the stream, to which the times of outcomes are
    /// relative.
    pub(crate) fn outcome(&mut self, outcome: &Outcome, sync: i64, window: Window, budget: &mut Budget) {
        match outcome {
            Outcome::Collection(collection) => {
                let trigger = self.by_number.remove(&collection.number);
                budget.give_back(trigger.map_or(0, |_| PENDING_BYTES));
                let key = match trigger {
                    Some(trigger) if !trigger.counts => return,
                    Some(trigger) => trigger.key,
                    None if !began_in(collection, sync, window) => return,
                    None => (collection.reason.map_or(UNKNOWN, known), None),
                };
                let sum = self.sums.entry(key).or_default();
                sum.collections += 1;
                sum.time(collection.pause_ns);
            }
            Outcome::Suspension(stop) => {
                let Some(begin) = stop.edges.suspend_begin.map(|begin| begin.saturating_add(sync)) else {
                    return;
                };
                let trigger = self.by_begin.remove(&begin);
                budget.give_back(trigger.map_or(0, |_| PENDING_BYTES));
                match trigger {
                    Some(trigger) if trigger.counts => self.sums.entry(trigger.key).or_default().time(stop.stopped_ns),
                    Some(_) => {}
                    None if stop.reason == Some(SuspendReason::FOR_GC) && window.contains(begin) => {
                        self.unasked.triggers += 1;
                        self.unasked.time(stop.stopped_ns);
                    }
                    None => {}
                }
            }
        }
    }

    /// Returns the records, ordered by stopped time, longest first.
    pub(crate) fn report<'a>(&self, frames: impl Fn(Option<StackId>) -> Vec<&'a Frame>, window: Window) -> Callers {
        type Row<'a> = (Option<&'static str>, &'static str, Site<'a>);
        let mut rows: BTreeMap<Row<'a>, (Option<Evidence>, CallPaths<'a>, Sum)> = BTreeMap::new();
        let mut all = Sum::default();
        for (&(reason, stack), sum) in &self.sums {
            let (api, evidence, asked_by) = asked(reason, sum, frames(stack));
            let row = (api, reason_name(reason), Site::from_stack(&asked_by));
            let (best, ways, of_row) = rows.entry(row).or_default();
            *best = (*best).max(evidence);
            ways.see(asked_by, sum.triggers.max(sum.collections));
            of_row.add(sum);
            all.add(sum);
        }
        let mut callers: Vec<Caller> = rows
            .into_iter()
            .map(|((api, reason, Site { site, called_by }), (api_from, ways, sum))| {
                let stacks = ways.into_stacks();
                let (frames, raw_frames) = typical(&stacks);
                Caller {
                    kind: "caller",
                    api,
                    api_from,
                    site: site.cloned(),
                    called_by: called_by.cloned(),
                    reason,
                    frames,
                    raw_frames,
                    stacks,
                    triggers: sum.triggers,
                    collections: sum.collections,
                    without_collection: sum.without_collection,
                    stopped_ns: sum.stopped(),
                    start_ns: window.start,
                    end_ns: window.end,
                }
            })
            .collect();
        callers.sort_by_key(|one| std::cmp::Reverse((one.stopped_ns, one.collections, one.triggers)));
        Callers {
            callers,
            triggers: all.triggers,
            collections: all.collections,
            stopped_ns: all.stopped(),
            unasked_stops: self.unasked.triggers,
            unasked_stopped_ns: self.unasked.stopped(),
        }
    }

    /// Returns each stack from the triggering method outwards, the called method, and the time for which the process
    /// was stopped.
    pub(crate) fn by_stack<'a>(
        &self,
        frames: impl Fn(Option<StackId>) -> Vec<&'a Frame>,
    ) -> impl Iterator<Item = (Vec<&'a Frame>, &'static str, u64)> {
        self.sums.iter().map(move |(&(reason, stack), sum)| {
            let (api, _, asked_by) = asked(reason, sum, frames(stack));
            let stopped_ns = u64::try_from(sum.stopped_ns).unwrap_or(0);
            (asked_by, api.unwrap_or(reason_name(reason)), stopped_ns)
        })
    }
}

fn began_in(collection: &Collection, sync: i64, window: Window) -> bool {
    collection
        .start
        .is_some_and(|start| window.contains(start.saturating_add(sync)))
}

fn reason_name(reason: u32) -> &'static str {
    if reason == u32::MAX {
        return "unknown";
    }
    GcReason(reason).name().unwrap_or("unknown")
}

#[cfg(test)]
mod tests {
    use clr_gc::event::{self, Layout, PointerSize, RUNTIME_PROVIDER};

    use super::*;

    /// Scenario: the stops of two threads appear to overlap, as if more events wait than the decoder can hold.
    /// Guarantee: each collection is assigned to the trigger of the same thread, and every trigger has a collection.
    #[test]
    fn collection_is_assigned_to_its_thread() {
        let suspend = [1, 0, 0, 0, 255, 255, 255, 255, 0, 0];
        let mut triggers = Triggers::default();
        let mut budget = Budget::default();
        let mut at = 0;
        let mut observe = |thread: u64, id: u16, payload: &[u8]| {
            at += 1;
            let layout = Layout::find(RUNTIME_PROVIDER, id.into(), None).unwrap();
            let event = event::decode(layout, payload, PointerSize::Eight).unwrap();
            triggers.observe(&event, (thread, at), true, None, &mut budget);
        };
        let start = |number: u8| {
            let mut payload = [0; 26];
            payload[0] = number;
            payload
        };
        for (thread, reason) in [(1, 1), (2, 7)] {
            observe(thread, 9, &suspend);
            observe(thread, 35, &[reason, 0, 0, 0, 0, 0]);
        }
        for (thread, number) in [(1, 10), (2, 11)] {
            observe(thread, 1, &start(number));
            observe(thread, 3, &[0, 0]);
        }
        assert_eq!(triggers.by_number[&10].key.0, 1);
        assert_eq!(triggers.by_number[&11].key.0, 7);
        assert!(triggers.sums.values().all(|sum| sum.without_collection == 0));
    }
}
