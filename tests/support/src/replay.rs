//! Recordings that are played into a pipeline like live processes.

use base::run_key::RunKey;
use base::time::TimeBase;
use clr_gc::gc::Outcome;
use gcwatch::pipeline::replay::{Player, ReplayFeeds, ReplayIdentity};
use gcwatch::pipeline::{Feed, Pipeline};
use processes::{Identity, RunState};
use targets::clocks;
use targets::sink::{RunSink as _, Sink as _};

use crate::{notices, recordings};

/// A rule that fires on the first full collection and keeps firing for 1 h after the last.
pub const FULL: &str = "\
apiVersion: gcwatch/v1
rules:
  - id: test.full
    title: A full collection
    on: gc
    when: gc.generation == 2
    severity: warning
    keep_firing_for: 1h
    labels: { team.name: runtime }
    summary: Collection {{ gc.number }} was a full one
    description: All generations were collected.
    remedy: Look at what is kept.
    source: a test
";

/// Returns the outcomes that a process would produce from a recording.
pub fn outcomes(recording: &str) -> Vec<Outcome> {
    let mut player = Player::open(&recordings::path(recording)).unwrap();
    std::iter::from_fn(|| player.next_outcome().unwrap())
        .map(|(_, outcome)| outcome)
        .collect()
}

/// Plays the processes of a recording under a service name, at the recorded times. The processes still run after the
/// end of the recording.
pub fn stage(pipeline: &Pipeline, recording: &str, service: &str) -> ReplayFeeds {
    let mut player = Player::open(&recordings::path(recording)).unwrap();
    let base = player.begin().unwrap().unwrap().unix_ns_of_offset(0).unwrap();
    let cast = ReplayIdentity {
        service: service.to_owned(),
        attributes: Vec::new(),
        base: TimeBase::at(base),
        start_time: 1,
    };
    let mut stage = ReplayFeeds::new(pipeline.clone(), cast);
    while let Some((key, outcome)) = player.next_outcome().unwrap() {
        stage.observe(key, outcome).unwrap();
    }
    stage.progress(player.progress());
    stage
}

/// Opens a run for a process in a cluster. Its time base is 2 minutes ago.
pub fn process(pipeline: &Pipeline) -> Feed {
    let identity = Identity {
        resource: notices::resource().attributes,
        ..Identity::new(RunKey { pid: 7, start_time: 9 }, "Shop.Checkout")
    };
    let mut feed = pipeline.open(identity).unwrap();
    feed.time_base(TimeBase::at(i128::from(clocks().moment().ns()) - 120_000_000_000));
    feed.state(RunState::Attached);
    feed
}

/// Plays all collections of the recording `svc8-workstation`, which include full collections.
pub fn play(feed: &mut Feed) {
    let outcomes = outcomes("svc8-workstation").into_iter();
    outcomes
        .filter(|outcome| matches!(outcome, Outcome::Collection(_)))
        .for_each(|collection| feed.observe(collection));
}
