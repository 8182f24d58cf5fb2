//! Requests as their own spans report them: what an OTLP export has of them.
//!
//! Spans of kinds SERVER and CONSUMER are requests. Their times are those of the host's wall clock. Only sampled
//! requests are exported, so that shares of them are shares of sampled requests.
//!
//! Numbers of fields: `opentelemetry/proto/trace/v1/trace.proto` and its imports; attributes: the semantic conventions
//! of resources and of HTTP.

use crate::payload::Ended;
pub use crate::wire::Malformed;
use crate::wire::{Field, Fields};

/// Longest text of a resource that is kept; a longer one says nothing.
const MAX_TEXT_BYTES: usize = 256;
/// Requests that are taken of one export: twice what a Collector's batch has.
pub const MAX_REQUESTS: usize = 16_384;

/// `Span.SpanKind`.
const SERVER: u64 = 2;
/// `Span.SpanKind`.
const CONSUMER: u64 = 5;
/// `Status.StatusCode`.
const ERROR: u64 = 2;

/// What a resource says of the process that its spans are of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Source {
    /// `process.pid`, in the namespace of the process.
    pub pid: Option<u32>,
    /// `container.id`.
    pub container_id: Option<String>,
    /// `k8s.pod.uid`.
    pub pod_uid: Option<String>,
    /// `service.instance.id`.
    pub instance: Option<String>,
    /// `host.name`.
    pub host: Option<String>,
}

/// A request by its span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reported {
    /// What it says; `end_ticks` is 0, as no stream says it.
    pub ended: Ended,
    /// When it ended, Unix nanoseconds.
    pub end_unix_ns: i64,
}

/// The spans of one resource.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spans {
    /// Whose they are.
    pub source: Source,
    /// Those that are requests.
    pub requests: Vec<Reported>,
    /// Spans that are none.
    pub others: u64,
    /// Requests that were left out: the export has more than [`MAX_REQUESTS`].
    pub left_out: u64,
}

/// Reads an `ExportTraceServiceRequest`, resource by resource.
///
/// # Errors
///
/// When it is none; resources before the damage were read.
pub fn read(export: &[u8], mut each: impl FnMut(Spans)) -> Result<(), Malformed> {
    let mut room = MAX_REQUESTS;
    for resource_spans in messages(export, 1) {
        let spans = of_resource(resource_spans?, room)?;
        room -= spans.requests.len();
        each(spans);
    }
    Ok(())
}

/// The messages, bytes or texts of one field.
fn messages(message: &[u8], number: u32) -> impl Iterator<Item = Result<&[u8], Malformed>> {
    Fields::of(message).filter_map(move |field| match field {
        Ok((found, Field::Bytes(bytes))) if found == number => Some(Ok(bytes)),
        Ok(_) => None,
        Err(error) => Some(Err(error)),
    })
}

fn of_resource(resource_spans: &[u8], room: usize) -> Result<Spans, Malformed> {
    let mut spans = Spans::default();
    for resource in messages(resource_spans, 1) {
        for attribute in messages(resource?, 1) {
            spans.source.set(attribute?)?;
        }
    }
    for scope_spans in messages(resource_spans, 2) {
        for span in messages(scope_spans?, 2) {
            match request(span?)? {
                Some(request) if spans.requests.len() < room => spans.requests.push(request),
                Some(_) => spans.left_out += 1,
                None => spans.others += 1,
            }
        }
    }
    Ok(spans)
}

impl Source {
    fn set(&mut self, attribute: &[u8]) -> Result<(), Malformed> {
        let Some((key, value)) = key_value(attribute)? else {
            return Ok(());
        };
        match key {
            b"process.pid" => self.pid = value.whole().and_then(|pid| u32::try_from(pid).ok()),
            b"container.id" => self.container_id = value.text(),
            b"k8s.pod.uid" => self.pod_uid = value.text(),
            b"service.instance.id" => self.instance = value.text(),
            b"host.name" => self.host = value.text(),
            _ => {}
        }
        Ok(())
    }
}

