//! Any bytes as an export of spans: requests, or none.
#![no_main]

use gc_requests::span::{MAX_REQUESTS, read};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let mut count = 0;
    let _malformed = read(input, |spans| {
        count += spans.requests.len();
        for request in spans.requests {
            let start = request.ended.start_unix_ns;
            assert!(start.is_none_or(|start| start > 0 && start <= request.end_unix_ns));
            assert!(request.ended.trace_id.is_none_or(|id| id != [0; 16]));
        }
    });
    // An end alone has nine bytes.
    assert!(count <= MAX_REQUESTS && count * 9 <= input.len());
});
