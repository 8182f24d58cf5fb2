//! OTLP/JSON, byte by byte: identifiers in hex, 64-bit integers as strings, enumerations as numbers, lowerCamelCase
//! (opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding).

use std::sync::Arc;

use delivery::otlp::settings::Protocol;
use gc_telemetry::origin::Origin;
use gc_telemetry::value::key_value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValue, KeyValueList, any_value::Value};
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::{
    Exemplar, ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Histogram, HistogramDataPoint, Metric,
    NumberDataPoint, Sum, exemplar, metric, number_data_point,
};
use opentelemetry_proto::tonic::trace::v1::{Span, Status, span};

use crate::otlp::given::{all_to, attribute, settle, start};
use test_support::receiver::Receiver;

fn any(value: Value) -> Option<AnyValue> {
    Some(AnyValue { value: Some(value) })
}

fn every_kind() -> Vec<KeyValue> {
    let array = ArrayValue {
        values: vec![AnyValue {
            value: Some(Value::IntValue(-1)),
        }],
    };
    let list = KeyValueList {
        values: vec![attribute("inner", "x")],
    };
    vec![
        attribute("text", "a\"b"),
        key_value("int", Value::IntValue(i64::MAX)),
        key_value("double", Value::DoubleValue(0.5)),
        key_value("bool", Value::BoolValue(true)),
        key_value("bytes", Value::BytesValue(vec![0xff, 0])),
        key_value("array", Value::ArrayValue(array)),
        key_value("list", Value::KvlistValue(list)),
    ]
}

fn exemplar() -> Exemplar {
    Exemplar {
        time_unix_nano: 3,
        span_id: vec![0xab; 8],
        trace_id: vec![0xcd; 16],
        value: Some(exemplar::Value::AsDouble(0.25)),
        ..Exemplar::default()
    }
}

/// Sends the example items of a signal and returns the body of the request.
async fn sent(signal: &str) -> String {
    let mut receiver = Receiver::start().await;
    let (exporter, _running) = start(&all_to(&receiver, Protocol::HttpJson));
    let resource = Arc::new(Origin::new(vec![attribute("service.name", "shop")]));
    match signal {
        "traces" => exporter.spans(&resource, vec![a_span()]),
        "metrics" => exporter.metrics(&resource, metrics()),
        _ => exporter.logs(&resource, vec![a_record()]),
    }
    settle(&exporter).await;
    String::from_utf8(receiver.next().await.body).unwrap()
}

fn a_span() -> Span {
    Span {
        trace_id: vec![0x5b; 16],
        span_id: vec![0x0e; 8],
        parent_span_id: vec![0xef; 8],
        flags: 0x101,
        name: "gc".to_owned(),
        kind: span::SpanKind::Internal.into(),
        start_time_unix_nano: 1_544_712_660_000_000_000,
        end_time_unix_nano: u64::MAX,
        attributes: every_kind(),
        events: vec![span::Event {
            time_unix_nano: 7,
            name: "anomaly".to_owned(),
            ..span::Event::default()
        }],
        links: vec![span::Link {
            trace_id: vec![1; 16],
            span_id: vec![2; 8],
            ..span::Link::default()
        }],
        status: Some(Status {
            message: "long".to_owned(),
            code: 2,
        }),
        ..Span::default()
    }
}

fn a_record() -> LogRecord {
    LogRecord {
        time_unix_nano: 5,
        observed_time_unix_nano: 6,
        severity_number: 13,
        severity_text: "WARN".to_owned(),
        body: any(Value::StringValue("text".to_owned())),
        event_name: "gcwatch.anomaly".to_owned(),
        trace_id: vec![1; 16],
        span_id: vec![2; 8],
        flags: 1,
        ..LogRecord::default()
    }
}

fn metrics() -> Vec<Metric> {
    let point = |value| NumberDataPoint {
        attributes: vec![attribute("k", "v")],
        start_time_unix_nano: 1,
        time_unix_nano: 2,
        value: Some(value),
        ..NumberDataPoint::default()
    };
    let metric = |name: &str, data| Metric {
        name: name.to_owned(),
        unit: "s".to_owned(),
        data: Some(data),
        ..Metric::default()
    };
    vec![
        metric(
            "gauge",
            metric::Data::Gauge(Gauge {
                data_points: vec![point(number_data_point::Value::AsInt(-9))],
            }),
        ),
        metric(
            "sum",
            metric::Data::Sum(Sum {
                data_points: vec![NumberDataPoint {
                    exemplars: vec![exemplar()],
                    ..point(number_data_point::Value::AsDouble(1.5))
                }],
                aggregation_temporality: 2,
                is_monotonic: true,
            }),
        ),
        metric(
            "histogram",
            metric::Data::Histogram(Histogram {
                data_points: vec![HistogramDataPoint {
                    time_unix_nano: 2,
                    count: 3,
                    sum: Some(0.5),
                    bucket_counts: vec![1, 2],
                    explicit_bounds: vec![0.1],
                    min: Some(0.0),
                    max: Some(0.25),
                    ..HistogramDataPoint::default()
                }],
                aggregation_temporality: 1,
            }),
        ),
        metric(
            "exponential",
            metric::Data::ExponentialHistogram(ExponentialHistogram {
                data_points: vec![ExponentialHistogramDataPoint {
                    start_time_unix_nano: 1,
                    time_unix_nano: 2,
                    count: 4,
                    sum: Some(1.0),
                    scale: -1,
                    zero_count: 1,
                    positive: Some(Buckets {
                        offset: -10,
                        bucket_counts: vec![3, 0],
                    }),
                    negative: None,
                    exemplars: vec![exemplar()],
                    min: Some(0.0),
                    max: None,
                    zero_threshold: 0.0,
                    ..ExponentialHistogramDataPoint::default()
                }],
                aggregation_temporality: 2,
            }),
        ),
    ]
}

