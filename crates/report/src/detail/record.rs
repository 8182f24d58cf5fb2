//! The machine-readable record of a collection's detail.

use rule_engine::ledger::Ledger;
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use super::{Detail, TypeSum, TypeSums};

/// `kind: "gc_detail"`: the facts that `analyze --gc N` adds to the record of the collection.
#[derive(Debug)]
pub struct DetailRecord<'d> {
    /// Facts from the events around the collection.
    pub detail: &'d Detail,
    /// Memory ledger of the heap after the collection; `None` if the collection has no heap figures.
    pub ledger: Option<Ledger>,
}

#[derive(Serialize)]
struct MarkRecord {
    root: String,
    heap: u32,
    bytes: u64,
}

#[derive(Serialize)]
struct TypeRecord<'d> {
    #[serde(rename = "type")]
    name: &'d str,
    #[serde(flatten)]
    sum: TypeSum,
}

#[derive(Serialize)]
struct LineRecord<'d> {
    after_ns: i64,
    text: &'d str,
}

fn types(sums: &TypeSums) -> Vec<TypeRecord<'_>> {
    let top = sums.top().into_iter();
    top.map(|(name, sum)| TypeRecord { name, sum }).collect()
}

impl Serialize for DetailRecord<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let detail = self.detail;
        let marks = detail.marks.iter().map(|(&(root, heap), &bytes)| MarkRecord {
            root: root.to_string(),
            heap,
            bytes,
        });
        let events = detail.events.iter().map(|(after_ns, line)| LineRecord {
            after_ns: *after_ns,
            text: line.trim_start(),
        });
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("kind", "gc_detail")?;
        map.serialize_entry("pid", &detail.subject.pid)?;
        map.serialize_entry("clr_instance", &detail.subject.clr_instance)?;
        map.serialize_entry("number", &detail.number)?;
        map.serialize_entry("marks", &marks.collect::<Vec<_>>())?;
        map.serialize_entry("joins", &detail.joins)?;
        map.serialize_entry("loh_compaction", &detail.loh_compaction)?;
        map.serialize_entry("pinned", &types(&detail.pinned))?;
        map.serialize_entry("allocated", &types(&detail.allocated))?;
        map.serialize_entry("finalized", &types(&detail.finalized))?;
        map.serialize_entry("events", &events.collect::<Vec<_>>())?;
        map.serialize_entry("more_events", &detail.more_events)?;
        map.serialize_entry("ledger", &self.ledger)?;
        map.end()
    }
}
