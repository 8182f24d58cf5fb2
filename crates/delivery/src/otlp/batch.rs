//! Queued items, and requests built from them.
//!
//! An item is encoded when it is added. Queued items are therefore as small as on the wire, their size is known
//! exactly, and a request is a concatenation of items with length prefixes. All signals have the same layout (with the
//! field numbers of `opentelemetry-proto`), so the same code writes the requests of all signals:
//!
//! ```text
//! Export*ServiceRequest {
//!   1: Resource* { 1: resource, 2: Scope* { 1: scope, 2: span | metric | log record, 3: schema_url }, 3: schema_url }
//! }
//! ```

mod entry;
mod field;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use prost::Message;
use prost::bytes::BufMut;

use gc_telemetry::origin::Origin;

pub(crate) use crate::otlp::batch::entry::Entry;
use crate::otlp::batch::field::{FIELD_1, FIELD_2, FIELD_3, field_len, put_field, put_header};
use crate::otlp::split;

/// Schema URL with the version of the semantic conventions for names and units.
pub(crate) const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.44.0";

/// Name of the instrumentation scope of everything that gcwatch exports.
pub(crate) const SCOPE_NAME: &str = "gcwatch";

/// Version of the scope, which is the version of gcwatch.
pub(crate) const SCOPE_VERSION: &str = env!("CARGO_PKG_VERSION");

/// The scope, encoded once.
static SCOPE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    InstrumentationScope {
        name: SCOPE_NAME.to_owned(),
        version: SCOPE_VERSION.to_owned(),
        ..InstrumentationScope::default()
    }
    .encode_to_vec()
});

/// The entries of one resource.
#[derive(Debug)]
struct Group {
    resource: Arc<Origin>,
    /// Index after the last entry of the group in the batch.
    end: usize,
    /// Number of encoded bytes of the entries.
    fields_len: usize,
}

impl Group {
    /// Returns the length of the `Scope*` message.
    fn scope_len(&self) -> usize {
        field_len(SCOPE.len()) + self.fields_len + field_len(SCHEMA_URL.len())
    }

    /// Returns the length of the `Resource*` message.
    fn len(&self) -> usize {
        field_len(self.resource.encoded().len()) + field_len(self.scope_len()) + field_len(SCHEMA_URL.len())
    }
}

/// A request: entries grouped by resource, or an encoded request from the disk.
#[derive(Debug)]
pub(crate) struct Batch {
    /// An encoded request; `None` if the batch has entries.
    stored: Option<Vec<u8>>,
    /// Entries in the order of their groups, within a group in the order of arrival.
    entries: Vec<Entry>,
    groups: Vec<Group>,
    items: u64,
    len: usize,
}

impl Batch {
    /// Groups `entries` by resource: by address first, then by value.
    pub(crate) fn new(entries: Vec<Entry>) -> Self {
        let mut groups: Vec<Group> = Vec::new();
        let mut by_address: HashMap<usize, usize> = HashMap::new();
        let mut by_value: HashMap<Arc<Origin>, usize> = HashMap::new();
        let mut placed: Vec<(usize, Entry)> = Vec::with_capacity(entries.len());
        for entry in entries {
            let place = *by_address.entry(entry.resource_key()).or_insert_with(|| {
                let resource = Arc::clone(&entry.resource);
                *by_value.entry(resource).or_insert_with_key(|resource| {
                    groups.push(Group {
                        resource: Arc::clone(resource),
                        end: 0,
                        fields_len: 0,
                    });
                    groups.len() - 1
                })
            });
            if let Some(group) = groups.get_mut(place) {
                group.end += 1;
                group.fields_len += entry.fields.len();
            }
            placed.push((place, entry));
        }
        placed.sort_by_key(|(place, _)| *place);
        let mut end = 0;
        for group in &mut groups {
            end += group.end;
            group.end = end;
        }
        let entries: Vec<Entry> = placed.into_iter().map(|(_, entry)| entry).collect();
        let items = entries.iter().map(Entry::items).sum();
        let len = groups.iter().map(|group| field_len(group.len())).sum();
        Self {
            stored: None,
            entries,
            groups,
            items,
            len,
        }
    }

    /// Creates a batch from a request that was [encoded](Self::encode) before.
    pub(crate) fn stored(request: Vec<u8>, items: u64) -> Self {
        Self {
            entries: Vec::new(),
            groups: Vec::new(),
            items,
            len: request.len(),
            stored: Some(request),
        }
    }

    /// Returns the entries of a batch; a stored request has no entries. If the batch is shared, the entries are copied.
    pub(crate) fn into_entries(batch: Arc<Self>) -> Vec<Entry> {
        match Arc::try_unwrap(batch) {
            Ok(batch) => batch.entries,
            Err(shared) => shared.entries.clone(),
        }
    }

