//! Ids of traces and spans, derived from the collection.
//!
//! The ids of a collection follow from the seed of its process's run, the runtime's instance and the collection's
//! number. So a foreground collection, which is exported first, can link to the background collection that it ran in,
//! and spans and exemplars agree without exchanging ids.

use std::collections::VecDeque;
use std::hash::Hasher as _;
#[expect(deprecated, reason = "see `hash`")]
use std::hash::SipHasher;

use clr_gc::gc::Collection;

/// How many collections back a repeated number is detected. Only collections that the end of a session cut in two occur
/// twice, and only a few are in progress at once.
const REMEMBERED: usize = 64;

/// Ids of a span, as in links, exemplars and log records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpanIds {
    /// Id of the collection's trace.
    pub trace_id: [u8; 16],
    /// Id of the span in that trace.
    pub span_id: [u8; 8],
}

impl SpanIds {
    /// The 56 random bits of the trace id that decide on sampling (W3C trace context, level 2).
    pub(crate) fn randomness(&self) -> u64 {
        let bytes = self.trace_id.iter().skip(9);
        bytes.fold(0, |value, &byte| value << 8 | u64::from(byte))
    }
}

/// The ids of one run of a process.
#[derive(Debug)]
pub(crate) struct Ids {
    key: [u64; 2],
    /// The latest collections, newest last.
    recent: VecDeque<(u16, u32)>,
}

/// The ids of one collection's spans.
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
            recent: VecDeque::with_capacity(REMEMBERED),
        }
    }

    /// The ids of the next collection. One that was already exported in part (a session ended in the middle of it) gets
    /// different ids, because span ids must be unique.
    pub(crate) fn next(&mut self, collection: &Collection) -> TraceIds {
        let subject = (collection.clr_instance.unwrap_or(0), collection.number);
        let before = self.recent.iter().filter(|&&other| other == subject).count();
        if self.recent.len() >= REMEMBERED {
            self.recent.pop_front();
        }
        self.recent.push_back(subject);
        self.of(subject.0, subject.1, before as u64)
    }

    /// The root span of another collection of the same runtime.
    pub(crate) fn linked(&self, clr_instance: Option<u16>, number: u32) -> SpanIds {
        self.of(clr_instance.unwrap_or(0), number, 0).root()
    }

    /// A span in the trace of a request: the request's span, and the place of the stop in it.
    pub(crate) fn in_request(&self, request: [u8; 8], place: usize) -> SpanIds {
        // A number that no collection of a runtime has: instances are of 16 bits.
        let message = [u64::from_be_bytes(request), u64::MAX, place as u64];
        SpanIds {
            trace_id: [0; 16],
            span_id: hash(self.key, message).to_be_bytes(),
        }
    }

    fn of(&self, clr_instance: u16, number: u32, occurrence: u64) -> TraceIds {
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

    /// The span with this place in the tree, 0 for the root.
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

/// SipHash-2-4 (Aumasson and Bernstein, 2012) of 24 bytes, given as words. Never 0, which is an invalid id.
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

    /// Scenario: key and message 00 01 02 ..., 24 bytes, of the reference implementation's table of vectors.
    /// Guarantee: the hash is the published one.
    #[test]
    fn the_hash_is_siphash_2_4() {
        let bytes = |from: u8| u64::from_le_bytes(std::array::from_fn(|place| from + place as u8));
        let hash = hash([bytes(0), bytes(8)], [bytes(0), bytes(8), bytes(16)]);
        assert_eq!(hash.to_le_bytes(), [0x94, 0xaf, 0x49, 0xf6, 0xc6, 0x50, 0xad, 0xb8]);
    }

    /// Scenario: 200 runs of 500 collections with 12 spans each.
    /// Guarantee: every id is unique, none is zero.
    #[test]
    fn ids_are_unique() {
        let (mut traces, mut spans) = (HashSet::new(), HashSet::new());
        for run in 0u128..200 {
            let ids = Ids::new(run.to_le_bytes());
            for number in 0..500 {
                let ids = ids.of(0, number, 0);
                assert!(traces.insert(ids.root().trace_id));
                for place in 0..12 {
                    assert!(spans.insert(ids.part(place).span_id));
                }
            }
        }
        assert!(!traces.contains(&[0; 16]) && !spans.contains(&[0; 8]));
    }
}
