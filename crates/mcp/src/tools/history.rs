//! Converts the columns of a process's last 30 minutes to steps of another length.

use serde_json::{Value, json};

use crate::page::{list, rfc3339};

/// Sums of one step.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct HistoryStep {
    /// Start of the first bucket of ten seconds in the step, in Unix milliseconds.
    pub(super) start_ms: u64,
    pub(super) stopped_ns: u64,
    pub(super) longest_ns: Option<u64>,
    pub(super) collections: u64,
    gen2: u64,
    background: u64,
    induced: u64,
    allocated: Option<u64>,
    allocated_lower_bound: bool,
    heap_after: Option<u64>,
    committed: Option<u64>,
    container_memory: Option<u64>,
    lossy: u64,
}

const GENERATIONS: [&str; 5] = ["gen0", "gen1", "gen2", "loh", "poh"];
const KINDS: [&str; 5] = ["gen0", "gen1", "gen2", "background", "unknown"];

/// Returns the steps since a time. Steps without data are absent. Buckets that start before `from_ms` are omitted as a
/// whole, because the data has a resolution of ten seconds.
pub(super) fn steps(history: &Value, from_ms: u64, step_ms: u64) -> Vec<HistoryStep> {
    let at = |name: &str, place: usize| list(history, name).get(place).and_then(Value::as_u64);
    let inside = |group: &str, name: &str, place: usize| {
        let column = history.get(group).map_or(&[][..], |group| list(group, name));
        column.get(place).and_then(Value::as_u64)
    };
    let mut steps: Vec<HistoryStep> = Vec::new();
    let mut newest = None;
    for (place, start_ms) in list(history, "start_ms").iter().enumerate() {
        let Some(start_ms) = start_ms.as_u64().filter(|start| *start >= from_ms) else {
            continue;
        };
        let number = start_ms / step_ms.max(1);
        if newest != Some(number) {
            newest = Some(number);
            steps.push(HistoryStep {
                start_ms,
                ..HistoryStep::default()
            });
        }
        let Some(step) = steps.last_mut() else { continue };
        let kind = |name: &str| inside("collections", name, place).unwrap_or(0);
        let collections: u64 = KINDS.iter().map(|name| kind(name)).sum();
        let allocated = at("allocated", place);
        let is_bound = list(history, "allocated_lower_bound")
            .get(place)
            .and_then(Value::as_bool);
        step.stopped_ns += at("stopped_ns", place).unwrap_or(0);
        step.longest_ns = step.longest_ns.max(at("longest_ns", place));
        step.collections += collections;
        step.gen2 += kind("gen2");
        step.background += kind("background");
        step.induced += kind("induced");
        step.allocated = allocated
            .map(|bytes| bytes + step.allocated.unwrap_or(0))
            .or(step.allocated);
        step.allocated_lower_bound |= is_bound.unwrap_or(false) || (allocated.is_none() && collections > 0);
        let heap = GENERATIONS.map(|name| inside("heap", name, place));
        let heap = heap.iter().any(Option::is_some).then(|| heap.iter().flatten().sum());
        step.heap_after = heap.or(step.heap_after);
        step.committed = at("committed", place).or(step.committed);
        step.container_memory = at("container_memory", place).or(step.container_memory);
        step.lossy += at("lossy", place).unwrap_or(0);
    }
    steps
}

/// Returns the steps as columns of equal length.
pub(super) fn columns(steps: &[HistoryStep], step_ms: u64) -> Value {
    let column = |of: fn(&HistoryStep) -> Value| -> Value { steps.iter().map(of).collect() };
    json!({
        "step_s": step_ms / 1000,
        "start": column(|step| json!(rfc3339(step.start_ms))),
        "stopped_ns": column(|step| json!(step.stopped_ns)),
        "longest_ns": column(|step| json!(step.longest_ns)),
        "collections": column(|step| json!(step.collections)),
        "gen2": column(|step| json!(step.gen2)),
        "background": column(|step| json!(step.background)),
        "induced": column(|step| json!(step.induced)),
        "allocated": column(|step| json!(step.allocated)),
        "allocated_lower_bound": column(|step| json!(step.allocated_lower_bound)),
        "heap_after": column(|step| json!(step.heap_after)),
        "committed": column(|step| json!(step.committed)),
        "container_memory": column(|step| json!(step.container_memory)),
        "lossy": column(|step| json!(step.lossy)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: four buckets of ten seconds have gaps between them; some have neither allocation nor heap figures.
    /// Guarantee: a step has the sums, the maximum and the last known heap; a figure that is unknown in a whole step is
    /// null. The allocation of a step is a lower bound if a bucket with collections has no allocation figure. Buckets
    /// of different minutes are in different steps, and earlier buckets are omitted.
    #[test]
    fn steps_sum_their_buckets() {
        let history = json!({
            "start_ms": [60_000, 70_000, 110_000, 190_000],
            "stopped_ns": [1, 2, 4, 8],
            "longest_ns": [1, null, 4, null],
            "collections": { "gen0": [1, 0, 2, 1], "gen1": [0, 0, 0, 0], "gen2": [0, 0, 1, 0], "background": [0, 0, 0, 0],
                             "unknown": [0, 0, 0, 0], "induced": [0, 0, 1, 0] },
            "allocated": [10, null, 30, null],
            "allocated_lower_bound": [false, false, false, false],
            "heap": { "gen0": [1, null, 3, null], "gen1": [0, null, 0, null], "gen2": [5, null, 5, null], "loh": [0, null, 0, null],
                      "poh": [0, null, 0, null] },
            "committed": [null, 7, null, null], "container_memory": [null, null, null, null], "lossy": [0, 0, 1, 0],
        });
        let all = steps(&history, 0, 60_000);
        assert_eq!(
            all.iter().map(|step| step.start_ms).collect::<Vec<_>>(),
            [60_000, 190_000]
        );
        let first = &all[0];
        assert_eq!(
            (first.stopped_ns, first.longest_ns, first.collections, first.gen2),
            (7, Some(4), 4, 1)
        );
        assert_eq!((first.allocated, first.allocated_lower_bound), (Some(40), false));
        assert_eq!((first.heap_after, first.committed, first.lossy), (Some(8), Some(7), 1));
        assert_eq!(
            (all[1].allocated, all[1].allocated_lower_bound, all[1].heap_after),
            (None, true, None)
        );
        assert_eq!(steps(&history, 100_000, u64::MAX)[0].stopped_ns, 12);
        let columns = columns(&all, 60_000);
        for (name, column) in columns.as_object().unwrap() {
            assert!(name == "step_s" || column.as_array().unwrap().len() == 2, "{name}");
        }
        assert!(steps(&json!({}), 0, 0).is_empty());
    }
}
