//! Builds heaps for tests, and their dumps.

use nettrace::encode::{Encoder, EventRecord};
use nettrace::{Format, Metadata, PointerSize, SystemTime, TraceHeader};
use proptest::prelude::*;

const RUNTIME: &str = "Microsoft-Windows-DotNETRuntime";
const RUNDOWN: &str = "Microsoft-Windows-DotNETRuntimeRundown";
const THREAD: u64 = 42;

#[derive(Debug, Clone)]
pub(crate) struct Object {
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) of: u64,
    pub(crate) edges: Vec<u64>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct GeneratedHeap {
    pub(crate) objects: Vec<Object>,
    pub(crate) types: Vec<(u64, &'static str)>,
    /// Address of each static variable, address of its object, and name of the variable.
    pub(crate) statics: Vec<(u64, u64, &'static str)>,
    /// Address of the object, kind, flags and id of each root.
    pub(crate) roots: Vec<(u64, u8, u32, u64)>,
    pub(crate) dependents: Vec<(u64, u64)>,
    pub(crate) methods: Vec<(u64, &'static str, &'static str)>,
    pub(crate) has_no_edges: bool,
    pub(crate) has_other_collections: bool,
    /// Whether the process uses the server collector: another thread writes the start, and its events come later in the
    /// stream.
    pub(crate) is_server: bool,
    pub(crate) has_no_start: bool,
    /// Reason of the collection, if a session has not requested it.
    pub(crate) reason: Option<u32>,
    pub(crate) is_32_bits: bool,
}

/// A part of the stream that a test can omit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// The start of the collection; without this part, the stream contains no collection.
    Start,
    Types,
    Statics,
    Nodes,
    Edges,
    Roots,
    End,
}

impl Part {
    pub(crate) const ALL: [Self; 6] = [
        Self::Types,
        Self::Statics,
        Self::Nodes,
        Self::Edges,
        Self::Roots,
        Self::End,
    ];
}

struct Writer {
    encoder: Encoder,
    sequence: u32,
    time: i64,
    without: Option<Part>,
}

fn text(text: &str) -> Vec<u8> {
    text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect()
}

fn u32s<const N: usize>(numbers: [u32; N]) -> Vec<u8> {
    numbers.map(u32::to_le_bytes).concat()
}

fn u64s<const N: usize>(numbers: [u64; N]) -> Vec<u8> {
    numbers.map(u64::to_le_bytes).concat()
}

impl Writer {
    fn event(&mut self, part: Option<Part>, id: u32, payload: &[u8]) {
        self.write_event(THREAD, part, id, payload);
    }

    fn write_event(&mut self, thread: u64, part: Option<Part>, id: u32, payload: &[u8]) {
        self.time += 1000;
        let sequence = if thread == THREAD {
            self.sequence += 1;
            self.sequence
        } else {
            self.time as u32 / 1000
        };
        // A dropped event still uses a sequence number.
        if part.is_some() && part == self.without {
            return;
        }
        self.encoder
            .event(&EventRecord {
                metadata_id: id,
                sequence,
                capture_thread: thread,
                thread,
                timestamp: self.time,
                payload,
                ..EventRecord::default()
            })
            .unwrap();
    }
}

fn bulk(index: Option<u32>, rows: &[Vec<u8>]) -> Vec<u8> {
    let index = index.map(|index| u32s([index])).unwrap_or_default();
    [index, u32s([rows.len() as u32]), vec![0; 2], rows.concat()].concat()
}

impl GeneratedHeap {
    pub(crate) fn stream(&self) -> Vec<u8> {
        self.stream_without(None)
    }

    /// Writes the dump without the events of one part. If the part is the nodes or the edges, only the last event is
    /// lost. If the part is [`Part::Start`], the stream contains no collection.
    #[expect(clippy::too_many_lines, reason = "a stream is written event by event, in its order")]
    pub(crate) fn stream_without(&self, without: Option<Part>) -> Vec<u8> {
        let header = TraceHeader {
            system_time: SystemTime {
                year: 2026,
                month: 11,
                day_of_week: 3,
                day: 25,
                ..SystemTime::default()
            },
            pointer_size: if self.is_32_bits {
                PointerSize::Four
            } else {
                PointerSize::Eight
            },
            process_id: Some(1),
            processors: Some(2),
            ..TraceHeader::default()
        };
        let mut encoder = Encoder::new(Format::V4, &header).unwrap();
        for (id, version) in [
            (1, 2),
            (2, 1),
            (3, 1),
            (9, 1),
            (15, 0),
            (16, 0),
            (17, 0),
            (18, 0),
            (19, 0),
            (38, 0),
        ] {
            let metadata = Metadata {
                id,
                provider: RUNTIME.into(),
                event_id: id,
                version: Some(version),
                ..Metadata::default()
            };
            encoder.metadata(&metadata).unwrap();
        }
        let rundown = Metadata {
            id: 144,
            provider: RUNDOWN.into(),
            event_id: 144,
            version: Some(1),
            ..Metadata::default()
        };
        encoder.metadata(&rundown).unwrap();
        let mut writer = Writer {
            encoder,
            sequence: 0,
            time: 0,
            without,
        };
        if without == Some(Part::Start) {
            return writer.encoder.finish().unwrap();
        }
        let reason = self.reason.unwrap_or(1);
        let start = |count, depth| [u32s([count, depth, reason, 0]), vec![0; 10]].concat();
        let end = |count, depth| [u32s([count, depth]), vec![0; 2]].concat();
        if self.has_other_collections {
            writer.event(None, 1, &start(5, 2));
            writer.event(None, 2, &end(5, 2));
            // A young collection with a walk of the heap.
            writer.event(None, 1, &start(6, 0));
            writer.event(None, 18, &bulk(Some(0), &[u64s([0x9999, 24, 1, 0])]));
            writer.event(None, 2, &end(6, 0));
        }
        writer.event(None, 9, &[u32s([1, 0]), vec![0; 2]].concat());
        if !self.is_server && !self.has_no_start {
            writer.event(None, 1, &start(7, 2));
        }
        let names: Vec<Vec<u8>> = self
            .types
            .iter()
            .enumerate()
            .map(|(place, (id, name))| {
                let ids = u32s([0x0200_0001 + place as u32, 0]);
                [u64s([*id, 0x5000]), ids, vec![0], text(name), vec![0; 4]].concat()
            })
            .collect();
        let statics: Vec<Vec<u8>> = self
            .statics
            .iter()
            .map(|(address, object, name)| [u64s([*address, *object, 0]), vec![0; 4], text(name)].concat())
            .collect();
        let payload = [u32s([statics.len() as u32]), vec![0; 10], statics.concat()].concat();
        writer.event(Some(Part::Statics), 38, &payload);
        let keyed: Vec<Vec<u8>> = self
            .dependents
            .iter()
            .map(|(key, value)| u64s([*key, *value, 0]))
            .collect();
        writer.event(None, 17, &bulk(Some(0), &keyed));
        if self.has_other_collections {
            // A heap walk by another thread.
            writer.write_event(THREAD + 1, None, 18, &bulk(Some(0), &[u64s([0x9999, 24, 1, 0])]));
        }
        // Nodes and references are split into several events each. All events with nodes precede the events with
        // references.
        let edges: Vec<Vec<u8>> = self
            .objects
            .iter()
            .flat_map(|object| object.edges.iter().map(|edge| [u64s([*edge]), vec![0; 4]].concat()))
            .collect();
        let nodes: Vec<Vec<u8>> = self
            .objects
            .iter()
            .map(|object| u64s([object.address, object.size, object.of, object.edges.len() as u64]))
            .collect();
        let many = (nodes.len() / 3).clamp(1, 2_000);
        for (index, some) in nodes.chunks(many).enumerate() {
            // Only the last node event can be lost, so that the indices of the other node events have no gap.
            let is_last = (index + 1) * many >= nodes.len();
            writer.event(is_last.then_some(Part::Nodes), 18, &bulk(Some(index as u32), some));
        }
        if !self.has_no_edges {
            let many = (edges.len() / 2).clamp(1, 5_000);
            for (index, some) in edges.chunks(many).enumerate() {
                let is_last = (index + 1) * many >= edges.len();
                writer.event(is_last.then_some(Part::Edges), 19, &bulk(Some(index as u32), some));
            }
        }
        let roots: Vec<Vec<u8>> = self
            .roots
            .iter()
            .map(|(object, kind, flags, id)| [u64s([*object]), vec![*kind], u32s([*flags]), u64s([*id])].concat())
            .collect();
        writer.event(Some(Part::Roots), 16, &bulk(Some(0), &roots));
        writer.event(Some(Part::Types), 15, &bulk(None, &names));
        writer.event(Some(Part::End), 2, &end(7, 2));
        writer.event(None, 3, &[0; 2]);
        if self.is_server {
            // The start has a timestamp during the suspension, although the event comes later in the stream.
            writer.time = 10_000;
            writer.write_event(THREAD + 7, None, 1, &start(7, 2));
        }
        if self.has_other_collections {
            writer.event(None, 1, &start(8, 0));
            writer.event(None, 18, &bulk(Some(0), &[]));
            writer.event(None, 2, &end(8, 0));
        }
        for (id, namespace, name) in &self.methods {
            let numbers = [u64s([*id, 0, id << 8]), u32s([16, 0, 0])].concat();
            let payload = [numbers, text(namespace), text(name), text("void ()")].concat();
            writer.event(None, 144, &payload);
        }
        writer.encoder.finish().unwrap()
    }
}

/// Generates heaps of up to 29 objects with any references and roots.
pub(crate) fn heaps() -> impl Strategy<Value = GeneratedHeap> {
    const TYPES: [&str; 4] = ["A", "B", "C`1[System.Int32]", "System.Object[]"];
    const FIELDS: [&str; 3] = ["x", "y", "z"];
    (1_usize..30).prop_flat_map(|count| {
        let place = 0..count;
        let edges = prop::collection::vec(prop::collection::vec(0..count + 1, 0..4), count);
        let sizes = prop::collection::vec((24_u64..100, 1_u64..5), count);
        let statics = prop::collection::vec((place.clone(), 8_u64..120, place.clone()), 0..4);
        let roots = prop::collection::vec((place.clone(), 0_u8..4, 0_u32..3, 0_u64..3), 0..6);
        let dependents = prop::collection::vec((place.clone(), place), 0..3);
        let order = Just((0..count).collect::<Vec<usize>>()).prop_shuffle();
        (edges, sizes, statics, roots, dependents, order, any::<bool>()).prop_map(
            move |(edges, sizes, statics, roots, dependents, order, is_shuffled)| {
                // Objects are 128 bytes apart, so they do not overlap. Addresses after the last object have no object.
                let address = |place: usize| 0x1000 + 128 * place as u64;
                let mut objects: Vec<Object> = edges
                    .iter()
                    .zip(&sizes)
                    .enumerate()
                    .map(|(place, (edges, (size, of)))| Object {
                        address: address(place),
                        size: *size,
                        of: *of,
                        edges: edges.iter().map(|edge| address(*edge)).collect(),
                    })
                    .collect();
                if is_shuffled {
                    let all = objects.clone();
                    objects = order.into_iter().map(|place| all[place].clone()).collect();
                }
                let mut names = FIELDS.into_iter();
                let statics = statics
                    .into_iter()
                    .filter_map(|(array, inside, object)| {
                        Some((address(array) + inside, address(object), names.next()?))
                    })
                    .collect();
                GeneratedHeap {
                    objects,
                    types: (1..).zip(TYPES).collect(),
                    statics,
                    roots: roots
                        .into_iter()
                        .map(|(object, kind, flags, id)| (address(object), kind, flags, id))
                        .collect(),
                    dependents: dependents
                        .into_iter()
                        .map(|(key, value)| (address(key), address(value)))
                        .collect(),
                    methods: vec![(1, "P", "one"), (2, "P", "two")],
                    ..GeneratedHeap::default()
                }
            },
        )
    })
}
