//! Tests of the files that result from streams, incidents and exits.

use std::path::Path;

use nettrace::encode::{Encoder, EventRecord};
use nettrace::{Decoder, Ending, Format, Options, TraceHeader};

use incidents::RECORDS_INTERVAL_NS;

use super::super::BlackBoxOptions;
use super::*;

const RUN: RunKey = RunKey { pid: 7, start_time: 1 };
const ID: &str = "20261123T114742Z-shop-7-0000000000000001";

/// Returns a stream with one event per second, one block per event.
fn stream(count: u32) -> Vec<u8> {
    let header = TraceHeader {
        frequency: 1,
        process_id: Some(7),
        processors: Some(2),
        ..TraceHeader::default()
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

fn share() -> QuotaOwner {
    QuotaOwner {
        tenant: "user 1000".into(),
        service: "shop".into(),
    }
}

fn set_up() -> Setting {
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

/// Returns the numbers of events and losses, and checks that the stream ends cleanly.
fn counts(file: &Path) -> (u64, Option<u64>) {
    let mut decoder = Decoder::new(Options::default());
    read(&mut decoder, &std::fs::read(file).unwrap());
    decoder.finish();
    assert!(decoder.next_item().unwrap().is_none());
    assert_eq!(decoder.ending(), Some(Ending::Clean));
    (decoder.stats().events, decoder.stats().lost)
}

/// Scenario: an incident starts on a live stream, is reported again, and time passes.
/// Guarantee: the existing stream is on disk immediately, the following part is added, and after ten seconds the file
/// is complete, with a name that states its length; the same incident is not recorded twice.
#[test]
fn recording_covers_time_before_and_after() {
    let mut setting = set_up();
    let mut decoder = tapped(&setting.boxes);
    let bytes = stream(30);
    let now = Instant::now();
    read(&mut decoder, &bytes[..bytes.len() / 3 * 2]);
    setting.writer.incident(RUN, &ID.into(), now);
    let partial = setting.state.path().join(format!("black-box/{ID}.partial"));
    assert!(std::fs::metadata(&partial).unwrap().len() > 70_000);
    setting.writer.tick(now);
    setting.writer.incident(RUN, &ID.into(), now);
    read(&mut decoder, &bytes[bytes.len() / 3 * 2..]);
    setting.writer.tick(now + WRITE_INTERVAL);
    assert_eq!(setting.writer.next(), Some(now + 2 * WRITE_INTERVAL));
    assert!(setting.files.list().unwrap().is_empty());
    setting.writer.tick(now + FOLLOWS);
    let list = setting.files.list().unwrap();
    assert_eq!(
        (list.len(), list[0].seconds_before, list[0].seconds_after),
        (1, Some(19), Some(10))
    );
    assert_eq!(counts(&setting.files.folder().join(&list[0].file)), (30, Some(0)));
    assert_eq!(setting.writer.next(), None);
    setting.writer.incident(RUN, &ID.into(), now);
    assert_eq!(setting.files.list().unwrap(), list);
    assert!(!partial.exists());
}

/// Scenario: a process is killed during a recording; another process without an incident is killed for memory; a third
/// process exits without further reports; other processes of its service die within ten minutes and later.
/// Guarantee: the first recording is complete at once and the only one; the second process leaves one recording; the
/// stream of the third process is dropped after two minutes; deaths of a service leave one recording per ten minutes.
#[test]
fn dead_process_leaves_one_recording() {
    let mut setting = set_up();
    let now = Instant::now();
    let cut = stream(20);
    let mut decoder = tapped(&setting.boxes);
    read(&mut decoder, &cut[..cut.len() - 3000]);
    setting.writer.incident(RUN, &ID.into(), now);
    drop(decoder);
    setting.writer.ended(RUN, share(), now);
    let died: Arc<str> = "20261123T114742Z-shop-7-died".into();
    setting.writer.died(RUN, Moment::from_ns(1), &died);
    let list = setting.files.list().unwrap();
    assert_eq!((list.len(), list[0].id.as_str()), (1, ID));
    assert_eq!(counts(&setting.files.folder().join(&list[0].file)), (19, Some(0)));

    let mut setting = set_up();
    drop({
        let mut decoder = tapped(&setting.boxes);
        read(&mut decoder, &cut);
        decoder
    });
    // The exit has not been reported yet.
    setting.writer.died(RUN, Moment::from_ns(1), &died);
    assert!(setting.files.list().unwrap().is_empty());
    setting.writer.ended(RUN, share(), now);
    setting.writer.died(RUN, Moment::from_ns(1), &died);
    setting.writer.died(RUN, Moment::from_ns(1), &died);
    let list = setting.files.list().unwrap();
    assert_eq!(
        (list.len(), list[0].seconds_before, list[0].seconds_after),
        (1, Some(19), Some(0))
    );

    let mut setting = set_up();
    // Other processes of the service die within ten minutes and after ten minutes.
    for (number, at, is_recorded) in [
        (2, 0, true),
        (3, RECORDS_INTERVAL_NS - 1, false),
        (4, RECORDS_INTERVAL_NS, true),
    ] {
        let run = RunKey { pid: number, ..RUN };
        let mut decoder = Decoder::new(Options::default());
        decoder.keep(setting.boxes.tap(run));
        read(&mut decoder, &cut);
        drop(decoder);
        let id: Arc<str> = format!("20261123T114742Z-shop-{number}-died").into();
        setting.writer.ended(run, share(), now);
        setting.writer.died(run, Moment::from_ns(at), &id);
        assert_eq!(setting.files.knows(&id), is_recorded, "{number}");
    }
    setting.writer.tick(now + EXITED_RETENTION);
    read(&mut tapped(&setting.boxes), &cut);
    setting.writer.ended(RUN, share(), now);
    setting.writer.tick(now);
    assert!(setting.boxes.held() > 0 && setting.writer.next() == Some(now + EXITED_RETENTION));
    setting.writer.tick(now + EXITED_RETENTION);
    assert_eq!((setting.boxes.held(), setting.writer.next()), (0, None));
    assert_eq!(setting.files.list().unwrap().len(), 2);
}

/// Scenario: the first incident concerns a process whose stream has not been read. The directory does not exist when
/// the second incident starts, and is deleted during the recording of the third incident.
/// Guarantee: the first three incidents leave no file, and the next incident is recorded.
#[test]
fn failing_disk_loses_only_its_recordings() {
    let mut setting = set_up();
    let now = Instant::now();
    let mut decoder = tapped(&setting.boxes);
    let id = |number: u32| format!("{ID}{number}").into();
    setting.writer.incident(RUN, &id(1), now);
    assert!(setting.files.list().unwrap().is_empty());
    read(&mut decoder, &stream(20));
    let folder = setting.state.path().join("black-box");
    std::fs::remove_dir(&folder).unwrap();
    setting.writer.incident(RUN, &id(2), now);
    std::fs::create_dir(&folder).unwrap();
    setting.writer.incident(RUN, &id(3), now);
    std::fs::remove_dir_all(&folder).unwrap();
    setting.writer.tick(now + FOLLOWS);
    std::fs::create_dir(&folder).unwrap();
    setting.writer.incident(RUN, &id(4), now);
    setting.writer.stop();
    let list = setting.files.list().unwrap();
    assert_eq!((list.len(), list[0].id.as_str()), (1, &*format!("{ID}4")));
}

/// Scenario: the maximum number of recordings is open: most of one tenant with many service names, the others of two
/// services of another tenant; each tenant starts one more.
/// Guarantee: the tenant with the most recordings loses one recording to the other tenant. Its own new service gets no
/// recording, because each of its services has at most one.
#[test]
fn tenant_with_most_recordings_loses_one() {
    let mut setting = set_up();
    let now = Instant::now();
    let mut decoders = Vec::new();
    let mut begin = |writer: &mut Writer, pid: u32, tenant: &str, service: &str| {
        let run = RunKey { pid, ..RUN };
        let mut decoder = Decoder::new(Options::default());
        decoder.keep(setting.boxes.tap(run));
        read(&mut decoder, &stream(2));
        decoders.push(decoder);
        let id: Arc<str> = format!("20261123T114742Z-{service}-{pid}-1").into();
        let share = QuotaOwner {
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
        assert!(begin(&mut setting.writer, 100 + pid, "pod a", &format!("any{pid}")));
    }
    for pid in 0..4 {
        let service = if pid == 0 { "cart" } else { "shop" };
        assert!(begin(&mut setting.writer, 200 + pid, "pod b", service));
    }
    assert!(begin(&mut setting.writer, 300, "pod b", "cart"));
    assert_eq!(
        (
            of(&setting.writer, "any"),
            of(&setting.writer, "cart"),
            of(&setting.writer, "shop")
        ),
        (59, 2, 3)
    );
    // Each of the tenant's services has one recording, so none can be ended.
    assert!(!begin(&mut setting.writer, 301, "pod a", "new"));
    assert_eq!(setting.writer.open.len(), MAX_OPEN);
}
