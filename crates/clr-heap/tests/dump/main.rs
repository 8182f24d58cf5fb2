//! Reads dumps written in the format of a runtime, and checks the results.

// Outside `#[test]` functions, clippy does not know that this is a test.
#![allow(clippy::unwrap_used)]

mod made;
mod naive;

use clr_heap::cost;
use clr_heap::profile;
use clr_heap::reading::{Dump, DumpDetail, DumpReading, Holder, Refusal};
use clr_heap::snapshot;
use clr_heap::survey::{Record, Survey, survey};
use proptest::prelude::*;

use made::{GeneratedHeap, Object, Part};

const GRAPH: DumpDetail = DumpDetail::Graph { most: u64::MAX };

fn read(stream: &[u8], want: DumpDetail, piece: usize) -> Result<Dump, Refusal> {
    let mut reading = DumpReading::new(want);
    for bytes in stream.chunks(piece) {
        reading.push(bytes)?;
    }
    reading.finish()
}

fn surveyed(made: &GeneratedHeap) -> Survey {
    survey(read(&made.stream(), GRAPH, 1 << 16).unwrap(), None).0
}

fn object(address: u64, size: u64, of: u64, edges: &[u64]) -> Object {
    Object {
        address,
        size,
        of,
        edges: edges.to_vec(),
    }
}

/// Builds a heap with a static list of three leaked objects, each of which has an array. A handle holds the runtime's
/// array of statics, and this array also holds a literal. A stack frame and a weak handle refer to one other object
/// each.
fn small() -> GeneratedHeap {
    GeneratedHeap {
        objects: vec![
            // The runtime's array of statics, which a handle holds.
            object(0x1000, 0x40, 1, &[0x2000, 0x2900]),
            object(0x2000, 32, 2, &[0x2100]),
            object(0x2100, 48, 3, &[0x2200, 0x2300, 0x2400]),
            object(0x2200, 24, 4, &[0x2500]),
            object(0x2300, 24, 4, &[0x2600]),
            object(0x2400, 24, 4, &[0x2700]),
            object(0x2500, 124, 5, &[]),
            object(0x2600, 124, 5, &[]),
            object(0x2700, 124, 5, &[]),
            object(0x2800, 40, 6, &[]),
            object(0x2900, 24, 7, &[]),
            object(0x3000, 24, 8, &[]),
        ],
        types: vec![
            (1, "System.Object[]"),
            (2, "System.Collections.Generic.List`1[Leak.Leaked]"),
            (3, "Leak.Leaked[]"),
            (4, "Leak.Leaked"),
            (5, "System.Byte[]"),
            (6, "Held.OnStack"),
            (7, "Held.Nameless"),
            (8, "System.String"),
        ],
        statics: vec![(0x1018, 0x2000, "entries")],
        roots: vec![(0x1000, 2, 0, 0x77), (0x2800, 0, 0, 0xABC), (0x3000, 2, 2, 0x78)],
        dependents: vec![],
        methods: vec![(0xABC, "Program", "HoldOnStack"), (0xABD, "Program", "Main")],
        ..GeneratedHeap::default()
    }
}