/// Returns `items` in the frame that every request has.
fn framed(part: &str, scopes: &str, list: &str, items: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let schema = r#""schemaUrl":"https://opentelemetry.io/schemas/1.44.0""#;
    let resource = r#"{"attributes":[{"key":"service.name","value":{"stringValue":"shop"}}],"droppedAttributesCount":0,"entityRefs":[]}"#;
    let scope = format!(r#"{{"name":"gcwatch","version":"{version}","attributes":[],"droppedAttributesCount":0}}"#);
    format!(
        r#"{{"{part}":[{{"resource":{resource},"{scopes}":[{{"scope":{scope},"{list}":[{items}],{schema}}}],{schema}}}]}}"#
    )
}

/// Removes line breaks and indentation from an expected text.
fn joined(lines: &str) -> String {
    lines.lines().map(str::trim).collect()
}

/// Scenario: a span with every kind of attribute, an event, a link and a status is sent as JSON.
/// Guarantee: its bytes match the specification.
#[tokio::test]
async fn span_matches_specified_json() {
    let span = joined(
        r#"{"traceId":"5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b","spanId":"0e0e0e0e0e0e0e0e","traceState":"",
        "parentSpanId":"efefefefefefefef","flags":257,"name":"gc","kind":1,
        "startTimeUnixNano":"1544712660000000000","endTimeUnixNano":"18446744073709551615",
        "attributes":[{"key":"text","value":{"stringValue":"a\"b"}},
        {"key":"int","value":{"intValue":"9223372036854775807"}},
        {"key":"double","value":{"doubleValue":0.5}},
        {"key":"bool","value":{"boolValue":true}},
        {"key":"bytes","value":{"bytesValue":"/wA="}},
        {"key":"array","value":{"arrayValue":{"values":[{"intValue":"-1"}]}}},
        {"key":"list","value":{"kvlistValue":{"values":[{"key":"inner","value":{"stringValue":"x"}}]}}}],
        "droppedAttributesCount":0,
        "events":[{"timeUnixNano":"7","name":"anomaly","attributes":[],"droppedAttributesCount":0}],"droppedEventsCount":0,
        "links":[{"traceId":"01010101010101010101010101010101","spanId":"0202020202020202","traceState":"",
        "attributes":[],"droppedAttributesCount":0,"flags":0}],"droppedLinksCount":0,
        "status":{"message":"long","code":2}}"#,
    );
    assert_eq!(
        sent("traces").await,
        framed("resourceSpans", "scopeSpans", "spans", &span)
    );
}

/// Scenario: a gauge, a sum with an exemplar, a histogram, and an exponential histogram without a negative part and
/// without a maximum are sent as JSON.
/// Guarantee: their bytes match the specification; absent values are omitted, not `null`.
#[tokio::test]
async fn metrics_match_specified_json() {
    let exemplar = r#"{"filteredAttributes":[],"timeUnixNano":"3","spanId":"abababababababab",
        "traceId":"cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd","asDouble":0.25}"#;
    let metrics = joined(&format!(
        r#"{{"name":"gauge","description":"","unit":"s","metadata":[],"gauge":{{"dataPoints":[
        {{"attributes":[{{"key":"k","value":{{"stringValue":"v"}}}}],"startTimeUnixNano":"1","timeUnixNano":"2",
        "exemplars":[],"flags":0,"asInt":"-9"}}]}}}},
        {{"name":"sum","description":"","unit":"s","metadata":[],"sum":{{"dataPoints":[
        {{"attributes":[{{"key":"k","value":{{"stringValue":"v"}}}}],"startTimeUnixNano":"1","timeUnixNano":"2",
        "exemplars":[{exemplar}],"flags":0,"asDouble":1.5}}],"aggregationTemporality":2,"isMonotonic":true}}}},
        {{"name":"histogram","description":"","unit":"s","metadata":[],"histogram":{{"dataPoints":[
        {{"attributes":[],"startTimeUnixNano":"0","timeUnixNano":"2","count":"3","sum":0.5,"bucketCounts":["1","2"],
        "explicitBounds":[0.1],"exemplars":[],"flags":0,"min":0.0,"max":0.25}}],"aggregationTemporality":1}}}},
        {{"name":"exponential","description":"","unit":"s","metadata":[],"exponentialHistogram":{{"dataPoints":[
        {{"attributes":[],"startTimeUnixNano":"1","timeUnixNano":"2","count":"4","sum":1.0,"scale":-1,"zeroCount":"1",
        "positive":{{"offset":-10,"bucketCounts":["3","0"]}},"flags":0,"exemplars":[{exemplar}],
        "min":0.0,"zeroThreshold":0.0}}],"aggregationTemporality":2}}}}"#
    ));
    assert_eq!(
        sent("metrics").await,
        framed("resourceMetrics", "scopeMetrics", "metrics", &metrics)
    );
}

/// Scenario: a log record with an event name and the identifiers of a span is sent as JSON.
/// Guarantee: its bytes match the specification.
#[tokio::test]
async fn record_matches_specified_json() {
    let record = joined(
        r#"{"timeUnixNano":"5","observedTimeUnixNano":"6","severityNumber":13,"severityText":"WARN",
        "body":{"stringValue":"text"},"attributes":[],"droppedAttributesCount":0,"flags":1,
        "traceId":"01010101010101010101010101010101","spanId":"0202020202020202","eventName":"gcwatch.anomaly"}"#,
    );
    assert_eq!(
        sent("logs").await,
        framed("resourceLogs", "scopeLogs", "logRecords", &record)
    );
}
