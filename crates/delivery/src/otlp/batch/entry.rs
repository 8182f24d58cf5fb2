//! Entries of the queue: items that were encoded on arrival and are therefore as small as on the wire.

use std::sync::Arc;

use gc_telemetry::origin::Origin;
use prost::Message;

use crate::otlp::batch::field::{FIELD_2, field_len, put_header};
use crate::otlp::batch::{SCHEMA_URL, SCOPE};

/// An entry of the queue: a log record, a span, the spans of one collection, or the metrics of one process at one time.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(super) resource: Arc<Origin>,
    /// Number of spans, log records or data points.
    items: u64,
    /// Weight of the entry in the limit on items.
    weight: usize,
    /// The encoded items, each with tag and length as in a `Scope*` message.
    pub(super) fields: Box<[u8]>,
}

impl Entry {
    /// Creates an entry of weight 1 from messages that contain `items` items.
    pub(crate) fn new<M: Message>(resource: &Arc<Origin>, messages: &[M], items: u64) -> Self {
        let size = messages.iter().map(|message| field_len(message.encoded_len())).sum();
        let mut fields = Vec::with_capacity(size);
        for message in messages {
            put_header(&mut fields, FIELD_2, message.encoded_len());
            // This fails only if the buffer cannot grow.
            let _grown = message.encode(&mut fields);
        }
        Self {
            resource: Arc::clone(resource),
            items,
            weight: 1,
            fields: fields.into_boxed_slice(),
        }
    }

    /// Creates an entry from encoded items, each with tag and length. The weight is the number of items.
    pub(crate) fn encoded(resource: &Arc<Origin>, fields: Box<[u8]>, items: u64) -> Self {
        Self {
            resource: Arc::clone(resource),
            items,
            weight: usize::try_from(items).unwrap_or(usize::MAX),
            fields,
        }
    }

    /// Returns the weight of the entry in the limit on items.
    pub(crate) fn weight(&self) -> usize {
        self.weight
    }

    /// Returns the number of spans, log records or data points.
    pub(crate) fn items(&self) -> u64 {
        self.items
    }

    /// Returns the number of encoded bytes without the resource.
    pub(crate) fn bytes(&self) -> usize {
        self.fields.len()
    }

    /// Returns the maximum size that the resource of this entry adds to a request.
    pub(crate) fn resource_bytes(&self) -> usize {
        // Four headers with a tag of one byte and a length of at most five bytes: Resource*, resource, Scope*, and a
        // reserve for rounding.
        4 * 6 + self.resource.encoded().len() + field_len(SCOPE.len()) + 2 * field_len(SCHEMA_URL.len())
    }

    /// Returns the address of the resource as a key. While two entries exist, equal keys mean equal resources.
    pub(crate) fn resource_key(&self) -> usize {
        Arc::as_ptr(&self.resource).addr()
    }
}
