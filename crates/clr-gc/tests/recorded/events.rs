//! Every event of every recording: events from real runtimes must decode to the last byte.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use clr_gc::event::*;
use nettrace::{Decoder, Item, Metadata, Options};

use crate::recordings;

/// The GC keyword of the public and of the private provider.
const GC_KEYWORD: u64 = 0x1;

/// The result of decoding a recording.
#[derive(Debug, Default)]
struct Tally {
    /// Number of events by name and version.
    decoded: BTreeMap<(&'static str, Option<u8>), u64>,
    /// Number of dynamic events by name; opaque events have a question mark.
    dynamic: BTreeMap<String, u64>,
    /// Events with the GC keyword and an unknown layout.
    unknown: BTreeSet<String>,
}

/// Decodes all events of a recording. Each event must decode completely, with and without its version.
fn tally(name: &str) -> Tally {
    let mut tally = Tally::default();
    let unknown = Arc::new(Mutex::new(BTreeSet::new()));
    let seen = Arc::clone(&unknown);
    let interest = move |metadata: &Metadata| {
        let layout = Layout::find(&metadata.provider, metadata.event_id, metadata.version);
        let is_clr = [RUNTIME_PROVIDER, PRIVATE_PROVIDER].contains(&&*metadata.provider);
        let is_gc = metadata.keywords.is_some_and(|keywords| keywords & GC_KEYWORD != 0);
        if layout.is_none()
            && is_clr
            && is_gc
            && let Ok(mut seen) = seen.lock()
        {
            let Metadata {
                provider,
                event_id,
                version,
                ..
            } = metadata;
            seen.insert(format!("{provider} {event_id} version {version:?}"));
        }
        layout.map(Layout::to_tag)
    };
    let options = Options {
        interest: Box::new(interest),
        ..Options::default()
    };
    let mut decoder = Decoder::new(options);
    decoder.push(&recordings::bytes(name));
    decoder.finish();
    loop {
        let pointer_size = decoder.header().map(|header| header.pointer_size);
        let event = match decoder.next_item() {
            Ok(Some(Item::Event(event))) => event,
            Ok(Some(_)) => continue,
            Ok(None) => break,
            Err(error) => panic!("{name}: {error}"),
        };
        let (Some(layout), Some(pointer_size)) = (Layout::from_tag(event.tag), pointer_size) else {
            panic!(
                "{name}: tag {:#x} without a layout, or an event before the header",
                event.tag
            );
        };
        let clr = match decode(layout, event.payload, pointer_size) {
            Ok(clr) => clr,
            Err(error) => panic!("{name}: {error}"),
        };
        let short = event
            .payload
            .split_last()
            .map(|(_, short)| decode(layout, short, pointer_size));
        assert!(
            matches!(short, Some(Err(_))),
            "{name}: {} has bytes that are not read",
            layout.name()
        );
        let unversioned = Layout {
            version: None,
            ..layout
        };
        assert_eq!(
            decode(unversioned, event.payload, pointer_size).as_ref(),
            Ok(&clr),
            "{name}"
        );
        if let ClrEvent::DynamicEvent(event) = &clr {
            let opaque = if matches!(event.dynamic(), DynamicData::Opaque(_)) {
                "?"
            } else {
                ""
            };
            *tally.dynamic.entry(format!("{}{opaque}", event.name)).or_default() += 1;
        }
        *tally.decoded.entry((layout.name(), layout.version)).or_default() += 1;
    }
    tally.unknown = unknown.lock().map(|seen| seen.clone()).unwrap_or_default();
    tally
}

/// Scenario: all recordings of .NET Core 3.1, .NET 8 to 11 and NativeAOT are decoded, with Verbose, private and rundown
/// events.
/// Guarantee: each event decodes without remaining bytes, and to the same result if only its length determines the
/// version. No event with the GC keyword and no dynamic event is unknown.
#[test]
fn recorded_events_decode_completely() {
    for name in recordings::names() {
        let tally = tally(&name);
        assert!(!tally.decoded.is_empty(), "{name}: no event was decoded");
        assert_eq!(tally.unknown, BTreeSet::new(), "{name}");
        assert!(
            tally.dynamic.keys().all(|dynamic| !dynamic.ends_with('?')),
            "{name}: {:?}",
            tally.dynamic
        );
    }
}

/// Scenario: recordings of .NET Core 3.1, of .NET 10 at level Verbose, and of .NET 10 with the private provider are
/// decoded.
/// Guarantee: the number of events of each kind and version equals the number that another decoder counted; for the
/// private provider, only the steps of background collections are compared.
#[test]
fn event_counts_equal_those_of_other_decoder() {
    let expected = |counts: &[(&'static str, u8, u64)]| {
        let count = |(name, version, count): &(&'static str, u8, u64)| ((*name, Some(*version)), *count);
        counts.iter().map(count).collect::<BTreeMap<_, _>>()
    };
    assert_eq!(
        tally("net31-steady").decoded,
        expected(&[
            ("ProcessInfo", 0, 1),
            ("GCStart", 2, 14),
            ("GCEnd", 1, 14),
            ("GCRestartEEEnd", 1, 14),
            ("GCHeapStats", 1, 14),
            ("GCRestartEEBegin", 1, 14),
            ("GCSuspendEEEnd", 1, 14),
            ("GCSuspendEEBegin", 1, 14),
            ("GCCreateConcurrentThread", 1, 1),
            ("GCTriggered", 0, 13),
            ("GCMarkWithType", 0, 51),
            ("GCPerHeapHistory", 3, 14),
            ("GCGlobalHeapHistory", 2, 14),
        ])
    );
    if !recordings::are_all_there() {
        return;
    }
    assert_eq!(
        tally("net10-steady-verbose").decoded,
        expected(&[
            ("ProcessInfo", 1, 1),
            ("GCStart", 2, 70),
            ("GCEnd", 1, 70),
            ("GCRestartEEEnd", 1, 70),
            ("GCHeapStats", 2, 70),
            ("GCCreateSegment", 1, 6),
            ("GCFreeSegment", 1, 3),
            ("GCRestartEEBegin", 1, 70),
            ("GCSuspendEEEnd", 1, 70),
            ("GCSuspendEEBegin", 1, 70),
            ("GCAllocationTick", 4, 10363),
            ("GCCreateConcurrentThread", 1, 1),
            ("GCFinalizersEnd", 1, 2),
            ("GCFinalizersBegin", 1, 2),
            ("FinalizeObject", 0, 24),
            ("PinObjectAtGCTime", 0, 7),
            ("GCTriggered", 0, 66),
            ("GCDynamicEvent", 0, 136),
            ("IncreaseMemoryPressure", 0, 1),
            ("GCMarkWithType", 0, 460),
            ("GCPerHeapHistory", 3, 70),
            ("GCGlobalHeapHistory", 4, 70),
            ("GCFitBucketInfo", 0, 16),
        ])
    );
    let private = tally("net10b-private").decoded;
    let steps = [
        ("BGCBegin", 0, 10),
        ("BGC1stNonConEnd", 0, 10),
        ("BGC1stConEnd", 0, 10),
        ("BGC2ndNonConBegin", 0, 10),
        ("BGC2ndNonConEnd", 0, 10),
        ("BGC2ndConBegin", 0, 10),
        ("BGC2ndConEnd", 0, 10),
        ("BGCDrainMark", 0, 10),
        ("BGCRevisit", 0, 110),
        ("BGCOverflow", 1, 50),
        ("BGC1stSweepEnd", 0, 10),
    ];
    for (name, version, count) in steps {
        assert_eq!(private.get(&(name, Some(version))), Some(&count), "{name}");
    }
}
