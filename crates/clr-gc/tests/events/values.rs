//! Meaning of event values: enumerations, bit sets, phases, dynamic data, text.

use clr_gc::event::*;

/// Returns a GCDynamicEvent with this name and data.
fn dynamic(name: &str, data: &[u8]) -> Vec<u8> {
    let mut payload: Vec<u8> = name.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect();
    payload.extend((data.len() as u32).to_le_bytes());
    payload.extend(data);
    payload.extend([0, 0]);
    payload
}

fn decoded(id: u32, version: u32, payload: &[u8]) -> ClrEvent<'_> {
    let layout = Layout::find(RUNTIME_PROVIDER, id, Some(version));
    match layout.map(|layout| decode(layout, payload, PointerSize::Eight)) {
        Some(Ok(event)) => event,
        other => panic!("event {id} version {version}: {other:?}"),
    }
}

/// Scenario: every reason is converted from its number to its name.
/// Guarantee: the names are those of the output contract, and an unknown reason keeps its number.
#[test]
fn reasons_have_names_of_contract() {
    let names = "AllocSmall Induced LowMemory Empty AllocLarge OutOfSpaceSOH OutOfSpaceLOH InducedNotForced GCStress \
        LowMemoryBlocking InducedCompacting LowMemoryHost PMFullGC LowMemoryHostBlocking BGCTuningSOH BGCTuningLOH \
        BGCStepping InducedAggressive";
    for (number, name) in names.split_whitespace().enumerate() {
        assert_eq!(GcReason(number as u32).to_string(), name);
    }
    assert_eq!(GcReason::KNOWN.len(), names.split_whitespace().count());
    assert_eq!(GcReason(18).name(), None);
    assert_eq!(GcReason(19).to_string(), "Unknown(19)");
    assert_eq!(
        format!("{:>12}|{:<12}|", GcReason(19), GcReason::EMPTY),
        " Unknown(19)|Empty       |"
    );
}

/// Scenario: suspensions have every kind of reason.
/// Guarantee: only reasons 1 and 6 belong to the collector.
#[test]
fn two_suspend_reasons_belong_to_collector() {
    let collectors: Vec<u32> = (0..20).filter(|number| SuspendReason(*number).is_gc()).collect();
    assert_eq!(collectors, [1, 6]);
}

/// Scenario: bit sets of real collections, and bits without a name, are converted to names.
/// Guarantee: each named bit has its name, and bits without a name are omitted.
#[test]
fn bits_have_names() {
    let background = GlobalMechanisms(0x15);
    assert!(background.is_concurrent() && !background.is_compaction());
    assert!(background.names().eq(["Concurrent", "Promotion", "CardBundles"]));
    assert!(GlobalMechanisms(0x16).is_compaction());
    assert!(GlobalMechanisms(0x8000_0002).names().eq(["Compaction"]));

    let reasons = CondemnReasons1(1 << 2 | 1 << 9 | 1 << 29);
    assert_eq!(
        reasons.names().collect::<Vec<_>>(),
        ["HighMemory", "MaxHighFragmentationMemoryLoad", "Stress"]
    );
    assert_eq!(CondemnReasons1(1 << 30).names().next(), None);

    let generations = CondemnReasons0(0b00_01_10_11);
    assert_eq!(generations.initial_generation(), 3);
    assert_eq!(generations.final_generation(), 2);
    assert_eq!(generations.allocation_budget_generation(), 1);
    assert_eq!(generations.time_tuning_generation(), 0);
}

/// Returns a GCGlobalHeapHistory version 4 with these mechanisms and phase times.
fn global(mechanisms: u32, times: &[u32]) -> Vec<u8> {
    let mut payload = vec![0; 50];
    payload[24..28].copy_from_slice(&mechanisms.to_le_bytes());
    payload[46..50].copy_from_slice(&(times.len() as u32).to_le_bytes());
    payload.extend(times.iter().flat_map(|time| time.to_le_bytes()));
    payload
}

fn phases(mechanisms: u32, times: &[u32]) -> Phases {
    let payload = global(mechanisms, times);
    let ClrEvent::GlobalHeapHistory(history) = decoded(205, 4, &payload) else {
        panic!("another event")
    };
    history.phases()
}

