//! Halves encoded requests of any signal. The signals have the same layout (see [`crate::otlp::batch`]).

use gc_telemetry::snapshot::points;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use prost::Message;

/// `Export*ServiceRequest`.
#[derive(Clone, PartialEq, Message)]
struct Request {
    #[prost(message, repeated, tag = "1")]
    resources: Vec<Resource>,
}

/// `Resource*`.
#[derive(Clone, PartialEq, Message)]
struct Resource {
    #[prost(bytes = "vec", optional, tag = "1")]
    resource: Option<Vec<u8>>,
    #[prost(message, repeated, tag = "2")]
    scopes: Vec<Scope>,
    #[prost(string, tag = "3")]
    schema_url: String,
}

/// `Scope*`.
#[derive(Clone, PartialEq, Message)]
struct Scope {
    #[prost(bytes = "vec", optional, tag = "1")]
    scope: Option<Vec<u8>>,
    /// Encoded spans, metrics or log records.
    #[prost(bytes = "vec", repeated, tag = "2")]
    messages: Vec<Vec<u8>>,
    #[prost(string, tag = "3")]
    schema_url: String,
}

impl Request {
    fn messages(&self) -> usize {
        let scopes = self.resources.iter().flat_map(|resource| &resource.scopes);
        scopes.map(|scope| scope.messages.len()).sum()
    }

    /// Returns a part of the request: the messages from `from` up to but excluding `to`.
    fn part(&self, from: usize, to: usize) -> Self {
        let mut at = 0;
        let mut part = Self::default();
        for resource in &self.resources {
            let mut scopes = Vec::new();
            for scope in &resource.scopes {
                let begin = from.saturating_sub(at).min(scope.messages.len());
                let end = to.saturating_sub(at).min(scope.messages.len());
                at += scope.messages.len();
                let messages = scope.messages.get(begin..end).unwrap_or_default().to_vec();
                if !messages.is_empty() {
                    scopes.push(Scope {
                        scope: scope.scope.clone(),
                        messages,
                        schema_url: scope.schema_url.clone(),
                    });
                }
            }
            if !scopes.is_empty() {
                part.resources.push(Resource {
                    resource: resource.resource.clone(),
                    scopes,
                    schema_url: resource.schema_url.clone(),
                });
            }
        }
        part
    }

    /// Returns the number of data points of all messages, which are metrics.
    fn points(&self) -> u64 {
        let scopes = self.resources.iter().flat_map(|resource| &resource.scopes);
        let metrics = scopes.flat_map(|scope| &scope.messages);
        let each = metrics.map(|metric| Metric::decode(metric.as_slice()).map_or(0, |metric| points(&metric)));
        each.sum::<usize>() as u64
    }
}

/// Returns two requests with half of the messages each, and their numbers of items; `None` if there is only one
/// message, or if the request cannot be decoded. `items` is the number of items in the whole request.
pub(crate) fn halves(request: &[u8], items: u64) -> Option<[(Vec<u8>, u64); 2]> {
    let whole = Request::decode(request).ok()?;
    let messages = whole.messages();
    if messages < 2 {
        return None;
    }
    let (first, second) = (whole.part(0, messages / 2), whole.part(messages / 2, messages));
    // A span or log record is one item. A metric has one item per data point.
    let first_items = if items == messages as u64 {
        first.messages() as u64
    } else {
        first.points().min(items)
    };
    Some([
        (first.encode_to_vec(), first_items),
        (second.encode_to_vec(), items - first_items),
    ])
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use gc_telemetry::origin::Origin;
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use opentelemetry_proto::tonic::metrics::v1::{Gauge, NumberDataPoint, metric};
    use opentelemetry_proto::tonic::trace::v1::Span;

    use super::*;
    use crate::otlp::batch::{Batch, Entry};

    /// Scenario: a stored request with spans of two processes is halved until each part has one span.
    /// Guarantee: every span occurs once, with its resource and scope, in order; the numbers of items add up.
    #[test]
    fn stored_request_is_halved_to_single_spans() {
        let entries: Vec<Entry> = (0..7)
            .map(|number| {
                let resource = Arc::new(Origin::new(Vec::new()));
                let span = Span {
                    name: format!("{number}"),
                    ..Span::default()
                };
                Entry::new(&resource, &[span], 1)
            })
            .collect();
        let batch = Batch::new(entries);
        let mut parts = vec![Batch::stored(batch.to_bytes(), batch.items())];
        let mut names = Vec::new();
        while let Some(part) = parts.pop() {
            match part.halve() {
                Ok((first, second)) => parts.extend([second, first]),
                Err(whole) => {
                    assert_eq!(whole.items(), 1);
                    let request = ExportTraceServiceRequest::decode(whole.to_bytes().as_slice()).unwrap();
                    let resource = &request.resource_spans[0];
                    assert_eq!(resource.scope_spans[0].scope.as_ref().unwrap().name, "gcwatch");
                    assert!(resource.resource.is_some());
                    names.push(resource.scope_spans[0].spans[0].name.clone());
                }
            }
        }
        assert_eq!(names, ["0", "1", "2", "3", "4", "5", "6"]);
    }

    /// Scenario: a stored request of three metrics with one, two and three points is halved.
    /// Guarantee: the items of each half are its data points.
    #[test]
    fn metrics_count_data_points() {
        let metrics: Vec<Metric> = (1..=3)
            .map(|points| Metric {
                data: Some(metric::Data::Gauge(Gauge {
                    data_points: vec![NumberDataPoint::default(); points],
                })),
                ..Metric::default()
            })
            .collect();
        let batch = Batch::new(vec![Entry::new(&Arc::new(Origin::new(Vec::new())), &metrics, 6)]);
        let [(_, first), (_, second)] = halves(&batch.to_bytes(), 6).unwrap();
        assert_eq!((first, second), (1, 5));
    }
}
