//! The output of `analyze` and `events` for a recording.

use std::collections::HashSet;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use test_support::program::{command, records};
use test_support::target::Tick;

/// The parts of a recording that the tests need, from the output of `analyze` and `events`.
///
/// A recording can have a million events. Therefore, `events` contains only the first event of each name, and all
/// events of
/// [`NAMED_INSIDE`].
pub(crate) struct Analyzed {
    pub(crate) gcs: Vec<Value>,
    pub(crate) suspensions: Vec<Value>,
    pub(crate) stream: Value,
    pub(crate) events: Vec<Value>,
}

pub(crate) fn analyze(file: &Path) -> Analyzed {
    let file = file.to_str().unwrap();
    let mut analyzed = Analyzed {
        gcs: Vec::new(),
        suspensions: Vec::new(),
        stream: Value::Null,
        events: Vec::new(),
    };
    for record in records(["analyze", "--format", "ndjson", file]) {
        match record["kind"].as_str().unwrap() {
            "gc" => analyzed.gcs.push(record),
            "suspension" => analyzed.suspensions.push(record),
            "stream" => analyzed.stream = record,
            _ => {}
        }
    }
    analyzed.events = first_events(file);
    analyzed
}

/// Events whose kind is in their fields, not in their name.
const NAMED_INSIDE: [&str; 2] = ["BulkType", "GCDynamicEvent"];

fn first_events(file: &str) -> Vec<Value> {
    let mut child = command()
        .args(["events", "--format", "ndjson", file])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut events, mut met) = (Vec::new(), HashSet::new());
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        if !line.starts_with("{\"kind\":\"event\",") {
            continue;
        }
        // No test needs events without a name.
        let Some((_, rest)) = line.split_once("\"name\":\"") else {
            continue;
        };
        let name = rest.split('"').next().unwrap_or_default();
        if met.insert(name.to_owned()) || NAMED_INSIDE.contains(&name) {
            events.push(serde_json::from_str(&line).unwrap());
        }
    }
    assert!(child.wait().unwrap().success(), "events of {file}");
    events
}

impl Analyzed {
    pub(crate) fn has_event(&self, name: &str) -> bool {
        self.events.iter().any(|event| event["name"] == name)
    }

    /// Returns the version of an event, or `None` if the recording has no such event.
    pub(crate) fn version_of(&self, name: &str) -> Option<u64> {
        self.events.iter().find(|event| event["name"] == name)?["version"].as_u64()
    }

    pub(crate) fn has_dynamic(&self, name: &str) -> bool {
        self.events
            .iter()
            .any(|event| event["name"] == "GCDynamicEvent" && event["fields"]["Name"] == name)
    }

    pub(crate) fn has_type(&self, gc_type: &str) -> bool {
        self.gcs
            .iter()
            .any(|gc| gc["type"] == gc_type && gc["became_blocking"] == false)
    }

    pub(crate) fn has_reason(&self, reason: &str) -> bool {
        self.gcs.iter().any(|gc| gc["reason"] == reason)
    }

    pub(crate) fn most_heaps(&self) -> u64 {
        self.gcs
            .iter()
            .filter_map(|gc| gc["heap_count"].as_u64())
            .max()
            .unwrap_or(0)
    }

    /// Asserts that no event is lost or undecoded, and that only collections at the start and end of the recording are
    /// incomplete.
    pub(crate) fn assert_whole(&self, context: &str) {
        assert_eq!(self.stream["lost_events"], 0, "{context}: {}", self.stream);
        assert_eq!(self.stream["undecodable"], 0, "{context}: {}", self.stream);
        assert!(self.gcs.iter().all(|gc| gc["lossy"] == false), "{context}");
        let whole: Vec<i64> = self
            .gcs
            .iter()
            .filter(|gc| gc["complete"] == true)
            .filter_map(|gc| gc["start_offset_ns"].as_i64())
            .collect();
        let (first, last) = (
            whole.iter().min().copied().unwrap_or(0),
            whole.iter().max().copied().unwrap_or(0),
        );
        for gc in self.gcs.iter().filter(|gc| gc["complete"] == false) {
            let start = gc["start_offset_ns"].as_i64();
            let at_an_end = start.is_none_or(|start| start <= first || start >= last) || gc["missing"][0] == "end";
            assert!(
                at_an_end,
                "{context}: only collections at the ends are incomplete: {gc}"
            );
        }
    }

