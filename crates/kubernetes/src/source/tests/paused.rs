//! Scenarios that take long, on a paused clock and without sockets.

use hyper::body::Bytes;
use tokio::time::{Instant, timeout};

use super::*;
use crate::script::{Asked, End, Script, ScriptedAnswer};
use crate::watch::SILENT;

/// Far longer than any scenario takes by the paused clock.
const PATIENCE: Duration = Duration::from_secs(36_000);

struct Paused {
    script: Script,
    stats: Arc<Stats>,
    pods: Arc<Pods>,
    task: JoinHandle<()>,
}

impl Drop for Paused {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Paused {
    fn begin(steps: Vec<ScriptedAnswer>) -> Self {
        let script = Script::new(steps);
        let (pods, stats) = (Arc::new(Pods::default()), Arc::new(Stats::default()));
        let follower = Follower {
            backoff: BACKOFF,
            client: Client::new(script.clone(), "the script".to_owned(), None),
            settings: Settings::default(),
            pods: Arc::clone(&pods),
            stats: Arc::clone(&stats),
            changed: || (),
            is_denied: AtomicBool::new(false),
        };
        let task = tokio::spawn(follower.watch());
        Self {
            script,
            stats,
            pods,
            task,
        }
    }

    /// The requests, once there are so many.
    async fn asked(&self, requests: usize) -> Vec<Asked> {
        let until = async {
            while self.script.asked().len() < requests {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(PATIENCE, until).await.unwrap();
        self.script.asked()
    }
}

fn page(pods: &[Value], version: &str) -> ScriptedAnswer {
    let Answer::Whole(status, body) = list(pods, version, None) else {
        unreachable!()
    };
    ScriptedAnswer::whole(status, body)
}

fn events(lines: &[String], end: End) -> ScriptedAnswer {
    let pieces = lines.iter().map(|line| Bytes::from(line.clone())).collect();
    ScriptedAnswer::Answer(200, None, pieces, end)
}

fn between(asked: &[Asked], first: usize) -> Duration {
    asked[first + 1].at - asked[first].at
}

/// Scenario: an overloaded server that sends `Retry-After` when a list begins, when a watch begins, and within a watch.
/// Guarantee: no request is made earlier.
#[tokio::test(start_paused = true)]
async fn retry_after_is_honoured() {
    let later = || ScriptedAnswer::Answer(429, Some("120"), Vec::new(), End::InOrder);
    let within = line(
        "ERROR",
        &json!({"code": 429, "message": "later", "details": {"retryAfterSeconds": 90}}),
    );
    let scene = Paused::begin(vec![later(), page(&[], "1"), later(), events(&[within], End::InOrder)]);
    let asked = scene.asked(5).await;
    for (first, seconds) in [(0, 120), (2, 120), (3, 90)] {
        let pause = between(&asked, first);
        assert!(
            pause >= Duration::from_secs(seconds) && pause < Duration::from_secs(seconds + 1),
            "{pause:?}"
        );
    }
    assert_eq!(scene.stats.now().failures, 3);
}

/// Scenario: a watch on which nothing is received, on a connection that stays open.
/// Guarantee: it is ended after the time for which it was requested, and the next one continues at its version.
#[tokio::test(start_paused = true)]
async fn a_silent_watch_is_ended() {
    let bookmark = line("BOOKMARK", &json!({"metadata": {"resourceVersion": "7"}}));
    let scene = Paused::begin(vec![page(&[], "1"), events(&[bookmark], End::Silence)]);
    let asked = scene.asked(3).await;
    let silence = between(&asked, 1);
    assert!(
        silence >= SILENT && silence < SILENT + Duration::from_secs(2),
        "{silence:?}"
    );
    assert!(asked[2].path.contains("resourceVersion=7"), "{asked:?}");
    assert_eq!(scene.stats.now().failures, 1);
}

/// Scenario: an object longer than a line may be, in many pieces, between two others.
/// Guarantee: only that object is skipped, and counted; the watch continues.
#[tokio::test(start_paused = true)]
async fn an_object_that_is_too_long_is_skipped() {
    let mut lines = vec![line("ADDED", &pod("u1", "one", 2))];
    lines.extend(std::iter::repeat_n("x".repeat(1 << 20), 5));
    lines.push("\n".to_owned() + &line("ADDED", &pod("u2", "two", 3)));
    let scene = Paused::begin(vec![page(&[], "1"), events(&lines, End::Silence)]);
    let both = async {
        while scene.pods.count() < 2 {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, both).await.unwrap();
    let stats = scene.stats.now();
    assert_eq!((stats.events, stats.left_out, stats.failures), (2, 1, 0));
}

/// Scenario: a server that ends each watch as soon as it begins, in order or by breaking it off.
/// Guarantee: the pauses between the watches grow.
#[tokio::test(start_paused = true)]
async fn watches_that_end_at_once_are_repeated_with_pauses() {
    for end in [End::InOrder, End::Broken] {
        let begin = Instant::now();
        let ended = (0..8).map(|_| events(&[], end));
        let scene = Paused::begin(std::iter::once(page(&[], "1")).chain(ended).collect());
        scene.asked(9).await;
        // At least half of 1 + 2 + 4 + ... + 60 seconds.
        assert!(begin.elapsed() > Duration::from_secs(60), "{:?}", begin.elapsed());
    }
}
