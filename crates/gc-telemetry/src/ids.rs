//! Ids of traces and spans, derived from the collection.
//!
//! The ids of a collection are derived from the seed of the run, the runtime instance and the collection number. A
//! foreground collection is exported before the background collection that contains it; derived ids make the link
//! possible. Spans and exemplars have equal ids without an exchange of ids.

use std::collections::VecDeque;
use std::hash::Hasher as _;
#[expect(deprecated, reason = "see `hash`")]
use std::hash::SipHasher;

use clr_gc::gc::Collection;

/// Number of remembered collections for the detection of repeated numbers. Only collections that the end of a session
/// split into two parts occur twice, and only a few collections are in progress at the same time.
const MAX_COLLECTIONS: usize = 64;

/// Ids of a span in links, exemplars and log records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpanIds {
    /// Id of the collection's trace.
    pub trace_id: [u8; 16],
    /// Id of the span in the trace.
    pub span_id: [u8; 8],
}

impl SpanIds {
    /// Returns the 56 random bits of the trace id that control sampling (W3C trace context, level 2).
    pub(crate) fn randomness(&self) -> u64 {
        let bytes = self.trace_id.iter().skip(9);
        bytes.fold(0, |value, &byte| value << 8 | u64::from(byte))
    }
}

/// Generator of the ids of one run of a process.
#[derive(Debug)]
pub(crate) struct Ids {
    key: [u64; 2],
    /// Most recent collections, newest last.
    recent: VecDeque<(u16, u32)>,
}

/// Ids of one collection's spans.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TraceIds {
    key: [u64; 2],
    subject: [u64; 2],
    trace_id: [u8; 16],
}

impl Ids {
    pub(crate) fn new(seed: [u8; 16]) -> Self {
        Self {
            key: words(seed),
            recent: VecDeque::with_capacity(MAX_COLLECTIONS),
        }
    }

    /// Returns the ids of the next collection. A collection that was already partially exported (a session ended during
    /// the collection) has different ids, because span ids must be unique.
    pub(crate) fn next(&mut self, collection: &Collection) -> TraceIds {
        let subject = (collection.clr_instance.unwrap_or(0), collection.number);
        let before = self.recent.iter().filter(|&&other| other == subject).count();
        if self.recent.len() >= MAX_COLLECTIONS {
            self.recent.pop_front();
        }
        self.recent.push_back(subject);
        self.derive(subject.0, subject.1, before as u64)
    }

    /// Returns the ids of the root span of another collection of the same run.
    pub(crate) fn linked(&self, clr_instance: Option<u16>, number: u32) -> SpanIds {
        self.derive(clr_instance.unwrap_or(0), number, 0).root()
    }

    /// Returns the id of a span in the trace of a request, from the request's span and the index of the stop in the
    /// request. The trace id is not set, because it is the trace id of the request.
    pub(crate) fn in_request(&self, request: [u8; 8], place: usize) -> SpanIds {
        // No collection has this number: runtime instances have 16 bits.
        let message = [u64::from_be_bytes(request), u64::MAX, place as u64];
        SpanIds {
            trace_id: [0; 16],
            span_id: hash(self.key, message).to_be_bytes(),
        }
    }

    fn derive(&self, clr_instance: u16, number: u32, occurrence: u64) -> TraceIds {
        let subject = [u64::from(clr_instance) << 32 | u64::from(number), occurrence];
        let mut trace_id = [0; 16];
        for (half, part) in trace_id.chunks_exact_mut(8).zip([u64::MAX, u64::MAX - 1]) {
            half.copy_from_slice(&hash(self.key, [subject[0], subject[1], part]).to_be_bytes());
        }
        TraceIds {
            key: self.key,
            subject,
            trace_id,
        }
    }
}

impl TraceIds {
    pub(crate) fn root(&self) -> SpanIds {
        self.part(0)
    }

    /// Returns the span with this index in the tree; 0 is the root.
    pub(crate) fn part(&self, place: u64) -> SpanIds {
        let [collection, occurrence] = self.subject;
        SpanIds {
            trace_id: self.trace_id,
            span_id: hash(self.key, [collection, occurrence, place]).to_be_bytes(),
        }
    }
}

fn words(bytes: [u8; 16]) -> [u64; 2] {
    let whole = u128::from_le_bytes(bytes);
    [whole as u64, (whole >> 64) as u64]
}

/// Returns SipHash-2-4 (Aumasson and Bernstein, 2012) of 24 bytes, specified as words. The result is never 0, which is
/// an invalid id.
#[expect(deprecated, reason = "the hash must never change, and `DefaultHasher` may")]
fn hash([low, high]: [u64; 2], message: [u64; 3]) -> u64 {
    let mut hasher = SipHasher::new_with_keys(low, high);
    for word in message {
        hasher.write(&word.to_le_bytes());
    }
    hasher.finish().max(1)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Scenario: key and message are 00 01 02 ..., 24 bytes, from the vector table of the reference implementation.
    /// Guarantee: the hash equals the published hash.
    #[test]
    fn hash_is_siphash_2_4() {
        let bytes = |from: u8| u64::from_le_bytes(std::array::from_fn(|place| from + place as u8));
        let hash = hash([bytes(0), bytes(8)], [bytes(0), bytes(8), bytes(16)]);
        assert_eq!(hash.to_le_bytes(), [0x94, 0xaf, 0x49, 0xf6, 0xc6, 0x50, 0xad, 0xb8]);
    }

    /// Scenario: 200 runs have 500 collections with 12 spans each.
    /// Guarantee: all ids are unique, and no id is zero.
    #[test]
    fn ids_are_unique() {
        let (mut traces, mut spans) = (HashSet::new(), HashSet::new());
        for run in 0u128..200 {
            let ids = Ids::new(run.to_le_bytes());
            for number in 0..500 {
                let ids = ids.derive(0, number, 0);
                assert!(traces.insert(ids.root().trace_id));
                for place in 0..12 {
                    assert!(spans.insert(ids.part(place).span_id));
                }
            }
        }
        assert!(!traces.contains(&[0; 16]) && !spans.contains(&[0; 8]));
    }
}
