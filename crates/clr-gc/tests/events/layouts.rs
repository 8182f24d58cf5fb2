//! Every layout of every event: golden payloads of each version at 64 and 32 bits, truncated, extended and damaged.

use clr_gc::event::*;
use proptest::prelude::*;

use crate::cases::{CASES, Case};

const POINTERS: [PointerSize; 2] = [PointerSize::Eight, PointerSize::Four];

/// Returns every case with both pointer sizes: case, layout, pointer size, payload.
fn payloads() -> impl Iterator<Item = (&'static Case, Layout, PointerSize, Vec<u8>)> {
    CASES.iter().flat_map(|case| {
        let Some(layout) = Layout::find(case.provider, case.id, Some(case.version)) else {
            panic!("{} {} version {} is unknown", case.provider, case.id, case.version);
        };
        assert_eq!(layout.name(), case.name);
        POINTERS.map(|pointer| (case, layout, pointer, case.payload(pointer)))
    })
}

/// Formats the fields of an event as `Name=value Name=value`.
fn text(event: &ClrEvent<'_>) -> String {
    let mut fields = Vec::new();
    event.fields(&mut |name, value| fields.push(format!("{name}={value}")));
    fields.join(" ")
}

/// Formats an event, reads all its fields and rows, and checks the number of rows.
fn exercise(event: &ClrEvent<'_>) {
    assert!(text(event).len() < usize::MAX);
    assert!(!format!("{event:?}").is_empty());
    let _ = event.clr_instance();
    event.fields(&mut |_, value| {
        if let Value::Rows(table) = value {
            let mut rows = 0;
            table.each(&mut |_| rows += 1);
            assert_eq!(rows, table.rows(), "{}", event.name());
        }
    });
    if let ClrEvent::GlobalHeapHistory(event) = event {
        let _ = event.phases();
    }
}

/// Scenario: each event and version has a payload from a 64-bit and from a 32-bit process.
/// Guarantee: the payload has the size that the manifest and real streams state, and each field has its expected value.
#[test]
fn fields_of_every_layout_decode() {
    for (case, layout, pointer, payload) in payloads() {
        let size = if pointer == PointerSize::Eight {
            case.sizes.0
        } else {
            case.sizes.1
        };
        assert_eq!(
            payload.len(),
            size,
            "{} version {} {pointer:?}",
            layout.name(),
            case.version
        );
        let event = decode(layout, &payload, pointer).unwrap();
        assert_eq!(
            text(&event),
            case.fields,
            "{} version {} {pointer:?}",
            layout.name(),
            case.version
        );
        assert_eq!(event.kind(), layout.kind);
        let instance = case.fields.contains("ClrInstanceID").then_some(9);
        assert_eq!(event.clr_instance(), instance, "{}", layout.name());
        exercise(&event);
    }
}

/// Scenario: the table of events is compared with the golden payloads.
/// Guarantee: every event and version in the table is tested.
#[test]
fn known_versions_have_golden_payloads() {
    for kind in Kind::ALL {
        let (oldest, newest) = kind.versions();
        for version in oldest..=newest {
            let tested = |case: &&Case| {
                case.provider == kind.provider() && case.id == kind.id() && case.version == u32::from(version)
            };
            assert!(CASES.iter().any(|case| tested(&case)), "{kind:?} version {version}");
        }
    }
}

/// Scenario: each payload is truncated at each of its bytes.
/// Guarantee: decoding returns an error with the event, the version and a field. The required size in the error exceeds
/// the available bytes, but not the size of the whole payload.
#[test]
fn truncated_payload_is_rejected() {
    for (case, layout, pointer, payload) in payloads() {
        for cut in 0..payload.len() {
            let error = decode(layout, &payload[..cut], pointer).unwrap_err();
            assert_eq!((error.event, error.got), (layout.name(), cut));
            assert_eq!(error.version.map(u32::from), Some(case.version));
            assert!(error.needed > cut as u64, "{error}");
            assert!(
                error.needed <= payload.len() as u64,
                "{error}, which is more than the whole payload"
            );
            assert!(!error.field.is_empty());
        }
    }
}

/// Scenario: a payload is longer than its layout, as payloads of future runtimes can be.
/// Guarantee: the known fields decode to the same values.
#[test]
fn surplus_bytes_are_ignored() {
    for (_, layout, pointer, mut payload) in payloads() {
        let before = text(&decode(layout, &payload, pointer).unwrap());
        payload.extend([0xFF; 9]);
        assert_eq!(
            text(&decode(layout, &payload, pointer).unwrap()),
            before,
            "{}",
            layout.name()
        );
    }
}

/// Scenario: the stream states no versions (nettrace V6), and payloads are whole; one payload is shorter than its
/// oldest version.
/// Guarantee: the length of a whole payload determines the version; the short payload is rejected with the first
/// missing field.
#[test]
fn length_determines_missing_version() {
    for (case, layout, pointer, payload) in payloads() {
        let unversioned = Layout::find(case.provider, case.id, None).unwrap();
        assert_eq!(unversioned.version, None);
        let event = decode(unversioned, &payload, pointer).unwrap();
        assert_eq!(text(&event), case.fields, "{} version {}", layout.name(), case.version);
    }
    let too_short = decode(
        Layout::find(RUNTIME_PROVIDER, 1, None).unwrap(),
        &[0; 7],
        PointerSize::Eight,
    )
    .unwrap_err();
    assert_eq!(
        (too_short.version, too_short.field, too_short.needed),
        (None, "Reason", 8)
    );
}

