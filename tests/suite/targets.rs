//! The supervisor with a simulated runtime that does what real runtimes do rarely or never: it ends sessions, sends
//! damaged data, and ignores a stop command.

mod fake;

use std::time::Duration;

use base::pattern::Pattern;
use clr_gc::gc::{LIVE_SETTLE_NS, OpenOperations, ReportTiming};
use clr_gc::stream::{GcStream, Scope};
use dotnet_diagnostics::message::Command;
use processes::RunState;
use targets::UnfinishedSessions;
use targets::options::{Filter, TargetOptions};

use test_support::recordings::bytes as recording;
use test_support::supervised::{Run, TestSupervisor};

use self::fake::{Fake, Stream};

/// Starts a supervisor that attaches only to the simulated runtime, which poses as the test process itself.
fn supervise(leases: &tempfile::TempDir) -> TestSupervisor {
    let program = std::env::current_exe().unwrap();
    let name = program.file_name().unwrap().to_str().unwrap().to_owned();
    TestSupervisor::start(TargetOptions {
        include: vec![Filter {
            name: Some(Pattern(name)),
            ..Filter::default()
        }],
        scan_interval: Duration::from_millis(200),
        lease_folder: leases.path().join("leases"),
        read_settings: false,
        ..TargetOptions::default()
    })
}

fn times(run: &Run, fits: impl Fn(&RunState) -> bool) -> usize {
    run.states.iter().filter(|state| fits(state)).count()
}

/// Scenario: the runtime ends each session by itself, as after StopTracing by another tool, and the process continues
/// to run.
/// Guarantee: the supervisor attaches again, and the same run continues.
#[tokio::test]
async fn session_ended_by_runtime_is_restarted() {
    let whole = recording("net31-fin");
    let fake = Fake::start(move |_| Stream::Whole(whole.clone())).await;
    let leases = tempfile::tempdir().unwrap();
    let supervised = supervise(&leases);
    let detached = |state: &RunState| matches!(state, RunState::Detached { .. });
    let again = |run: &Run| times(run, detached) >= 2;
    let run = supervised.until(std::process::id(), "again", again).await;
    assert_eq!(run.opened, 1, "{:?}", run.states);
    assert!(
        times(&run, |state| *state == RunState::Attached) >= 2,
        "{:?}",
        run.states
    );
    let collections = run.collections.len();
    assert!(
        collections >= 2 && collections.is_multiple_of(2),
        "{collections}: each session reports the same collections"
    );
    assert!(run.bases.len() >= 2);
    assert_eq!(supervised.stop().await, UnfinishedSessions::default());
    drop(fake);
}

/// Scenario: a stream is damaged after some collections and does not end; the next stream is valid.
/// Guarantee: the collections before the damage are reported; the session is stopped, and the next session is read.
#[tokio::test]
async fn damaged_stream_ends_only_its_session() {
    let whole = recording("net31-fin");
    let mut damaged = whole.clone();
    let half = damaged.len() / 2;
    damaged[half..].fill(0xFF);
    let fake = Fake::start(move |nth| match nth {
        0 => Stream::Open(damaged.clone()),
        _ => Stream::Open(whole.clone()),
    })
    .await;
    let leases = tempfile::tempdir().unwrap();
    let supervised = supervise(&leases);
    let damage = |state: &RunState| matches!(state, RunState::Detached { detail } if detail.contains("damaged"));
    let run = supervised
        .until(std::process::id(), "damaged", |run| times(run, damage) == 1)
        .await;
    let before = run.collections.len();
    assert!(fake.stopped() >= 1, "the session is stopped");
    let more = |run: &Run| run.is_attached() && run.collections.len() > before;
    let run = supervised.until(std::process::id(), "again", more).await;
    assert_eq!((times(&run, damage), run.opened), (1, 1));
    assert_eq!(supervised.stop().await, UnfinishedSessions::default());
}

/// Scenario: a runtime accepts StopTracing and continues to send.
/// Guarantee: the supervisor stops within its timeout and reports that the session did not end.
#[tokio::test]
async fn session_that_does_not_stop_is_reported() {
    let whole = recording("net31-fin");
    let fake = Fake::start(move |_| Stream::Stubborn(whole.clone())).await;
    let leases = tempfile::tempdir().unwrap();
    let supervised = supervise(&leases);
    supervised.until(std::process::id(), "attached", Run::is_attached).await;
    let unfinished = supervised.stop().await;
    let [(pid, _, problem)] = &unfinished.sessions[..] else {
        panic!("{unfinished:?}")
    };
    assert_eq!(*pid, std::process::id());
    assert!(problem.contains(Command::StopTracing.name()), "{problem}");
    drop(fake);
}

/// Returns the start of a recording, cut during a blocking collection, and the collection that is open there.
fn cut_in_a_collection(whole: &[u8]) -> (Vec<u8>, OpenOperations) {
    let mut stream = GcStream::new(Scope::Collections, ReportTiming::After(LIVE_SETTLE_NS));
    let mut read = 0;
    for piece in whole.chunks(100) {
        stream.space(piece.len())[..piece.len()].copy_from_slice(piece);
        stream.filled(piece.len());
        stream.flush();
        stream.advance(|_| {}).unwrap();
        read += piece.len();
        let open = stream.open();
        if open.collection.is_some() && open.stop.is_some() {
            return (whole[..read].to_vec(), open);
        }
    }
    panic!("no block of the recording ends in a collection");
}

/// Scenario: the runtime's stream pauses in the middle of a blocking collection; the process still runs, but no further
/// byte arrives.
/// Guarantee: timers alone make the supervisor report the suspended threads and the open collection with their start
/// times; after the session, neither is open.
#[tokio::test]
async fn unfinished_collection_is_reported_without_further_bytes() {
    let (cut, open) = cut_in_a_collection(&recording("net10-steady"));
    let fake = Fake::start(move |_| Stream::Open(cut.clone())).await;
    let leases = tempfile::tempdir().unwrap();
    let supervised = supervise(&leases);
    let is_open = |run: &Run| run.open == open;
    supervised
        .until(std::process::id(), "an open collection", is_open)
        .await;
    let log = supervised.log.clone();
    assert_eq!(supervised.stop().await, UnfinishedSessions::default());
    let run = log
        .until(std::process::id(), "the end", |run| run.open.is_nothing())
        .await;
    assert!(
        run.collections.iter().any(|gc| !gc.is_complete()),
        "the incomplete collection is reported as incomplete"
    );
    drop(fake);
}