/// `None`: it is no request, or its times are none.
fn request(span: &[u8]) -> Result<Option<Reported>, Malformed> {
    let (mut kind, mut start, mut end) = (0, 0, 0);
    let mut ended = Ended {
        sampled: Some(true),
        ..Ended::default()
    };
    // By the newer name of the attribute, and by the older one.
    let mut status = [None; 2];
    // A route is a pattern of the program's own; without one, what was asked for.
    let mut path = [const { None }; 3];
    for field in Fields::of(span) {
        match field? {
            (1, Field::Bytes(bytes)) => ended.trace_id = id(bytes),
            (2, Field::Bytes(bytes)) => ended.span_id = id(bytes),
            (4, Field::Bytes(bytes)) => ended.parent_span_id = id(bytes),
            (6, Field::Varint(number)) => kind = number,
            (7, Field::Fixed64(ns)) => start = ns,
            (8, Field::Fixed64(ns)) => end = ns,
            (9, Field::Bytes(attribute)) => match key_value(attribute)? {
                Some((b"http.response.status_code", value)) => status[0] = value.whole(),
                Some((b"http.status_code", value)) => status[1] = value.whole(),
                Some((b"http.route", value)) => path[0] = value.text(),
                Some((b"url.path", value)) => path[1] = value.text(),
                Some((b"http.target", value)) => path[2] = value.text(),
                _ => {}
            },
            (15, Field::Bytes(of_status)) => {
                for field in Fields::of(of_status) {
                    if let (3, Field::Varint(code)) = field? {
                        ended.failed = code == ERROR;
                    }
                }
            }
            _ => {}
        }
    }
    let time = |ns: u64| i64::try_from(ns).ok().filter(|ns| *ns > 0);
    let Some(end_unix_ns) = time(end).filter(|_| matches!(kind, SERVER | CONSUMER)) else {
        return Ok(None);
    };
    ended.start_unix_ns = time(start).filter(|start| *start <= end_unix_ns);
    ended.path = path.into_iter().flatten().next();
    let status = status.into_iter().flatten().next();
    ended.status = status.and_then(|status| u16::try_from(status).ok());
    Ok(Some(Reported { ended, end_unix_ns }))
}

/// Ids of another length, or of zeros, are none.
fn id<const LENGTH: usize>(bytes: &[u8]) -> Option<[u8; LENGTH]> {
    let id: Option<[u8; LENGTH]> = bytes.try_into().ok();
    id.filter(|id| id.iter().any(|byte| *byte != 0))
}

/// The value of an attribute, as far as it is read here.
enum Value<'a> {
    Text(&'a [u8]),
    Whole(i64),
}

impl Value<'_> {
    fn text(&self) -> Option<String> {
        match self {
            Self::Text(text) if !text.is_empty() && text.len() <= MAX_TEXT_BYTES => {
                str::from_utf8(text).ok().map(str::to_owned)
            }
            _ => None,
        }
    }

    /// A number, also one that is written as text: a Collector's processors make such.
    fn whole(&self) -> Option<i64> {
        match self {
            Self::Whole(number) => Some(*number),
            Self::Text(text) => str::from_utf8(text).ok()?.parse().ok(),
        }
    }
}

