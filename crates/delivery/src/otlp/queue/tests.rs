//! Tests of the queue without a receiver. Every time is an argument.

use std::sync::Arc;

use opentelemetry_proto::tonic::trace::v1::Span;
use proptest::prelude::*;

use super::*;
use gc_telemetry::origin::Origin;

const LIMITS: Limits = Limits {
    queue_items: 8,
    queue_bytes: 600,
    batch_items: 3,
    batch_bytes: 400,
    batch_delay: Duration::from_millis(200),
    retry_for: Duration::from_secs(300),
};

fn queue() -> Queue {
    let mut queue = Queue::default();
    queue.configure(LIMITS, true, false);
    queue
}

fn entry(size: usize) -> Entry {
    let span = Span {
        name: "n".repeat(size),
        ..Span::default()
    };
    Entry::new(&Arc::new(Origin::new(Vec::new())), &[span], 1)
}

/// Scenario: an entry arrives; more entries fill a batch; then the queue is flushed and closed.
/// Guarantee: entries are due after their delay, and at once when the batch is full, on a flush, and at the close.
#[test]
fn batch_is_due_by_time_and_by_size() {
    let mut queue = queue();
    let start = Instant::now();
    assert_eq!(queue.due(start), NextAction::Never);
    assert!(queue.push(start, vec![entry(1)]).wake);
    let at = start + LIMITS.batch_delay;
    assert_eq!(queue.due(start), NextAction::At(at));
    assert_eq!(queue.due(at), NextAction::Now);
    assert!(!queue.push(start, vec![entry(1)]).wake, "the due time is unchanged");
    assert!(queue.push(start, vec![entry(1)]).wake, "a batch is full");
    assert_eq!(queue.due(start), NextAction::Now);
    assert_eq!(queue.take().len(), 3);
    assert_eq!(queue.due(at), NextAction::Never);
    queue.finish();

    queue.push(start, vec![entry(1)]);
    let mark = queue.mark_flush();
    assert_eq!(queue.due(start), NextAction::Now);
    assert!(!queue.is_settled(mark));
    queue.take();
    assert!(!queue.is_settled(mark), "the entry is in flight");
    queue.push(start, vec![entry(1)]);
    queue.finish();
    assert!(queue.is_settled(mark), "later entries do not count");
    assert_eq!(queue.due(start), NextAction::At(at));
    queue.close();
    assert_eq!(queue.due(start), NextAction::Now);
    queue.take();
    assert_eq!(queue.due(start), NextAction::Done);
}

/// Scenario: collections have five spans each; the queue has space for eight spans, and a request for three.
/// Guarantee: spans are counted individually; the spans of a collection stay together, even if the collection exceeds
/// the limit of a request.
#[test]
fn joined_spans_are_counted_individually() {
    let mut queue = queue();
    let collection = || Entry::encoded(&Arc::new(Origin::new(Vec::new())), vec![0; 10].into(), 5);
    let dropped = queue.push(Instant::now(), vec![collection(), collection()]).dropped;
    assert_eq!(
        (dropped.len(), queue.stats().queued, queue.stats().dropped.queue_full),
        (1, 5, 5)
    );
    assert_eq!(queue.due(Instant::now()), NextAction::Now);
    assert_eq!(queue.take().len(), 1);
    assert_eq!((queue.stats().queued, queue.stats().in_flight), (0, 5));
}

/// Scenario: the receiver does not accept the signal for ten minutes, accepts it once, and then does not accept it
/// again.
/// Guarantee: the state is new only once. Initially, at most 4 MiB of items are kept, and after ten minutes at most 64
/// KiB. Dropped items are counted. After the signal was accepted, the queue is not reduced again.
#[test]
fn unsupported_signal_keeps_fewer_items() {
    let mut queue = Queue::default();
    queue.configure(Limits::default(), true, false);
    let start = Instant::now();
    let large = || vec![entry(1 << 20)];
    queue.push(start, large());
    let taken = queue.take();
    assert!(
        queue.unsupported(start) && !queue.unsupported(start),
        "the state is new only once"
    );
    assert!(queue.put_back(taken, start).is_empty());
    queue.finish();
    assert!(!queue.takes_own(start) && queue.takes_own(start + UNSUPPORTED_FOR) && queue.is_foreign());
    for _ in 0..5 {
        queue.push(start, large());
    }
    assert_eq!((queue.stats().queued, queue.stats().dropped.unsupported), (3, 3));
    queue.push(start + UNSUPPORTED_PATIENCE, vec![entry(1000)]);
    assert_eq!((queue.stats().queued, queue.stats().dropped.unsupported), (1, 6));

    queue.take_one();
    queue.accepted(1, 0, 10);
    queue.finish();
    assert!(!queue.stats().unsupported);
    queue.unsupported(start);
    for _ in 0..10 {
        queue.push(start + UNSUPPORTED_PATIENCE, large());
    }
    assert_eq!((queue.stats().queued, queue.is_foreign()), (10, false));
}

