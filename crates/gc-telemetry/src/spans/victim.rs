//! Pauses of collections in the traces of the stopped requests.
//!
//! ```text
//! GET /orders                      span of the request, created by its SDK
//! '- GC pause gen2 blocking        from stop to restart, clipped to the request; linked to the collection's trace
//! ```
//!
//! A backend cannot join two traces by time, so the pause must be in the trace of the stopped request.

use std::time::Duration;

use base::time::UnixBase;
use gc_requests::request::Request;
use gc_requests::stops::Stop;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;

use super::EncodedSpans;
use super::attributes::Attributes;
use super::tree::field;
use crate::definition::span as row;
use crate::ids::{Ids, SpanIds};
use crate::options::VictimOptions;
use crate::wire::Wire;

/// Flags: sampled; the parent, which is the span of the request, belongs to another process than the sender (OTLP:
/// remoteness is known, remote).
const FLAGS: u32 = 0x1 | 0x100 | 0x200;

/// Flags of the link to the collection: sampled, random.
const LINK_FLAGS: u32 = 0x1 | 0x2 | 0x100;

/// Returns whether the export of requests is enabled, and whether this request lost enough time, is sampled, and has
/// ids.
pub(super) fn is_meant(options: &VictimOptions, request: &Request) -> bool {
    let lost = request.stopped_ns.and_then(|ns| u64::try_from(ns).ok()).unwrap_or(0);
    let is_much = lost > 0
        && (Duration::from_nanos(lost) >= options.min_lost
            || request.share().is_some_and(|share| share >= options.min_share));
    let ended = &request.ended;
    options.enabled && is_much && ended.sampled == Some(true) && ended.trace_id.is_some() && ended.span_id.is_some()
}

/// Returns the name, such as `GC pause gen2 blocking`.
fn name(hit: &Stop) -> String {
    let generation = hit
        .generation
        .map(|generation| format!(" gen{generation}"))
        .unwrap_or_default();
    let kind = match (hit.background, hit.generation, hit.collection) {
        (true, ..) => " background",
        (false, None, None) => "",
        _ => " blocking",
    };
    format!("GC pause{generation}{kind}")
}

/// Returns the spans of a request's stops, or `None` if the request has no ids.
pub(super) fn spans(request: &Request, base: UnixBase, collections: &Ids) -> Option<EncodedSpans> {
    let (trace_id, parent) = request.ended.trace_id.zip(request.ended.span_id)?;
    let mut wire = Wire::with_capacity(256 * request.hits.len().max(1));
    for (place, hit) in request.hits.iter().enumerate() {
        let collection = hit.collection.map(|number| collections.linked(None, number));
        wire.message(field::SPANS, |wire| {
            wire.bytes(field::TRACE_ID, trace_id);
            wire.bytes(field::SPAN_ID, collections.in_request(parent, place).span_id);
            wire.bytes(field::PARENT_SPAN_ID, parent);
            wire.bytes(field::NAME, name(hit));
            wire.number(field::KIND, SpanKind::Internal as u64);
            wire.fixed64_unless_zero(field::START_TIME, base.unix_ns(hit.begin));
            wire.fixed64_unless_zero(field::END_TIME, base.unix_ns(hit.end));
            Attributes::new(wire, field::ATTRIBUTES)
                .int(&row::NUMBER, hit.collection)
                .text(&row::GENERATION, hit.generation.and_then(generation))
                .text(
                    &row::TYPE,
                    hit.collection
                        .map(|_| if hit.background { "background" } else { "blocking" }),
                );
            if let Some(SpanIds { trace_id, span_id }) = collection {
                wire.message(field::LINKS, |wire| {
                    wire.bytes(field::LINK_TRACE_ID, trace_id);
                    wire.bytes(field::LINK_SPAN_ID, span_id);
                    Attributes::new(wire, field::LINK_ATTRIBUTES)
                        .text(&row::LINK, Some("collection"))
                        .int(&row::NUMBER, hit.collection);
                    wire.fixed32(field::LINK_FLAGS, LINK_FLAGS);
                });
            }
            wire.fixed32(field::FLAGS, FLAGS);
        });
    }
    Some(EncodedSpans {
        fields: wire.into_bytes(),
        count: request.hits.len() as u64,
    })
}

fn generation(depth: u32) -> Option<&'static str> {
    ["gen0", "gen1", "gen2"].get(usize::try_from(depth).ok()?).copied()
}
