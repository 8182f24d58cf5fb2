//! Spans: one trace per collection.
//!
//! ```text
//! GC gen2 background                from SuspendEEBegin of its first suspension to GCEnd
//! |- GC pause initial               part of the suspension for this collection
//! |  |- GC suspend                  SuspendEEBegin to SuspendEEEnd, if at least 1 ms
//! |  |- GC collect                  from GCStart to RestartEEBegin
//! |  '- GC restart                  RestartEEBegin to RestartEEEnd, if at least 1 ms
//! |- GC concurrent mark             concurrent with the program
//! |- GC pause final
//! |  |- GC suspend
//! |  |- GC collect
//! |  '- GC restart
//! '- GC concurrent sweep            concurrent with the program, to GCEnd
//! ```
//!
//! A blocking collection has one `GC pause`, with `GC collect` from GCStart to GCEnd. If several collections share a
//! suspension, each collection has a separate part, so that the sum of the pauses in all traces is the time that the
//! process was paused. A background collection with another collection inside its first suspension has two `GC pause
//! initial` spans, before and after the other collection.
//!
//! **No invented time**: a span exists only if both of its ends were observed, the root spans the time from the first
//! to the last known time, and `gcwatch.gc.missing` names the unobserved parts. The durations of phases have no start
//! times; they are attributes.

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

/// Creator of the spans of one run of a process.
#[derive(Debug)]
pub struct Tracer {
    options: SpanOptions,
    ids: Ids,
    selection: Selection,
    victims: TokenBucket,
}

/// Spans as encoded OTLP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedSpans {
    /// Concatenated fields `spans` of `ScopeSpans`.
    fields: Box<[u8]>,
    count: u64,
}

impl EncodedSpans {
    /// Returns the number of spans.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the bytes: concatenated fields `spans` (number 2) of a `ScopeSpans` message, each with tag and length.
    pub fn into_fields(self) -> Box<[u8]> {
        self.fields
    }

    /// Returns the spans as messages, for tests and tools.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes are not from a [`Tracer`].
    pub fn decode(&self) -> Result<Vec<Span>, DecodeError> {
        ScopeSpans::decode(&*self.fields).map(|scope| scope.spans)
    }
}

impl Tracer {
    /// Creates the tracer of one run of a process. The ids of its spans depend only on `seed` and the collection.
    pub fn new(options: SpanOptions, seed: [u8; 16]) -> Self {
        let selection = Selection::new(&options);
        Self {
            victims: TokenBucket::new(options.requests.max_per_second),
            options,
            ids: Ids::new(seed),
            selection,
        }
    }

    /// Sets the options for the following collections.
    pub fn set_options(&mut self, options: SpanOptions) {
        self.selection.set_options(&options);
        self.options = options;
    }

    /// Returns the ids of the root span, for exemplars and log records, and the spans of a collection, root first. If
    /// rules hold on the collection (`anomalies`), the root names the rules, and the collection is exported regardless
    /// of the options for generation, pause, share and rate. While an incident of the process is open (`in_incident`),
    /// some short collections are exported too.
    ///
    /// # Errors
    ///
    /// Returns the reason if the collection is not exported.
    pub fn trace(
        &mut self,
        collection: &Collection,
        base: UnixBase,
        anomalies: &[Anomaly<'_>],
        in_incident: bool,
    ) -> Result<(SpanIds, EncodedSpans), NotExported> {
        if !self.options.enabled {
            return Err(NotExported::NotSelected);
        }
        let ids = self.ids.next(collection);
        let at = base.moment(collection.last_event);
        let decided = self.selection.decide(collection, ids.root(), at, in_incident);
        // A collection that is exported only because of a rule represents only itself, so it has no sampling threshold.
        let state = match decided {
            Ok(()) => self.selection.trace_state(),
            Err(_) if !anomalies.is_empty() => "",
            Err(why) => return Err(why),
        };
        let spans = tree::spans(collection, base, &ids, &self.ids, &self.options, state, anomalies);
        Ok((ids.root(), spans))
    }

    /// Returns the spans of a request's pauses, for the trace of the request.
    ///
    /// # Errors
    ///
    /// Returns the reason if the request is not exported.
    pub fn trace_request(&mut self, request: &Request, base: UnixBase) -> Result<EncodedSpans, NotExported> {
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
