//! The record of a collection's detail.

use std::collections::BTreeMap;

use gc_rules::ledger::Ledger;
use serde::Serialize;

use super::{Detail, JoinSum, LohCompaction, TypeSum, TypeSums};
use api::gc::Subject;

/// `kind: "gc_detail"`: what `analyze --gc N` adds to the record of the collection.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename = "gc_detail")]
pub struct DetailRecord<'d> {
    #[serde(flatten)]
    subject: Subject,
    number: u32,
    marks: Vec<MarkRecord>,
    joins: &'d BTreeMap<u32, JoinSum>,
    loh_compaction: &'d [LohCompaction],
    pinned: Vec<TypeRecord<'d>>,
    allocated: Vec<TypeRecord<'d>>,
    finalized: Vec<TypeRecord<'d>>,
    events: Vec<LineRecord<'d>>,
    more_events: u64,
    /// Where the heap's memory was after it.
    ledger: Option<Ledger>,
}

#[derive(Debug, Serialize)]
struct MarkRecord {
    root: String,
    heap: u32,
    bytes: u64,
}

#[derive(Debug, Serialize)]
struct TypeRecord<'d> {
    #[serde(rename = "type")]
    name: &'d str,
    #[serde(flatten)]
    sum: TypeSum,
}

#[derive(Debug, Serialize)]
struct LineRecord<'d> {
    after_ns: i64,
    text: &'d str,
}

impl<'d> DetailRecord<'d> {
    /// The record of `detail`, which is of collection `number`; `ledger`: of the heap after it.
    pub fn new(subject: Subject, number: u32, detail: &'d Detail, ledger: Option<Ledger>) -> Self {
        let types = |sums: &'d TypeSums| {
            sums.top()
                .into_iter()
                .map(|(name, sum)| TypeRecord { name, sum })
                .collect()
        };
        Self {
            subject,
            number,
            marks: detail
                .marks
                .iter()
                .map(|(&(root, heap), &bytes)| MarkRecord {
                    root: root.to_string(),
                    heap,
                    bytes,
                })
                .collect(),
            joins: &detail.joins,
            loh_compaction: &detail.loh_compaction,
            pinned: types(&detail.pinned),
            allocated: types(&detail.allocated),
            finalized: types(&detail.finalized),
            events: detail
                .events
                .iter()
                .map(|(after_ns, line)| LineRecord {
                    after_ns: *after_ns,
                    text: line.trim_start(),
                })
                .collect(),
            more_events: detail.more_events,
            ledger,
        }
    }
}
