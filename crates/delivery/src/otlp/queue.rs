//! What waits to be sent of one signal: bounded, oldest first out, every item accounted for. Pure: time is an argument.

use std::collections::{HashSet, VecDeque};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use crate::otlp::batch::Entry;
use crate::otlp::settings::Limits;
use crate::otlp::stats::{LastError, Reason, SignalStats};

/// How long a signal that the receiver does not take is not sent, before it is tried again.
pub(crate) const UNSUPPORTED_FOR: Duration = Duration::from_secs(600);

/// A receiver's limit on a request, as far as learned from its refusals, is never believed to be less.
const SMALLEST_LEARNED: usize = 64 << 10;

/// So much is not kept waiting for company: requests become no cheaper by being larger, and what waits is memory.
const WORTH_SENDING: usize = 256 << 10;

/// See [`Queue::entry_bytes`].
const LARGEST_JOINED: usize = 64 << 10;

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// A batch is to be sent.
    Now,
    /// Later, unless more comes.
    At(Instant),
    /// Nothing waits.
    Never,
    /// Nothing waits, and nothing will come.
    Done,
}

/// What came of a [`Queue::push`].
#[derive(Debug)]
pub(crate) struct Pushed {
    /// Whoever sends is to look again.
    pub(crate) wake: bool,
    /// What had to go; to be freed by the caller, without the lock.
    pub(crate) gone: Vec<Entry>,
}

/// The queue of one signal and its accounts.
#[derive(Debug)]
pub(crate) struct Queue {
    limits: Limits,
    entries: VecDeque<Entry>,
    bytes: usize,
    /// Items in `entries`.
    items: u64,
    /// What `entries` count as where their number is bounded.
    weight: usize,
    /// Since when the oldest entry waits, or earlier than that.
    waiting_since: Option<Instant>,
    /// Entries that were ever put in; `entries` are the newest of them.
    entered: u64,
    /// Entries before this one are not to wait for company.
    hurry_to: u64,
    /// Number of the oldest entry that is being sent.
    sending_from: Option<u64>,
    closing: bool,
    unsupported_until: Option<Instant>,
    /// What the receiver takes in one request, learned from refusals.
    learned_bytes: Option<usize>,
    stats: SignalStats,
}

impl Queue {
    pub(crate) fn new() -> Self {
        Self {
            limits: Limits::default(),
            entries: VecDeque::new(),
            bytes: 0,
            items: 0,
            weight: 0,
            waiting_since: None,
            entered: 0,
            hurry_to: 0,
            sending_from: None,
            closing: false,
            unsupported_until: None,
            learned_bytes: None,
            stats: SignalStats::default(),
        }
    }

    /// New bounds, and whether the signal is sent at all. What was learned of the receiver is forgotten when it is another.
    pub(crate) fn configure(&mut self, limits: Limits, configured: bool, same_receiver: bool) -> Vec<Entry> {
        self.limits = limits;
        self.stats.configured = configured;
        if !same_receiver {
            self.unsupported_until = None;
            self.learned_bytes = None;
        }
        if configured {
            self.make_room()
        } else {
            self.drop_all(Reason::Disabled)
        }
    }

    /// Whether entries given now would be kept; else they need not be encoded.
    pub(crate) fn takes(&self, now: Instant) -> bool {
        self.stats.configured && !self.closing && !self.is_unsupported(now)
    }

    /// Several messages make one entry only up to so many bytes, so that a batch can always be halved in earnest.
    pub(crate) fn entry_bytes(&self) -> usize {
        LARGEST_JOINED.min(self.batch_bytes() / 4)
    }

    /// Counts items that [`takes`](Self::takes) said no to.
    pub(crate) fn turn_away(&mut self, items: u64) {
        if !self.stats.configured {
            return;
        }
        self.stats.given += items;
        let reason = if self.closing {
            Reason::Shutdown
        } else {
            Reason::Unsupported
        };
        self.stats.dropped.add(reason, items);
    }