/// An attribute; `None`: its value is of another kind.
fn key_value(attribute: &[u8]) -> Result<Option<(&[u8], Value<'_>)>, Malformed> {
    let (mut key, mut value) = (&[][..], None);
    for field in Fields::of(attribute) {
        match field? {
            (1, Field::Bytes(bytes)) => key = bytes,
            (2, Field::Bytes(any)) => {
                for field in Fields::of(any) {
                    value = match field? {
                        (1, Field::Bytes(text)) => Some(Value::Text(text)),
                        // Two's complement.
                        (3, Field::Varint(number)) => Some(Value::Whole(number.cast_signed())),
                        _ => None,
                    };
                }
            }
            _ => {}
        }
    }
    Ok(value.map(|value| (key, value)))
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use opentelemetry_proto::tonic::common::v1::any_value::Value;
    use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
    use opentelemetry_proto::tonic::resource::v1::Resource;
    use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
    use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
    use proptest::prelude::*;
    use prost::Message as _;

    use super::{MAX_REQUESTS, Source, Spans, read};

    fn attribute(key: &str, value: Value) -> KeyValue {
        KeyValue {
            key: key.to_owned(),
            value: Some(AnyValue { value: Some(value) }),
            ..KeyValue::default()
        }
    }

    fn span(kind: SpanKind, times: (u64, u64)) -> Span {
        Span {
            trace_id: vec![7; 16],
            span_id: vec![8; 8],
            kind: kind as i32,
            start_time_unix_nano: times.0,
            end_time_unix_nano: times.1,
            ..Span::default()
        }
    }

    fn export(attributes: Vec<KeyValue>, spans: Vec<Span>) -> Spans {
        let resource_spans = ResourceSpans {
            resource: Some(Resource {
                attributes,
                ..Resource::default()
            }),
            scope_spans: vec![ScopeSpans {
                spans,
                ..ScopeSpans::default()
            }],
            ..ResourceSpans::default()
        };
        let export = ExportTraceServiceRequest {
            resource_spans: vec![resource_spans],
        };
        let mut found = Vec::new();
        read(&export.encode_to_vec(), |spans| found.push(spans)).unwrap();
        found.pop().unwrap()
    }

    /// Scenario: a server's, a consumer's, a client's and an internal span, one of the first without a parent.
    /// Guarantee: the first two are requests, with their ids and status; the others are counted.
    #[test]
    fn spans_of_servers_and_consumers_are_requests() {
        let mut server = span(SpanKind::Server, (100, 200));
        server.attributes = vec![attribute("http.response.status_code", Value::IntValue(503))];
        let consumer = span(SpanKind::Consumer, (300, 400));
        let rest = [SpanKind::Client, SpanKind::Internal].map(|kind| span(kind, (1, 2)));
        let spans = export(Vec::new(), [server, consumer].into_iter().chain(rest).collect());
        assert_eq!(spans.others, 2);
        let [first, second] = &spans.requests[..] else {
            panic!("{spans:?}")
        };
        assert_eq!((first.ended.start_unix_ns, first.end_unix_ns), (Some(100), 200));
        assert_eq!((first.ended.status, second.ended.status), (Some(503), None));
        assert_eq!(
            (first.ended.trace_id, first.ended.parent_span_id),
            (Some([7; 16]), None)
        );
    }

    /// Scenario: ids of other lengths or of zeros, an end of 0, a start after the end, times beyond 64 bits signed.
    /// Guarantee: what cannot be is unknown; without an end it is no request.
    #[test]
    fn what_cannot_be_is_unknown() {
        let mut odd = span(SpanKind::Server, (500, 200));
        odd.trace_id = vec![0; 16];
        odd.span_id = vec![1; 3];
        let ends = [0, u64::MAX].map(|end| span(SpanKind::Server, (1, end)));
        let spans = export(Vec::new(), [odd].into_iter().chain(ends).collect());
        assert_eq!((spans.requests.len(), spans.others), (1, 2));
        let ended = &spans.requests[0].ended;
        assert_eq!((ended.start_unix_ns, ended.trace_id, ended.span_id), (None, None, None));
    }

    /// Scenario: a resource with all names by which a process is known, a pid as text, and a name that is too long.
    /// Guarantee: they are read; what is too long says nothing.
    #[test]
    fn a_resource_says_whose_its_spans_are() {
        let spans = export(
            vec![
                attribute("process.pid", Value::StringValue("17".to_owned())),
                attribute("container.id", Value::StringValue("c".repeat(64))),
                attribute("k8s.pod.uid", Value::StringValue("p".to_owned())),
                attribute("service.instance.id", Value::StringValue("i".repeat(300))),
                attribute("host.name", Value::IntValue(4)),
            ],
            Vec::new(),
        );
        let expected = Source {
            pid: Some(17),
            container_id: Some("c".repeat(64)),
            pod_uid: Some("p".to_owned()),
            instance: None,
            host: None,
        };
        assert_eq!(spans.source, expected);
    }

    /// Scenario: an export with more requests than are taken of one.
    /// Guarantee: the others are counted.
    #[test]
    fn what_is_left_out_is_counted() {
        let spans = export(Vec::new(), vec![span(SpanKind::Server, (1, 2)); MAX_REQUESTS + 3]);
        assert_eq!((spans.requests.len(), spans.left_out), (MAX_REQUESTS, 3));
    }

    prop_compose! {
        fn any_span()(
            kind in 0..7_i32,
            times in any::<(u64, u64)>(),
            ids in (prop::collection::vec(any::<u8>(), 0..18), prop::collection::vec(any::<u8>(), 0..10)),
            status in prop::option::of((any::<i64>(), 0..4_i32)),
            name in ".*",
        ) -> Span {
            let mut span = span(SpanKind::Server, times);
            (span.kind, span.name, span.trace_id, span.span_id) = (kind, name, ids.0, ids.1);
            if let Some((code, of_status)) = status {
                span.attributes = vec![
                    attribute("other", Value::BoolValue(true)),
                    attribute("http.response.status_code", Value::IntValue(code)),
                ];
                span.status = Some(Status { message: "why".to_owned(), code: of_status });
            }
            span
        }
    }

    proptest! {
        /// Scenario: any spans, written by the generated code.
        /// Guarantee: kinds, times, ids and states are those that the generated code reads.
        #[test]
        fn it_reads_what_the_generated_code_writes(all in prop::collection::vec(any_span(), 0..8)) {
            let spans = export(Vec::new(), all.clone());
            let expected = all.iter().filter(|span| {
                let is_request = [SpanKind::Server as i32, SpanKind::Consumer as i32].contains(&span.kind);
                is_request && span.end_time_unix_nano > 0 && i64::try_from(span.end_time_unix_nano).is_ok()
            });
            let expected: Vec<&Span> = expected.collect();
            prop_assert_eq!(spans.requests.len(), expected.len());
            prop_assert_eq!(spans.others as usize, all.len() - expected.len());
            for (request, span) in spans.requests.iter().zip(expected) {
                prop_assert_eq!(request.end_unix_ns as u64, span.end_time_unix_nano);
                let trace = request.ended.trace_id.map(Vec::from);
                let is_id = span.trace_id.len() == 16 && span.trace_id.iter().any(|byte| *byte != 0);
                prop_assert_eq!(trace, is_id.then(|| span.trace_id.clone()));
                prop_assert_eq!(request.ended.failed, span.status.as_ref().is_some_and(|status| status.code == 2));
                let status = span.attributes.get(1).and_then(|status| match status.value.as_ref()?.value {
                    Some(Value::IntValue(code)) => u16::try_from(code).ok(),
                    _ => None,
                });
                prop_assert_eq!(request.ended.status, status);
            }
        }

        /// Scenario: any bytes, and messages that end anywhere.
        /// Guarantee: an end, and never more requests than bytes could have.
        #[test]
        fn any_bytes_end(bytes in prop::collection::vec(any::<u8>(), 0..200), span in any_span(), cut in 0..200_usize) {
            let written = ExportTraceServiceRequest {
                resource_spans: vec![ResourceSpans {
                    scope_spans: vec![ScopeSpans { spans: vec![span], ..ScopeSpans::default() }],
                    ..ResourceSpans::default()
                }],
            }.encode_to_vec();
            for bytes in [&bytes[..], &written[..cut.min(written.len())]] {
                let mut count = 0;
                let _malformed = read(bytes, |spans| count += spans.requests.len());
                prop_assert!(count * 9 <= bytes.len());
            }
        }
    }
}
