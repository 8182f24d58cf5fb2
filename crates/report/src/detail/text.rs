//! The detail of a collection as text.

use std::collections::BTreeMap;
use std::io::{self, Write};

use clr_gc::event::RootKind;
use clr_gc::gc::{Collection, HeapGeneration, StoppedTime};
use rule_engine::account::AccountRecord;

use super::{Detail, TypeSums};
use crate::account;
use crate::memory;
use crate::table::{Column, FAINT, HEADING, MARK, head, left, right, row};
use crate::timeline;
use crate::units::{Bytes, Count, Mebibytes, Span, UNKNOWN, known, plural};
use api::gc::type_name;

/// Writes all facts about a collection. `start` is the time of its GCStart event in RFC 3339. If `events` is `false`,
/// the events of the collection are replaced by their number and a hint how to list them.
pub fn write(
    out: &mut dyn Write,
    gc: &Collection,
    detail: &Detail,
    start: Option<&str>,
    events: bool,
) -> io::Result<()> {
    title(out, gc, detail, start)?;
    section(out, "Stops")?;
    timeline::write(out, gc)?;
    let mut stopped = StoppedTime::default();
    stopped.add(gc);
    let account = AccountRecord::from_stopped_time(&stopped, gc.pause_ns);
    account::write(out, "stopped time by cause", &account)?;
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
    if !events {
        let all = plural(detail.events.len() as u64 + detail.more_events, "event");
        return writeln!(out, "\n{FAINT}{all}: --events lists them{FAINT:#}");
    }
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
    let generation = known(gc.generation);
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
    let span = |ns: Option<i64>| known(ns.map(Span));
    let (duration, pause, suspend) = (span(gc.duration_ns()), span(gc.pause_ns), span(gc.suspend_ns));
    let stops = plural(gc.pauses.len() as u64, "stop");
    writeln!(
        out,
        "pause {pause} in {stops} (including {suspend} to suspend) · duration {duration}"
    )?;
    if gc.became_blocking {
        writeln!(
            out,
            "announced as background, but it ended before the threads were restarted"
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
            known(gc.memory_load_percent()),
            global.pause_mode,
            mechanisms.join(" "),
        )?;
        if let (Some(reasons0), Some(reasons1)) = (global.condemn_reasons0, global.condemn_reasons1) {
            let mut condemned = Vec::new();
            let (first, last) = (reasons0.initial_generation(), reasons0.final_generation());
            // In a background collection, the runtime leaves the decision of a foreground collection here, which does
            // not apply. If no reason changed the generation, the title already contains the generation.
            if Some(last) == gc.generation && first != last {
                condemned.push(format!("generation {first} initially, {last} finally"));
            }
            let asked = [
                ("budgets requested", reasons0.allocation_budget_generation()),
                ("time tuning", reasons0.time_tuning_generation()),
            ];
            let asked = asked.iter().filter(|(_, generation)| *generation > 0);
            condemned.extend(asked.map(|(who, generation)| format!("{who} {generation}")));
            let why: Vec<&str> = reasons1.names().collect();
            if !why.is_empty() {
                condemned.push(format!("because {}", why.join(", ")));
            }
            if !condemned.is_empty() {
                writeln!(out, "condemned: {}", condemned.join("; "))?;
            }
        }
    }
    if !gc.is_complete() {
        let names: Vec<&str> = gc.missing.iter().map(clr_gc::gc::Missing::name).collect();
        writeln!(out, "{MARK}missing: {}{MARK:#}", names.join(", "))?;
    }
    if gc.lossy {
        writeln!(out, "{MARK}events were lost during it{MARK:#}")?;
    }
    Ok(())
}

fn heap(out: &mut dyn Write, gc: &Collection) -> io::Result<()> {
    const COLUMNS: [Column; 7] = [
        left("MiB", 6),
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
        cells.extend(sizes.map(|bytes| Mebibytes(bytes).to_string()));
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
    if let Some(bytes) = gc.allocated_since_last() {
        let least = if gc.hides_allocation() { "at least " } else { "" };
        writeln!(out, "allocated since the previous collection: {least}{}", Bytes(bytes))?;
    }
    if let Some(before) = gc.committed.total_before() {
        let after = gc
            .committed
            .total_after()
            .map(|after| format!(", {} after", Bytes(after)))
            .unwrap_or_default();
        writeln!(out, "committed: {} before{after}", Bytes(before))?;
    }
    if let Some(ledger) = memory::ledger(gc) {
        memory::write(out, "after it", &ledger)?;
    }
    if let Some(stats) = &gc.heap_stats {
        writeln!(
            out,
            "{}, {}, {}; promoted for finalization: {} ({})",
            plural(stats.pinned_object_count.into(), "pinned object"),
            counted(gc.handles().map(u64::from), "handle"),
            counted(gc.sync_blocks().map(u64::from), "sync block"),
            counted(gc.finalization_promoted_count(), "object"),
            known(gc.finalization_promoted_bytes().map(Bytes)),
        )?;
    }
    Ok(())
}

fn counted(count: Option<u64>, of: &str) -> String {
    count.map_or_else(|| format!("{UNKNOWN} {of}s"), |count| plural(count, of))
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
                let bytes = known(by_heap.get(heap).copied().map(Bytes));
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
    section(out, "Joins: GC threads waiting for each other")?;
    for (heap, sum) in &detail.joins {
        writeln!(
            out,
            "heap {heap:<4} {:>10}, {} in total, longest {}",
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
            "heap {heap:<4} plan {}, relocate {}, compact {}; {} references, {} null",
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
        let bytes = known(sum.bytes.map(Bytes));
        writeln!(out, "{:>8} {bytes:>10}  {name}", Count(sum.count).to_string())?;
    }
    Ok(())
}