    /// Puts `new` behind what waits; the oldest goes when there is no room.
    pub(crate) fn push(&mut self, now: Instant, new: Vec<Entry>) -> Pushed {
        if !self.takes(now) {
            self.turn_away(new.iter().map(Entry::items).sum());
            return Pushed { wake: false, gone: new };
        }
        let due = self.due(now);
        let mut too_large = Vec::new();
        for entry in new {
            self.stats.given += entry.items();
            if entry.bytes() > self.limits.queue_bytes {
                self.stats.dropped.add(Reason::TooLarge, entry.items());
                too_large.push(entry);
                continue;
            }
            self.bytes += entry.bytes();
            self.items += entry.items();
            self.weight += entry.weight();
            self.entered += 1;
            self.entries.push_back(entry);
        }
        let mut gone = self.make_room();
        gone.append(&mut too_large);
        if !self.entries.is_empty() {
            self.waiting_since.get_or_insert(now);
        }
        Pushed {
            wake: due != Due::Now && due != self.due(now),
            gone,
        }
    }

    /// When the next batch is to be sent.
    pub(crate) fn due(&self, now: Instant) -> Due {
        let Some(since) = self.waiting_since.filter(|_| !self.entries.is_empty()) else {
            return if self.closing { Due::Done } else { Due::Never };
        };
        let at = since + self.limits.batch_delay;
        let full = self.weight >= self.limits.batch_items || self.bytes >= self.batch_bytes().min(WORTH_SENDING);
        if full || self.closing || self.oldest() < self.hurry_to || at <= now {
            Due::Now
        } else {
            Due::At(at)
        }
    }

    /// The oldest entries, as many as fit in one request; they count as in flight until each is settled.
    pub(crate) fn take(&mut self) -> Vec<Entry> {
        let mut resources = HashSet::new();
        let mut bytes = 0;
        let (mut weight, mut count) = (0, 0);
        for entry in &self.entries {
            bytes += entry.bytes();
            weight += entry.weight();
            if resources.insert(entry.resource_key()) {
                bytes += entry.resource_bytes();
            }
            if (bytes > self.batch_bytes() || weight > self.limits.batch_items) && count > 0 {
                break;
            }
            count += 1;
        }
        self.sending_from = (count > 0).then(|| self.oldest());
        let taken: Vec<Entry> = self.entries.drain(..count).collect();
        let items = taken.iter().map(Entry::items).sum::<u64>();
        self.bytes -= taken.iter().map(Entry::bytes).sum::<usize>();
        self.items -= items;
        self.weight -= taken.iter().map(Entry::weight).sum::<usize>();
        self.stats.in_flight += items;
        if self.entries.is_empty() {
            self.waiting_since = None;
        }
        taken
    }

    /// `items` in flight were accepted, except `rejected` of them; `bytes` was the size of the request.
    pub(crate) fn accepted(&mut self, items: u64, rejected: u64, bytes: usize) {
        let rejected = rejected.min(items);
        self.stats.in_flight = self.stats.in_flight.saturating_sub(items);
        self.stats.exported += items - rejected;
        self.stats.rejected += rejected;
        self.stats.exported_bytes += bytes as u64;
        self.unsupported_until = None;
    }

    /// `items` in flight were given up.
    pub(crate) fn gave_up(&mut self, items: u64, reason: Reason) {
        self.stats.in_flight = self.stats.in_flight.saturating_sub(items);
        self.stats.dropped.add(reason, items);
    }

    /// Nothing of the batch taken last is in flight any more.
    pub(crate) fn finish(&mut self) {
        self.sending_from = None;
    }

    /// The receiver refused a request of `bytes` as too large.
    pub(crate) fn learn_limit(&mut self, bytes: usize) {
        self.learned_bytes = Some((bytes / 2).max(SMALLEST_LEARNED));
    }

    /// The receiver does not take this signal: what waits goes, and for a while what comes.
    /// True when that is news.
    pub(crate) fn unsupported(&mut self, now: Instant) -> (bool, Vec<Entry>) {
        let news = self.unsupported_until.is_none();
        self.unsupported_until = Some(now + UNSUPPORTED_FOR);
        (news, self.drop_all(Reason::Unsupported))
    }

    /// No more is taken in; what waits is due at once.
    pub(crate) fn close(&mut self) {
        self.closing = true;
    }

