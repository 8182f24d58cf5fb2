//! Spans: one trace per collection.
//!
//! ```text
//! GC gen2 background                from SuspendEEBegin of its first suspension to GCEnd
//! |- GC pause initial               this collection's part of the suspension
//! |  |- GC suspend                  SuspendEEBegin to SuspendEEEnd, where it took a millisecond
//! |  |- GC collect                  from GCStart to RestartEEBegin
//! |  '- GC restart                  RestartEEBegin to RestartEEEnd, where it took a millisecond
//! |- GC concurrent mark             concurrent with the program
//! |- GC pause final
//! |  |- GC suspend
//! |  |- GC collect
//! |  '- GC restart
//! '- GC concurrent sweep            concurrent with the program, to GCEnd
//! ```
//!
//! A blocking collection has one `GC pause`, and `GC collect` in it is GCStart to GCEnd. Where several collections
//! share a suspension, each gets its own part, so that the pauses of all traces add up to the time that the process was
//! paused: a background collection with another one inside its first suspension has two `GC pause initial`, one before
//! and one after it.
//!
//! **No time is invented**: a span exists only when both of its ends were observed, the root lasts from the first to
//! the last known time, and `gcwatch.gc.missing` names the rest. The durations of phases have no start times; they are
//! attributes.

mod attributes;
mod selection;
mod tree;
mod victim;

use base::time::UnixBase;
use opentelemetry_proto::tonic::trace::v1::{ScopeSpans, Span};
use prost::{DecodeError, Message as _};

use clr_gc::gc::Collection;
use gc_requests::request::Request;

pub use crate::ids::SpanIds;
pub use selection::NotExported;

use self::selection::{Selection, TokenBucket};
use super::anomaly::Anomaly;
use super::options::SpanOptions;
use crate::ids::Ids;

/// Makes the spans of one run of a process.
#[derive(Debug)]
pub struct Tracer {
    options: SpanOptions,
    ids: Ids,
    selection: Selection,
    victims: TokenBucket,
}

/// Spans as encoded OTLP.
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

    /// The bytes: fields `spans` (number 2) of a `ScopeSpans` message, each with its tag and its length, one behind the
    /// other.
    pub fn into_fields(self) -> Box<[u8]> {
        self.fields
    }

    /// The spans as messages, for tests and tools that read them.
    ///
    /// # Errors
    ///
    /// Never for what a [`Tracer`] made.
    pub fn decode(&self) -> Result<Vec<Span>, DecodeError> {
        ScopeSpans::decode(&*self.fields).map(|scope| scope.spans)
    }
}

impl Tracer {
    /// The tracer of one run of a process. The ids of its spans depend only on `seed` and the collection.
    pub fn new(options: SpanOptions, seed: [u8; 16]) -> Self {
        let selection = Selection::new(&options);
        Self {
            victims: TokenBucket::new(options.requests.max_per_second),
            options,
            ids: Ids::new(seed),
            selection,
        }
    }

    /// Applies other options from the next collection on.
    pub fn set_options(&mut self, options: SpanOptions) {
        self.selection.set_options(&options);
        self.options = options;
    }

    /// The spans of a collection, the root first, and the root's ids, for exemplars and log records. Where rules hold on
    /// it (`anomalies`), the root names them, and it is exported regardless of the options for generation, pause, share
    /// and rate. While an incident of the process is open (`in_incident`), some of the short ones are, too.
    ///
    /// # Errors
    ///
    /// Why it is not exported.
    pub fn trace(
        &mut self,
        collection: &Collection,
        base: UnixBase,
        anomalies: &[Anomaly<'_>],
        in_incident: bool,
    ) -> Result<(SpanIds, Encoded), NotExported> {
        if !self.options.enabled {
            return Err(NotExported::NotSelected);
        }
        let ids = self.ids.next(collection);
        let at = base.moment(collection.last_event);
        let decided = self.selection.decide(collection, ids.root(), at, in_incident);
        // A collection outside the sampled share represents only itself.
        let state = match decided {
            Ok(()) => self.selection.trace_state(),
            Err(_) if !anomalies.is_empty() => "",
            Err(why) => return Err(why),
        };
        let spans = tree::spans(collection, base, &ids, &self.ids, &self.options, state, anomalies);
        Ok((ids.root(), spans))
    }

    /// The pauses in a request's own trace, where it is among those that get them.
    ///
    /// # Errors
    ///
    /// Why it does not.
    pub fn trace_request(&mut self, request: &Request, base: UnixBase) -> Result<Encoded, NotExported> {
        let is_meant = self.options.enabled && victim::is_meant(&self.options.requests, request);
        if !is_meant {
            return Err(NotExported::NotSelected);
        }
        if !self.victims.take(base.moment(request.end)) {
            return Err(NotExported::OverRate);
        }
        victim::spans(request, base, &self.ids).ok_or(NotExported::NotSelected)
    }
}