    /// Returns the encoded request.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len);
        self.encode(&mut bytes);
        bytes
    }

    /// Returns the number of spans, log records or data points.
    pub(crate) fn items(&self) -> u64 {
        self.items
    }

    /// Returns the length of the encoded request.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Writes the encoded request: exactly [`len`](Self::len) bytes.
    pub(crate) fn encode(&self, out: &mut impl BufMut) {
        if let Some(stored) = &self.stored {
            return out.put_slice(stored);
        }
        let mut entries = self.entries.iter();
        let mut begin = 0;
        for group in &self.groups {
            put_header(out, FIELD_1, group.len());
            put_field(out, FIELD_1, group.resource.encoded());
            put_header(out, FIELD_2, group.scope_len());
            put_field(out, FIELD_1, &SCOPE);
            for entry in entries.by_ref().take(group.end - begin) {
                out.put_slice(&entry.fields);
            }
            put_field(out, FIELD_3, SCHEMA_URL.as_bytes());
            put_field(out, FIELD_3, SCHEMA_URL.as_bytes());
            begin = group.end;
        }
    }

    /// Splits the batch into two batches with half of the entries each, or of the messages for a stored request.
    /// Returns the batch as the error if it cannot be split.
    pub(crate) fn halve(mut self) -> Result<(Self, Self), Self> {
        if let Some(request) = &self.stored {
            return match split::halves(request, self.items) {
                Some([(first, its_items), (second, others)]) => {
                    Ok((Self::stored(first, its_items), Self::stored(second, others)))
                }
                None => Err(self),
            };
        }
        if self.entries.len() < 2 {
            return Err(self);
        }
        let second = self.entries.split_off(self.entries.len() / 2);
        Ok((Self::new(self.entries), Self::new(second)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
    use opentelemetry_proto::tonic::resource::v1::Resource;
    use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
    use proptest::prelude::*;

    fn resource(size: usize) -> Origin {
        let value = Some(AnyValue {
            value: Some(any_value::Value::StringValue("r".repeat(size))),
        });
        let attribute = KeyValue {
            key: "service.name".to_owned(),
            value,
            ..KeyValue::default()
        };
        Origin::new(vec![attribute])
    }

    fn span(number: usize, size: usize) -> Span {
        Span {
            name: format!("{number}"),
            trace_state: "t".repeat(size),
            ..Span::default()
        }
    }

    /// Returns the request that a batch of these spans must equal, built with the generated types.
    fn expected(given: &[(usize, Span)]) -> ExportTraceServiceRequest {
        let mut parts: Vec<(usize, Vec<Span>)> = Vec::new();
        for (size, span) in given {
            match parts.iter_mut().find(|(known, _)| known == size) {
                Some((_, spans)) => spans.push(span.clone()),
                None => parts.push((*size, vec![span.clone()])),
            }
        }
        let part = |(size, spans)| ResourceSpans {
            resource: Some(Resource::clone(&resource(size))),
            scope_spans: vec![ScopeSpans {
                scope: Some(InstrumentationScope {
                    name: "gcwatch".to_owned(),
                    version: env!("CARGO_PKG_VERSION").to_owned(),
                    ..InstrumentationScope::default()
                }),
                spans,
                schema_url: SCHEMA_URL.to_owned(),
            }],
            schema_url: SCHEMA_URL.to_owned(),
        };
        ExportTraceServiceRequest {
            resource_spans: parts.into_iter().map(part).collect(),
        }
    }

    proptest! {
        /// Scenario: batches contain spans of several processes. Some spans are small, some have three-byte lengths,
        /// and some have equal but distinct resources.
        /// Guarantee: the encoding equals the encoding of the generated types byte for byte, has the computed length,
        /// and does not exceed the bound by which the queue divides items into requests; after repeated halving, every
        /// span occurs once.
        #[test]
        fn batch_matches_generated_types(
            sizes in proptest::collection::vec((0..6_usize, any::<bool>(), prop_oneof![0..200_usize, 16_000..17_000_usize]), 1..40),
        ) {
            let shared: Vec<Arc<Origin>> = (0..6).map(|which| Arc::new(resource(which * 50))).collect();
            let mut given = Vec::new();
            let mut entries = Vec::new();
            for (number, (which, own, size)) in sizes.into_iter().enumerate() {
                let one = if own { Arc::new(resource(which * 50)) } else { Arc::clone(&shared[which]) };
                let span = span(number, size);
                entries.push(Entry::new(&one, std::slice::from_ref(&span), 1));
                given.push((which * 50, span));
            }
            let mut seen = std::collections::HashSet::new();
            let bound: usize = entries
                .iter()
                .map(|entry| entry.bytes() + if seen.insert(entry.resource_key()) { entry.resource_bytes() } else { 0 })
                .sum();
            let batch = Batch::new(entries);
            let mut encoded = Vec::new();
            batch.encode(&mut encoded);
            prop_assert_eq!(encoded.len(), batch.len());
            prop_assert!(batch.len() <= bound);
            prop_assert_eq!(batch.items(), given.len() as u64);
            prop_assert_eq!(encoded, expected(&given).encode_to_vec());

            let mut names = Vec::new();
            let mut parts = vec![batch];
            while let Some(part) = parts.pop() {
                match part.halve() {
                    Ok((first, second)) => parts.extend([second, first]),
                    Err(whole) => {
                        let mut encoded = Vec::new();
                        whole.encode(&mut encoded);
                        let request = ExportTraceServiceRequest::decode(encoded.as_slice()).unwrap();
                        names.push(request.resource_spans[0].scope_spans[0].spans[0].name.clone());
                    }
                }
            }
            names.sort_by_key(|name| name.parse::<usize>().unwrap());
            prop_assert_eq!(names, (0..given.len()).map(|number| number.to_string()).collect::<Vec<_>>());
        }
    }

    /// Scenario: an entry contains the bytes of several spans.
    /// Guarantee: the size of the entry is the exact size of the encoded spans with tags and lengths.
    #[test]
    fn entry_size_is_exact() {
        let one = Arc::new(resource(3));
        let spans = [span(1, 5), span(2, 300)];
        let entry = Entry::new(&one, &spans, 2);
        assert_eq!(
            entry.bytes(),
            spans.iter().map(|span| field_len(span.encoded_len())).sum::<usize>()
        );
        assert_eq!(entry.items(), 2);
    }
}
