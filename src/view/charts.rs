//! The charts of a recording: buckets of equal length, one mark per collection, and the heap after each collection.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use base::time::{UnixBase, Wall};
use clr_gc::gc::Collection;
use rule_engine::engine::{collection_at, suspension_at};

use crate::pipeline::records::history;
use api::view::{HeapPoints, HistoryColumns, PauseColumns};
use recording::ProcessHistory;
use run::history::{Bucket, Mark};

/// Maximum number of buckets per chart.
const MAX_PLACES: i64 = 300;
/// Possible bucket lengths, in milliseconds. Longer buckets are whole days.
const LENGTHS_MS: [i64; 16] = [
    100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 30_000, 60_000, 120_000, 300_000, 600_000, 1_800_000,
    3_600_000, 86_400_000,
];

/// Returns the shortest bucket length with which a chart has at most [`MAX_PLACES`] buckets.
fn length_ns(observed_ns: i64) -> i64 {
    let fits = |length_ms: &&i64| observed_ns / (**length_ms * 1_000_000) < MAX_PLACES;
    match LENGTHS_MS.iter().find(fits) {
        Some(length_ms) => length_ms * 1_000_000,
        None => {
            let day = 86_400_000_000_000;
            (observed_ns / MAX_PLACES / day + 1) * day
        }
    }
}

/// Splits `from..to` at the bucket boundaries. Each item is the index of a bucket and the length of the part in the
/// bucket.
fn parts(from: i64, to: i64, length: i64) -> impl Iterator<Item = (i64, i64)> {
    let mut from = from;
    std::iter::from_fn(move || {
        (from < to).then(|| {
            let place = from / length;
            let end = ((place + 1) * length).min(to);
            let part = end - from;
            from = end;
            (place, part)
        })
    })
}

/// Returns the columns of each bucket. Collections count in the bucket in which they ended, stopped time in the buckets
/// that it covers. Bytes allocated between two collections are spread over the time between them.
pub(super) fn columns(history: &ProcessHistory, base: UnixBase, observed_ns: i64) -> HistoryColumns {
    let observed_ns = observed_ns.max(1);
    let length = length_ns(observed_ns);
    let mut places: BTreeMap<i64, Bucket> = BTreeMap::new();
    // Damaged data must not create buckets: times outside the recording count at its edge.
    let inside = |at: i64| at.clamp(0, observed_ns);
    let mut stops: Vec<(i64, i64)> = Vec::new();
    for collection in &history.collections {
        let at = collection_at(collection);
        let pause = collection.pause_ns.and_then(|ns| u64::try_from(ns).ok());
        let ended = places.entry(inside(at) / length).or_default();
        ended.collection(collection, pause);
        if let Ok(allocated) = collection.allocated {
            let over = (inside(allocated.since), inside(allocated.until));
            spread(&mut places, over, length, allocated.bytes);
        }
        for pause in &collection.pauses {
            if pause.spans.is_empty() {
                stops.push((at.saturating_sub(pause.pause_ns.unwrap_or(0)), at));
            }
            stops.extend(pause.spans.iter().copied());
        }
    }
    let alone = history.suspensions.iter();
    stops.extend(alone.filter_map(|stop| {
        let end = suspension_at(stop)?;
        Some((end.saturating_sub(stop.stopped_ns?), end))
    }));
    for (from, to) in stops {
        for (place, part) in parts(inside(from), inside(to), length) {
            let bucket = places.entry(place).or_default();
            bucket.stopped_ns = bucket.stopped_ns.saturating_add(part.unsigned_abs());
        }
    }
    let mut columns = HistoryColumns {
        bucket_ms: (length / 1_000_000).unsigned_abs(),
        span_ms: (observed_ns / 1_000_000).unsigned_abs().max(1),
        ..HistoryColumns::default()
    };
    for (place, bucket) in places {
        history::add(&mut columns, &bucket, base.unix_ns(place * length) / 1_000_000);
    }
    columns
}

/// Spreads bytes that were allocated between two instants over the buckets. The sum stays exact.
fn spread(places: &mut BTreeMap<i64, Bucket>, (from, to): (i64, i64), length: i64, bytes: u64) {
    let whole = to - from;
    let mut left = bytes;
    let mut add = |place: i64, bytes: u64| {
        places.entry(place).or_default().allocated(bytes);
    };
    for (place, part) in parts(from, to, length) {
        let share = u128::from(bytes) * u128::from(part.unsigned_abs()) / u128::from(whole.unsigned_abs()).max(1);
        let share = u64::try_from(share).unwrap_or(left).min(left);
        left -= share;
        add(place, share);
    }
    // Add the remainder of the rounding, or all bytes if the two instants are equal.
    add(from.max(to - 1) / length, left);
}

