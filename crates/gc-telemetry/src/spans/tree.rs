//! Spans of one collection.

use std::borrow::Cow;

use base::time::UnixBase;
use clr_gc::gc::{Collection, HeapGeneration, Missing, Pause, PauseKind};
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use prost::Message as _;

use super::EncodedSpans;
use super::attributes::Attributes;
use crate::anomaly::{Anomaly, Marks};
use crate::definition::span as row;
use crate::ids::{Ids, SpanIds, TraceIds};
use crate::names::{condemned, effective_type, pause_mode_name, reason_name, type_name};
use crate::options::SpanOptions;
use crate::wire::Wire;

/// Flags: sampled, and the trace id is random (W3C trace context); the parent, if present, is not remote (OTLP).
const FLAGS: u32 = 0x1 | 0x2 | 0x100;

/// Length below which suspensions and restarts are attributes of their pause.
const SHORT_NS: i64 = 1_000_000;

/// Initial capacity in bytes: more than the spans of most collections require.
const USUAL_BYTES: usize = 4 << 10;

/// Numbers of the fields of `ScopeSpans`, `Span` and `Link` in `opentelemetry/proto/trace/v1/trace.proto`.
pub(super) mod field {
    pub(in crate::spans) const SPANS: u32 = 2;

    pub(in crate::spans) const TRACE_ID: u32 = 1;
    pub(in crate::spans) const SPAN_ID: u32 = 2;
    pub(in crate::spans) const TRACE_STATE: u32 = 3;
    pub(in crate::spans) const PARENT_SPAN_ID: u32 = 4;
    pub(in crate::spans) const NAME: u32 = 5;
    pub(in crate::spans) const KIND: u32 = 6;
    pub(in crate::spans) const START_TIME: u32 = 7;
    pub(in crate::spans) const END_TIME: u32 = 8;
    pub(in crate::spans) const ATTRIBUTES: u32 = 9;
    pub(in crate::spans) const EVENTS: u32 = 11;
    pub(in crate::spans) const LINKS: u32 = 13;
    pub(in crate::spans) const STATUS: u32 = 15;
    pub(in crate::spans) const FLAGS: u32 = 16;

    pub(in crate::spans) const LINK_TRACE_ID: u32 = 1;
    pub(in crate::spans) const LINK_SPAN_ID: u32 = 2;
    pub(in crate::spans) const LINK_ATTRIBUTES: u32 = 4;
    pub(in crate::spans) const LINK_FLAGS: u32 = 6;
}

/// Start and end, nanoseconds since the sync point.
type Times = (i64, i64);

/// Returns the spans of a collection: root first, then in the order of their start, parents before children.
pub(super) fn spans(
    collection: &Collection,
    base: UnixBase,
    ids: &TraceIds,
    others: &Ids,
    options: &SpanOptions,
    trace_state: &str,
    anomalies: &[Anomaly<'_>],
) -> EncodedSpans {
    let mut tree = Tree {
        base,
        ids,
        trace_state,
        wire: Wire::with_capacity(USUAL_BYTES),
        count: 0,
    };
    let name = root_name(collection);
    let marks = Marks::from_anomalies(anomalies);
    tree.span(ids.root(), None, &name, extent(collection), |wire| {
        attributes(wire, collection, options.phases);
        // Marks are rare, so they are built as messages first.
        if let Some(attribute) = &marks.attribute {
            wire.bytes(field::ATTRIBUTES, attribute.encode_to_vec());
        }
        for event in &marks.events {
            wire.bytes(field::EVENTS, event.encode_to_vec());
        }
        links(wire, collection, others);
        worst_request(wire, collection);
        if let Some(status) = &marks.status {
            wire.bytes(field::STATUS, status.encode_to_vec());
        }
    });
    if options.children {
        for (place, pause) in collection.pauses.iter().enumerate() {
            tree.pause(collection, pause);
            if let Some((name, times)) = concurrent_after(collection, place) {
                tree.child(ids.root(), name, times);
            }
        }
    }
    EncodedSpans {
        fields: tree.wire.into_bytes(),
        count: tree.count,
    }
}

struct Tree<'a> {
    base: UnixBase,
    ids: &'a TraceIds,
    trace_state: &'a str,
    wire: Wire,
    /// Number of written spans.
    count: u64,
}

