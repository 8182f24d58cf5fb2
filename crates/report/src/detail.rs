//! One collection in full: its record, extended by the events around it.
//!
//! [`Detail`] selects the events of the collection from a recording and sums them up; [`DetailRecord`] is its
//! machine-readable record, [`write()`] its text.

mod record;
mod sums;
mod text;

use std::collections::BTreeMap;

use clr_gc::event::{ClrEvent, JoinTime, RootKind};
use clr_gc::gc::Collection;
use clr_gc::stream::Observed;

pub use self::record::DetailRecord;
use self::sums::{JoinSum, LohCompaction, MAX_TYPES, TypeSum, TypeSums};
pub use self::text::write;
use crate::units::known;
use api::event;
use api::gc::Subject;

/// Maximum number of events in the list. A Verbose recording can have any number of events.
const MAX_EVENTS: usize = 2_000;

/// Maximum number of finalized objects that are counted by type.
const MAX_FINALIZED: usize = 1_000_000;

/// Facts from the events around one collection that its record does not contain.
#[derive(Debug, Default)]
pub struct Detail {
    subject: Subject,
    number: u32,
    from: i64,
    start: i64,
    to: i64,
    next_start: i64,
    previous_end: i64,
    stops: Vec<(i64, i64, u64)>,
    type_names: BTreeMap<u64, String>,
    finalized_ids: Vec<u64>,
    /// Bytes marked, by root kind and heap.
    marks: BTreeMap<(RootKind, u32), u64>,
    joins: BTreeMap<u32, JoinSum>,
    open_joins: BTreeMap<u64, i64>,
    pinned: TypeSums,
    /// Bytes allocated since the previous collection, by type, as sampled by allocation ticks.
    allocated: TypeSums,
    /// Objects finalized between this collection and the next, by type.
    finalized: TypeSums,
    loh_compaction: Vec<LohCompaction>,
    /// Events of the collection in order: nanoseconds since the start of its first suspension, and the text line.
    events: Vec<(i64, String)>,
    more_events: u64,
}

impl Detail {
    /// Creates the detail of `collection`, which has the index `place` among all collections of its process, before its
    /// events are observed.
    pub fn new(subject: Subject, collection: &Collection, all: &[Collection], place: usize) -> Self {
        let stops: Vec<(i64, i64, u64)> = collection
            .pauses
            .iter()
            .filter_map(|pause| {
                let edges = &pause.edges;
                let first = edges.suspend_begin.or(edges.suspend_end)?;
                let last = edges
                    .restart_end
                    .or(edges.restart_begin)
                    .or(edges.suspend_end)
                    .unwrap_or(first);
                Some((first, last, edges.thread))
            })
            .collect();
        let start = collection.start.or(collection.end).unwrap_or(collection.last_event);
        let from = stops.iter().map(|stop| stop.0).chain([start]).min().unwrap_or(start);
        let before = all.get(..place).unwrap_or_default().iter().rev();
        let previous_end = before
            .filter_map(|other| other.start)
            .find(|other| *other < start)
            .unwrap_or(i64::MIN);
        let next_start = all
            .iter()
            .filter_map(|other| other.start)
            .find(|other| *other > start)
            .unwrap_or(i64::MAX);
        Self {
            subject,
            number: collection.number,
            from,
            start,
            to: collection.last_event,
            next_start,
            previous_end,
            stops,
            ..Self::default()
        }
    }

    /// Observes an event of the recording, and keeps it if it belongs to the collection.
    pub fn observe(&mut self, observed: &Observed<'_>) {
        let Ok(decoded) = &observed.decoded else { return };
        let at = observed.at;
        let own = observed.collection == Some(self.number) && (self.from..=self.to).contains(&at);
        match decoded {
            ClrEvent::AllocationTick(tick) if (self.previous_end..self.start).contains(&at) => {
                let bytes = tick.allocation_amount64.unwrap_or(u64::from(tick.allocation_amount));
                let name = known(tick.type_name.map(|name| name.to_text()));
                self.allocated.add(name, Some(bytes));
            }
            ClrEvent::AllocationSampled(sample) if (self.previous_end..self.start).contains(&at) => {
                self.allocated.add(sample.type_name.to_text(), Some(sample.object_size));
            }
            ClrEvent::PinObjectAtGcTime(pin) if own => {
                self.pinned.add(pin.type_name.to_text(), Some(pin.object_size));
            }
            ClrEvent::BulkType(types) => {
                for named in types.values.iter() {
                    if self.type_names.len() < MAX_TYPES {
                        self.type_names.insert(named.type_id, named.name.to_text());
                    }
                }
            }
            // The name of a type can follow its objects, so only the id of the type is kept until `finish`.
            ClrEvent::FinalizeObject(object)
                if (self.start..self.next_start).contains(&at) && self.finalized_ids.len() < MAX_FINALIZED =>
            {
                self.finalized_ids.push(object.type_id);
            }
            ClrEvent::PrvFinalizeObject(object) if (self.start..self.next_start).contains(&at) => {
                self.finalized.add(object.type_name.to_text(), None);
            }
            ClrEvent::MarkWithType(mark) if own => {
                // Dependent handles are marked twice, so the bytes are added up.
                let bytes = self.marks.entry((mark.root_kind, mark.heap_num)).or_default();
                *bytes = bytes.saturating_add(mark.bytes);
            }
            ClrEvent::Join(join) if own => self.join(observed.event.thread, join.heap, join.join_time, at),
            ClrEvent::LohCompact(compact) if own => {
                self.loh_compaction = compact
                    .values
                    .iter()
                    .map(|heap| LohCompaction {
                        plan_us: heap.time_plan,
                        compact_us: heap.time_compact,
                        relocate_us: heap.time_relocate,
                        total_refs: heap.total_refs,
                        zero_refs: heap.zero_refs,
                    })
                    .collect();
            }
            _ => {}
        }
        if own || self.is_edge(decoded, at, observed.event.thread) {
            if self.events.len() < MAX_EVENTS {
                self.events.push((at - self.from, event::line(observed)));
            } else {
                self.more_events += 1;
            }
        }
    }

    /// Resolves the names of types that had only an id. This method must be called after the last event.
    pub fn finish(&mut self) {
        for id in std::mem::take(&mut self.finalized_ids) {
            let known = self.type_names.get(&id).filter(|name| !name.is_empty());
            let name = known.cloned().unwrap_or_else(|| format!("type {id:#x}"));
            self.finalized.add(name, None);
        }
    }

    /// Returns whether an event is an edge of one of the collection's suspensions, or a trigger during one. In the
    /// stream, these events can precede the event with the number of the collection.
    fn is_edge(&self, event: &ClrEvent<'_>, at: i64, thread: u64) -> bool {
        let edge = matches!(
            event,
            ClrEvent::SuspendEeBegin(_)
                | ClrEvent::SuspendEeEnd(_)
                | ClrEvent::RestartEeBegin(_)
                | ClrEvent::RestartEeEnd(_)
        );
        let triggered = matches!(event, ClrEvent::GcTriggered(_));
        self.stops
            .iter()
            .any(|&(first, last, of)| (first..=last).contains(&at) && ((edge && of == thread) || triggered))
    }

    fn join(&mut self, thread: u64, heap: u32, time: JoinTime, at: i64) {
        if time == JoinTime::START {
            self.open_joins.insert(thread, at);
        } else if let Some(since) = self.open_joins.remove(&thread) {
            let sum = self.joins.entry(heap).or_default();
            sum.waits += 1;
            sum.wait_ns += at - since;
            sum.longest_ns = sum.longest_ns.max(at - since);
        }
    }
}