    /// Gives up whatever waits or is in flight.
    pub(crate) fn abandon(&mut self) -> Vec<Entry> {
        let in_flight = self.stats.in_flight;
        self.gave_up(in_flight, Reason::Shutdown);
        self.sending_from = None;
        self.drop_all(Reason::Shutdown)
    }

    /// What is in the queue now is not to wait for company. A mark for [`is_settled`](Self::is_settled).
    pub(crate) fn hurry(&mut self) -> u64 {
        self.hurry_to = self.entered;
        self.entered
    }

    /// Everything that was put in before `mark` was sent or dropped.
    pub(crate) fn is_settled(&self, mark: u64) -> bool {
        self.oldest() >= mark && self.sending_from.is_none_or(|from| from >= mark)
    }

    /// The accounts, for what only they need to know.
    pub(crate) fn stats_mut(&mut self) -> &mut SignalStats {
        &mut self.stats
    }

    /// Remembers what went wrong.
    pub(crate) fn failed(&mut self, text: &str, at: SystemTime) {
        self.stats.last_error = Some(LastError {
            text: text.to_owned(),
            at,
        });
    }

    /// The accounts at this moment.
    pub(crate) fn stats(&self) -> SignalStats {
        SignalStats {
            queued: self.items,
            queued_bytes: self.bytes as u64,
            unsupported: self.unsupported_until.is_some(),
            ..self.stats.clone()
        }
    }

    /// The number of the oldest entry that waits, or of the next to come.
    fn oldest(&self) -> u64 {
        self.entered - self.entries.len() as u64
    }

    fn batch_bytes(&self) -> usize {
        self.learned_bytes
            .map_or(self.limits.batch_bytes, |learned| learned.min(self.limits.batch_bytes))
    }

    /// While a signal is not taken, nothing is kept; after that the next batch is the question whether it is by now.
    fn is_unsupported(&self, now: Instant) -> bool {
        self.unsupported_until.is_some_and(|until| now < until)
    }

    fn make_room(&mut self) -> Vec<Entry> {
        let mut gone = Vec::new();
        while self.weight > self.limits.queue_items || self.bytes > self.limits.queue_bytes {
            let Some(entry) = self.entries.pop_front() else { break };
            self.bytes -= entry.bytes();
            self.items -= entry.items();
            self.weight -= entry.weight();
            self.stats.dropped.add(Reason::QueueFull, entry.items());
            gone.push(entry);
        }
        gone
    }

    fn drop_all(&mut self, reason: Reason) -> Vec<Entry> {
        self.stats.dropped.add(reason, self.items);
        self.items = 0;
        self.weight = 0;
        self.bytes = 0;
        self.waiting_since = None;
        std::mem::take(&mut self.entries).into()
    }
}

#[cfg(test)]
mod tests {
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
        let mut queue = Queue::new();
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

    /// Scenario: an entry alone, more until a batch is full, a flush, the end.
    /// Guarantee: due after its delay, at once when there is enough, at once when it is asked for.
    #[test]
    fn a_batch_is_due_by_time_and_by_size() {
        let mut queue = queue();
        let start = Instant::now();
        assert_eq!(queue.due(start), Due::Never);
        assert!(queue.push(start, vec![entry(1)]).wake);
        let at = start + LIMITS.batch_delay;
        assert_eq!(queue.due(start), Due::At(at));
        assert_eq!(queue.due(at), Due::Now);
        assert!(!queue.push(start, vec![entry(1)]).wake, "nothing changes for who waits");
        assert!(queue.push(start, vec![entry(1)]).wake, "a batch is full");
        assert_eq!(queue.due(start), Due::Now);
        assert_eq!(queue.take().len(), 3);
        assert_eq!(queue.due(at), Due::Never);
        queue.finish();

        queue.push(start, vec![entry(1)]);
        let mark = queue.hurry();
        assert_eq!(queue.due(start), Due::Now);
        assert!(!queue.is_settled(mark));
        queue.take();
        assert!(!queue.is_settled(mark), "it is in flight");
        queue.push(start, vec![entry(1)]);
        queue.finish();
        assert!(queue.is_settled(mark), "what came later is another matter");
        assert_eq!(queue.due(start), Due::At(at));
        queue.close();
        assert_eq!(queue.due(start), Due::Now);
        queue.take();
        assert_eq!(queue.due(start), Due::Done);
    }

