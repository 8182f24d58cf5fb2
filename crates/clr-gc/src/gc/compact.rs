//! A collection in some 200 bytes instead of 1,400: for whoever keeps many of them.
//!
//! One walk over all fields ([`Pass`]) both writes and reads, so that neither can forget one. Numbers are LEB128, an
//! absent one is a zero byte, and times are distances from the collection's start.

use crate::event::{GcReason, GcType, GlobalMechanisms, HeapStats, PauseMode};
use crate::gc::collection::{
    Collection, Committed, GenerationSizes, GlobalHistory, Missing, MissingParts, Pause, PauseKind, Phases, StopEdges,
};
use crate::gc::impact::{RequestImpact, WorstRequest};

/// A [`Collection`] as bytes. What it was made of comes back exactly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompactCollection {
    number: u32,
    /// GCStart, else the last event: what times are distances from.
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

    /// Its [`Collection::number`].
    pub fn number(&self) -> u32 {
        self.number
    }

    /// How many bytes it takes beside itself.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The collection that it was made of.
    pub fn unpack(&self) -> Collection {
        let mut reader = Reader {
            origin: self.origin,
            bytes: &self.bytes,
        };
        let mut collection = blank(self.number);
        reader.collection(&mut collection);
        collection
    }
}

/// Goes over a collection's fields, and writes or reads each.
trait Pass {
    /// Times are distances from it.
    fn origin(&self) -> i64;

    /// Passes one number, at most 2^64.
    fn number(&mut self, value: &mut u128);

    /// Passes a value as the number that it is made to and from.
    fn as_number<T: Copy>(&mut self, value: &mut T, to: impl Fn(T) -> u128, from: impl Fn(u128) -> T) {
        let mut number = to(*value);
        self.number(&mut number);
        *value = from(number);
    }

    fn unsigned(&mut self, value: &mut u64) {
        self.as_number(value, u128::from, low);
    }

    fn small(&mut self, value: &mut u32) {
        self.as_number(value, u128::from, low_32);
    }

    fn flag(&mut self, value: &mut bool) {
        self.as_number(value, u128::from, |number| number != 0);
    }

    fn time(&mut self, value: &mut i64) {
        let origin = self.origin();
        self.as_number(
            value,
            |at| zigzag(at.wrapping_sub(origin)),
            |number| unzigzag(low(number)).wrapping_add(origin),
        );
    }

    /// Passes an optional value: 0 is absent, everything else its number and one.
    fn optional<T: Copy>(&mut self, value: &mut Option<T>, to: impl Fn(T) -> u128, from: impl Fn(u128) -> T) {
        self.as_number(
            value,
            |value| value.map_or(0, |value| to(value) + 1),
            |number| number.checked_sub(1).map(&from),
        );
    }

    fn optional_unsigned(&mut self, value: &mut Option<u64>) {
        self.optional(value, u128::from, low);
    }

    fn optional_code<T: Copy + From<u32>>(&mut self, value: &mut Option<T>, code: impl Fn(T) -> u32) {
        self.optional(value, |value| u128::from(code(value)), |number| T::from(low_32(number)));
    }

    fn optional_signed(&mut self, value: &mut Option<i64>) {
        self.optional(value, zigzag, |number| unzigzag(low(number)));
    }

    fn optional_time(&mut self, value: &mut Option<i64>) {
        let origin = self.origin();
        self.optional(
            value,
            |at| zigzag(at.wrapping_sub(origin)),
            |number| unzigzag(low(number)).wrapping_add(origin),
        );
    }

    /// Passes a list; `blank` is what its elements are read into.
    fn list<T: Clone>(&mut self, list: &mut Vec<T>, blank: &T, mut each: impl FnMut(&mut Self, &mut T)) {
        let mut length = list.len() as u64;
        self.unsigned(&mut length);
        // Reading: an own length, of a list that was.
        list.resize(usize::try_from(length).unwrap_or(0), blank.clone());
        for element in list {
            each(self, element);
        }
    }

