//! Columns of the history of a run: the values of each bucket, and its collections.

use api::gc::type_name;
use api::view::{HistoryColumns, PauseColumns};
use base::time::Wall;
use run::history::{BUCKET_NS, Bucket, Mark, Pauses};

/// Returns the start of the bucket with the given index, in Unix milliseconds.
pub(crate) fn start_ms(index: u64) -> u64 {
    index.saturating_mul(BUCKET_NS) / 1_000_000
}

/// Converts buckets of `times` × 10 s to columns. `span` is the length of the history, in units of 10 s.
pub(crate) fn columns(buckets: Vec<Bucket>, times: u64, span: u64, attached_ms: Option<u64>) -> HistoryColumns {
    let ms = |count: u64| count.saturating_mul(BUCKET_NS / 1_000_000);
    let mut columns = HistoryColumns {
        bucket_ms: ms(times),
        span_ms: ms(span),
        attached_ms,
        ..HistoryColumns::default()
    };
    for bucket in buckets {
        add(&mut columns, &bucket, bucket.start_ns() / 1_000_000);
    }
    columns
}

/// Adds a bucket that starts at `start_ms`.
pub(crate) fn add(columns: &mut HistoryColumns, bucket: &Bucket, start_ms: u64) {
    let mut pauses = Pauses::default();
    pauses.add(bucket);
    columns.start_ms.push(start_ms);
    columns.stopped_ns.push(bucket.stopped_ns);
    columns.longest_ns.push(bucket.longest_ns);
    columns.p99_ns.push(pauses.quantile(99));
    let [g0, g0_bg, g0_fg, g1, g1_bg, g1_fg, g2, g2_bg, g2_fg, unknown] = bucket.collections;
    let kinds = &mut columns.collections;
    kinds.gen0.push(g0.saturating_add(g0_fg));
    kinds.gen1.push(g1.saturating_add(g1_fg));
    kinds.gen2.push(g2.saturating_add(g2_fg));
    kinds.background.push(g0_bg.saturating_add(g1_bg).saturating_add(g2_bg));
    kinds.unknown.push(unknown);
    kinds.induced.push(bucket.induced);
    columns.allocated.push(bucket.allocated);
    columns.allocated_lower_bound.push(bucket.allocated_lower_bound);
    let [gen0, gen1, gen2, loh, poh] = bucket.heap;
    let heap = &mut columns.heap;
    heap.gen0.push(gen0);
    heap.gen1.push(gen1);
    heap.gen2.push(gen2);
    heap.loh.push(loh);
    heap.poh.push(poh);
    columns.committed.push(bucket.committed);
    columns.container_memory.push(bucket.container_memory);
    columns.lossy.push(bucket.lossy);
}

/// Converts the known collections to columns.
pub(crate) fn pauses(marks: impl Iterator<Item = Mark>, wall: Wall) -> PauseColumns {
    let mut columns = PauseColumns::default();
    marks.for_each(|mark| add_mark(&mut columns, &mark, wall));
    columns
}

pub(crate) fn add_mark(columns: &mut PauseColumns, mark: &Mark, wall: Wall) {
    columns.number.push(mark.number);
    columns.start_ms.push(wall.unix_ms(mark.start()));
    columns.pause_ns.push(mark.pause_ns);
    columns.generation.push(mark.generation);
    columns.gc_type.push(mark.gc_type().map(type_name));
    columns.reason.push(mark.reason().map(|reason| reason.to_string()));
    columns.lossy.push(mark.lossy);
}