    /// Scenario: collections of five spans each, with room for eight spans and requests of three.
    /// Guarantee: spans are what is counted; those of one collection stay together, in a request that is too small for them, too.
    #[test]
    fn spans_that_stay_together_count_each() {
        let mut queue = queue();
        let collection = || Entry::encoded(&Arc::new(Origin::new(Vec::new())), vec![0; 10].into(), 5);
        let gone = queue.push(Instant::now(), vec![collection(), collection()]).gone;
        assert_eq!(
            (gone.len(), queue.stats().queued, queue.stats().dropped.queue_full),
            (1, 5, 5)
        );
        assert_eq!(queue.due(Instant::now()), Due::Now);
        assert_eq!(queue.take().len(), 1);
        assert_eq!((queue.stats().queued, queue.stats().in_flight), (0, 5));
    }

    /// Scenario: the receiver does not take the signal; ten minutes pass; it still does not; ten more, then it does.
    /// Guarantee: news once; nothing is kept meanwhile; one batch asks again each time.
    #[test]
    fn an_unsupported_signal_is_asked_for_again() {
        let mut queue = queue();
        let start = Instant::now();
        queue.push(start, vec![entry(1), entry(1)]);
        queue.take();
        queue.gave_up(2, Reason::Unsupported);
        assert!(queue.unsupported(start).0);
        queue.finish();
        queue.push(start + UNSUPPORTED_FOR / 2, vec![entry(1)]);
        assert_eq!((queue.stats().queued, queue.stats().dropped.unsupported), (0, 3));

        let later = start + UNSUPPORTED_FOR;
        queue.push(later, vec![entry(1)]);
        assert_eq!((queue.stats().queued, queue.stats().unsupported), (1, true));
        queue.take();
        queue.gave_up(1, Reason::Unsupported);
        assert!(!queue.unsupported(later).0, "no news");
        queue.finish();

        let last = later + UNSUPPORTED_FOR;
        queue.push(last, vec![entry(1)]);
        queue.take();
        queue.accepted(1, 0, 10);
        queue.finish();
        assert!(!queue.stats().unsupported);
        assert_eq!(queue.stats().dropped.unsupported, 4);
    }

    /// Scenario: a receiver refused a large request as too large; later its settings change.
    /// Guarantee: requests are smaller from then on, until it is another receiver.
    #[test]
    fn a_learned_limit_holds_for_the_receiver() {
        let mut queue = Queue::new();
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
            1 => Just(Step::GiveUp),
            1 => Just(Step::Unsupported),
            1 => Just(Step::Off),
            2 => Just(Step::On),
            1 => Just(Step::Later),
        ]
    }

    proptest! {
        /// Scenario: anything that can happen to a queue, in any order.
        /// Guarantee: the bounds hold after each step, and every item is accounted for exactly once, also at the end.
        #[test]
        fn every_item_is_accounted_for(steps in proptest::collection::vec(step(), 0..60)) {
            let mut queue = queue();
            let mut now = Instant::now();
            let mut in_flight = 0;
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
                    }
                    Step::Accept { rejected } => {
                        queue.accepted(in_flight, rejected, 0);
                        queue.finish();
                        in_flight = 0;
                    }
                    Step::GiveUp => {
                        queue.gave_up(in_flight, Reason::Refused);
                        queue.finish();
                        in_flight = 0;
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
                    Step::Take => {}
                }
                let stats = queue.stats();
                prop_assert_eq!(stats.in_flight, in_flight);
                prop_assert!(stats.queued <= LIMITS.queue_items as u64);
                prop_assert!(stats.queued_bytes <= LIMITS.queue_bytes as u64);
                prop_assert_eq!(
                    stats.given,
                    stats.exported + stats.rejected + stats.dropped.total() + stats.queued + stats.in_flight
                );
            }
            let mark = queue.hurry();
            queue.close();
            queue.abandon();
            prop_assert!(queue.is_settled(mark));
            let stats = queue.stats();
            prop_assert_eq!((stats.queued, stats.queued_bytes, stats.in_flight), (0, 0, 0));
            prop_assert_eq!(stats.given, stats.exported + stats.rejected + stats.dropped.total());
        }
    }
}
