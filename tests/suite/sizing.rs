//! The memory that a service needs, from the collections of its processes to the records of the API.

use gc_advice::basis::Gap;
use gcwatch::pipeline::Records;
use web::Views as _;

use crate::changes::{MINUTE_NS, MINUTES, START_NS, pipeline, play};

/// Scenario: a process of a service runs for four minutes, and then another one for 27 minutes. Their collections come
/// from a recording of a real process.
/// Guarantee: the first record states why the bound is unknown. The last record has a bound, prices, a window of five
/// blocks and its gaps. The record is found by the pid of either process and in the record of the process, but not by
/// an unknown pid.
#[test]
fn service_is_sized_from_its_minutes() {
    let (pipeline, _) = pipeline();
    let records = Records::new(&pipeline);
    assert!(records.sizing(None).is_empty());
    play(&pipeline, (1, "1"), START_NS, 4, 1);
    let early = records.sizing(None);
    let [record] = early.as_slice() else {
        panic!("{early:?}")
    };
    assert!(record.not_less_than.is_none() && record.curve.is_empty(), "{record:?}");
    assert!(
        record
            .unknown_because
            .as_ref()
            .unwrap()
            .contains("five minutes in a row")
    );
    assert!(
        record.until.as_ref().unwrap().starts_with("2026-11-29T08:0"),
        "{record:?}"
    );

    play(&pipeline, (2, "1"), START_NS + 4 * MINUTE_NS, MINUTES, 1);
    let sized = records.sizing(None);
    let [record] = sized.as_slice() else {
        panic!("{sized:?}")
    };
    assert_eq!((record.service.as_deref(), record.pid), (Some("shop"), None));
    let bound = record.not_less_than.unwrap();
    let needed = (record.live.unwrap() + record.young.unwrap()) as f64 / 0.9;
    assert!((bound.heap_limit as f64 / needed - 1.0).abs() < 0.001, "{record:?}");
    assert!(bound.memory_limit > bound.heap_limit && record.curve.len() == 9);
    let blocks = i128::from(record.window.observed_ns) / (5 * MINUTE_NS);
    assert!((5..=6).contains(&blocks) && record.window.gen1 > 0, "{record:?}");
    // The age of a recorded process is unknown, so its start is not seen.
    assert!(
        record.gaps.starts_with(&[Gap::NoDeployment, Gap::NoPeakHour]),
        "{record:?}"
    );
    for pid in [1, 2] {
        assert_eq!(records.sizing(Some(pid)), sized, "{pid}");
        assert_eq!(records.process(pid).unwrap().sizing.as_ref(), Some(record), "{pid}");
    }
    assert!(records.sizing(Some(99)).is_empty());
}
