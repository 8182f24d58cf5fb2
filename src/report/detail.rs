//! One collection in full.

use std::collections::BTreeMap;
use std::io::{self, Write};

use clr_gc::event::{ClrEvent, JoinTime, RootKind};
use clr_gc::gc::{Collection, HeapGeneration};
use clr_gc::stream::Observed;
use serde::Serialize;

use crate::records::event;
use crate::records::gc::{Subject, type_name};
use crate::report::table::{Column, FAINT, HEADING, MARK, head, left, right, row};
use crate::report::timeline;
use crate::report::units::{Bytes, Count, Megabytes, Span, UNKNOWN, plural};

/// Events that are kept for the list; a Verbose recording can hold any number.
const MAX_EVENTS: usize = 2_000;

/// Types that are told of each list.
const TOP_TYPES: usize = 15;

/// Types that are counted apart; more become `other`.
const MAX_TYPES: usize = 10_000;

/// Finalized objects that are counted by type.
const MAX_FINALIZED: usize = 1_000_000;

/// What some objects of a type add up to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct TypeSum {
    /// How many events.
    pub count: u64,
    /// Bytes; `None` where the events do not say.
    pub bytes: Option<u64>,
}

/// Sums by type name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TypeSums {
    sums: BTreeMap<String, TypeSum>,
}

impl TypeSums {
    fn add(&mut self, name: String, bytes: Option<u64>) {
        let name = if self.sums.len() < MAX_TYPES || self.sums.contains_key(&name) {
            name
        } else {
            "other".to_owned()
        };
        let sum = self.sums.entry(name).or_default();
        sum.count += 1;
        if let Some(bytes) = bytes {
            sum.bytes = Some(sum.bytes.unwrap_or(0).saturating_add(bytes));
        }
    }

    /// The largest, by bytes and then by number.
    pub fn top(&self) -> Vec<(&str, TypeSum)> {
        let mut sums: Vec<(&str, TypeSum)> = self.sums.iter().map(|(name, sum)| (name.as_str(), *sum)).collect();
        sums.sort_by_key(|(name, sum)| (std::cmp::Reverse((sum.bytes, sum.count)), *name));
        sums.truncate(TOP_TYPES);
        sums
    }

    /// Nothing was seen.
    pub fn is_empty(&self) -> bool {
        self.sums.is_empty()
    }
}

/// Joins of one heap's thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct JoinSum {
    /// Waits that were seen from start to end.
    pub waits: u64,
    /// Their time, ns.
    pub wait_ns: i64,
    /// The longest, ns.
    pub longest_ns: i64,
}

/// LOH compaction of one heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct LohCompaction {
    /// Microseconds.
    pub plan_us: u32,
    /// Microseconds.
    pub compact_us: u32,
    /// Microseconds.
    pub relocate_us: u32,
    /// References seen.
    pub total_refs: u64,
    /// Of them null.
    pub zero_refs: u64,
}

/// What the events around one collection tell beyond its record.
#[derive(Debug)]
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
    /// Bytes marked by root kind and heap.
    pub marks: BTreeMap<(RootKind, u32), u64>,
    /// Joins by heap.
    pub joins: BTreeMap<u32, JoinSum>,
    open_joins: BTreeMap<u64, i64>,
    /// Pinned objects by type.
    pub pinned: TypeSums,
    /// What was allocated since the previous collection, by type, as sampled by allocation ticks.
    pub allocated: TypeSums,
    /// Objects finalized from this collection until the next, by type.
    pub finalized: TypeSums,
    /// LOH compaction by heap.
    pub loh_compaction: Vec<LohCompaction>,
    /// Its events in order: nanoseconds since its first, and as lines.
    pub events: Vec<(i64, String)>,
    /// Events beyond the list.
    pub more_events: u64,
}

