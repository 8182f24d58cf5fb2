//! Prints the minutes of recordings, one JSON object per recording: `minutes AGE FILE...`. AGE is the age of the
//! processes at the starts of their recordings, in seconds. `tests/advice/changes` calls this program.

use std::error::Error;
use std::fs::File;
use std::io::{Read as _, Write as _};

use clr_gc::gc::{Outcome, ReportTiming};
use clr_gc::stream::{GcStream, Scope};
use gc_advice::profile::{Minute, minutes};
use gc_requests::requests::Requests;
use gc_requests::session::PROVIDER;
use serde_json::json;

const MINUTE_NS: i64 = 60_000_000_000;

/// Reads a recording, which may end early.
fn read(path: &str, age_s: u64) -> Result<Vec<Minute>, Box<dyn Error>> {
    let mut file = File::open(path)?;
    let mut stream = GcStream::new(Scope::CollectionsAnd(PROVIDER), ReportTiming::AtTheEnd);
    let mut requests = Requests::recorded();
    let mut ends = Vec::new();
    loop {
        let count = file.read(stream.space(64 << 10))?;
        stream.filled(count);
        if count == 0 {
            stream.finish();
        }
        stream.advance(|observed| {
            requests.observe(observed);
        })?;
        while let Some(request) = requests.next(i64::MAX, |_, _| false) {
            ends.push(request.end);
        }
        if count == 0 || stream.decoder().ending().is_some() {
            break;
        }
    }
    stream.end();
    let stats = stream.decoder().stats();
    let last = stats.last_event.zip(stream.header());
    let observed_ns = last.map_or(0, |(last, header)| header.offset_ns(last));
    let (mut collections, mut suspensions) = (Vec::new(), Vec::new());
    while let Some((_, outcome)) = stream.next_outcome() {
        match outcome {
            Outcome::Collection(collection) => collections.push(*collection),
            Outcome::Suspension(suspension) => suspensions.push(suspension),
        }
    }
    collections.sort_by_key(|collection| collection.start);
    let mut found = minutes(&collections, &suspensions, observed_ns, 0, Some(age_s));
    if !ends.is_empty() {
        found.iter_mut().for_each(|minute| minute.requests = Some(0));
    }
    for end in ends {
        let minute = usize::try_from(end / MINUTE_NS)
            .ok()
            .and_then(|place| found.get_mut(place));
        if let Some(sum) = minute.and_then(|minute| minute.requests.as_mut()) {
            *sum += 1;
        }
    }
    Ok(found)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let age_s = arguments.next().ok_or("usage: minutes AGE FILE...")?.parse()?;
    let mut out = std::io::stdout().lock();
    for path in arguments {
        writeln!(out, "{}", json!({"file": path, "minutes": read(&path, age_s)?}))?;
    }
    Ok(())
}
