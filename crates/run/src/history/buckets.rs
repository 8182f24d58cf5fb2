//! Buckets of the last 30 minutes: the newest bucket unpacked, all other buckets packed.

use base::time::Moment;

use super::bucket::{BUCKET_NS, Bucket, bucket_of};
use super::packed::Queue;
use super::{BUCKETS, HISTORY_NS};

/// The buckets with any contents.
#[derive(Debug, Default)]
pub(crate) struct Buckets {
    closed: Queue<Bucket>,
    open: Option<Bucket>,
}

impl Buckets {
    /// Returns all buckets, in order.
    pub(crate) fn all(&self) -> impl Iterator<Item = Bucket> + '_ {
        self.closed.iter().chain(self.open.clone())
    }

    /// Applies `change` to the bucket that contains `at`. A time before the last 30 minutes is ignored.
    pub(crate) fn at(&mut self, at: Moment, change: impl FnOnce(&mut Bucket)) {
        self.in_bucket(bucket_of(at), change);
    }

    fn in_bucket(&mut self, index: u64, change: impl FnOnce(&mut Bucket)) {
        match &mut self.open {
            Some(open) if open.index == index => change(open),
            Some(open) if open.index > index => {
                if open.index - index < BUCKETS {
                    self.amend(index, change);
                }
            }
            _ => {
                let mut bucket = Bucket {
                    index,
                    ..Bucket::default()
                };
                change(&mut bucket);
                if let Some(closed) = self.open.replace(bucket) {
                    self.closed.push(closed);
                }
                self.forget_before((index + 1).saturating_sub(BUCKETS));
            }
        }
    }

    /// Changes a closed bucket, because a fact about it became known late.
    fn amend(&mut self, index: u64, change: impl FnOnce(&mut Bucket)) {
        let mut all: Vec<Bucket> = self.all().collect();
        let place = match all.binary_search_by_key(&index, |bucket| bucket.index) {
            Ok(place) => place,
            Err(place) => {
                let bucket = Bucket {
                    index,
                    ..Bucket::default()
                };
                all.insert(place, bucket);
                place
            }
        };
        if let Some(bucket) = all.get_mut(place) {
            change(bucket);
        }
        self.rebuild(all);
    }

    fn rebuild(&mut self, mut all: Vec<Bucket>) {
        self.open = all.pop();
        self.closed.clear();
        all.into_iter().for_each(|bucket| self.closed.push(bucket));
    }

    fn forget_before(&mut self, index: u64) {
        while self.closed.first().is_some_and(|first| first.index < index) {
            self.closed.pop();
        }
    }

    /// Adds a suspension of the threads: each bucket gets the part that falls into it.
    pub(crate) fn stopped(&mut self, from: Moment, length_ns: u64, now: Moment) {
        let to = from.after(length_ns).min(now).ns();
        let mut from = from.ns().max(to.saturating_sub(HISTORY_NS));
        while from < to {
            let index = from / BUCKET_NS;
            let end = (index + 1).saturating_mul(BUCKET_NS).min(to);
            let part = end - from;
            self.in_bucket(index, |bucket| {
                bucket.stopped_ns = bucket.stopped_ns.saturating_add(part);
            });
            from = end;
        }
    }

    /// Adds bytes allocated between two instants, assumed to be evenly distributed: each bucket gets the part that
    /// falls into it. The bytes of an interval that is not longer than a bucket count in the bucket in which the
    /// interval ended.
    pub(crate) fn allocated(&mut self, (from, to): (Moment, Moment), bytes: u64) {
        let (from, to) = (from.ns(), to.ns().max(1));
        let last = to.saturating_sub(1);
        let whole = to.saturating_sub(from);
        let mut left = bytes;
        if whole > BUCKET_NS {
            let mut part = |length_ns: u64| {
                let share = u128::from(bytes) * u128::from(length_ns) / u128::from(whole);
                let share = u64::try_from(share).unwrap_or(left).min(left);
                left -= share;
                share
            };
            // Allocation before the oldest bucket is dropped.
            let oldest = (last / BUCKET_NS + 1).saturating_sub(BUCKETS).saturating_mul(BUCKET_NS);
            let begun = from;
            let mut from = begun.max(oldest);
            part(from - begun);
            while (from / BUCKET_NS) < last / BUCKET_NS {
                let end = (from / BUCKET_NS + 1).saturating_mul(BUCKET_NS);
                let share = part(end - from);
                self.in_bucket(from / BUCKET_NS, |bucket| bucket.allocated(share));
                from = end;
            }
        }
        self.in_bucket(last / BUCKET_NS, |bucket| bucket.allocated(left));
    }

    #[cfg(test)]
    pub(crate) fn size(&self) -> (usize, usize) {
        self.closed.size()
    }

    #[cfg(test)]
    pub(crate) fn memory_bytes(&self) -> usize {
        let open = self.open.as_ref();
        self.closed.memory_bytes() + open.map_or(0, |open| open.pauses.capacity() * size_of::<(u8, u32)>())
    }
}