impl Tree<'_> {
    /// Writes a span; `content` writes the fields between its times and its flags.
    fn span(
        &mut self,
        ids: SpanIds,
        parent: Option<SpanIds>,
        name: &str,
        (from, to): Times,
        content: impl FnOnce(&mut Wire),
    ) {
        self.count += 1;
        self.wire.message(field::SPANS, |wire| {
            wire.bytes(field::TRACE_ID, ids.trace_id);
            wire.bytes(field::SPAN_ID, ids.span_id);
            wire.bytes_unless_empty(field::TRACE_STATE, self.trace_state);
            if let Some(parent) = parent {
                wire.bytes(field::PARENT_SPAN_ID, parent.span_id);
            }
            wire.bytes(field::NAME, name);
            wire.number(field::KIND, SpanKind::Internal as u64);
            wire.fixed64_unless_zero(field::START_TIME, self.base.unix_ns(from));
            wire.fixed64_unless_zero(field::END_TIME, self.base.unix_ns(to));
            content(wire);
            wire.fixed32(field::FLAGS, FLAGS);
        });
    }

    fn child(&mut self, parent: SpanIds, name: &str, times: Times) -> SpanIds {
        self.child_with(parent, name, times, |_| {})
    }

    fn child_with(&mut self, parent: SpanIds, name: &str, times: Times, content: impl FnOnce(&mut Wire)) -> SpanIds {
        let ids = self.ids.part(self.count);
        self.span(ids, Some(parent), name, times, content);
        ids
    }

    /// Writes one span, with child spans, for each part of this collection's share of a suspension.
    fn pause(&mut self, collection: &Collection, pause: &Pause) {
        let root = self.ids.root();
        let suspend = suspend_times(pause);
        if pause.spans.is_empty() {
            // The end is unknown, but the time to suspend the threads can be known.
            if let Some(times) = suspend {
                self.child(root, "GC suspend", times);
            }
            return;
        }
        let name = match pause.kind {
            PauseKind::Blocking => "GC pause",
            PauseKind::Initial => "GC pause initial",
            PauseKind::Final => "GC pause final",
        };
        let edges = pause.edges;
        let work = match pause.kind {
            PauseKind::Blocking => collection.start.zip(collection.end),
            PauseKind::Initial => collection.start.zip(edges.restart_begin),
            PauseKind::Final => edges.suspend_end.zip(edges.restart_begin),
        };
        let restart = edges.restart_begin.zip(edges.restart_end);
        for &part in pause.spans.iter().filter(|(from, to)| to > from) {
            let inside = |times: &Times| part.0 <= times.0 && times.1 <= part.1;
            let suspend = suspend.filter(inside);
            let restart = restart.filter(|(from, to)| from <= to).filter(inside);
            let parent = self.child_with(root, name, part, |wire| {
                let mut attributes = Attributes::new(wire, field::ATTRIBUTES);
                attributes
                    .text(&row::PAUSE_KIND, Some(pause.kind.name()))
                    .seconds(&row::PAUSE_SUSPEND, suspend.filter(is_short).map(length))
                    .seconds(&row::PAUSE_RESTART, restart.filter(is_short).map(length));
                if !pause.shared_with.is_empty() {
                    attributes.seconds(&row::PAUSE_STOP, pause.stopped_ns);
                }
            });
            if let Some(times) = suspend.filter(|times| !is_short(times)) {
                self.child(parent, "GC suspend", times);
            }
            if let Some(times) = work.and_then(|times| common(times, part)) {
                self.child(parent, "GC collect", times);
            }
            if let Some(times) = restart.filter(|times| !is_short(times)) {
                self.child(parent, "GC restart", times);
            }
        }
    }
}

fn length((from, to): Times) -> i64 {
    to.saturating_sub(from)
}

fn is_short(times: &Times) -> bool {
    length(*times) < SHORT_NS
}

/// Returns the times of SuspendEEBegin and SuspendEEEnd, or `None` if the collection was not the first in the
/// suspension or an end is not trustworthy.
fn suspend_times(pause: &Pause) -> Option<Times> {
    let (from, to) = pause.edges.suspend_begin.zip(pause.edges.suspend_end)?;
    (pause.suspend_ns? == to - from && pause.start == Some(from) && from <= to).then_some((from, to))
}

