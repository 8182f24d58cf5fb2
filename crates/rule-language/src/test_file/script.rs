//! Converts the fields of a test's event to a collection with its edges.

use std::collections::BTreeMap;

use clr_gc::event::{CondemnReasons1, GcReason, GcType, GlobalMechanisms, HeapStats, PauseMode, SuspendReason};
use clr_gc::gc::{
    Account, Allocated, AllocatedUnknown, Cause, Collection, Committed, CpuWait, GenerationSizes, GlobalHistory,
    HeapGeneration, Missing, MissingParts, Pause, Phases, RequestImpact, StopEdges, Suspension, WorstRequest,
};
use rule_engine::field::STOPPED_PARTS;
use strict_yaml::check::did_you_mean;

use super::given::{EventFields, FieldError, invalid};
use super::times::Times;

const WORDS: &str = "see the reference page";

fn reason(given: &mut EventFields<'_>, name: &'static str) -> Result<Option<GcReason>, FieldError> {
    let Some(text) = given.text(name) else { return Ok(None) };
    let known = GcReason::KNOWN.iter().find(|reason| reason.name() == Some(text));
    let unknown = || {
        let names = GcReason::KNOWN.iter().filter_map(|reason| reason.name());
        let hint = did_you_mean(text, names).unwrap_or_else(|| WORDS.to_owned());
        invalid(name, format!("`{text}` is not a reason of a collection; {hint}"))
    };
    known.copied().map(Some).ok_or_else(unknown)
}

fn condemned(given: &mut EventFields<'_>) -> Result<Option<CondemnReasons1>, FieldError> {
    let Some(text) = given.text("condemned_reasons") else {
        return Ok(None);
    };
    let mut bits = 0;
    for name in text.split([',', ' ']).filter(|name| !name.is_empty()) {
        let Some(bit) = CondemnReasons1::NAMES.iter().position(|known| *known == name) else {
            let hint = did_you_mean(name, CondemnReasons1::NAMES.iter().copied());
            let hint = hint.unwrap_or_else(|| WORDS.to_owned());
            return Err(invalid("condemned_reasons", format!("`{name}` is unknown; {hint}")));
        };
        bits |= 1 << bit;
    }
    Ok(Some(CondemnReasons1(bits)))
}

/// Creates GCHeapStats if one of its counts is set. The other counts are then 0.
fn heap_stats(given: &mut EventFields<'_>) -> Result<Option<HeapStats>, FieldError> {
    let pinned = given.number("pinned_objects")?;
    let sync_blocks = given.number("sync_blocks")?;
    let handles = given.number("gc_handles")?;
    let bytes = given.bytes("finalization_promoted_bytes")?;
    let count = given.bytes("finalization_promoted_count")?;
    let any = [pinned, sync_blocks, handles].iter().any(Option::is_some) || bytes.is_some() || count.is_some();
    Ok(any.then(|| HeapStats {
        generation_size0: 0,
        total_promoted_size0: 0,
        generation_size1: 0,
        total_promoted_size1: 0,
        generation_size2: 0,
        total_promoted_size2: 0,
        generation_size3: 0,
        total_promoted_size3: 0,
        finalization_promoted_size: bytes.unwrap_or(0),
        finalization_promoted_count: count.unwrap_or(0),
        pinned_object_count: pinned.unwrap_or(0),
        sink_block_count: sync_blocks.unwrap_or(0),
        gc_handle_count: handles.unwrap_or(0),
        clr_instance: None,
        generation_size4: None,
        total_promoted_size4: None,
    }))
}

/// Reads `committed_before`, `committed_after`, and retained memory (`kept_before`, `kept`; 0 if not set).
fn committed(given: &mut EventFields<'_>) -> Result<Committed, FieldError> {
    let (before, after) = (given.bytes("committed_before")?, given.bytes("committed_after")?);
    let kept = |bytes: Option<u64>, beside: Option<u64>| bytes.or(beside.map(|_| 0));
    Ok(Committed {
        before,
        after,
        bookkeeping: given.bytes("bookkeeping")?,
        kept: kept(given.bytes("kept")?, after),
        kept_before: kept(given.bytes("kept_before")?, before),
    })
}

/// Reads `allocated_since_last` and its duration (`allocated_over_ms`), which ends at the start of the collection.
fn allocated(given: &mut EventFields<'_>, start: i64) -> Result<Result<Allocated, AllocatedUnknown>, FieldError> {
    let over = given.ns("allocated_over_ms", "allocated_over_ns")?.unwrap_or(0);
    let bytes = given.bytes("allocated_since_last")?;
    Ok(bytes.ok_or(AllocatedUnknown::First).map(|bytes| Allocated {
        since: start.saturating_sub(over),
        until: start,
        bytes,
        at_least: false,
    }))
}