/// Scenario: a small heap has a static, a strong handle, a weak handle and a stack frame that refer to objects.
/// Guarantee: counts, rounded bytes, retained bytes, paths and the first suspect match the heap. The static holds its
/// object in place of the runtime's array. The weak handle holds no object, so its object has no root.
#[test]
fn small_heap_is_described() {
    let survey = surveyed(&small());
    let row = |name: &str| survey.types.iter().find(|row| row.raw_type == name).unwrap();
    let leaked = row("Leak.Leaked");
    assert_eq!((leaked.objects, leaked.bytes, leaked.retained), (3, 72, Some(3 * 152)));
    assert_eq!(row("System.Byte[]").bytes, 3 * 128);
    assert_eq!(row("System.Object[]").retained, Some(0x40 + 24));
    let root = |holder| survey.roots.iter().find(|row| row.root_kind == holder).unwrap();
    let entries = root(Holder::Static);
    assert_eq!((entries.name.as_deref(), entries.objects), (Some("entries"), 8));
    assert_eq!(entries.retained, 32 + 48 + 3 * 152);
    assert_eq!(root(Holder::Stack).name.as_deref(), Some("Program.HoldOnStack"));
    assert_eq!(root(Holder::Handle).retained, 0x40 + 24);
    assert_eq!(root(Holder::Unrooted).retained, 24);
    let path = survey.paths.iter().find(|row| row.r#type == "Leaked").unwrap();
    assert_eq!((path.root.as_str(), path.objects), ("static entries", 3));
    assert_eq!(path.path, ["List<Leaked>", "Leaked[]", "Leaked"]);
    let suspect = &survey.suspects[0];
    assert_eq!(
        (suspect.r#type.as_str(), suspect.objects, suspect.root.as_deref()),
        ("Leaked", 3, Some("static entries"))
    );
    assert_eq!(
        suspect.text,
        "static entries holds 536 B, 78 % of all live bytes: 3 Leaked with 456 B in Leaked[]"
    );
    let heap = &survey.heap;
    assert_eq!((heap.objects, heap.method.as_str()), (12, "graph"));
    // From the suspension to the restart: thirteen events, 1,000 ns apart.
    assert_eq!(heap.stopped_ns, [13_000]);
}

/// Scenario: a survey is written as lines of JSON and read again.
/// Guarantee: the survey is unchanged.
#[test]
fn survey_round_trips() {
    let survey = surveyed(&small());
    let mut again = Survey::default();
    for record in survey.clone().records() {
        let line = serde_json::to_string(&record).unwrap();
        again.add(serde_json::from_str::<Record>(&line).unwrap());
    }
    assert_eq!(again, survey);
}

/// Scenario: paths are requested for one type, case-insensitively and by a part of its name.
/// Guarantee: only types that match the name are returned.
#[test]
fn paths_are_filtered_by_type() {
    let dump = read(&small().stream(), GRAPH, 1000).unwrap();
    let paths = survey(dump, Some("leak.LEAKED")).0.paths;
    let types: Vec<&str> = paths.iter().map(|path| path.r#type.as_str()).collect();
    // The name of the array contains the name of the type.
    assert_eq!(types, ["Leaked", "Leaked[]", "List<Leaked>"], "{paths:?}");
}

/// Scenario: one event is missing from a dump: the types, the statics, the last nodes, the last edges, the roots or the
/// end.
/// Guarantee: the graph and the histogram are refused as incomplete. For a graph, the error contains the required
/// buffer size.
#[test]
fn dump_with_lost_event_is_refused() {
    let made = small();
    for part in Part::ALL {
        let stream = made.stream_without(Some(part));
        let refusal = read(&stream, GRAPH, 4096).err();
        assert!(
            matches!(&refusal, Some(Refusal::Incomplete { needed_mb, .. }) if *needed_mb >= 3),
            "{part:?}: {refusal:?}"
        );
        let refusal = read(&stream, DumpDetail::Histogram, 4096).err();
        assert!(
            matches!(refusal, Some(Refusal::Incomplete { .. })),
            "{part:?}: {refusal:?}"
        );
    }
}

/// Scenario: a histogram is read from a session without the edges (.NET 10).
/// Guarantee: the histogram is complete; a graph of the same stream is refused.
#[test]
fn histogram_needs_no_edges() {
    let made = GeneratedHeap {
        has_no_edges: true,
        ..small()
    };
    let dump = read(&made.stream(), DumpDetail::Histogram, 4096).unwrap();
    assert_eq!(
        (dump.objects, dump.bytes),
        (12, 32 + 48 + 3 * 152 + 40 + 24 + 24 + 0x40)
    );
    assert!(matches!(
        read(&made.stream(), GRAPH, 4096),
        Err(Refusal::Incomplete { .. })
    ));
}

/// Scenario: with the server collector, another thread writes the start, which comes last; another stream has no start.
/// Guarantee: the types in the survey are the same; the stream without the start is refused.
#[test]
fn start_of_another_thread_is_accepted() {
    let made = GeneratedHeap {
        is_server: true,
        ..small()
    };
    let survey = surveyed(&made);
    assert_eq!(survey.types, surveyed(&small()).types);
    assert_eq!(survey.heap.stopped_ns.len(), 1);
    let made = GeneratedHeap {
        has_no_start: true,
        ..small()
    };
    assert!(matches!(
        read(&made.stream(), GRAPH, 4096),
        Err(Refusal::Incomplete { .. })
    ));
}

/// Scenario: a `GC.Collect` call of the program and a young collection with a walk precede the dump, another thread
/// walks the heap during the dump, and another walk follows.
/// Guarantee: the survey contains only the types of the dump.
#[test]
fn other_collections_are_ignored() {
    let made = GeneratedHeap {
        has_other_collections: true,
        ..small()
    };
    assert_eq!(surveyed(&made).types, surveyed(&small()).types);
}

/// Scenario: the only collection with a walk ran because the limit of the container was near (reason 13), or because
/// the program requested an aggressive collection (reason 17). A young collection with a walk precedes it.
/// Guarantee: the dump is the same as that of a collection that a session requested.
#[test]
fn full_collection_of_another_reason_is_dump() {
    for reason in [13, 17] {
        let made = GeneratedHeap {
            has_other_collections: true,
            reason: Some(reason),
            ..small()
        };
        assert_eq!(surveyed(&made).types, surveyed(&small()).types, "reason {reason}");
    }
}

/// Scenario: a graph needs more memory than allowed.
/// Guarantee: the result is a histogram with the reason for the missing graph.
#[test]
fn graph_over_budget_becomes_histogram() {
    let want = DumpDetail::Graph {
        most: cost::graph_bytes(5, 5),
    };
    let (survey, solved) = survey(read(&small().stream(), want, 4096).unwrap(), None);
    assert!(solved.is_none());
    assert_eq!((survey.heap.method.as_str(), survey.heap.objects), ("histogram", 12));
    assert!(
        survey.heap.reason.as_deref().unwrap().contains("12 objects"),
        "{:?}",
        survey.heap
    );
    assert!(survey.types.iter().all(|row| row.retained.is_none()) && survey.paths.is_empty());
}

/// Scenario: the input is not a stream, has no dump, or is from a 32-bit process.
/// Guarantee: each input is refused with its reason.
#[test]
fn input_without_dump_is_refused() {
    assert!(matches!(read(b"GIF89a, and more", GRAPH, 5), Err(Refusal::Stream(_))));
    let none = GeneratedHeap::default();
    assert_eq!(
        read(&none.stream_without(Some(Part::Start)), GRAPH, 100).err(),
        Some(Refusal::NoDump)
    );
    let small = GeneratedHeap {
        is_32_bits: true,
        ..small()
    };
    assert_eq!(read(&small.stream(), GRAPH, 100).err(), Some(Refusal::NotSixtyFour));
}

/// Scenario: types have no names, as in a second dump while another session is open.
/// Guarantee: the types are counted, and each type is shown by its token.
#[test]
fn unnamed_types_are_counted() {
    let mut made = small();
    for (_, name) in &mut made.types {
        *name = "";
    }
    let survey = surveyed(&made);
    assert_eq!(survey.heap.unnamed_types, 8);
    assert!(
        survey
            .types
            .iter()
            .all(|row| row.raw_type.starts_with("[type 0x0200000")),
        "{:?}",
        survey.types[0]
    );
}

/// Scenario: a static holds a list of 300,000 nodes.
/// Guarantee: the list is one step of a path, the static retains the whole list, and the analysis does not recurse for
/// each node.
#[test]
fn long_list_is_one_step() {
    let count = 300_000_u64;
    let mut objects = vec![object(0x1000, 0x40, 1, &[0x10_0000])];
    let at = |node: u64| 0x10_0000 + node * 32;
    for node in 0..count {
        let next = (node + 1 < count).then(|| at(node + 1));
        objects.push(object(at(node), 32, 2, next.as_slice()));
    }
    let made = GeneratedHeap {
        objects,
        types: vec![(1, "System.Object[]"), (2, "Held.ListNode")],
        statics: vec![(0x1010, 0x10_0000, "list")],
        roots: vec![(0x1000, 2, 1, 1)],
        ..GeneratedHeap::default()
    };
    let survey = surveyed(&made);
    let root = &survey.roots[0];
    assert_eq!(
        (root.name.as_deref(), root.objects, root.retained),
        (Some("list"), count, count * 32)
    );
    assert_eq!(survey.types[0].retained, Some(count * 32));
    assert_eq!(survey.paths[0].path, ["ListNode"]);
    assert!(
        survey.suspects[0]
            .text
            .contains("linked objects that begin with one ListNode"),
        "{:?}",
        survey.suspects
    );
}

/// Scenario: the small heap is written as pprof and as a snapshot for browsers.
/// Guarantee: the bytes of the stacks sum up to all objects; the snapshot is JSON with consistent counts and indices.
#[test]
fn other_formats_are_complete() {
    let (survey, solved) = survey(read(&small().stream(), GRAPH, 4096).unwrap(), None);
    let solved = solved.unwrap();
    let stacks = profile::stacks(&solved);
    assert_eq!(stacks.iter().map(|(_, _, bytes)| bytes).sum::<u64>(), survey.heap.bytes);
    assert!(!profile::pprof(&solved, None).is_empty());
    let mut out = Vec::new();
    snapshot::write(&solved.graph, &mut out).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&out).unwrap();
    let numbers = |key: &str| -> Vec<u64> {
        json[key]
            .as_array()
            .unwrap()
            .iter()
            .map(|n| n.as_u64().unwrap())
            .collect()
    };
    let (nodes, edges) = (numbers("nodes"), numbers("edges"));
    let node_count = json["snapshot"]["node_count"].as_u64().unwrap();
    assert_eq!(nodes.len() as u64, node_count * 6);
    assert_eq!(node_count, 12 + 5);
    assert_eq!(edges.len() as u64, json["snapshot"]["edge_count"].as_u64().unwrap() * 3);
    assert_eq!(nodes.chunks(6).map(|node| node[4]).sum::<u64>() * 3, edges.len() as u64);
    assert!(
        edges
            .chunks(3)
            .all(|edge| edge[2] % 6 == 0 && edge[2] < nodes.len() as u64)
    );
    let strings = json["strings"].as_array().unwrap();
    assert!(nodes.chunks(6).all(|node| (node[1] as usize) < strings.len()));
    assert_eq!(nodes.chunks(6).map(|node| node[3]).sum::<u64>(), survey.heap.bytes);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Scenario: heaps of up to 29 objects in any order have every kind of root, statics inside and outside objects,
    /// weak tables and dangling references. The dumps are read in pieces of up to 4,999 bytes.
    /// Guarantee: counts, bytes, retained bytes of types and roots, and reached objects equal the results of a second
    /// implementation, which removes each object in turn. The paths contain every object once.
    #[test]
    fn survey_matches_the_definition(made in made::heaps(), piece in 1_usize..5000) {
        let (survey, solved) = survey(read(&made.stream(), GRAPH, piece).unwrap(), None);
        let naive = naive::Naive::from_heap(&made);
        for row in &survey.types {
            prop_assert_eq!((row.objects, row.bytes, row.retained.unwrap()), naive.measure_type(row.type_id), "type {}", row.type_id);
        }
        prop_assert_eq!(survey.heap.bytes, naive.bytes());
        prop_assert_eq!(survey.roots.iter().map(|row| row.reached).sum::<u64>(), naive.bytes());
        for (place, root) in naive.roots().iter().enumerate() {
            let found = survey.roots.iter().filter(|row| {
                row.root_kind == root.holder && row.name.as_deref().unwrap_or_default() == root.name
            });
            let found: Vec<_> = found.map(|row| (row.retained, row.objects)).collect();
            prop_assert_eq!(found, vec![naive.measure_root(place)], "{:?}", root);
        }
        let by_root = |root: &str| survey.paths.iter().filter(|path| path.root == root).map(|path| path.objects).sum::<u64>();
        for (root, objects) in naive.preferred() {
            prop_assert_eq!(by_root(&root), objects, "{}", root);
        }
        let kept = solved.unwrap().kept;
        prop_assert_eq!(kept.steps().iter().map(|step| step.objects).sum::<u64>(), made.objects.len() as u64);
    }

    /// Scenario: some bytes of a dump are changed.
    /// Guarantee: the dump is read or refused, without a panic.
    #[test]
    fn damaged_dump_is_read_or_refused(changes in prop::collection::vec((0_usize..4000, any::<u8>()), 1..6)) {
        let mut stream = small().stream();
        for (at, byte) in changes {
            let at = at % stream.len();
            stream[at] = byte;
        }
        if let Ok(dump) = read(&stream, GRAPH, 777) {
            let (_, solved) = survey(dump, None);
            if let Some(solved) = solved {
                snapshot::write(&solved.graph, &mut std::io::sink()).unwrap();
            }
        }
    }
}
