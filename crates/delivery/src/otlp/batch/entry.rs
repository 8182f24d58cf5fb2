//! Queued items: encoded when they are given, so that what waits is as small as on the wire.

use std::sync::Arc;

use gc_telemetry::origin::Origin;
use prost::Message;

use crate::otlp::batch::field::{FIELD_2, field_len, put_header};
use crate::otlp::batch::{SCHEMA_URL, SCOPE};

/// One entry of the queue: a log record, a span or the spans of one collection, or the metrics of one process at one
/// time.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(super) resource: Arc<Origin>,
    /// Spans, log records or data points in it.
    items: u64,
    /// What it counts against the limit on items.
    weight: usize,
    /// The encoded items, each with tag and length as a `Scope*` message has them.
    pub(super) fields: Box<[u8]>,
    /// The encoded tables that it refers to; empty: none. A request has those of one entry only.
    pub(super) dictionary: Box<[u8]>,
}

impl Entry {
    /// `messages` in one entry that counts as one; `items` is how many items they are.
    pub(crate) fn new<M: Message>(resource: &Arc<Origin>, messages: &[M], items: u64) -> Self {
        let size = messages.iter().map(|message| field_len(message.encoded_len())).sum();
        let mut fields = Vec::with_capacity(size);
        for message in messages {
            put_header(&mut fields, FIELD_2, message.encoded_len());
            // It fails only where the buffer cannot grow.
            let _grown = message.encode(&mut fields);
        }
        Self {
            resource: Arc::clone(resource),
            items,
            weight: 1,
            fields: fields.into_boxed_slice(),
            dictionary: Box::default(),
        }
    }

    /// A profile and the tables that it refers to.
    pub(crate) fn profile<M: Message, D: Message>(resource: &Arc<Origin>, profile: &M, dictionary: &D) -> Self {
        Self {
            dictionary: dictionary.encode_to_vec().into_boxed_slice(),
            ..Self::new(resource, std::slice::from_ref(profile), 1)
        }
    }

    /// Items that are encoded already, each with tag and length.
    pub(crate) fn encoded(resource: &Arc<Origin>, fields: Box<[u8]>, items: u64) -> Self {
        Self {
            resource: Arc::clone(resource),
            items,
            weight: usize::try_from(items).unwrap_or(usize::MAX),
            fields,
            dictionary: Box::default(),
        }
    }

    /// What it counts against the limit on items.
    pub(crate) fn weight(&self) -> usize {
        self.weight
    }

    /// Spans, log records or data points in it.
    pub(crate) fn items(&self) -> u64 {
        self.items
    }

    /// Its encoded bytes, without its resource.
    pub(crate) fn bytes(&self) -> usize {
        self.fields.len() + self.dictionary.len()
    }

    /// An upper limit on what a request grows by when this entry's resource is not in it yet.
    pub(crate) fn resource_bytes(&self) -> usize {
        // Four headers of one byte of tag and at most five of length: Resource*, resource, Scope*, and what rounding
        // adds.
        4 * 6 + self.resource.encoded().len() + field_len(SCOPE.len()) + 2 * field_len(SCHEMA_URL.len())
    }

    /// Identifies the resource by address: while both entries live, equal keys mean equal resources.
    pub(crate) fn resource_key(&self) -> usize {
        Arc::as_ptr(&self.resource).addr()
    }
}