impl Detail {
    /// Of one collection among all of its process.
    pub fn of(subject: Subject, collection: &Collection, all: &[Collection], place: usize) -> Self {
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
            type_names: BTreeMap::new(),
            finalized_ids: Vec::new(),
            marks: BTreeMap::new(),
            joins: BTreeMap::new(),
            open_joins: BTreeMap::new(),
            pinned: TypeSums::default(),
            allocated: TypeSums::default(),
            finalized: TypeSums::default(),
            loh_compaction: Vec::new(),
            events: Vec::new(),
            more_events: 0,
        }
    }

    /// Takes any event of the recording; keeps what belongs to the collection.
    pub fn observe(&mut self, observed: &Observed<'_>) {
        let Ok(decoded) = &observed.decoded else { return };
        let at = observed.at;
        let own = observed.collection == Some(self.number) && (self.from..=self.to).contains(&at);
        match decoded {
            ClrEvent::AllocationTick(tick) if (self.previous_end..self.start).contains(&at) => {
                let bytes = tick.allocation_amount64.unwrap_or(u64::from(tick.allocation_amount));
                let name = tick.type_name.map_or_else(|| UNKNOWN.to_owned(), |name| name.to_text());
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
            // The names of types may come later than their objects.
            ClrEvent::FinalizeObject(object)
                if (self.start..self.next_start).contains(&at) && self.finalized_ids.len() < MAX_FINALIZED =>
            {
                self.finalized_ids.push(object.type_id);
            }
            ClrEvent::PrvFinalizeObject(object) if (self.start..self.next_start).contains(&at) => {
                self.finalized.add(object.type_name.to_text(), None);
            }
            ClrEvent::MarkWithType(mark) if own => {
                // Dependent handles are marked twice: the bytes add up.
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

    /// Called when all events were seen: types that only had an id get their names.
    pub fn finish(&mut self) {
        for id in std::mem::take(&mut self.finalized_ids) {
            let known = self.type_names.get(&id).filter(|name| !name.is_empty());
            let name = known.cloned().unwrap_or_else(|| format!("type {id:#x}"));
            self.finalized.add(name, None);
        }
    }

    /// Stops are announced before the collection that they are for has a number.
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

/// `kind: "gc_detail"`: what `analyze --gc N` tells beyond the collection's record.
#[derive(Debug, Serialize)]
pub struct DetailRecord<'d> {
    kind: &'static str,
    #[serde(flatten)]
    subject: Subject,
    number: u32,
    marks: Vec<MarkRecord>,
    joins: &'d BTreeMap<u32, JoinSum>,
    loh_compaction: &'d [LohCompaction],
    pinned: Vec<TypeRecord<'d>>,
    allocated: Vec<TypeRecord<'d>>,
    finalized: Vec<TypeRecord<'d>>,
    events: Vec<LineRecord<'d>>,
    more_events: u64,
}

#[derive(Debug, Serialize)]
struct MarkRecord {
    root: String,
    heap: u32,
    bytes: u64,
}

#[derive(Debug, Serialize)]
struct TypeRecord<'d> {
    #[serde(rename = "type")]
    name: &'d str,
    #[serde(flatten)]
    sum: TypeSum,
}

#[derive(Debug, Serialize)]
struct LineRecord<'d> {
    after_ns: i64,
    text: &'d str,
}

impl<'d> DetailRecord<'d> {
    /// The record of a collection's detail.
    pub fn new(subject: Subject, number: u32, detail: &'d Detail) -> Self {
        let types = |sums: &'d TypeSums| {
            sums.top()
                .into_iter()
                .map(|(name, sum)| TypeRecord { name, sum })
                .collect()
        };
        Self {
            kind: "gc_detail",
            subject,
            number,
            marks: detail
                .marks
                .iter()
                .map(|(&(root, heap), &bytes)| MarkRecord {
                    root: root.to_string(),
                    heap,
                    bytes,
                })
                .collect(),
            joins: &detail.joins,
            loh_compaction: &detail.loh_compaction,
            pinned: types(&detail.pinned),
            allocated: types(&detail.allocated),
            finalized: types(&detail.finalized),
            events: detail
                .events
                .iter()
                .map(|(after_ns, line)| LineRecord {
                    after_ns: *after_ns,
                    text: line.trim_start(),
                })
                .collect(),
            more_events: detail.more_events,
        }
    }
}

/// Writes everything that is known of a collection; `start` is its GCStart as RFC 3339.
///
/// # Errors
///
/// What the writer says.
pub fn write(out: &mut dyn Write, gc: &Collection, detail: &Detail, start: Option<&str>) -> io::Result<()> {
    title(out, gc, detail, start)?;
    section(out, "Stops")?;
    timeline::write(out, gc)?;
    section(out, "Heap")?;
    heap(out, gc)?;
    phases(out, gc)?;
    marks(out, detail)?;
    joins(out, detail)?;
    loh(out, detail)?;
    types(
        out,
        "Allocated since the previous collection (sampled)",
        &detail.allocated,
    )?;
    types(out, "Pinned objects", &detail.pinned)?;
    types(out, "Finalized until the next collection", &detail.finalized)?;
    section(out, "Events")?;
    writeln!(
        out,
        "{FAINT}{:>12}  {:>13} {:>8}  event{FAINT:#}",
        "after µs", "at s", "thread"
    )?;
    for (after, line) in &detail.events {
        writeln!(out, "{:>12.1}  {line}", *after as f64 / 1e3)?;
    }
    if detail.more_events > 0 {
        writeln!(
            out,
            "and {} more: see gcwatch events",
            plural(detail.more_events, "event")
        )?;
    }
    Ok(())
}