/// Returns one mark per collection. If there are more than `most` collections, only the longest collection of each
/// slice of time is kept.
pub(super) fn marks(collections: &[Collection], base: UnixBase, observed_ns: i64, most: usize) -> PauseColumns {
    let at = |one: &Collection| one.start.unwrap_or_else(|| collection_at(one));
    let mut columns = PauseColumns::default();
    let mut add = |one: &Collection| history::add_mark(&mut columns, &Mark::new(one, base.moment(at(one))), Wall::UNIX);
    if collections.len() <= most {
        collections.iter().for_each(add);
        return columns;
    }
    let slices = thinned(collections, observed_ns, most, at, |one| one.pause_ns);
    slices.into_iter().for_each(&mut add);
    columns
}

/// Returns the heap after each collection whose heap statistics are known. If there are more than `most` points, only
/// the largest heap of each slice of time is kept.
pub(super) fn heap(collections: &[Collection], base: UnixBase, observed_ns: i64, most: usize) -> HeapPoints {
    let mut known: Vec<&Collection> = collections.iter().filter(|one| one.heap_stats.is_some()).collect();
    let of = known.len() as u64;
    let at = |one: &&Collection| collection_at(one);
    known.sort_by_key(at);
    let chosen = if known.len() <= most {
        known.iter().collect()
    } else {
        thinned(&known, observed_ns, most, at, |one| one.heap_after())
    };
    let mut points = HeapPoints {
        of,
        ..HeapPoints::default()
    };
    for one in chosen {
        points.at_ms.push(base.unix_ns(at(one)) / 1_000_000);
        let [gen0, gen1, gen2, loh, poh] = one.heap.each_ref().map(|sizes| sizes.after);
        points.heap.gen0.push(gen0);
        points.heap.gen1.push(gen1);
        points.heap.gen2.push(gen2);
        points.heap.loh.push(loh);
        points.heap.poh.push(poh);
        points.committed.push(one.committed.after.or(one.committed.before));
    }
    points
}

/// Divides time into at most `most` slices and returns the largest item of each slice, in chronological order.
fn thinned<T, K: Ord>(
    all: &[T],
    observed_ns: i64,
    most: usize,
    at: impl Fn(&T) -> i64,
    size: impl Fn(&T) -> K,
) -> Vec<&T> {
    let slices = i64::try_from(most).unwrap_or(i64::MAX).max(1);
    let slice = (observed_ns / slices + 1).max(1);
    let mut largest: BTreeMap<i64, &T> = BTreeMap::new();
    for one in all {
        let place = at(one).clamp(0, observed_ns) / slice;
        largest
            .entry(place)
            .and_modify(|other| {
                if size(one) > size(other) {
                    *other = one;
                }
            })
            .or_insert(one);
    }
    let mut chosen: Vec<&T> = largest.into_values().collect();
    chosen.sort_by_key(|one| at(one));
    chosen
}

/// Returns the longest collections, longest first, at most `most`.
pub(super) fn longest(collections: &[Collection], most: usize) -> Vec<&Collection> {
    let mut longest: Vec<&Collection> = collections.iter().collect();
    longest.sort_by_key(|collection| (Reverse(collection.pause_ns), collection.number));
    longest.truncate(most);
    longest
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: recordings last from one second to ten years.
    /// Guarantee: the charts have at most the maximum number of buckets, and at least ten.
    #[test]
    fn charts_have_ten_to_the_maximum_of_buckets() {
        let second = 1_000_000_000;
        for seconds in [1, 3, 30, 61, 600, 3_600, 86_400, 30 * 86_400, 3_650 * 86_400] {
            let places = seconds * second / length_ns(seconds * second) + 1;
            assert!(places <= MAX_PLACES, "{seconds} s: {places}");
            assert!(places >= 10, "{seconds} s: {places}");
        }
    }

    /// Scenario: bytes are allocated over two and a half buckets, within one bucket, and in no time.
    /// Guarantee: each bucket has its share of the bytes by time, and no byte is lost to rounding.
    #[test]
    fn bytes_are_spread_over_their_buckets() {
        let of = |from: i64, to: i64, bytes: u64| {
            let mut places = BTreeMap::new();
            spread(&mut places, (from, to), 100, bytes);
            places
                .into_iter()
                .map(|(place, bucket)| (place, bucket.allocated.unwrap()))
                .collect::<Vec<_>>()
        };
        assert_eq!(of(50, 300, 1000), [(0, 200), (1, 400), (2, 400)]);
        assert_eq!(of(10, 20, 7), [(0, 7)]);
        assert_eq!(of(70, 70, 9), [(0, 9)]);
        assert_eq!(of(0, 299, 10).iter().map(|(_, bytes)| bytes).sum::<u64>(), 10);
    }

    /// Scenario: there are a hundred sizes, more than the maximum number of points.
    /// Guarantee: at most the maximum number of points is kept, in order, with the largest size among them.
    #[test]
    fn largest_point_is_kept() {
        let all: Vec<i64> = (0..100).collect();
        let chosen = thinned(&all, 100, 7, |at| *at, |at| if *at == 50 { 1000 } else { *at });
        assert!(chosen.len() <= 7 && chosen.is_sorted(), "{chosen:?}");
        assert!(chosen.contains(&&50) && chosen.contains(&&99), "{chosen:?}");
    }
}
