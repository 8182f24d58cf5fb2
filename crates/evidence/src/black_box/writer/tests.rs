//! Streams, incidents and ends, and the files that come of them.

use std::path::Path;

use nettrace::encode::{Encoder, EventRecord};
use nettrace::{Decoder, Ending, Format, Options, PointerSize, SystemTime, TraceHeader};

use gc_rules::incident::RECORDS_EVERY_NS;

use super::super::BlackBoxOptions;
use super::*;

const RUN: RunKey = RunKey { pid: 7, start_time: 1 };
const ID: &str = "20261123T114742Z-shop-7-0000000000000001";

/// A stream of events, one a second, a block for each.
fn stream(count: u32) -> Vec<u8> {
    let header = TraceHeader {
        format: Format::V4,
        system_time: SystemTime::default(),
        sync_ticks: 0,
        frequency: 1,
        pointer_size: PointerSize::Eight,
        process_id: Some(7),
        processors: Some(2),
        sampling_rate_ns: None,
        properties: Vec::new(),
    };
    let mut encoder = Encoder::new(Format::V4, &header).unwrap();
    for sequence in 1..=count {
        let event = EventRecord {
            metadata_id: 1,
            sequence,
            capture_thread: 5,
            timestamp: sequence.into(),
            is_sorted: true,
            payload: &[7; 4000],
            ..EventRecord::default()
        };
        encoder.event(&event).unwrap();
        encoder.flush().unwrap();
    }
    encoder.finish().unwrap()
}

fn read(decoder: &mut Decoder, bytes: &[u8]) {
    decoder.push(bytes);
    while decoder.next_item().unwrap().is_some() {}
}

struct Setting {
    state: tempfile::TempDir,
    boxes: Arc<BlackBoxes>,
    files: Arc<Files>,
    writer: Writer,
}

fn share() -> Share {
    Share {
        tenant: "user 1000".into(),
        service: "shop".into(),
    }
}

fn setting() -> Setting {
    let state = tempfile::tempdir().unwrap();
    let boxes = BlackBoxes::new().unwrap();
    let files = Arc::new(Files::open(state.path(), &BlackBoxOptions::default()).unwrap());
    let writer = Writer::new(Arc::clone(&boxes), Arc::clone(&files), Arc::default());
    Setting {
        state,
        boxes,
        files,
        writer,
    }
}

fn tapped(boxes: &Arc<BlackBoxes>) -> Decoder {
    let mut decoder = Decoder::new(Options::default());
    decoder.keep(boxes.tap(RUN));
    decoder
}

/// Events, losses, and that it ends in order.
fn counts(file: &Path) -> (u64, Option<u64>) {
    let mut decoder = Decoder::new(Options::default());
    read(&mut decoder, &std::fs::read(file).unwrap());
    decoder.finish();
    assert!(decoder.next_item().unwrap().is_none());
    assert_eq!(decoder.ending(), Some(Ending::Clean));
    (decoder.stats().events, decoder.stats().lost)
}

/// Scenario: an incident on a live stream, the same one again, time.
/// Guarantee: what was there is on disk at once, what follows is added, and after ten seconds the file is complete,
/// with a name that says how much is in it; the same incident is not recorded twice.
#[test]
fn a_recording_has_what_was_before_and_after() {
    let Setting {
        state,
        boxes,
        files,
        mut writer,
    } = setting();
    let mut decoder = tapped(&boxes);
    let bytes = stream(30);
    let now = Instant::now();
    read(&mut decoder, &bytes[..bytes.len() / 3 * 2]);
    writer.incident(RUN, &ID.into(), now);
    let partial = state.path().join(format!("black-box/{ID}.partial"));
    assert!(std::fs::metadata(&partial).unwrap().len() > 70_000);
    writer.tick(now);
    writer.incident(RUN, &ID.into(), now);
    read(&mut decoder, &bytes[bytes.len() / 3 * 2..]);
    writer.tick(now + EVERY);
    assert_eq!(writer.next(), Some(now + 2 * EVERY));
    assert!(files.list().unwrap().is_empty());
    writer.tick(now + FOLLOWS);
    let list = files.list().unwrap();
    assert_eq!(
        (list.len(), list[0].seconds_before, list[0].seconds_after),
        (1, Some(19), Some(10))
    );
    assert_eq!(counts(&files.folder().join(&list[0].file)), (30, Some(0)));
    assert_eq!(writer.next(), None);
    writer.incident(RUN, &ID.into(), now);
    assert_eq!(files.list().unwrap(), list);
    assert!(!partial.exists());
}