/// Creates GCGlobalHeapHistory if one of its fields is set. The other fields then have typical values.
fn global(
    given: &mut EventFields<'_>,
    generation: Option<u32>,
    why: Option<GcReason>,
) -> Result<Option<GlobalHistory>, FieldError> {
    let heap_count = given.number("heap_count")?;
    let load = given.number("memory_load_percent")?;
    let condemned = condemned(given)?;
    let compacting = given.boolean("compacting")?;
    let elevation = given.boolean("elevation")?;
    let mode = given.text("pause_mode").map(|text| {
        let known = PauseMode::KNOWN.iter().find(|mode| mode.name() == Some(text));
        let unknown = || invalid("pause_mode", format!("`{text}` is not a latency mode; {WORDS}"));
        known.copied().ok_or_else(unknown)
    });
    let mode = mode.transpose()?;
    let any = heap_count.is_some() || load.is_some() || condemned.is_some() || mode.is_some();
    if !any && compacting.is_none() && elevation.is_none() {
        return Ok(None);
    }
    let bit = |set: Option<bool>, bit: u32| if set == Some(true) { bit } else { 0 };
    Ok(Some(GlobalHistory {
        heap_count: heap_count.unwrap_or(1),
        gen0_budget: 0,
        condemned_generation: generation.unwrap_or(0),
        reason: why.unwrap_or(GcReason(0)),
        mechanisms: GlobalMechanisms(bit(compacting, 0x2) | bit(elevation, 0x20)),
        pause_mode: mode.unwrap_or(PauseMode(1)),
        memory_load_percent: load.unwrap_or(0),
        condemn_reasons0: None,
        condemn_reasons1: condemned.or(Some(CondemnReasons1(0))),
        phases: Phases::default(),
    }))
}

macro_rules! sizes {
    ($given:ident $($name:literal),+) => {
        [$(GenerationSizes {
            before: $given.bytes(concat!("heap.", $name, ".before"))?,
            after: $given.bytes(concat!("heap.", $name, ".after"))?,
            promoted: $given.bytes(concat!("heap.", $name, ".promoted"))?,
            fragmentation: $given.bytes(concat!("heap.", $name, ".fragmentation"))?,
            budget: $given.bytes(concat!("heap.", $name, ".budget"))?,
            survived: $given.bytes(concat!("heap.", $name, ".survived"))?,
        }),+]
    };
}

/// Creates a collection that ends `at` nanoseconds after the start. `number` is its number unless the fields contain
/// one.
pub(super) fn collection(at: i64, number: u32, fields: &BTreeMap<String, String>) -> Result<Collection, FieldError> {
    let mut given = EventFields::new(fields);
    let number = given.number("number")?.unwrap_or(number);
    let generation = given.number("generation")?;
    let gc_type = match given.text("type") {
        None => None,
        Some("blocking") => Some(GcType::BLOCKING),
        Some("background") => Some(GcType::BACKGROUND),
        Some("foreground") => Some(GcType::FOREGROUND),
        Some(text) => {
            return Err(invalid(
                "type",
                format!("`{text}` is not blocking, background or foreground"),
            ));
        }
    };
    let why = reason(&mut given, "reason")?;
    let became_blocking = given.boolean("became_blocking")?.unwrap_or(false);
    let times = Times {
        concurrent: gc_type == Some(GcType::BACKGROUND) && !became_blocking,
        at,
        duration: given.ns("duration_ms", "duration_ns")?,
        pause: given.ns("pause_ms", "pause_ns")?,
        suspend: given.ns("suspend_ms", "suspend_ns")?,
        restart: given.ns("restart_ms", "restart_ns")?,
        initial: given.ns("initial_pause_ms", "initial_pause_ns")?,
        last: given.ns("final_pause_ms", "final_pause_ns")?,
    };
    let mut pauses = times.pauses();
    stopped(&mut given, &mut pauses, times.suspend)?;
    let trigger = reason(&mut given, "trigger")?;
    let heap_stats = heap_stats(&mut given)?;
    let global = global(&mut given, generation, why)?;
    let heap: [GenerationSizes; HeapGeneration::ALL.len()] = sizes!(given "gen0", "gen1", "gen2", "loh", "poh");
    let phases = Phases {
        mark_sized_refs: given.ns("phases.mark_sized_refs_ms", "phases.mark_sized_refs_ns")?,
        mark_roots: given.ns("phases.mark_roots_ms", "phases.mark_roots_ns")?,
        short_weak: given.ns("phases.short_weak_ms", "phases.short_weak_ns")?,
        scan_finalization: given.ns("phases.scan_finalization_ms", "phases.scan_finalization_ns")?,
        long_weak: given.ns("phases.long_weak_ms", "phases.long_weak_ns")?,
        plan: given.ns("phases.plan_ms", "phases.plan_ns")?,
        relocate: given.ns("phases.relocate_ms", "phases.relocate_ns")?,
        compact: given.ns("phases.compact_ms", "phases.compact_ns")?,
        sweep: given.ns("phases.sweep_ms", "phases.sweep_ns")?,
    };
    let missing = match given.text("missing") {
        None => MissingParts::default(),
        Some(text) => missing(text)?,
    };
    let collection = Collection {
        generation,
        gc_type,
        became_blocking,
        reason: why,
        trigger,
        start: Some(times.start()),
        end: Some(times.end()),
        last_event: at,
        pause_ns: times.pause_sum(),
        suspend_ns: times.suspend,
        pauses,
        heap_stats,
        heap,
        global,
        per_heap_histories: global.map_or(0, |global| global.heap_count),
        phases,
        committed: committed(&mut given)?,
        largest_heap_survived: given.bytes("largest_heap_survived")?,
        throughput_cost_percent: given.parsed("throughput_cost_percent", "a number")?,
        allocated: allocated(&mut given, times.start())?,
        background: given.number("background")?,
        thread_created: given.boolean("thread_created")?.unwrap_or(false),
        missing,
        lossy: given.boolean("lossy")?.unwrap_or(false),
        observed_by_others: given.boolean("observed_by_others")?,
        cpu: cpu(&mut given)?,
        requested_by_tool: given.boolean("requested_by_tool")?,
        requests: requests(&mut given)?,
        ..Collection::unknown(number)
    };
    given.rest()?;
    Ok(collection)
}