/// Scenario: a receiver refuses a large request as too large; later, the queue is configured again with the same
/// receiver, and then with another receiver.
/// Guarantee: requests are smaller until the receiver changes.
#[test]
fn learned_limit_is_kept_for_receiver() {
    let mut queue = Queue::default();
    queue.configure(Limits::default(), true, false);
    queue.learn_limit(1 << 20);
    assert_eq!(queue.batch_bytes(), 1 << 19);
    queue.learn_limit(1000);
    assert_eq!(queue.batch_bytes(), SMALLEST_LEARNED);
    queue.configure(Limits::default(), true, true);
    assert_eq!(queue.batch_bytes(), SMALLEST_LEARNED);
    queue.configure(Limits::default(), true, false);
    assert_eq!(queue.batch_bytes(), Limits::default().batch_bytes);
}

#[derive(Debug, Clone)]
enum Step {
    Push(Vec<usize>),
    Take,
    Accept { rejected: u64 },
    PutBack,
    Store,
    TakeStored(u64),
    DropStored(u64),
    GiveUp,
    Unsupported,
    Off,
    On,
    Later,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => proptest::collection::vec(0..300_usize, 0..6).prop_map(Step::Push),
        4 => Just(Step::Take),
        2 => (0..4_u64).prop_map(|rejected| Step::Accept { rejected }),
        1 => Just(Step::PutBack),
        2 => Just(Step::Store),
        1 => (0..9_u64).prop_map(Step::TakeStored),
        1 => (0..9_u64).prop_map(Step::DropStored),
        1 => Just(Step::GiveUp),
        1 => Just(Step::Unsupported),
        1 => Just(Step::Off),
        2 => Just(Step::On),
        1 => Just(Step::Later),
    ]
}

proptest! {
    /// Scenario: arbitrary operations on a queue run in any order.
    /// Guarantee: the limits hold after each step, and every item is counted exactly once, also at the end.
    #[test]
    fn every_item_is_counted_once(steps in proptest::collection::vec(step(), 0..60)) {
        let mut queue = queue();
        let mut now = Instant::now();
        let mut in_flight = 0;
        let mut entries = Vec::new();
        for step in steps {
            match step {
                Step::Push(sizes) => {
                    queue.push(now, sizes.into_iter().map(entry).collect());
                }
                Step::Take if in_flight == 0 => {
                    let taken = queue.take();
                    prop_assert!(taken.len() <= LIMITS.batch_items);
                    let bytes: usize = taken.iter().map(Entry::bytes).sum();
                    prop_assert!(bytes <= LIMITS.batch_bytes || taken.len() == 1);
                    in_flight = taken.len() as u64;
                    entries = taken;
                }
                Step::PutBack => {
                    in_flight -= entries.len() as u64;
                    let dropped = queue.put_back(std::mem::take(&mut entries), now);
                    drop(dropped);
                }
                Step::Store => {
                    queue.stored(in_flight);
                    (in_flight, entries) = (0, Vec::new());
                }
                Step::TakeStored(items) if entries.is_empty() => in_flight += queue.take_stored(items),
                Step::DropStored(items) => queue.dropped_stored(items, Reason::DiskFull),
                Step::Accept { rejected } => {
                    queue.accepted(in_flight, rejected, 0);
                    queue.finish();
                    (in_flight, entries) = (0, Vec::new());
                }
                Step::GiveUp => {
                    queue.gave_up(in_flight, Reason::Refused);
                    queue.finish();
                    (in_flight, entries) = (0, Vec::new());
                }
                Step::Unsupported => {
                    queue.unsupported(now);
                }
                Step::Off => {
                    queue.configure(LIMITS, false, false);
                }
                Step::On => {
                    queue.configure(LIMITS, true, true);
                }
                Step::Later => now += UNSUPPORTED_FOR,
                Step::Take | Step::TakeStored(_) => {}
            }
            let stats = queue.stats();
            prop_assert_eq!(stats.in_flight, in_flight);
            prop_assert!(stats.queued <= LIMITS.queue_items as u64);
            prop_assert!(stats.queued_bytes <= LIMITS.queue_bytes as u64);
            prop_assert_eq!(
                stats.given,
                stats.exported
                    + stats.rejected
                    + stats.dropped.total()
                    + stats.queued
                    + stats.in_flight
                    + stats.stored
            );
        }
        let mark = queue.mark_flush();
        queue.close();
        queue.abandon();
        prop_assert!(queue.is_settled(mark));
        let stats = queue.stats();
        prop_assert_eq!((stats.queued, stats.queued_bytes, stats.in_flight), (0, 0, 0));
        prop_assert_eq!(stats.given, stats.exported + stats.rejected + stats.dropped.total() + stats.stored);
    }
}