/// Scenario: a background, a sweeping and a compacting collection have phase times as runtimes send them.
/// Guarantee: each time is assigned by position, and a phase that does not exist in this kind of collection is `None`.
#[test]
fn phases_are_named_by_position() {
    let marked = Phases {
        mark_sized_refs: Some(0),
        mark_roots: Some(10_000),
        short_weak: Some(20_000),
        scan_finalization: Some(30_000),
        long_weak: Some(40_000),
        ..Phases::default()
    };
    assert_eq!(phases(0x15, &[0, 10, 20, 30, 40]), marked);
    let swept = Phases {
        plan: Some(50_000),
        sweep: Some(60_000),
        ..marked
    };
    assert_eq!(phases(0x14, &[0, 10, 20, 30, 40, 50, 60]), swept);
    let compacted = Phases {
        plan: Some(50_000),
        relocate: Some(60_000),
        compact: Some(70_000),
        ..marked
    };
    assert_eq!(phases(0x16, &[0, 10, 20, 30, 40, 50, 60, 70]), compacted);
    // If the number of times belongs to a kind of collection, the number determines the kind; otherwise the mechanisms
    // determine the kind.
    assert_eq!(phases(0x14, &[0, 10, 20, 30, 40, 50, 60, 70]), compacted);
    assert_eq!(phases(0x14, &[0, 10, 20, 30, 40, 50, 60, 70, 80]), swept);
    assert_eq!(phases(0x16, &[0, 10, 20, 30, 40, 50, 60, 70, 80]), compacted);
    assert_eq!(phases(0x16, &[]), Phases::default());
}

/// Scenario: a background collection was running when the session started; a runtime sends no times.
/// Guarantee: an unknown time is `None`, neither 0 nor 71 minutes (`u32::MAX` microseconds).
#[test]
fn unknown_phase_time_is_none() {
    let seen = phases(0x15, &[0, 0, u32::MAX, u32::MAX, 52]);
    assert_eq!(
        (seen.mark_roots, seen.short_weak, seen.scan_finalization),
        (Some(0), None, None)
    );
    assert_eq!(seen.long_weak, Some(52_000));
    let payload = global(0x16, &[]);
    let ClrEvent::GlobalHeapHistory(old) = decoded(205, 2, &payload[..38]) else {
        panic!("another event")
    };
    assert_eq!(
        (old.phases(), old.count, old.condemn_reasons0),
        (Phases::default(), None, None)
    );
}

/// Scenario: dynamic data has an unknown name, version or length.
/// Guarantee: the data stays opaque, and the event still decodes.
#[test]
fn unknown_dynamic_data_stays_opaque() {
    let sample: Vec<u8> = [1, 0].into_iter().chain([7; 40]).collect();
    let opaque = |name: &str, data: &[u8]| {
        let payload = dynamic(name, data);
        let ClrEvent::DynamicEvent(event) = decoded(39, 0, &payload) else {
            panic!("another event")
        };
        assert!(event.name.eq_str(name));
        assert_eq!(event.data, data);
        matches!(event.dynamic(), DynamicData::Opaque(bytes) if bytes == data)
    };
    assert!(!opaque("CommittedUsage", &sample), "42 bytes of version 1 are known");
    assert!(opaque("committedusage", &sample), "names are case-sensitive");
    assert!(opaque("CommittedUsage2", &sample));
    assert!(opaque("CommittedUsage", &sample[..41]), "one byte is missing");
    assert!(opaque("CommittedUsage", &[2; 42]), "another version");
    assert!(opaque("CommittedUsage", &[1]));
    assert!(opaque("", &[]));
}

/// Scenario: the name of a type contains control characters, a change of direction and an unpaired surrogate.
/// Guarantee: the displayed text contains the control characters and the change of direction only as escapes. `to_text`
/// returns the sent characters, except for the unpaired surrogate, which becomes U+FFFD.
#[test]
fn displayed_text_is_escaped_and_characters_are_unchanged() {
    let units = [0x41, 0x1B, 0x5B, 0x0A, 0xD83D, 0x42, 0xD83D, 0xDE00, 0x85, 0x202E];
    let mut payload = vec![0; 26];
    payload.extend(units.into_iter().chain([0]).flat_map(u16::to_le_bytes));
    payload.extend([0; 20]);
    let ClrEvent::AllocationTick(tick) = decoded(10, 4, &payload) else {
        panic!("another event")
    };
    let name = tick.type_name.unwrap();
    assert_eq!(name.to_string(), "A\\u{1b}[\\n\u{FFFD}B\u{1F600}\\u{85}\\u{202e}");
    assert_eq!(name.to_text(), "A\u{1b}[\n\u{FFFD}B\u{1F600}\u{85}\u{202E}");
    assert!(!name.is_empty() && !name.eq_str("A"));
}

