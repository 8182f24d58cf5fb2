//! Decoding is on the hot path, so it must not allocate.

use clr_gc::event::*;

use crate::cases::CASES;

/// Scenario: each event is decoded, its fields are visited, and truncated payloads are rejected.
/// Guarantee: decoding, visiting and rejecting do not allocate.
#[test]
fn decoding_does_not_allocate() {
    for case in CASES.iter() {
        let layout = Layout::find(case.provider, case.id, Some(case.version)).unwrap();
        let payload = case.payload(PointerSize::Eight);
        let mut fields = 0;
        let allocations = allocation_counter::measure(|| {
            if let Ok(event) = decode(layout, &payload, PointerSize::Eight) {
                event.fields(&mut |_, value| match value {
                    Value::Rows(table) => table.each(&mut |row| row.fields(&mut |_, _| fields += 1)),
                    _ => fields += 1,
                });
            }
            if let Some((_, cut)) = payload.split_last() {
                assert!(decode(layout, cut, PointerSize::Eight).is_err());
            }
        });
        assert_eq!(
            (fields == 0, payload.len()),
            (case.fields.is_empty(), case.sizes.0),
            "{}",
            layout.name()
        );
        assert_eq!(allocations.count_total, 0, "{}", layout.name());
    }
}
