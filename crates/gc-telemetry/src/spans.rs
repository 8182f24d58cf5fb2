//! Spans: one trace per collection.
//!
//! ```text
//! GC gen2 background                from SuspendEEBegin of its first stop to GCEnd
//! |- GC pause initial               this collection's part of the stop
//! |  |- GC suspend                  SuspendEEBegin to SuspendEEEnd
//! |  |- GC collect                  from GCStart to RestartEEBegin
//! |  '- GC restart                  RestartEEBegin to RestartEEEnd
//! |- GC concurrent mark             beside the program
//! |- GC pause final
//! |  |- GC suspend
//! |  |- GC collect
//! |  '- GC restart
//! '- GC concurrent sweep            beside the program, to GCEnd
//! ```
//!
//! A blocking collection has one `GC pause`, and `GC collect` in it is GCStart to GCEnd. In a stop that several
//! collections share each has the part that was its own, so that the pauses of all traces add up to the time that the
//! process stood still: a background collection with another one inside its first stop has two `GC pause initial`, one
//! before and one after it.
//!
//! **No time is made up**: a span is there only when both of its ends were seen, the root goes from the first to the last
//! time that is known, and `dotnet.gc.missing` names the rest. The phases' times are lengths without a beginning; they are
//! attributes.

mod attributes;
mod ids;
mod selection;
mod tree;

use opentelemetry_proto::tonic::trace::v1::{ScopeSpans, Span};
use prost::{DecodeError, Message as _};

use clr_gc::gc::Collection;

pub use ids::SpanIds;
pub use selection::LeftOut;

use self::ids::Ids;
use self::selection::Selection;
use super::anomaly::Anomaly;
use super::options::SpanOptions;
use gc_rules::time::TimeBase;

/// Makes the spans of one run of a process.
#[derive(Debug)]
pub struct Tracer {
    options: SpanOptions,
    ids: Ids,
    selection: Selection,
}

/// What became of a collection.
#[derive(Debug, Clone, PartialEq)]
pub enum Traced {
    /// Spans, the root first.
    Spans {
        /// The root's ids, for exemplars and log records.
        ids: SpanIds,
        /// The root and its children, parents before children.
        spans: Encoded,
    },
    /// The options leave it out.
    NotSelected,
    /// There were as many in this second as may be.
    OverRate,
}

/// Spans as OTLP sends them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encoded {
    /// Fields `spans` of `ScopeSpans`, one behind the other.
    fields: Box<[u8]>,
    count: u64,
}

impl Encoded {
    /// How many spans.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The bytes: fields `spans` (number 2) of a `ScopeSpans` message, each with its tag and its length, one behind the other.
    pub fn into_fields(self) -> Box<[u8]> {
        self.fields
    }

    /// The spans as messages, for who is to look at them.
    ///
    /// # Errors
    ///
    /// Never for what a [`Tracer`] made.
    pub fn decode(&self) -> Result<Vec<Span>, DecodeError> {
        ScopeSpans::decode(&*self.fields).map(|scope| scope.spans)
    }
}

impl Tracer {
    /// The tracer of one run of a process. The ids of its spans depend on `seed` and the collection alone.
    pub fn new(options: SpanOptions, seed: [u8; 16]) -> Self {
        let selection = Selection::new(&options);
        Self {
            options,
            ids: Ids::new(seed),
            selection,
        }
    }

    /// Takes other options from the next collection on.
    pub fn set_options(&mut self, options: SpanOptions) {
        self.selection.set_options(&options);
        self.options = options;
    }

    /// The spans of a collection. An `anomalous` one is told whatever the options say of generation, pause, share and
    /// rate.
    pub fn trace(&mut self, collection: &Collection, base: TimeBase, anomalous: bool) -> Traced {
        self.traced(collection, base, anomalous, &[])
    }

    /// The spans of a collection on which the conditions of rules hold: told as an anomalous one when there are any, and the root says which.
    pub fn trace_anomalies(&mut self, collection: &Collection, base: TimeBase, anomalies: &[Anomaly<'_>]) -> Traced {
        self.traced(collection, base, !anomalies.is_empty(), anomalies)
    }

    fn traced(
        &mut self,
        collection: &Collection,
        base: TimeBase,
        anomalous: bool,
        anomalies: &[Anomaly<'_>],
    ) -> Traced {
        if !self.options.enabled {
            return Traced::NotSelected;
        }
        let ids = self.ids.next(collection);
        let at = base.unix_ns(collection.last_event);
        match self.selection.decide(collection, ids.root(), at) {
            Some(left_out) if !anomalous => match left_out {
                LeftOut::NotSelected => Traced::NotSelected,
                LeftOut::OverRate => Traced::OverRate,
            },
            decided => {
                // One that the share would have left out stands for itself alone.
                let state = if decided.is_none() {
                    self.selection.trace_state()
                } else {
                    ""
                };
                Traced::Spans {
                    ids: ids.root(),
                    spans: tree::spans(collection, base, &ids, &self.ids, &self.options, state, anomalies),
                }
            }
        }
    }
}