/// Returns the overlap of two intervals; `None` if empty.
fn common(a: Times, b: Times) -> Option<Times> {
    let (from, to) = (a.0.max(b.0), a.1.min(b.1));
    (from < to).then_some((from, to))
}

/// Returns the name and the times of the concurrent part of a background collection after one of its suspensions, until
/// the next suspension or the end. Returns `None` if there is no such part or one of its ends is unknown.
fn concurrent_after(collection: &Collection, place: usize) -> Option<(&'static str, Times)> {
    if !collection.is_concurrent() {
        return None;
    }
    let from = collection.pauses.get(place)?.spans.last()?.1;
    let to = match collection.pauses.get(place + 1) {
        Some(next) => next.spans.first()?.0,
        // Without the final suspension, the end of the concurrent part is unknown.
        None if collection.missing.contains(Missing::Suspension) => return None,
        None => collection.end?,
    };
    let kinds = collection.pauses.iter().map(|pause| pause.kind);
    // The second suspension ends the mark phase; the sweep phase follows.
    let name = match (kinds.eq([PauseKind::Initial, PauseKind::Final]), place) {
        (true, 0) => "GC concurrent mark",
        (true, _) => "GC concurrent sweep",
        (false, _) => "GC concurrent",
    };
    (from < to).then_some((name, (from, to)))
}

/// Returns the name, such as `GC gen2 background`, without unknown parts.
fn root_name(collection: &Collection) -> String {
    let mut name = String::with_capacity(24);
    name.push_str("GC");
    if let Some(generation) = condemned(collection) {
        name.push(' ');
        name.push_str(generation.name());
    }
    // An unknown number is only in the attributes: span names have low cardinality.
    if let Some(Cow::Borrowed(gc_type)) = effective_type(collection).map(type_name) {
        name.push(' ');
        name.push_str(gc_type);
    }
    name
}

/// Returns the first and the last known time.
fn extent(collection: &Collection) -> Times {
    let stops = collection.pauses.iter().flat_map(|pause| &pause.spans);
    let stops = stops.flat_map(|&(from, to)| [from, to]);
    let suspends = collection.pauses.iter().filter_map(suspend_times);
    let suspends = suspends.flat_map(|(from, to)| [from, to]);
    let mut times = stops.chain(suspends).chain(collection.start).chain(collection.end);
    let first = times.next().unwrap_or(collection.last_event);
    // A collection without an end lasted at least until its last event.
    let last = collection.end.is_none().then_some(collection.last_event);
    let all = times.chain(last);
    all.fold((first, first), |(from, to), at| (from.min(at), to.max(at)))
}

/// Writes links to the background collection that contains this collection, and to earlier collections in the same
/// suspension.
fn links(wire: &mut Wire, collection: &Collection, others: &Ids) {
    if collection.is_concurrent() {
        return;
    }
    let background = collection.background.map(|number| (number, "background"));
    let shared = collection.pauses.iter().flat_map(|pause| &pause.shared_with);
    let before = shared
        .filter(|&&number| number < collection.number && Some(number) != collection.background)
        .map(|&number| (number, "same_stop"));
    for (number, relation) in background.into_iter().chain(before) {
        let ids = others.linked(collection.clr_instance, number);
        wire.message(field::LINKS, |wire| {
            wire.bytes(field::LINK_TRACE_ID, ids.trace_id);
            wire.bytes(field::LINK_SPAN_ID, ids.span_id);
            Attributes::new(wire, field::LINK_ATTRIBUTES)
                .text(&row::LINK, Some(relation))
                .int(&row::NUMBER, Some(number));
            wire.fixed32(field::LINK_FLAGS, FLAGS);
        });
    }
}