/// Scenario: a process is killed during a recording; another one without an incident is killed for memory; a third
/// one exits, and nothing more is heard of it; others of its service die within ten minutes and after them.
/// Guarantee: the first recording is complete at once and no other is made; the second leaves one, once; of the third
/// nothing is kept after two minutes; deaths of a service leave one in ten minutes.
#[test]
fn the_dead_leave_a_recording() {
    let Setting {
        state: _state,
        boxes,
        files,
        mut writer,
    } = setting();
    let now = Instant::now();
    let cut = stream(20);
    let mut decoder = tapped(&boxes);
    read(&mut decoder, &cut[..cut.len() - 3000]);
    writer.incident(RUN, &ID.into(), now);
    drop(decoder);
    writer.ended(RUN, share(), now);
    let died: Arc<str> = "20261123T114742Z-shop-7-died".into();
    writer.died(RUN, Moment::from_ns(1), &died);
    let list = files.list().unwrap();
    assert_eq!((list.len(), list[0].id.as_str()), (1, ID));
    assert_eq!(counts(&files.folder().join(&list[0].file)), (19, Some(0)));

    let Setting {
        state: _state,
        boxes,
        files,
        mut writer,
    } = setting();
    drop({
        let mut decoder = tapped(&boxes);
        read(&mut decoder, &cut);
        decoder
    });
    // Before it is known that it exited.
    writer.died(RUN, Moment::from_ns(1), &died);
    assert!(files.list().unwrap().is_empty());
    writer.ended(RUN, share(), now);
    writer.died(RUN, Moment::from_ns(1), &died);
    writer.died(RUN, Moment::from_ns(1), &died);
    let list = files.list().unwrap();
    assert_eq!(
        (list.len(), list[0].seconds_before, list[0].seconds_after),
        (1, Some(19), Some(0))
    );

    let Setting {
        state: _state,
        boxes,
        files,
        mut writer,
    } = setting();
    // Another one of the service dies within ten minutes, and one after them.
    for (number, at, is_recorded) in [
        (2, 0, true),
        (3, RECORDS_EVERY_NS - 1, false),
        (4, RECORDS_EVERY_NS, true),
    ] {
        let run = RunKey { pid: number, ..RUN };
        let mut decoder = Decoder::new(Options::default());
        decoder.keep(boxes.tap(run));
        read(&mut decoder, &cut);
        drop(decoder);
        let id: Arc<str> = format!("20261123T114742Z-shop-{number}-died").into();
        writer.ended(run, share(), now);
        writer.died(run, Moment::from_ns(at), &id);
        assert_eq!(files.knows(&id), is_recorded, "{number}");
    }
    writer.tick(now + REMEMBERED);
    read(&mut tapped(&boxes), &cut);
    writer.ended(RUN, share(), now);
    writer.tick(now);
    assert!(boxes.held() > 0 && writer.next() == Some(now + REMEMBERED));
    writer.tick(now + REMEMBERED);
    assert_eq!((boxes.held(), writer.next()), (0, None));
    assert_eq!(files.list().unwrap().len(), 2);
}

/// Scenario: the directory is gone when an incident begins, and while one is being recorded; an incident of a process
/// that is not read.
/// Guarantee: nothing is made, nothing is held, and the next incident is recorded.
#[test]
fn a_disk_that_fails_costs_the_recording() {
    let Setting {
        state,
        boxes,
        files,
        mut writer,
    } = setting();
    let now = Instant::now();
    let mut decoder = tapped(&boxes);
    let id = |number: u32| format!("{ID}{number}").into();
    writer.incident(RUN, &id(1), now);
    assert!(files.list().unwrap().is_empty());
    read(&mut decoder, &stream(20));
    let folder = state.path().join("black-box");
    std::fs::remove_dir(&folder).unwrap();
    writer.incident(RUN, &id(2), now);
    std::fs::create_dir(&folder).unwrap();
    writer.incident(RUN, &id(3), now);
    std::fs::remove_dir_all(&folder).unwrap();
    writer.tick(now + FOLLOWS);
    std::fs::create_dir(&folder).unwrap();
    writer.incident(RUN, &id(4), now);
    writer.stop();
    let list = files.list().unwrap();
    assert_eq!((list.len(), list[0].id.as_str()), (1, &*format!("{ID}4")));
}

/// Scenario: all places are taken: most by one tenant under many names, the others by two services of another; each
/// begins one more.
/// Guarantee: the tenant with most ends one of its own; of the tenants with as many, the service with more does.
#[test]
fn whoever_records_most_gives_a_place() {
    let Setting {
        state: _state,
        boxes,
        files: _files,
        mut writer,
    } = setting();
    let now = Instant::now();
    let mut decoders = Vec::new();
    let mut begin = |writer: &mut Writer, pid: u32, tenant: &str, service: &str| {
        let run = RunKey { pid, ..RUN };
        let mut decoder = Decoder::new(Options::default());
        decoder.keep(boxes.tap(run));
        read(&mut decoder, &stream(2));
        decoders.push(decoder);
        let id: Arc<str> = format!("20261123T114742Z-{service}-{pid}-1").into();
        let share = Share {
            tenant: tenant.into(),
            service: service.into(),
        };
        writer
            .recordings
            .begin(&share, &format!("rule {pid}").into(), Moment::from_ns(1), &id)
            .unwrap();
        writer.incident(run, &id, now);
        writer.open.iter().any(|open| open.run == run)
    };
    let of = |writer: &Writer, service: &str| {
        let open = writer.open.iter().filter_map(|open| open.share.as_ref());
        open.filter(|share| share.service.starts_with(service)).count()
    };
    for pid in 0..60 {
        assert!(begin(&mut writer, 100 + pid, "pod a", &format!("any{pid}")));
    }
    for pid in 0..4 {
        let service = if pid == 0 { "cart" } else { "shop" };
        assert!(begin(&mut writer, 200 + pid, "pod b", service));
    }
    assert!(begin(&mut writer, 300, "pod b", "cart"));
    assert_eq!(
        (of(&writer, "any"), of(&writer, "cart"), of(&writer, "shop")),
        (59, 2, 3)
    );
    // As many names as places: there is none to give.
    assert!(!begin(&mut writer, 301, "pod a", "new"));
    assert_eq!(writer.open.len(), MOST_OPEN);
}
