//! Independence of collections from the container format: real recordings are rewritten as one-collect would write
//! them.

use std::collections::HashMap;

use clr_gc::gc::{Collection, Outcome, ReportTiming};
use clr_gc::stream::{GcStream, ProcessKey, Scope};
use nettrace::encode::{Encoder, EventRecord, ThreadRecord};
use nettrace::{Decoder, Format, Item, Metadata, Options, TraceHeader};

use crate::recordings;

/// A recording as one-collect writes it: V6, many processes in one stream, threads by index, definitions without
/// versions, and no sequence numbers.
struct OneCollect {
    encoder: Encoder,
    /// Index of each thread, by process and thread id.
    threads: HashMap<(u32, u64), u64>,
    definitions: HashMap<(u32, u32), u32>,
}

/// A single event.
struct SentEvent {
    process: u32,
    at: i64,
    thread: u64,
    metadata: Metadata,
    payload: Vec<u8>,
}

fn sent(name: &str, process: u32) -> (TraceHeader, Vec<SentEvent>) {
    let mut decoder = Decoder::new(Options::default());
    decoder.push(&recordings::bytes(name));
    decoder.finish();
    let (mut header, mut events) = (None, Vec::new());
    while let Some(item) = decoder.next_item().unwrap() {
        match item {
            Item::Header(found) => header = Some(found.clone()),
            Item::Event(event) => events.push(SentEvent {
                process,
                at: event.timestamp - header.as_ref().unwrap().sync_ticks,
                thread: event.thread,
                metadata: event.metadata.clone(),
                payload: event.payload.to_vec(),
            }),
            _ => {}
        }
    }
    (header.unwrap(), events)
}

impl OneCollect {
    fn write(&mut self, event: &SentEvent) {
        let next = self.threads.len() as u64 + 1;
        let key = (event.process, event.thread);
        let index = *self.threads.entry(key).or_insert(next);
        if index == next {
            let (thread, process) = (Some(event.thread), Some(event.process.into()));
            self.encoder
                .threads(&[ThreadRecord {
                    index,
                    thread,
                    process,
                    name: None,
                }])
                .unwrap();
        }
        let next = self.definitions.len() as u32 + 1;
        let key = (event.metadata.id, event.process);
        let id = *self.definitions.entry(key).or_insert(next);
        if id == next {
            let metadata = Metadata {
                id,
                version: None,
                level: None,
                keywords: None,
                ..event.metadata.clone()
            };
            self.encoder.metadata(&metadata).unwrap();
        }
        let record = EventRecord {
            metadata_id: id,
            thread: index,
            timestamp: event.at,
            is_sorted: true,
            payload: &event.payload,
            ..EventRecord::default()
        };
        self.encoder.event(&record).unwrap();
    }
}

fn collections(bytes: &[u8]) -> HashMap<ProcessKey, Vec<Collection>> {
    let mut stream = GcStream::new(Scope::Collections, ReportTiming::AtTheEnd);
    stream.push(bytes);
    stream.finish();
    stream.advance(|_| ()).unwrap();
    stream.end();
    let mut collections: HashMap<ProcessKey, Vec<Collection>> = HashMap::new();
    while let Some((key, outcome)) = stream.next_outcome() {
        if let Outcome::Collection(collection) = outcome {
            collections.entry(key).or_default().push(*collection);
        }
    }
    assert_eq!(stream.decoder().stats().lost, None, "events have no sequence numbers");
    collections
}

/// Scenario: three recordings of three runtimes become three processes of one V6 stream without versions.
/// Guarantee: each process has exactly the collections of its recording. The length of a payload determines its layout,
/// and no process affects another process.
#[test]
fn processes_of_v6_stream_are_separate() {
    let names = ["net31-steady", "net10-threads-server", "net8-clrgc-threads"];
    let mut all: Vec<SentEvent> = Vec::new();
    let mut header = None;
    for (index, name) in names.iter().enumerate() {
        let (found, events) = sent(name, index as u32 + 100);
        header = Some(found);
        all.extend(events);
    }
    all.sort_by_key(|event| event.at);
    let header = TraceHeader {
        format: Format::V6 { minor: 0 },
        sync_ticks: 0,
        process_id: None,
        ..header.unwrap()
    };
    let encoder = Encoder::new(header.format, &header).unwrap();
    let mut stream = OneCollect {
        encoder,
        threads: HashMap::new(),
        definitions: HashMap::new(),
    };
    for event in &all {
        stream.write(event);
    }
    let all = collections(&stream.encoder.finish().unwrap());
    for (index, name) in names.iter().enumerate() {
        let key = ProcessKey {
            pid: Some(index as u64 + 100),
            clr_instance: Some(0),
        };
        let expected = recordings::Recording::read(name);
        let mut collections = all[&key].clone();
        collections.sort_by_key(|collection| collection.start);
        assert_eq!(collections, expected.collections(), "{name}");
    }
    assert_eq!(all.len(), names.len());
}
