//! Decodes any bytes as the payload of any event. The payload is decoded or refused, and decoded payloads can be
//! displayed.
#![no_main]

use clr_gc::event::{self, ClrEvent, Fields, Kind, Layout, PointerSize, Value};
use libfuzzer_sys::fuzz_target;

/// Formats every field, including the fields of rows, and returns the length of the text.
fn show(fields: &dyn Fields) -> usize {
    let mut length = 0;
    fields.fields(&mut |name, value| {
        length += name.len() + value.to_string().len();
        if let Value::Rows(table) = value {
            let mut rows = 0;
            table.each(&mut |row| {
                rows += 1;
                length += show(row);
            });
            assert_eq!(rows, table.rows());
        }
    });
    length
}

// The first three bytes select the event, its version (255 for none) and the pointer size.
fuzz_target!(|input: &[u8]| {
    let [kind, version, pointer, payload @ ..] = input else {
        return;
    };
    let kind = Kind::ALL[usize::from(*kind) % Kind::ALL.len()];
    let layout = Layout {
        kind,
        version: Some(*version).filter(|version| *version < 255),
    };
    assert_eq!(Layout::from_tag(layout.to_tag()), Some(layout));
    let pointer_size = if pointer & 1 == 0 {
        PointerSize::Eight
    } else {
        PointerSize::Four
    };
    match event::decode(layout, payload, pointer_size) {
        Ok(event) => {
            show(&event);
            if let ClrEvent::GlobalHeapHistory(history) = &event {
                let _ = history.phases();
            }
        }
        Err(error) => assert!(error.needed > payload.len() as u64),
    }
});
