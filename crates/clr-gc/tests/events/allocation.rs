//! Decoding is for the hot path: it allocates nothing.

use clr_gc::event::*;

use crate::cases::CASES;

/// Scenario: each event is decoded, asked for its fields, and refused when cut.
/// Guarantee: no allocation in any of it.
#[test]
fn decoding_allocates_nothing() {
    for case in CASES.iter() {
        let layout = Layout::of(case.provider, case.id, Some(case.version)).unwrap();
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