/// Scenario: events have an early version, and later versions of these events have additional fields.
/// Guarantee: a field that does not exist in the early version is `None`, never 0.
#[test]
fn fields_of_later_versions_are_none_in_earlier_versions() {
    let ClrEvent::GcStart(start) = decoded(1, 0, &[7, 0, 0, 0, 6, 0, 0, 0]) else {
        panic!("another event")
    };
    assert_eq!((start.count, start.reason), (7, GcReason::OUT_OF_SPACE_LOH));
    assert_eq!(
        (
            start.depth,
            start.gc_type,
            start.clr_instance,
            start.client_sequence_number
        ),
        (None, None, None, None)
    );
    let ClrEvent::HeapStats(stats) = decoded(4, 1, &[1; 94]) else {
        panic!("another event")
    };
    let generations = stats.generations();
    assert!(generations[..4].iter().all(Option::is_some));
    assert_eq!(generations[4], None);
    let ClrEvent::SuspendEeBegin(begin) = decoded(9, 0, &[1, 0]) else {
        panic!("another event")
    };
    assert_eq!((begin.reason, begin.count), (SuspendReason::FOR_GC, None));
}

/// Scenario: a heap's history is read by generation.
/// Guarantee: the order and the number of the generations are those in the payload, and the sum of survivors saturates.
#[test]
fn heap_history_has_its_generations() {
    let mut payload = vec![0; 86];
    payload[82] = 4;
    payload.extend(
        (0..4u64)
            .flat_map(|generation| [generation; 9].into_iter().chain([u64::MAX]))
            .flat_map(u64::to_le_bytes),
    );
    let ClrEvent::PerHeapHistory(history) = decoded(204, 3, &payload) else {
        panic!("another event")
    };
    assert_eq!(history.generations().len(), 4);
    for (number, generation) in history.generations().enumerate() {
        let number = number as u64;
        assert_eq!((generation.size_before, generation.new_allocation), (number, u64::MAX));
        assert_eq!(
            (generation.fragmentation(), generation.survived()),
            (2 * number, 2 * number)
        );
    }
    assert_eq!(history.values.get(3).map(|generation| generation.in_), Some(3));
    assert_eq!(history.values.get(4), None);
    let full = GenerationHistory {
        pinned_surv: u64::MAX,
        ..history.values.get(1).unwrap()
    };
    assert_eq!(full.survived(), u64::MAX);
}

/// Returns the version that a RuntimeStart with this version of the base class library and this path of the runtime
/// reports.
fn runtime_start(bcl: [u16; 3], path: &str) -> Option<String> {
    let numbers: [u16; 10] = [0, 2, bcl[0], bcl[1], bcl[2], 0, 10, 0, 1426, 52326];
    let mut payload: Vec<u8> = numbers.into_iter().flat_map(u16::to_le_bytes).collect();
    payload.extend([0; 23]);
    payload.extend(path.encode_utf16().chain([0]).flat_map(u16::to_le_bytes));
    let ClrEvent::RuntimeStart(start) = decoded(187, 0, &payload) else {
        panic!("another event")
    };
    assert!(start.command_line.is_empty());
    assert!(start.runtime_dll_path.eq_str(path));
    start.version()
}

/// Scenario: RuntimeStart of .NET 10.0.14 has the native file version 10.0.1426; .NET Core 3.1 reports version 4.0.0.
/// Guarantee: the version is the release number, or `None` if the event does not contain the release number.
#[test]
fn runtime_version_is_release_number() {
    assert_eq!(
        runtime_start([10, 0, 14], "/rt/libcoreclr.so").as_deref(),
        Some("10.0.14")
    );
    let shared = "/usr/share/dotnet/shared/Microsoft.NETCore.App/3.1.0/libcoreclr.so";
    assert_eq!(runtime_start([4, 0, 0], shared).as_deref(), Some("3.1.0"));
    assert_eq!(
        runtime_start([4, 0, 0], r"C:\dotnet\3.0.0-preview9\coreclr.dll").as_deref(),
        Some("3.0.0-preview9")
    );
    assert_eq!(runtime_start([4, 0, 0], "/app/libcoreclr.so"), None);
    assert_eq!(runtime_start([4, 0, 0], "/app/1.2/libcoreclr.so"), None);
    assert_eq!(runtime_start([4, 0, 0], ""), None);
}
