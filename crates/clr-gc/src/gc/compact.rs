//! Packs a collection into about 200 bytes instead of 1,400, for readers that keep many collections.
//!
//! A single traversal of all fields ([`Pass`]) both writes and reads, so neither direction can omit a field. Numbers
//! are in LEB128, an absent value is a zero byte, and times are relative to the start of the collection.

mod blank;
mod field;
mod pass;

#[cfg(test)]
pub(crate) use self::blank::NO_HEAP_STATS;
use self::field::Fields as _;
use self::pass::Pass;
use crate::gc::collection::Collection;

/// A packed [`Collection`], for readers that keep many collections: about 200 bytes instead of 1,400. Unpacking
/// restores the original collection exactly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompactCollection {
    number: u32,
    /// Time of GCStart, or of the last event if GCStart is unknown. Packed times are relative to this time.
    origin: i64,
    bytes: Box<[u8]>,
}

impl CompactCollection {
    /// Packs a collection.
    pub fn new(mut collection: Collection) -> Self {
        let origin = collection.start.unwrap_or(collection.last_event);
        let mut writer = Writer {
            origin,
            bytes: Vec::with_capacity(512),
        };
        writer.collection(&mut collection);
        Self {
            number: collection.number,
            origin,
            bytes: writer.bytes.into_boxed_slice(),
        }
    }

    /// Returns the [number](Collection::number) of the collection.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns the number of bytes allocated for the packed fields, without the struct itself.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Restores the original collection.
    pub fn unpack(&self) -> Collection {
        let mut reader = Reader {
            origin: self.origin,
            bytes: &self.bytes,
        };
        let mut collection = Collection::unknown(self.number);
        reader.collection(&mut collection);
        collection
    }
}

struct Writer {
    origin: i64,
    bytes: Vec<u8>,
}

impl Pass for Writer {
    fn origin(&self) -> i64 {
        self.origin
    }

    fn number(&mut self, value: &mut u128) {
        let mut rest = *value;
        while rest >= 0x80 {
            self.bytes.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        self.bytes.push(rest as u8);
    }
}

struct Reader<'a> {
    origin: i64,
    bytes: &'a [u8],
}

impl Pass for Reader<'_> {
    fn origin(&self) -> i64 {
        self.origin
    }

    fn number(&mut self, value: &mut u128) {
        *value = 0;
        let mut shift = 0;
        // The bytes come from a Writer, so each number is terminated.
        while let Some((&byte, rest)) = self.bytes.split_first() {
            self.bytes = rest;
            *value |= u128::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::blank::{NO_HEAP_STATS, no_global_history, no_pause};
    use super::*;
    use crate::event::{CondemnReasons1, GcType, HeapStats};
    use crate::gc::collection::{GenerationSizes, Missing, MissingParts, Pause};
    use crate::gc::cpu_wait::CpuWait;
    use crate::gc::history::GlobalHistory;
    use crate::gc::impact::{RequestImpact, WorstRequest};
    use crate::gc::stop::{PauseKind, StopEdges};

    /// Creates a collection with extreme values in fields of every type. `some` selects which optional fields are set.
    fn with(number: u64, time: i64, some: bool) -> Collection {
        let of = |value: u64| some.then_some(value);
        let pause = Pause {
            start: some.then_some(time),
            pause_ns: Some(time),
            spans: vec![(time, i64::MAX), (i64::MIN, time)],
            shared_with: vec![0, u32::MAX],
            kind: PauseKind::Final,
            edges: StopEdges {
                suspend_begin: Some(time),
                thread: number,
                ..StopEdges::default()
            },
            ..no_pause()
        };
        let mut missing = MissingParts::default();
        missing.add(Missing::HeapStats, some);
        Collection {
            generation: some.then_some(number as u32),
            clr_instance: some.then_some(number as u16),
            gc_type: Some(GcType(number as u32)),
            start: some.then_some(time),
            end: Some(time.wrapping_add(1)),
            last_event: time,
            pauses: vec![no_pause(), pause],
            heap_stats: some.then_some(HeapStats {
                generation_size4: of(number),
                gc_handle_count: u32::MAX,
                ..NO_HEAP_STATS
            }),
            heap: [GenerationSizes {
                before: of(number),
                survived: Some(u64::MAX),
                ..GenerationSizes::default()
            }; 5],
            global: (!some).then_some(GlobalHistory {
                condemn_reasons1: Some(CondemnReasons1(number as u32)),
                ..no_global_history()
            }),
            throughput_cost_percent: Some(number as f32),
            thread_created: !some,
            missing,
            lossy: some,
            observed_by_others: some.then_some(number > 9),
            cpu: some.then_some(CpuWait {
                throttled_ns: (number > 3).then_some(time),
                page_faults: of(number),
            }),
            trigger_thread: of(number),
            requested_by_tool: some.then_some(number > 7),
            requests: some.then_some(RequestImpact {
                hit: number,
                lost_ns: number / 2,
                worst: (number > 9).then_some(WorstRequest {
                    lost_ns: number / 3,
                    trace_id: Some([number as u8; 16]),
                    span_id: (number > 99).then_some([number as u8; 8]),
                }),
            }),
            ..Collection::unknown(7)
        }
    }

    proptest! {
        /// Scenario: a collection with arbitrary and extreme numbers and times is packed.
        /// Guarantee: the unpacked collection equals the original collection.
        #[test]
        fn packed_collection_round_trips(
            number in prop_oneof![any::<u64>(), Just(u64::MAX), Just(0)],
            time in prop_oneof![any::<i64>(), Just(i64::MIN), Just(i64::MAX)],
            some: bool,
        ) {
            let collection = with(number, time, some);
            prop_assert_eq!(CompactCollection::new(collection.clone()).unpack(), collection);
        }
    }
}