/// Writes a link to the request with the largest loss if its ids are known.
fn worst_request(wire: &mut Wire, collection: &Collection) {
    let worst = collection.requests.and_then(|impact| impact.worst);
    let Some((trace_id, span_id)) = worst.and_then(|worst| worst.trace_id.zip(worst.span_id)) else {
        return;
    };
    wire.message(field::LINKS, |wire| {
        wire.bytes(field::LINK_TRACE_ID, trace_id);
        wire.bytes(field::LINK_SPAN_ID, span_id);
        Attributes::new(wire, field::LINK_ATTRIBUTES).text(&row::LINK, Some("worst_request"));
    });
}

fn nanoseconds(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

/// Writes the attributes of the root.
fn attributes(wire: &mut Wire, collection: &Collection, phases: bool) {
    let mut list = Attributes::new(wire, field::ATTRIBUTES);
    let worst = collection.requests.and_then(|impact| impact.worst);
    let global = collection.global.as_ref();
    let stats = collection.heap_stats.as_ref();
    let announced_background = collection.became_blocking || collection.is_concurrent();
    list.int(&row::NUMBER, Some(collection.number))
        .text(&row::GENERATION, condemned(collection).map(HeapGeneration::name))
        .text(&row::TYPE, effective_type(collection).map(type_name))
        .bool(
            &row::BECAME_BLOCKING,
            announced_background.then_some(collection.became_blocking),
        )
        .text(&row::REASON, collection.reason.map(reason_name))
        .text(&row::TRIGGER, collection.trigger.map(reason_name))
        .seconds(&row::PAUSE_TIME, collection.pause_ns)
        .seconds(&row::SUSPEND_TIME, collection.suspend_ns)
        .bool(&row::COMPACTING, collection.is_compacting())
        .texts(
            &row::CONDEMNED_REASONS,
            global
                .and_then(|global| global.condemn_reasons1)
                .into_iter()
                .flat_map(|reasons| reasons.names()),
        )
        .text(
            &row::PAUSE_MODE,
            global.map(|global| pause_mode_name(global.pause_mode)),
        )
        .int(&row::HEAP_COUNT, global.map(|global| global.heap_count))
        .ratio(&row::MEMORY_LOAD, collection.memory_load_percent())
        .int(&row::PINNED_OBJECTS, stats.map(|stats| stats.pinned_object_count))
        .int(&row::SYNC_BLOCKS, collection.sync_blocks())
        .int(&row::HANDLES, collection.handles())
        .int(
            &row::FINALIZATION_PROMOTED_SIZE,
            collection.finalization_promoted_bytes(),
        )
        .int(
            &row::FINALIZATION_PROMOTED_COUNT,
            collection.finalization_promoted_count(),
        )
        .int(&row::COMMITTED_BEFORE, collection.committed.total_before())
        .int(&row::COMMITTED_AFTER, collection.committed.total_after())
        .int(&row::ALLOCATED_SINCE_LAST, collection.allocated_since_last())
        .int(&row::HEAP_SIZE_BEFORE, collection.heap_before())
        .int(&row::HEAP_SIZE_AFTER, collection.heap_after())
        .int(&row::HEAP_PROMOTED, collection.promoted());
    for (place, sizes) in collection.heap.iter().enumerate() {
        for measure in row::PER_GENERATION {
            if let Some(attribute) = measure.attributes.get(place) {
                list.int(attribute, (measure.of)(sizes));
            }
        }
    }
    if phases {
        for (attribute, (_, ns)) in row::PHASES.iter().zip(collection.phases.named()) {
            list.seconds(attribute, ns);
        }
    }
    list.bool(&row::COMPLETE, Some(collection.is_complete()))
        .texts(&row::MISSING, collection.missing.iter().map(Missing::name))
        .bool(&row::LOSSY, Some(collection.lossy))
        .bool(&row::OBSERVED_BY_OTHERS, collection.observed_by_others)
        .bool(&row::REQUESTED_BY_TOOL, collection.requested_by_tool)
        .int(&row::REQUESTS_HIT, collection.requests.map(|impact| impact.hit))
        .seconds(
            &row::REQUEST_TIME_LOST,
            collection.requests.map(|impact| nanoseconds(impact.lost_ns)),
        )
        .seconds(&row::WORST_REQUEST_LOST, worst.map(|worst| nanoseconds(worst.lost_ns)))
        .int(
            &row::CLR_INSTANCE,
            collection.clr_instance.filter(|&instance| instance != 0),
        );
}
