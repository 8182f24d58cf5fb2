//! Tests of windows that share series.

use rule_engine::plan::{MeasuredSeries, Plan, SampleTrigger};
use rule_language::load::{load, shipped};

use super::story::load_file;

/// Scenario: windows of one rule have the same condition, value and extent; some of their functions can share a series.
/// Guarantee: windows share a series if possible, and the condition exists once.
#[test]
fn windows_share_series_and_conditions() {
    let text = "apiVersion: gcwatch/v1\nrules:\n  - id: a.a\n    title: A\n    on: process\n    severity: info\n    summary: x\n    let:\n      \
        slope: {fn: slope, of: gc.pause_ms, where: gc.generation == 2, over: 1h}\n      \
        fit: {fn: r2, of: gc.pause_ms, where: gc.generation == 2, over: 1h}\n      \
        full: {fn: count, where: gc.generation == 2, over: 1h}\n      \
        rate: {fn: rate, where: gc.generation == 2, over: 1h, min_samples: 3}\n      \
        other: {fn: r2, of: gc.suspend_ms, where: gc.generation == 2, over: 1h}\n    \
        when: slope > 1.0 && fit > 0.5 && full > 1.0 && rate > 1.0 && other > 0.5\n";
    let rules = load_file(text);
    let plan = Plan::new(&rules.windows);
    assert_eq!(rules.windows.len(), 5);
    assert_eq!(plan.series.len(), 3);
    assert_eq!(plan.feeds(), 1);
    assert_eq!(plan.measured.len(), 3);
    let series = |name: &str| {
        let (_, place) = rules.rules[0]
            .windows
            .iter()
            .find(|(known, _)| &**known == name)
            .unwrap();
        plan.of_window[*place]
    };
    assert_eq!(series("slope"), series("fit"));
    assert_eq!(series("full"), series("rate"));
    assert_ne!(series("other"), series("fit"));
}

/// Scenario: the plan of the shipped rules is created.
/// Guarantee: each window has a series that is fed exactly once, in order.
#[test]
fn every_window_is_fed_once() {
    let rules = load(&shipped()).unwrap().rules;
    let plan = Plan::new(&rules.windows);
    assert_eq!(plan.of_window.len(), rules.windows.len());
    let times = [
        SampleTrigger::Gc,
        SampleTrigger::Keyed,
        SampleTrigger::Suspension,
        SampleTrigger::Tick,
    ];
    let feeds = times.iter().flat_map(|when| plan.feeds_at(*when));
    let (places, feeds): (Vec<usize>, Vec<_>) = feeds.unzip();
    assert_eq!(places, (0..plan.feeds()).collect::<Vec<_>>());
    let measured = feeds.iter().flat_map(|feed| plan.measured_of(feed));
    let fed: Vec<usize> = measured.flat_map(MeasuredSeries::series).collect();
    assert_eq!(fed, (0..plan.series.len()).collect::<Vec<_>>());
    // The first window of a series refers to that series.
    for (series, window) in plan.series.iter().enumerate() {
        assert_eq!(plan.of_window[*window], series);
    }
    assert!(plan.series.len() < rules.windows.len());
}
