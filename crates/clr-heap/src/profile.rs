//! The dominator tree as stacks of names, for flame graphs and pprof. The width of a frame shows retained bytes.

use std::collections::BTreeMap;

use clr_evidence::pprof::{WeightedStack, encode_names};

use crate::survey::AnalyzedGraph;

/// Returns the stacks of names in the dominator tree, with the number of objects of each stack and the own bytes of
/// these objects. The outermost name comes first: a root, or the type of an object that several roots hold.
pub fn stacks(solved: &AnalyzedGraph) -> Vec<(Vec<String>, u64, u64)> {
    let steps = solved.kept.steps();
    let own = steps.iter().enumerate().filter(|(_, step)| step.objects > 0);
    own.map(|(place, step)| {
        let way = solved.kept.way(place as u32);
        let names = way.into_iter().map(|label| solved.shown(label)).collect();
        (names, step.objects, step.bytes)
    })
    .collect()
}

/// Encodes an uncompressed pprof profile with `inuse_objects` and `inuse_space`. `unix_ns` is the time of the dump in
/// nanoseconds since 1970; `None` if unknown.
pub fn pprof(solved: &AnalyzedGraph, unix_ns: Option<i64>) -> Vec<u8> {
    let stacks = stacks(solved);
    let weighed: Vec<WeightedStack<'_>> = stacks
        .iter()
        .map(|(names, objects, bytes)| WeightedStack {
            names: names.iter().rev().map(String::as_str).collect(),
            values: [*objects, *bytes],
        })
        .collect();
    encode_names(
        &weighed,
        [("inuse_objects", "count"), ("inuse_space", "bytes")],
        unix_ns,
    )
}

/// Returns the own bytes of each stack from [`stacks`], for [`clr_evidence::flame`] with the unit
/// [`Bytes`](clr_evidence::flame::Unit::Bytes).
pub fn weighted(stacks: &[(Vec<String>, u64, u64)]) -> BTreeMap<Vec<&str>, u64> {
    let mut weighted = BTreeMap::new();
    for (names, _, bytes) in stacks {
        *weighted.entry(names.iter().map(String::as_str).collect()).or_insert(0) += bytes;
    }
    weighted
}