    /// Asserts that the figures that the process printed agree with the recording: about the same number of collections
    /// and about the same total pause between two prints.
    ///
    /// A print is not atomic, because its thread can lose the CPU between reading the clock and the counters.
    /// Therefore, the assertion compares each of the first two prints with each of the last two, and requires only one
    /// match. Events lost between the prints would make all combinations fail.
    pub(crate) fn assert_agrees_with(&self, ticks: &[Tick], context: &str) {
        // .NET Core 3.1 can enable GCStart later than other events. In this case, the suspension gives the start time.
        let began = |gc: &Value| {
            gc["start_offset_ns"]
                .as_i64()
                .or_else(|| gc["pauses"][0]["start_offset_ns"].as_i64())
        };
        let starts: Vec<(i64, i64)> = self
            .gcs
            .iter()
            .filter_map(|gc| Some((began(gc)?, gc["generation"].as_i64()?)))
            .collect();
        let sync = self.sync_ticks();
        let (first_event, last_event) = self.span();
        // The session certainly runs 0.5 s after the sync point, regardless of the first event.
        let from = first_event.min(500_000_000);
        let within: Vec<&Tick> = ticks
            .iter()
            .filter(|tick| tick.at - sync > from && tick.at - sync < last_event)
            .collect();
        let (firsts, lasts) = within.split_at(within.len() / 2);
        let pairs = firsts
            .iter()
            .take(2)
            .flat_map(|first| lasts.iter().rev().take(2).map(move |last| (*first, *last)));
        let mut apart = Vec::new();
        for (first, last) in pairs {
            match self.agrees_between(&starts, first, last) {
                Ok(()) => return,
                Err(how) => apart.push(how),
            }
        }
        panic!("{context}: {} ticks in the recording: {apart:#?}", within.len());
    }

    /// Compares two prints of the process with the recording. `starts` has the start and generation of each collection.
    /// The error contains the recorded and the counted figures.
    fn agrees_between(&self, starts: &[(i64, i64)], first: &Tick, last: &Tick) -> Result<(), String> {
        let sync = self.sync_ticks();
        for generation in 0..3 {
            let recorded = starts
                .iter()
                .filter(|(at, of)| *of >= generation && *at > first.at - sync && *at <= last.at - sync)
                .count() as i64;
            let counted = last.counts[generation as usize] - first.counts[generation as usize];
            // The process can have counted a collection close to a print before or after this print.
            let about = |at: i64| {
                [first.at, last.at]
                    .iter()
                    .any(|end| (at + sync - end).abs() < 30_000_000)
            };
            let on_either_side = starts.iter().filter(|(at, of)| *of >= generation && about(*at)).count() as i64;
            if (recorded - counted).abs() > 2.max(on_either_side) {
                return Err(format!("gen{generation} {recorded} recorded, {counted} counted"));
            }
        }
        if let (Some(before), Some(after)) = (first.pause_us, last.pause_us) {
            let pauses: Vec<i64> = self
                .gcs
                .iter()
                .flat_map(|gc| gc["pauses"].as_array().unwrap())
                .filter(|pause| {
                    pause["start_offset_ns"]
                        .as_i64()
                        .is_some_and(|at| at > first.at - sync && at <= last.at - sync)
                })
                .filter_map(|pause| pause["pause_ns"].as_i64())
                .collect();
            let stopped: i64 = pauses.iter().sum();
            let longest = pauses.iter().copied().max().unwrap_or(0);
            let counted = (after - before) * 1000;
            if counted > 100_000_000 {
                // The same applies to a pause close to a print. The runtime's clock stops at RestartEEBegin; on a busy
                // machine, the restart itself takes some time.
                if stopped + 2 * longest < counted * 9 / 10 || stopped - 2 * longest >= counted * 16 / 10 {
                    return Err(format!(
                        "{stopped} ns recorded, {counted} counted, the longest {longest}"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Returns the clock of the process at the sync point, in ticks.
    fn sync_ticks(&self) -> i64 {
        self.stream["sync_ticks"].as_i64().unwrap()
    }

    fn span(&self) -> (i64, i64) {
        let at = |event: &Value| event["offset_ns"].as_i64();
        let offsets = || self.events.iter().filter_map(at);
        (offsets().min().unwrap_or(0), offsets().max().unwrap_or(0))
    }
}