fn section(out: &mut dyn Write, name: &str) -> io::Result<()> {
    writeln!(out, "\n{HEADING}{name}{HEADING:#}")
}

fn title(out: &mut dyn Write, gc: &Collection, detail: &Detail, start: Option<&str>) -> io::Result<()> {
    let generation = gc
        .generation
        .map_or_else(|| UNKNOWN.to_owned(), |generation| generation.to_string());
    let gc_type = gc.gc_type.map(type_name).unwrap_or_default();
    let reason = gc.reason.map(|reason| format!(" · {reason}")).unwrap_or_default();
    let pid = detail
        .subject
        .pid
        .map(|pid| format!(" · pid {pid}"))
        .unwrap_or_default();
    let start = start.map(|start| format!(" · {start}")).unwrap_or_default();
    writeln!(
        out,
        "{HEADING}GC {} · gen{generation} {gc_type}{reason}{HEADING:#}{pid}{start}",
        gc.number
    )?;
    let span = |ns: Option<i64>| ns.map_or_else(|| UNKNOWN.to_owned(), |ns| Span(ns).to_string());
    let (duration, pause, suspend) = (span(gc.duration_ns()), span(gc.pause_ns), span(gc.suspend_ns));
    let stops = plural(gc.pauses.len() as u64, "stop");
    writeln!(
        out,
        "pause {pause} in {stops} (of it {suspend} to suspend) · duration {duration}"
    )?;
    if gc.became_blocking {
        writeln!(
            out,
            "announced as background, but it ran to its end before the threads were restarted"
        )?;
    }
    if let Some(trigger) = gc.trigger {
        writeln!(out, "triggered by {trigger}")?;
    }
    if let Some(global) = &gc.global {
        let mechanisms: Vec<&str> = global.mechanisms.names().collect();
        writeln!(
            out,
            "{} · memory load {} % · latency mode {} · {}",
            plural(global.heap_count.into(), "heap"),
            global.memory_load_percent,
            global.pause_mode,
            mechanisms.join(" "),
        )?;
        if let (Some(reasons0), Some(reasons1)) = (global.condemn_reasons0, global.condemn_reasons1) {
            let why: Vec<&str> = reasons1.names().collect();
            writeln!(
                out,
                "condemned: generation {} at first, {} at last; the budgets asked for {}, time tuning for {}{}{}",
                reasons0.initial_generation(),
                reasons0.final_generation(),
                reasons0.allocation_budget_generation(),
                reasons0.time_tuning_generation(),
                if why.is_empty() { "" } else { "; because " },
                why.join(", "),
            )?;
        }
    }
    if !gc.is_complete() {
        let names: Vec<&str> = gc.missing.iter().map(clr_gc::gc::Missing::name).collect();
        writeln!(out, "{MARK}never seen of it: {}{MARK:#}", names.join(", "))?;
    }
    if gc.lossy {
        writeln!(out, "{MARK}events were lost in its time{MARK:#}")?;
    }
    Ok(())
}

