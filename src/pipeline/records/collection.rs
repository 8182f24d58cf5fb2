//! The records of a collection: for `/api/v1/gcs`, for a line on the page of a process, and for the collection's own
//! page.

use std::cmp::Reverse;

use base::time::{Moment, UnixBase, Wall, rfc3339};
use clr_gc::gc::Collection;
use serde_json::json;

use api::event::hex;
use api::gc::{GcRecord, Subject, type_name};
use api::view::{CollectionLine, CollectionLookupError, CollectionRecord, Neighbour};
use run::Run;
use run::history::{Mark, RetainedCollection};

/// Returns the record of one collection of a run.
///
/// # Errors
///
/// Returns an error if the collection is unknown.
pub(crate) fn find_record(run: &Run, number: u64) -> Result<CollectionRecord, CollectionLookupError> {
    let (history, pid) = (&run.history, run.key().pid);
    let mut marks: Vec<Mark> = history.marks().collect();
    marks.sort_by_key(|mark| (mark.start(), mark.number));
    let kept = history
        .kept
        .newest()
        .rev()
        .chain(history.longest(Moment::FIRST))
        .chain(history.kept.pinned());
    let kept = kept
        .into_iter()
        .find(|kept| u64::from(kept.collection.number()) == number)
        .cloned();
    let place = marks.iter().rposition(|mark| mark.number == number);
    let span = || {
        let numbers = || marks.iter().map(|mark| mark.number);
        Some((numbers().min()?, numbers().max()?))
    };
    let line = match (&kept, place.and_then(|place| marks.get(place))) {
        (Some(kept), _) => line_of(kept, run.wall),
        (None, Some(mark)) => line_of_mark(mark, run.wall),
        (None, None) => return Err(CollectionLookupError::NoNumber(span())),
    };
    let near = |place: Option<usize>| Some(neighbour(marks.get(place?)?, run.wall));
    let who = run.identity.who();
    Ok(CollectionRecord {
        pid,
        name: processes::one_name(&who.name, &run.identity.resource().attributes),
        number,
        line,
        trace_id: kept.as_ref().and_then(|kept| kept.trace_id).map(|id| hex(&id)),
        trace_url: None,
        gc: kept.and_then(|kept| record_of(&kept, run.wall, pid, who.ns_pid)),
        previous: near(place.and_then(|place| place.checked_sub(1))),
        next: near(place.map(|place| place + 1)),
    })
}

/// Returns the records of the most recent kept collections, at most `limit`, newest first.
pub(crate) fn newest(
    recent: Vec<RetainedCollection>,
    limit: usize,
    wall: Wall,
    pid: u32,
    ns_pid: Option<u32>,
) -> impl Iterator<Item = serde_json::Value> {
    let unpacked = recent.into_iter();
    let mut recent: Vec<(Collection, _)> = unpacked.map(|kept| (kept.collection.unpack(), kept.base)).collect();
    // Sort by start, because a foreground collection is observed before the background collection in which it ran.
    recent.sort_by_key(|(collection, base)| {
        Reverse((collection.start.map(|start| base.moment(start)), collection.number))
    });
    recent.truncate(limit);
    let each = recent.into_iter();
    each.filter_map(move |(collection, base)| record(&collection, base.unix(wall), subject(pid, &collection), ns_pid))
}

/// Returns the record of a collection that is kept in full, or `None` if the record cannot be serialized.
fn record_of(kept: &RetainedCollection, wall: Wall, pid: u32, ns_pid: Option<u32>) -> Option<serde_json::Value> {
    let collection = kept.collection.unpack();
    record(&collection, kept.base.unix(wall), subject(pid, &collection), ns_pid)
}

fn subject(pid: u32, collection: &Collection) -> Subject {
    Subject {
        pid: Some(pid.into()),
        clr_instance: collection.clr_instance,
    }
}

/// Returns the record of `kind: "gc"`, without request ids, or `None` if the record cannot be serialized.
pub(crate) fn record(
    collection: &Collection,
    base: UnixBase,
    subject: Subject,
    ns_pid: Option<u32>,
) -> Option<serde_json::Value> {
    let start = collection.start.and_then(|start| rfc3339(base.unix_ns(start)));
    let mut record = serde_json::to_value(GcRecord::new(subject, collection, start)).ok()?;
    if let Some(fields) = record.as_object_mut() {
        fields.insert("ns_pid".to_owned(), json!(ns_pid));
        // Omit request ids, which are only for authenticated viewers. Over OTLP, request ids are in spans, links and
        // exemplars.
        if let Some(worst) = fields.get_mut("worst_request").and_then(|worst| worst.as_object_mut()) {
            worst.retain(|name, _| name == "lost_ns");
        }
    }
    Some(record)
}

/// Returns the line of a collection that is kept in full.
pub(crate) fn line_of(kept: &RetainedCollection, wall: Wall) -> CollectionLine {
    line(&kept.collection.unpack(), kept.base.unix(wall))
}

/// Returns the line of a collection.
pub(crate) fn line(collection: &Collection, base: UnixBase) -> CollectionLine {
    let gc_type = if collection.became_blocking {
        Some("blocking".to_owned())
    } else {
        collection.gc_type.map(type_name)
    };
    CollectionLine {
        number: collection.number,
        start: collection.start.and_then(|start| rfc3339(base.unix_ns(start))),
        generation: collection.generation,
        gc_type,
        reason: collection.reason.map(|reason| reason.to_string()),
        requested_by_tool: collection.requested_by_tool,
        pause_ns: collection.pause_ns,
        suspend_ns: collection.suspend_ns,
        heap_before: collection.heap_before(),
        heap_after: collection.heap_after(),
        promoted: collection.promoted(),
        lossy: collection.lossy,
    }
}

fn line_of_mark(mark: &Mark, wall: Wall) -> CollectionLine {
    CollectionLine {
        number: u32::try_from(mark.number).unwrap_or(u32::MAX),
        start: wall.rfc3339(mark.start()),
        generation: mark.generation.and_then(|generation| u32::try_from(generation).ok()),
        gc_type: mark.gc_type().map(type_name),
        reason: mark.reason().map(|reason| reason.to_string()),
        pause_ns: mark.pause_ns.and_then(|ns| i64::try_from(ns).ok()),
        lossy: mark.lossy,
        ..CollectionLine::default()
    }
}

fn neighbour(mark: &Mark, wall: Wall) -> Neighbour {
    Neighbour {
        number: mark.number,
        start_ms: wall.unix_ms(mark.start()),
        generation: mark.generation,
        pause_ns: mark.pause_ns,
    }
}