/// Sets the parts of the first stop if the fields contain any part. The remainder is unexplained.
fn stopped(given: &mut EventFields<'_>, pauses: &mut [Pause], suspend: Option<i64>) -> Result<(), FieldError> {
    let mut parts: Vec<(Cause, i64)> = Vec::new();
    for (ms, ns, cause) in STOPPED_PARTS {
        parts.extend(given.ns(ms, ns)?.map(|ns| (*cause, ns)));
    }
    let Some((_, ns, _)) = STOPPED_PARTS.first().filter(|_| !parts.is_empty()) else {
        return Ok(());
    };
    let Some(pause) = pauses.first_mut() else {
        return Err(invalid(ns, "without `pause_ms` there is no stop to divide"));
    };
    if !parts.iter().any(|(cause, _)| *cause == Cause::SlowThreads) {
        parts.extend(suspend.map(|ns| (Cause::SlowThreads, ns)));
    }
    let account = Account::from_parts(parts, pause.pause_ns.unwrap_or(0));
    pause.account = Some(account.ok_or_else(|| invalid(ns, "the parts are longer than the stop"))?);
    Ok(())
}

/// Reads the reasons why the collecting threads had no CPU. Returns `None` if no such field is set.
fn cpu(given: &mut EventFields<'_>) -> Result<Option<CpuWait>, FieldError> {
    let throttled_ns = given.ns("throttled_ms", "throttled_ns")?;
    let page_faults = given.number("page_faults")?.map(u64::from);
    let is_given = throttled_ns.is_some() || page_faults.is_some();
    Ok(is_given.then_some(CpuWait {
        throttled_ns,
        page_faults,
    }))
}

fn requests(given: &mut EventFields<'_>) -> Result<Option<RequestImpact>, FieldError> {
    let lost_ns = given.ns("request_time_lost_ms", "request_time_lost_ns")?;
    let hit = given.number("requests_hit")?;
    let worst_ns = given.ns("worst_request_lost_ms", "worst_request_lost_ns")?;
    let known = |ns: i64| u64::try_from(ns).unwrap_or(0);
    Ok(hit.map(|hit| RequestImpact {
        hit: hit.into(),
        lost_ns: lost_ns.map_or(0, known),
        worst: worst_ns.map(|ns| WorstRequest {
            lost_ns: known(ns),
            ..WorstRequest::default()
        }),
    }))
}

fn missing(text: &str) -> Result<MissingParts, FieldError> {
    text.split([',', ' '])
        .filter(|name| !name.is_empty())
        .map(|name| {
            Missing::from_name(name)
                .ok_or_else(|| invalid("missing", format!("`{name}` is not a part of a collection; {WORDS}")))
        })
        .collect()
}