fn heap(out: &mut dyn Write, gc: &Collection) -> io::Result<()> {
    const COLUMNS: [Column; 7] = [
        left("MB", 6),
        right("before", 9),
        right("after", 9),
        right("promoted", 9),
        right("survived", 9),
        right("fragmented", 10),
        right("budget", 9),
    ];
    head(out, &COLUMNS)?;
    let cells = |name: &str, sizes: [Option<u64>; 6]| {
        let mut cells = vec![name.to_owned()];
        cells.extend(sizes.map(|bytes| Megabytes(bytes).to_string()));
        cells
    };
    for (generation, sizes) in HeapGeneration::ALL.into_iter().zip(&gc.heap) {
        let sizes = [
            sizes.before,
            sizes.after,
            sizes.promoted,
            sizes.survived,
            sizes.fragmentation,
            sizes.budget,
        ];
        row(out, &COLUMNS, &cells(generation.name(), sizes))?;
    }
    let sums = [
        gc.heap_before(),
        gc.heap_after(),
        gc.promoted(),
        gc.total(|sizes| sizes.survived),
        gc.total(|sizes| sizes.fragmentation),
        gc.total(|sizes| sizes.budget),
    ];
    row(out, &COLUMNS, &cells("all", sums))?;
    if let Some(bytes) = gc.allocated_since_last {
        writeln!(out, "allocated since the previous collection: {}", Bytes(bytes))?;
    }
    if let Some(before) = gc.committed.before {
        let after = gc
            .committed
            .after
            .map(|after| format!(", {} after", Bytes(after)))
            .unwrap_or_default();
        writeln!(out, "committed: {} before{after}", Bytes(before))?;
    }
    if let Some(stats) = &gc.heap_stats {
        writeln!(
            out,
            "{}, {}, {}; promoted for finalization: {} ({})",
            plural(stats.pinned_object_count.into(), "pinned object"),
            plural(stats.gc_handle_count.into(), "handle"),
            plural(stats.sink_block_count.into(), "sync block"),
            plural(stats.finalization_promoted_count, "object"),
            Bytes(stats.finalization_promoted_size),
        )?;
    }
    Ok(())
}

fn phases(out: &mut dyn Write, gc: &Collection) -> io::Result<()> {
    let known: Vec<(&str, i64)> = gc
        .phases
        .named()
        .into_iter()
        .filter_map(|(name, ns)| Some((name, ns?)))
        .collect();
    if known.is_empty() {
        return Ok(());
    }
    section(out, "Phases")?;
    timeline::bars(out, &known)
}

fn marks(out: &mut dyn Write, detail: &Detail) -> io::Result<()> {
    if detail.marks.is_empty() {
        return Ok(());
    }
    section(out, "Marked, by kind of root")?;
    let mut heaps: Vec<u32> = detail.marks.keys().map(|(_, heap)| *heap).collect();
    heaps.sort_unstable();
    heaps.dedup();
    let mut roots: BTreeMap<RootKind, BTreeMap<u32, u64>> = BTreeMap::new();
    for (&(root, heap), &bytes) in &detail.marks {
        roots.entry(root).or_default().insert(heap, bytes);
    }
    for (root, by_heap) in roots {
        let total: u64 = by_heap.values().fold(0, |sum, bytes| sum.saturating_add(*bytes));
        write!(out, "{:<16} {:>10}", root.to_string(), Bytes(total).to_string())?;
        if heaps.len() > 1 {
            for heap in &heaps {
                let bytes = by_heap
                    .get(heap)
                    .map_or_else(|| UNKNOWN.to_owned(), |bytes| Bytes(*bytes).to_string());
                write!(out, "   heap {heap} {bytes:>10}")?;
            }
        }
        writeln!(out)?;
    }
    Ok(())
}

fn joins(out: &mut dyn Write, detail: &Detail) -> io::Result<()> {
    if detail.joins.is_empty() {
        return Ok(());
    }
    section(out, "Joins: threads of the collector waiting for each other")?;
    for (heap, sum) in &detail.joins {
        writeln!(
            out,
            "heap {heap:<4} {:>10}, {} in all, longest {}",
            plural(sum.waits, "wait"),
            Span(sum.wait_ns),
            Span(sum.longest_ns)
        )?;
    }
    Ok(())
}

fn loh(out: &mut dyn Write, detail: &Detail) -> io::Result<()> {
    if detail.loh_compaction.is_empty() {
        return Ok(());
    }
    section(out, "Compaction of the large object heap")?;
    for (heap, compact) in detail.loh_compaction.iter().enumerate() {
        let us = |us: u32| Span(i64::from(us) * 1000);
        writeln!(
            out,
            "heap {heap:<4} plan {}, relocate {}, compact {}; {} references, {} of them null",
            us(compact.plan_us),
            us(compact.relocate_us),
            us(compact.compact_us),
            Count(compact.total_refs),
            Count(compact.zero_refs),
        )?;
    }
    Ok(())
}

fn types(out: &mut dyn Write, name: &str, sums: &TypeSums) -> io::Result<()> {
    if sums.is_empty() {
        return Ok(());
    }
    section(out, name)?;
    for (name, sum) in sums.top() {
        let bytes = sum
            .bytes
            .map_or_else(|| UNKNOWN.to_owned(), |bytes| Bytes(bytes).to_string());
        writeln!(out, "{:>8} {bytes:>10}  {name}", Count(sum.count).to_string())?;
    }
    Ok(())
}
