//! Reads any bytes as the stream of a burst, up to the first damage, and reports the result in every format.
#![no_main]

use clr_evidence::burst::{Burst, Origin, Weight};
use clr_evidence::{flame, pprof};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let mut burst = Burst::new(Origin::Live);
    let mut is_damaged = false;
    for piece in input.chunks(4096) {
        is_damaged |= burst.push(piece).is_err();
        if is_damaged {
            break;
        }
    }
    let _damaged_at_its_end = burst.finish();
    let allocations = burst.allocations();
    let total = allocations.total;
    assert!(total.low.is_none_or(|low| low <= total.estimate));
    burst.callers();
    pprof::encode(&burst.stacked(), &burst.facts(), None, false);
    let framework = burst.framework();
    flame::svg(
        "x",
        &burst.weighted_stacks(Weight::Allocated),
        flame::Unit::Bytes,
        &framework,
    );
    flame::svg(
        "x",
        &burst.weighted_stacks(Weight::Stopped),
        flame::Unit::Nanoseconds,
        &framework,
    );
});