    fn collection(&mut self, collection: &mut Collection) {
        let Collection {
            number: _,
            generation,
            clr_instance,
            gc_type,
            became_blocking,
            reason,
            trigger,
            start,
            end,
            start_thread,
            last_event,
            pauses,
            pause_ns,
            suspend_ns,
            heap_stats,
            heap,
            global,
            per_heap_histories,
            phases,
            committed,
            largest_heap_survived,
            throughput_cost_percent,
            allocated_since_last,
            background,
            thread_created,
            missing,
            lossy,
            observed_by_others,
            requests,
        } = collection;
        self.optional_code(generation, |generation| generation);
        self.optional(clr_instance, u128::from, |number| low_32(number) as u16);
        self.optional_code(gc_type, |GcType(code)| code);
        self.flag(became_blocking);
        self.optional_code(reason, |reason| reason.0);
        self.optional_code(trigger, |reason| reason.0);
        self.optional_time(start);
        self.optional_time(end);
        self.optional_unsigned(start_thread);
        self.time(last_event);
        self.list(pauses, &NO_PAUSE, Self::pause);
        self.optional_signed(pause_ns);
        self.optional_signed(suspend_ns);
        self.present(heap_stats, NO_HEAP_STATS, Self::heap_stats);
        for sizes in heap {
            self.sizes(sizes);
        }
        self.present(global, NO_GLOBAL_HISTORY, Self::global);
        self.small(per_heap_histories);
        self.phases(phases);
        let Committed {
            before,
            after,
            bookkeeping,
            kept,
        } = committed;
        for bytes in [before, after, bookkeeping, kept] {
            self.optional_unsigned(bytes);
        }
        self.optional_unsigned(largest_heap_survived);
        let bits = |percent: f32| u128::from(percent.to_bits());
        self.optional(throughput_cost_percent, bits, |number| f32::from_bits(low_32(number)));
        self.optional_unsigned(allocated_since_last);
        self.optional_code(background, |number| number);
        self.flag(thread_created);
        for part in Missing::ALL {
            let mut absent = missing.contains(part);
            self.flag(&mut absent);
            missing.add(part, absent);
        }
        self.flag(lossy);
        self.optional(observed_by_others, u128::from, |number| number != 0);
        self.present(requests, RequestImpact::default(), Self::impact);
    }

    fn impact(&mut self, impact: &mut RequestImpact) {
        let RequestImpact { hit, lost_ns, worst } = impact;
        self.unsigned(hit);
        self.unsigned(lost_ns);
        self.present(worst, WorstRequest::default(), |pass, worst| {
            let WorstRequest {
                lost_ns,
                trace_id,
                span_id,
            } = worst;
            pass.unsigned(lost_ns);
            pass.present(trace_id, [0; 16], |pass, id| {
                id.iter_mut().for_each(|byte| pass.byte(byte))
            });
            pass.present(span_id, [0; 8], |pass, id| {
                id.iter_mut().for_each(|byte| pass.byte(byte))
            });
        });
    }

    fn byte(&mut self, byte: &mut u8) {
        self.as_number(byte, u128::from, |number| number as u8);
    }

    /// Passes whether something is there, and it.
    fn present<T: Copy>(&mut self, value: &mut Option<T>, blank: T, each: impl FnOnce(&mut Self, &mut T)) {
        let mut is_there = value.is_some();
        self.flag(&mut is_there);
        if is_there {
            each(self, value.get_or_insert(blank));
        }
    }

    fn pause(&mut self, pause: &mut Pause) {
        let Pause {
            start,
            suspend_ns,
            pause_ns,
            spans,
            stopped_ns,
            shared_with,
            kind,
            edges,
        } = pause;
        self.optional_time(start);
        self.optional_signed(suspend_ns);
        self.optional_signed(pause_ns);
        self.list(spans, &(0, 0), |pass, (from, to)| {
            pass.time(from);
            pass.time(to);
        });
        self.optional_signed(stopped_ns);
        self.list(shared_with, &0, Self::small);
        self.as_number(
            kind,
            |kind| kind as u128,
            |number| match number {
                0 => PauseKind::Blocking,
                1 => PauseKind::Initial,
                _ => PauseKind::Final,
            },
        );
        let StopEdges {
            suspend_begin,
            suspend_end,
            restart_begin,
            restart_end,
            thread,
        } = edges;
        for edge in [suspend_begin, suspend_end, restart_begin, restart_end] {
            self.optional_time(edge);
        }
        self.unsigned(thread);
    }

    fn heap_stats(&mut self, stats: &mut HeapStats) {
        let HeapStats {
            generation_size0,
            total_promoted_size0,
            generation_size1,
            total_promoted_size1,
            generation_size2,
            total_promoted_size2,
            generation_size3,
            total_promoted_size3,
            finalization_promoted_size,
            finalization_promoted_count,
            pinned_object_count,
            sink_block_count,
            gc_handle_count,
            clr_instance,
            generation_size4,
            total_promoted_size4,
        } = stats;
        for bytes in [
            generation_size0,
            total_promoted_size0,
            generation_size1,
            total_promoted_size1,
            generation_size2,
            total_promoted_size2,
            generation_size3,
            total_promoted_size3,
            finalization_promoted_size,
            finalization_promoted_count,
        ] {
            self.unsigned(bytes);
        }
        for count in [pinned_object_count, sink_block_count, gc_handle_count] {
            self.small(count);
        }
        self.optional(clr_instance, u128::from, |number| low_32(number) as u16);
        self.optional_unsigned(generation_size4);
        self.optional_unsigned(total_promoted_size4);
    }

    fn sizes(&mut self, sizes: &mut GenerationSizes) {
        let GenerationSizes {
            before,
            after,
            promoted,
            fragmentation,
            budget,
            survived,
        } = sizes;
        for bytes in [before, after, promoted, fragmentation, budget, survived] {
            self.optional_unsigned(bytes);
        }
    }