/// Scenario: events have a version that is newer or older than all known versions, or an unknown id or provider.
/// Guarantee: an event with a newer version is read as the newest known version; the other events have no layout.
#[test]
fn newer_versions_are_read_as_newest_known_version() {
    for (case, layout, pointer, payload) in payloads() {
        if case.version == u32::from(layout.kind.versions().1) {
            for newer in [case.version + 1, 254, 255, 256, u32::MAX] {
                let newer = Layout::find(case.provider, case.id, Some(newer)).unwrap();
                assert_eq!(text(&decode(newer, &payload, pointer).unwrap()), case.fields);
            }
        }
    }
    assert_eq!(Layout::find(RUNTIME_PROVIDER, 204, Some(2)), None);
    assert_eq!(Layout::find(RUNTIME_PROVIDER, 205, Some(1)), None);
    assert_eq!(Layout::find(RUNTIME_PROVIDER, 203, Some(1)), None);
    assert_eq!(Layout::find(RUNTIME_PROVIDER, 80, Some(1)), None);
    assert_eq!(Layout::find("Microsoft-Windows-DotNETRuntime2", 1, Some(2)), None);
}

/// Scenario: layouts of each event with four versions are converted to tags and back, and invalid tags are converted.
/// Guarantee: each layout round-trips, no two layouts share a tag, no two events share a provider and an id, and an
/// invalid tag is rejected.
#[test]
fn tags_distinguish_layouts() {
    let mut seen = std::collections::HashSet::new();
    for kind in Kind::ALL {
        for version in [None, Some(0), Some(4), Some(254)] {
            let layout = Layout { kind: *kind, version };
            assert_eq!(Layout::from_tag(layout.to_tag()), Some(layout));
            assert!(seen.insert(layout.to_tag()));
        }
        assert_eq!(
            Layout::find(kind.provider(), kind.id(), None),
            Some(Layout {
                kind: *kind,
                version: None
            }),
            "two events share a provider and an id"
        );
    }
    assert_eq!(Layout::from_tag(0xFF), None);
    assert_eq!(Layout::from_tag(0x0001_0001), None);
    assert_eq!(Layout::from_tag(u32::MAX), None);
}

/// Scenario: counts claim more rows than any payload can hold.
/// Guarantee: the payload is rejected because of its rows, even if the product of count and row size overflows 32 bits.
#[test]
fn count_is_checked_against_payload() {
    for (id, at) in [(15, 0), (16, 4), (18, 4), (22, 4), (36, 0), (38, 0)] {
        let case = CASES
            .iter()
            .find(|case| case.provider == RUNTIME_PROVIDER && case.id == id)
            .unwrap();
        let layout = Layout::find(case.provider, id, Some(0)).unwrap();
        for count in [u32::MAX, 0x2000_0000, 0x1000_0001] {
            let mut payload = case.payload(PointerSize::Eight);
            payload[at..at + 4].copy_from_slice(&count.to_le_bytes());
            let error = decode(layout, &payload, PointerSize::Eight).unwrap_err();
            assert_eq!(error.field, "Values", "{error}");
            assert!(error.needed > u64::from(count), "{error}");
        }
    }
}

/// Scenario: an error is formatted.
/// Guarantee: the message names the event, the version, the field, the required length and the actual length.
#[test]
fn error_names_event_field_and_lengths() {
    let layout = Layout::find(RUNTIME_PROVIDER, 1, Some(2)).unwrap();
    let error = decode(layout, &[0; 20], PointerSize::Eight).unwrap_err();
    assert_eq!(
        error.to_string(),
        "GCStart version 2: field ClientSequenceNumber needs a payload of 26 bytes, this one has 20"
    );
}

proptest! {
    /// Scenario: arbitrary bytes are decoded as any event in any version.
    /// Guarantee: the result is an event or an error, never a panic, and every decoded event can be formatted.
    #[test]
    fn arbitrary_bytes_decode_or_are_rejected(
        bytes in prop::collection::vec(any::<u8>(), 0..700),
        kind in prop::sample::select(Kind::ALL),
        version in prop::option::of(0u8..=254),
        pointer in prop::sample::select(&POINTERS[..]),
    ) {
        match decode(Layout { kind, version }, &bytes, pointer) {
            Ok(event) => exercise(&event),
            Err(error) => prop_assert!(error.needed > bytes.len() as u64),
        }
    }

    /// Scenario: some bytes of a golden payload are changed, so that nested counts and texts can be wrong.
    /// Guarantee: the result is an event or an error, never a panic.
    #[test]
    fn damaged_payloads_decode_or_are_rejected(
        case in 0..CASES.len(),
        pointer in prop::sample::select(&POINTERS[..]),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let case = &CASES[case];
        let mut payload = case.payload(pointer);
        for (index, byte) in damage {
            if !payload.is_empty() {
                let index = index.index(payload.len());
                payload[index] = byte;
            }
        }
        let layout = Layout::find(case.provider, case.id, Some(case.version)).unwrap();
        match decode(layout, &payload, pointer) {
            Ok(event) => exercise(&event),
            Err(error) => prop_assert!(error.needed > payload.len() as u64),
        }
    }
}
