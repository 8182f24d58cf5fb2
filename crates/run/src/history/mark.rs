//! A collection as a point: time, number, pause.

use base::time::Moment;
use clr_gc::event::{GcReason, GcType};
use clr_gc::gc::Collection;

use super::packed::{Pass, Record};
use super::{MAX_MARK_BYTES, MAX_MARKS, length, type_of};

/// A collection as a point.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mark {
    pub number: u64,
    /// Start time, in milliseconds of the clock of [`Moment`]s.
    start_ms: u64,
    /// Duration for which the collection stopped the process, in nanoseconds; `None` if it was not observed.
    pub pause_ns: Option<u64>,
    pub generation: Option<u64>,
    /// Type; `None` if unknown. A collection that became blocking is blocking.
    gc_type: Option<u64>,
    /// Reason for the collection; `None` if unknown.
    reason: Option<u64>,
    /// Whether the collection overlaps a loss of events.
    pub lossy: bool,
}

impl Mark {
    /// Creates the point of a collection that started at `start`.
    pub fn new(collection: &Collection, start: Moment) -> Self {
        Self {
            number: collection.number.into(),
            start_ms: start.ns() / 1_000_000,
            pause_ns: length(collection.pause_ns),
            generation: collection.generation.map(u64::from),
            gc_type: type_of(collection).map(|GcType(code)| u64::from(code)),
            reason: collection.reason.map(|GcReason(code)| u64::from(code)),
            lossy: collection.lossy,
        }
    }

    /// Returns the start time, to the millisecond.
    pub fn start(&self) -> Moment {
        Moment::from_ns(self.start_ms.saturating_mul(1_000_000))
    }

    pub fn gc_type(&self) -> Option<GcType> {
        self.gc_type.map(|code| GcType(code as u32))
    }

    /// Returns the reason for the collection, or `None` if it is unknown.
    pub fn reason(&self) -> Option<GcReason> {
        self.reason.map(|code| GcReason(code as u32))
    }
}

/// Limit below which generations and types are written together with other small values.
const SMALL: u64 = 3;
/// The most frequent reason: allocation of small objects.
const MAX_FREQUENT: u64 = 0;

impl Record for Mark {
    const CAPACITY: (usize, usize) = (MAX_MARKS, MAX_MARK_BYTES);

    fn pass(&mut self, before: &Self, pass: &mut impl Pass) {
        pass.near(&mut self.number, before.number.wrapping_add(1));
        pass.near(&mut self.start_ms, before.start_ms);
        pass.optional(&mut self.pause_ns);
        // Generation and type are nearly always small and have five codes each: unknown, three small values, and any
        // other value. Together with two bits (lossy, most frequent reason), they take one byte.
        let code = |value: Option<u64>| value.map_or(0, |value| value.min(SMALL) + 1);
        let mut all = code(self.generation) * 5 + code(self.gc_type);
        all = all * 2 + u64::from(self.lossy);
        all = all * 2 + u64::from(self.reason == Some(MAX_FREQUENT));
        pass.unsigned(&mut all);
        let is_frequent = all % 2 == 1;
        self.lossy = all / 2 % 2 == 1;
        for (value, code) in [(&mut self.generation, all / 20), (&mut self.gc_type, all / 4 % 5)] {
            match code {
                0 => *value = None,
                code if code <= SMALL => *value = Some(code - 1),
                _ => {
                    // Numbers this large are rare, because no runtime sends them.
                    let mut number = value.unwrap_or(0);
                    pass.unsigned(&mut number);
                    *value = Some(number);
                }
            }
        }
        if is_frequent {
            self.reason = Some(MAX_FREQUENT);
        } else {
            pass.optional(&mut self.reason);
        }
    }
}