    fn global(&mut self, global: &mut GlobalHistory) {
        let GlobalHistory {
            heap_count,
            condemned_generation,
            reason,
            mechanisms,
            pause_mode,
            memory_load_percent,
            condemn_reasons0,
            condemn_reasons1,
            phases,
        } = global;
        for number in [
            heap_count,
            condemned_generation,
            &mut reason.0,
            &mut mechanisms.0,
            &mut pause_mode.0,
            memory_load_percent,
        ] {
            self.small(number);
        }
        self.optional_code(condemn_reasons0, |bits| bits.0);
        self.optional_code(condemn_reasons1, |bits| bits.0);
        self.phases(phases);
    }

    fn phases(&mut self, phases: &mut Phases) {
        let Phases {
            mark_sized_refs,
            mark_roots,
            short_weak,
            scan_finalization,
            long_weak,
            plan,
            relocate,
            compact,
            sweep,
        } = phases;
        for phase in [
            mark_sized_refs,
            mark_roots,
            short_weak,
            scan_finalization,
            long_weak,
            plan,
            relocate,
            compact,
            sweep,
        ] {
            self.optional_signed(phase);
        }
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
        // A Writer wrote them: each number ends.
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

/// The lowest 64 bits.
fn low(number: u128) -> u64 {
    number as u64
}

/// The lowest 32 bits.
fn low_32(number: u128) -> u32 {
    number as u32
}

/// Small for small distances in both directions.
fn zigzag(value: i64) -> u128 {
    u128::from(((value << 1) ^ (value >> 63)).cast_unsigned())
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -((number & 1).cast_signed())
}

const NO_PAUSE: Pause = Pause {
    start: None,
    suspend_ns: None,
    pause_ns: None,
    spans: Vec::new(),
    stopped_ns: None,
    shared_with: Vec::new(),
    kind: PauseKind::Blocking,
    edges: StopEdges {
        suspend_begin: None,
        suspend_end: None,
        restart_begin: None,
        restart_end: None,
        thread: 0,
    },
};

const NO_HEAP_STATS: HeapStats = HeapStats {
    generation_size0: 0,
    total_promoted_size0: 0,
    generation_size1: 0,
    total_promoted_size1: 0,
    generation_size2: 0,
    total_promoted_size2: 0,
    generation_size3: 0,
    total_promoted_size3: 0,
    finalization_promoted_size: 0,
    finalization_promoted_count: 0,
    pinned_object_count: 0,
    sink_block_count: 0,
    gc_handle_count: 0,
    clr_instance: None,
    generation_size4: None,
    total_promoted_size4: None,
};

const NO_PHASES: Phases = Phases {
    mark_sized_refs: None,
    mark_roots: None,
    short_weak: None,
    scan_finalization: None,
    long_weak: None,
    plan: None,
    relocate: None,
    compact: None,
    sweep: None,
};

const NO_GLOBAL_HISTORY: GlobalHistory = GlobalHistory {
    heap_count: 0,
    condemned_generation: 0,
    reason: GcReason(0),
    mechanisms: GlobalMechanisms(0),
    pause_mode: PauseMode(0),
    memory_load_percent: 0,
    condemn_reasons0: None,
    condemn_reasons1: None,
    phases: NO_PHASES,
};

/// What a collection is read into.
fn blank(number: u32) -> Collection {
    Collection {
        number,
        generation: None,
        clr_instance: None,
        gc_type: None,
        became_blocking: false,
        reason: None,
        trigger: None,
        start: None,
        end: None,
        start_thread: None,
        last_event: 0,
        pauses: Vec::new(),
        pause_ns: None,
        suspend_ns: None,
        heap_stats: None,
        heap: [GenerationSizes::default(); 5],
        global: None,
        per_heap_histories: 0,
        phases: NO_PHASES,
        committed: Committed::default(),
        largest_heap_survived: None,
        throughput_cost_percent: None,
        allocated_since_last: None,
        background: None,
        thread_created: false,
        missing: MissingParts::default(),
        lossy: false,
        observed_by_others: None,
        requests: None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::event::CondemnReasons1;

    /// A collection with extreme values in fields of each kind.
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
            ..NO_PAUSE
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
            pauses: vec![NO_PAUSE, pause],
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
                ..NO_GLOBAL_HISTORY
            }),
            throughput_cost_percent: Some(number as f32),
            thread_created: !some,
            missing,
            lossy: some,
            observed_by_others: some.then_some(number > 9),
            requests: some.then_some(RequestImpact {
                hit: number,
                lost_ns: number / 2,
                worst: (number > 9).then_some(WorstRequest {
                    lost_ns: number / 3,
                    trace_id: Some([number as u8; 16]),
                    span_id: (number > 99).then_some([number as u8; 8]),
                }),
            }),
            ..blank(7)
        }
    }

    proptest! {
        /// Scenario: any numbers and times, the largest ones included.
        /// Guarantee: what comes back is what was packed.
        #[test]
        fn nothing_is_lost(
            number in prop_oneof![any::<u64>(), Just(u64::MAX), Just(0)],
            time in prop_oneof![any::<i64>(), Just(i64::MIN), Just(i64::MAX)],
            some: bool,
        ) {
            let collection = with(number, time, some);
            prop_assert_eq!(CompactCollection::new(collection.clone()).unpack(), collection);
        }
    }
}
