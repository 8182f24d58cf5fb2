//! Decodes any bytes as the payload of a bridged event. The payload is ignored, or is a completed request with a valid
//! path and trace id.
#![no_main]

use gc_requests::payload::{CompletedRequest, MAX_PATH_CHARS};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    // Prepend the names of source and event, which random input does not find.
    let names = ["Microsoft.AspNetCore", "Microsoft.AspNetCore.Hosting.EndRequest"];
    let mut payload: Vec<u8> = Vec::new();
    for name in names {
        payload.extend(name.encode_utf16().chain([0]).flat_map(u16::to_le_bytes));
    }
    payload.extend(input);
    for bytes in [input, &payload] {
        if let Some(ended) = CompletedRequest::read(bytes) {
            assert!(ended.path.is_none_or(|path| path.chars().count() <= MAX_PATH_CHARS));
            assert!(ended.trace_id.is_none_or(|id| id != [0; 16]));
        }
    }
});