/// Creates a suspension without a collection that ends `at` nanoseconds after the start.
pub(super) fn suspension(at: i64, fields: &BTreeMap<String, String>) -> Result<Suspension, FieldError> {
    let mut given = EventFields::new(fields);
    let stopped = given.ns("stopped_ms", "stopped_ns")?;
    let suspend = given.ns("suspend_ms", "suspend_ns")?;
    let triggered = given.boolean("triggered")?.unwrap_or(false);
    given.rest()?;
    let begin = stopped.map(|stopped| at - stopped);
    Ok(Suspension {
        reason: Some(SuspendReason(1)),
        clr_instance: None,
        edges: StopEdges {
            suspend_begin: begin,
            suspend_end: begin.zip(suspend).map(|(begin, suspend)| begin + suspend),
            restart_begin: Some(at),
            restart_end: Some(at),
            thread: 1,
        },
        suspend_ns: suspend,
        stopped_ns: stopped,
        triggered,
    })
}

#[cfg(test)]
mod tests {
    use clr_gc::gc::PauseKind;

    use super::*;

    fn fields(given: &[(&str, &str)]) -> BTreeMap<String, String> {
        given
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    /// Scenario: a test contains a blocking and a background collection.
    /// Guarantee: their edges are consistent, and other fields are unknown.
    #[test]
    fn written_collections_have_edges() {
        let blocking = [
            ("generation", "2"),
            ("type", "blocking"),
            ("pause_ms", "30"),
            ("suspend_ms", "2.5"),
            ("restart_ms", "0.5"),
        ];
        let gc = collection(1_000_000_000, 7, &fields(&blocking)).unwrap();
        assert_eq!(
            (gc.number, gc.pause_ns, gc.suspend_ns),
            (7, Some(30_000_000), Some(2_500_000))
        );
        assert_eq!(gc.pauses[0].edges.suspend_begin, Some(970_000_000));
        assert_eq!((gc.start, gc.end), (Some(972_500_000), Some(999_500_000)));
        assert_eq!(
            (gc.reason, gc.heap_after(), gc.global, gc.heap_stats),
            (None, None, None, None)
        );

        let background = [
            ("type", "background"),
            ("duration_ms", "100"),
            ("initial_pause_ms", "1"),
            ("final_pause_ms", "4"),
        ];
        let gc = collection(1_000_000_000, 8, &fields(&background)).unwrap();
        assert_eq!(
            (gc.start, gc.end, gc.pause_ns),
            (Some(900_000_000), Some(1_000_000_000), Some(5_000_000))
        );
        assert_eq!(
            gc.pauses.iter().map(|pause| pause.kind).collect::<Vec<_>>(),
            [PauseKind::Initial, PauseKind::Final]
        );
    }

    /// Scenario: a stop has some of its parts; another has parts that are longer than the stop.
    /// Guarantee: the parts add up to the stop, the remainder is unexplained, and parts longer than the stop are
    /// refused.
    #[test]
    fn parts_of_a_stop_add_up() {
        let given = [
            ("pause_ms", "30"),
            ("suspend_ms", "2"),
            ("stopped.roots_stacks_ms", "25"),
        ];
        let made = collection(1_000_000_000, 7, &fields(&given)).unwrap();
        let account = made.account();
        let of = |cause| account.get(cause);
        assert_eq!(account.total(), 30_000_000);
        assert_eq!(
            (of(Cause::SlowThreads), of(Cause::Stacks)),
            (Some(2_000_000), Some(25_000_000))
        );
        assert_eq!((of(Cause::Unexplained), of(Cause::Plan)), (Some(3_000_000), Some(0)));
        let longer = [("pause_ms", "30"), ("stopped.plan_ms", "31")];
        assert!(collection(0, 7, &fields(&longer)).is_err());
    }

    /// Scenario: events have unknown fields and invalid values.
    /// Guarantee: each is refused with its name and the expected value.
    #[test]
    fn invalid_fields_are_refused() {
        let error = |given: &[(&str, &str)]| collection(0, 1, &fields(given)).unwrap_err().to_string();
        assert_eq!(
            error(&[("pause_s", "3")]),
            "pause_s: unknown field; did you mean `pause_ns`?"
        );
        assert_eq!(
            error(&[("generation", "two")]),
            "generation: `two` is not a 32-bit integer"
        );
        assert_eq!(
            error(&[("reason", "OutOfSpaceLoh")]),
            "reason: `OutOfSpaceLoh` is not a reason of a collection; did you mean `OutOfSpaceLOH`?"
        );
        assert_eq!(
            error(&[("condemned_reasons", "BeforeOom")]),
            "condemned_reasons: `BeforeOom` is unknown; did you mean `BeforeOOM`?"
        );
    }
}
