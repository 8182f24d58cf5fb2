use std::collections::BTreeSet;

use clr_heap::survey::{Survey, TypeRow};
use proptest::prelude::*;
use rule_engine::ledger::Growth;

use super::*;

const MIB: u64 = 1 << 20;

/// One event of a history.
#[derive(Debug, Clone)]
enum Action {
    /// This number of seconds passes; then the driver collects results and requests.
    Tick(u64),
    /// An incident requests evidence.
    Open(Box<EvidenceRequest>),
    /// The incidents of the process with this pid end.
    Close(u32),
    /// The condition of a process changes, see [`condition`].
    Condition(u32, u8),
    /// The newest task ends, see [`result`].
    End(u8),
    /// A task that was left behind ends.
    LeftEnded,
    Options(BurstOptions, CensusOptions),
}

fn run(pid: u32) -> RunKey {
    RunKey { pid, start_time: 5 }
}

fn at(seconds: u64) -> Moment {
    Moment::from_ns(seconds * 1_000_000_000)
}

/// Returns the condition of a process: healthy, with a temporary obstacle, or with a limit that is reached.
fn condition(kind: u8) -> Condition {
    let healthy = Condition {
        is_attached: true,
        major: Some(10),
        server: Some(false),
        live: Some(100 * MIB),
        heap: Some(120 * MIB),
        container: Some(200 * MIB),
        container_limit: Some(1024 * MIB),
        available: Some(4096 * MIB),
        pinned_objects: Some(1),
        ..Condition::default()
    };
    match kind {
        0 => Condition {
            is_attached: false,
            ..healthy
        },
        1 => Condition {
            is_behind: true,
            ..healthy
        },
        2 => Condition {
            container: Some(1023 * MIB),
            ..healthy
        },
        _ => healthy,
    }
}

/// Returns a request of a process. Pids 0 to 3 belong to four services of two tenants; the services repeat for higher
/// pids.
fn request(pid: u32, incident: u64, evidence: Evidence) -> EvidenceRequest {
    let growth = Growth {
        live: Some(12 * MIB as i64),
        ..Growth::default()
    };
    EvidenceRequest {
        run: run(pid),
        incident,
        incident_id: format!("{pid}-{incident}"),
        evidence,
        share: QuotaOwner {
            tenant: format!("tenant-{}", pid % 2).into(),
            service: format!("service-{}", pid % 4).into(),
        },
        condition: condition(9),
        account: Some(Arc::new(Ledger {
            growth,
            ..Ledger::default()
        })),
    }
}

fn open(requests: &mut Vec<EvidenceRequest>, request: &EvidenceRequest) {
    if requests.iter().all(|one| one.key() != request.key()) {
        requests.push(request.clone());
    }
}

fn set_condition(requests: &mut [EvidenceRequest], pid: u32, kind: u8) {
    for request in requests.iter_mut().filter(|request| request.run.pid == pid) {
        request.condition = condition(kind);
    }
}

/// Returns whether an incident with this finding requests no further evidence.
fn is_final(finding: &Finding) -> bool {
    match finding {
        Finding::Census(found) => found.is_final(),
        _ => true,
    }
}

fn survey() -> Survey {
    let mut survey = Survey::default();
    (survey.heap.objects, survey.heap.bytes) = (1_000, 24_000);
    survey.types.push(TypeRow {
        r#type: "Leaked".to_owned(),
        raw_type: String::new(),
        type_id: 1,
        module: 1,
        objects: 1_000,
        bytes: 24_000,
        retained: None,
    });
    survey
}

/// Returns a result of a task, or `None` for a thread that panics.
fn result(kind: u8, task: Task, evidence: Evidence) -> Option<TaskResult> {
    let finding = automatic::none(evidence, "the test has no figures".to_owned());
    match (kind, task) {
        (0, _) => Some(TaskResult::Busy),
        (1, _) => Some(TaskResult::Failed("the runtime refused".to_owned(), Outcome::Failed)),
        (2, _) => None,
        (3, Task::Burst(_)) => Some(TaskResult::Late(finding.into())),
        (3 | 4, Task::Dump(_)) => Some(TaskResult::Failed("the dump was cut".to_owned(), Outcome::Cut)),
        (4, Task::Burst(_)) => Some(TaskResult::Found(finding.into(), Outcome::Cut)),
        (_, Task::Burst(_)) => Some(TaskResult::Found(finding.into(), Outcome::Gathered)),
        (_, Task::Dump(plan)) => Some(TaskResult::Surveyed(survey().into(), plan)),
    }
}

fn options(kind: u8) -> (BurstOptions, CensusOptions) {
    let bursts = BurstOptions {
        enabled: kind != 0,
        every: Duration::from_secs(if kind == 2 { 20 } else { 1_800 }),
        ..BurstOptions::default()
    };
    let census = CensusOptions {
        enabled: kind > 1,
        apart: Duration::from_secs(if kind == 2 { 10 } else { 300 }),
        every: Duration::from_secs(if kind == 2 { 60 } else { 3_600 }),
        ..CensusOptions::default()
    };
    (bursts, census)
}

fn evidence(kind: u8) -> Evidence {
    match kind {
        0 => Evidence::Callers,
        1 => Evidence::Allocations,
        2 => Evidence::Stacks,
        _ => Evidence::Census,
    }
}

/// Histories start with all kinds of evidence enabled.
fn histories() -> impl Strategy<Value = Vec<Action>> {
    let seconds = prop_oneof![8 => 1_u64..3, 2 => 3_u64..70, 1 => 70_u64..4_000];
    let set = |kind| {
        let (bursts, census) = options(kind);
        Action::Options(bursts, census)
    };
    let action = prop_oneof![
        8 => seconds.prop_map(Action::Tick),
        4 => (0_u32..8, 0_u64..2, 0_u8..4)
            .prop_map(|(pid, incident, kind)| Action::Open(Box::new(request(pid, incident, evidence(kind))))),
        1 => (0_u32..8).prop_map(Action::Close),
        2 => (0_u32..8, 0_u8..6).prop_map(|(pid, kind)| Action::Condition(pid, kind)),
        4 => (0_u8..8).prop_map(Action::End),
        1 => Just(Action::LeftEnded),
        1 => (0_u8..6).prop_map(set),
    ];
    (2_u8..4, proptest::collection::vec(action, 1..80)).prop_map(move |(kind, mut history)| {
        history.insert(0, set(kind));
        history
    })
}

/// Open incidents and a schedule, on virtual time. An answer ends its request, as in the pipeline.
struct World {
    schedule: Schedule,
    requests: Vec<EvidenceRequest>,
    /// Seconds since the start.
    now: u64,
    /// Pids of the started tasks, in order.
    starts: Vec<u32>,
    /// Pid, outcome, and reason for a missing finding of each answer, in order.
    answers: Vec<(u32, Outcome, String)>,
}

impl World {
    fn with_options(kind: u8) -> Self {
        let mut world = Self {
            schedule: Schedule::new(BTreeSet::from([run(6)])),
            requests: Vec::new(),
            now: 1_000,
            starts: Vec::new(),
            answers: Vec::new(),
        };
        let (bursts, census) = options(kind);
        world.step(Input::Options(bursts, census));
        world
    }

    fn open(&mut self, pid: u32, evidence: Evidence) {
        open(&mut self.requests, &request(pid, 1, evidence));
    }

    fn step(&mut self, input: Input) -> Vec<Output> {
        let outputs = self.schedule.step(at(self.now), input);
        for output in &outputs {
            match output {
                Output::Start { request, .. } => self.starts.push(request.run.pid),
                Output::Answer { key, outcome, finding } => {
                    if is_final(finding) {
                        self.requests.retain(|request| request.key() != *key);
                    }
                    self.answers.push((key.0.pid, *outcome, reason(finding)));
                }
                Output::Leave | Output::Stop | Output::Dumps(..) => {}
            }
        }
        outputs
    }

    /// Does what the driver does `seconds` times, once per second.
    fn pass(&mut self, seconds: u64) -> Vec<Output> {
        let mut outputs = Vec::new();
        for _ in 0..seconds {
            self.now += 1;
            outputs.extend(self.step(Input::Time));
            outputs.extend(self.step(Input::Requests(self.requests.clone())));
        }
        outputs
    }

    fn end(&mut self, kind: u8) -> Vec<Output> {
        let running = self.schedule.running.as_ref().expect("a task runs");
        let result = result(kind, running.task, running.key.2).expect("a result");
        self.step(Input::Ended(result))
    }

    /// Returns the pid, outcome and reason of the newest answer.
    fn answer(&self) -> (u32, Outcome, &str) {
        let (pid, outcome, reason) = self.answers.last().expect("an answer");
        (*pid, *outcome, reason)
    }
}

fn reason(finding: &Finding) -> String {
    let reason = match finding {
        Finding::Callers(found) => found.none_because.clone(),
        Finding::Allocations(found) => found.none_because.clone(),
        Finding::Stacks(found) => found.none_because.clone(),
        Finding::Census(found) => found.none_because.clone().or(found.alone_because.clone()),
    };
    reason.unwrap_or_default()
}

const GATHERED: u8 = 9;

/// Scenario: four processes of two services of one tenant request a burst before a process of another tenant does. Each
/// burst ends after 5 s.
/// Guarantee: the tenants alternate, then the services of the tenant, then requests run in the order of their arrival.
/// One burst runs at a time.
#[test]
fn tenants_and_services_take_turns() {
    let mut world = World::with_options(1);
    for pid in [0, 4, 2, 8, 1] {
        world.open(pid, Evidence::Callers);
    }
    for started in 1..=5 {
        world.pass(5);
        assert_eq!(world.starts.len(), started, "one burst runs at a time");
        world.end(GATHERED);
    }
    assert_eq!(world.starts, [0, 1, 2, 4, 8]);
    assert!(
        world
            .answers
            .iter()
            .all(|(_, outcome, _)| *outcome == Outcome::Gathered)
    );
}

/// Scenario: a process loses its session while the burst of another process runs for 100 s; then no burst runs.
/// Guarantee: the request waits for another 60 s. Then the request is refused with the obstacle as its reason.
#[test]
fn time_of_other_burst_does_not_count_as_waiting() {
    let mut world = World::with_options(1);
    world.open(0, Evidence::Callers);
    world.pass(1);
    world.open(1, Evidence::Callers);
    set_condition(&mut world.requests, 1, 0);
    world.pass(100);
    world.end(GATHERED);
    world.pass(59);
    assert_eq!(world.answers.len(), 1, "the request waits");
    world.pass(1);
    let expected = (1, Outcome::Refused, "gcwatch does not currently read the process");
    assert_eq!(world.answer(), expected);
}

/// Scenario: eight bursts of different services hang one after the other, while a process of another service requests
/// a burst. Then one of the hanging threads ends, after its result has arrived late.
/// Guarantee: each burst is left behind 180 s after its deadlines, with an answer. With eight threads left behind, no
/// burst starts. The late result changes nothing, and the end of its thread lets the next burst start.
#[test]
fn hanging_bursts_are_left_behind() {
    let mut world = World::with_options(1);
    for pid in 10..18 {
        let mut one = request(pid, 1, Evidence::Stacks);
        one.share.service = format!("hanging-{pid}").into();
        world.requests.push(one);
        world.pass(1);
        assert_eq!(world.starts.last(), Some(&pid));
        let outputs = world.pass(180);
        assert!(
            !outputs.contains(&Output::Leave),
            "300 ms for the start and 300 ms for the stop remain"
        );
        let outputs = world.pass(1);
        assert!(outputs.contains(&Output::Leave));
        let (answered, outcome, reason) = world.answer();
        assert_eq!((answered, outcome), (pid, Outcome::Failed));
        assert!(
            reason.contains("file system of the process does not respond"),
            "{reason}"
        );
    }
    world.open(1, Evidence::Callers);
    assert_eq!(world.pass(30), []);
    let late = automatic::none(Evidence::Stacks, String::new());
    assert_eq!(
        world.step(Input::Ended(TaskResult::Found(late.into(), Outcome::Gathered))),
        []
    );
    assert_eq!(world.pass(1), []);
    world.step(Input::LeftEnded);
    world.pass(1);
    assert_eq!(world.starts.last(), Some(&1));
}

/// Scenario: the burst of one of three processes of a service does not end in time. A process of another tenant also
/// requests a burst. The service requests a burst again, one hour later.
/// Guarantee: the other processes of the service are refused for an hour. The other tenant gets its burst at once.
#[test]
fn late_burst_blocks_only_its_service() {
    let mut world = World::with_options(1);
    for pid in [0, 4, 8] {
        world.open(pid, Evidence::Allocations);
    }
    world.pass(1);
    world.open(1, Evidence::Allocations);
    world.end(3);
    assert_eq!(world.answer().1, Outcome::Cut);
    world.pass(1);
    assert_eq!(world.starts, [0, 1]);
    let refused =
        |answer: &&(u32, Outcome, String)| answer.2.contains("did not finish in time and delayed other bursts");
    assert_eq!(world.answers.iter().filter(refused).count(), 2);
    world.end(GATHERED);
    world.now += 3_600;
    world.open(4, Evidence::Allocations);
    world.pass(1);
    assert_eq!(world.starts, [0, 1, 4]);
}

/// Scenario: another program holds the burst lock of the host, for longer than a request waits. Later, the process
/// requests a burst again.
/// Guarantee: the request tries again each second, and is refused after 60 s. A try does not count as a burst of the
/// process.
#[test]
fn busy_host_makes_request_wait() {
    let mut world = World::with_options(1);
    world.open(0, Evidence::Callers);
    for _ in 0..=60 {
        world.pass(1);
        assert_eq!(world.answers, [], "the request waits");
        world.end(0);
    }
    assert_eq!(world.starts.len(), 61);
    assert_eq!(
        world.answer(),
        (0, Outcome::Refused, "another burst is running on this host")
    );
    world.open(0, Evidence::Callers);
    world.pass(1);
    assert_eq!(world.starts.len(), 62);
}

/// Scenario: one process exits during its burst, and another process exits while its request waits.
/// Guarantee: the result of the burst is answered once. The waiting request gets no burst and no answer.
#[test]
fn request_ends_with_its_process() {
    let mut world = World::with_options(1);
    world.open(0, Evidence::Callers);
    world.open(1, Evidence::Callers);
    world.pass(1);
    world.requests.clear();
    assert_eq!(world.pass(2), []);
    world.end(4);
    assert_eq!(world.answer(), (0, Outcome::Cut, "the test has no figures"));
    assert_eq!(world.pass(120), []);
    assert_eq!(world.starts, [0]);
}

/// Scenario: gcwatch stops during a burst, while another request waits. Afterwards, the burst ends and the options
/// change.
/// Guarantee: the burst is stopped once, and nothing else happens.
#[test]
fn burst_does_not_start_after_stop() {
    let mut world = World::with_options(1);
    world.open(0, Evidence::Callers);
    world.open(1, Evidence::Callers);
    world.pass(1);
    assert_eq!(world.step(Input::Stop), [Output::Stop]);
    assert_eq!(world.step(Input::Stop), []);
    let late = automatic::none(Evidence::Callers, String::new());
    assert_eq!(world.step(Input::Ended(TaskResult::Late(late.into()))), []);
    let (bursts, census) = options(3);
    assert_eq!(world.step(Input::Options(bursts, census)), []);
    assert_eq!(world.pass(100), []);
}

/// Scenario: a process requests a burst 29 and 30 minutes after its previous burst. gcwatch was killed during a burst
/// of another process.
/// Guarantee: the process gets at most one burst in 30 minutes. The other process gets no burst.
#[test]
fn process_has_one_burst_per_interval() {
    let mut world = World::with_options(1);
    world.open(0, Evidence::Callers);
    world.pass(1);
    world.end(GATHERED);
    world.now += 29 * 60;
    world.open(0, Evidence::Callers);
    world.pass(1);
    assert!(
        world.answer().2.contains("at most once in 30 min"),
        "{:?}",
        world.answer()
    );
    world.now += 60;
    world.open(0, Evidence::Callers);
    world.open(6, Evidence::Callers);
    world.pass(1);
    assert_eq!(world.starts, [0, 0]);
    assert!(
        world.answer().2.contains("gcwatch was killed during a burst"),
        "{:?}",
        world.answer()
    );
}

/// Scenario: an incident requests a census, whose dumps succeed. Another process of the service requests a census after
/// the first dump and 60 minutes after the first census.
/// Guarantee: the second dump follows 300 s after the first dump, without being refused for the time in between. The
/// pipeline knows when a dump runs. The service gets one census per hour.
#[test]
fn census_takes_two_dumps_once_per_hour() {
    let mut world = World::with_options(3);
    world.open(0, Evidence::Census);
    assert_eq!(world.pass(1)[0], Output::Dumps(run(0), true));
    assert_eq!(world.end(GATHERED)[0], Output::Dumps(run(0), false));
    world.open(4, Evidence::Census);
    world.pass(299);
    assert_eq!(world.starts, [0]);
    assert!(
        world.answer().2.contains("the last census of this service was"),
        "{:?}",
        world.answer()
    );
    world.pass(1);
    assert_eq!(world.starts, [0, 0]);
    world.end(GATHERED);
    assert_eq!(world.requests, [], "the second dump is final");
    world.now += 3_600;
    world.open(4, Evidence::Census);
    world.pass(1);
    assert_eq!(world.starts, [0, 0, 4]);
}

/// Scenario: the configuration disables bursts during a burst, while another request waits. Later, the configuration
/// enables bursts again.
/// Guarantee: the running burst gets its answer. No burst starts while bursts are disabled.
#[test]
fn disabled_bursts_do_not_start() {
    let mut world = World::with_options(1);
    world.open(0, Evidence::Callers);
    world.open(1, Evidence::Callers);
    world.pass(1);
    let (bursts, census) = options(0);
    world.step(Input::Options(bursts, census));
    world.pass(1);
    world.end(GATHERED);
    assert_eq!(world.answer().1, Outcome::Gathered);
    assert_eq!(world.pass(100), []);
    let (bursts, census) = options(1);
    world.step(Input::Options(bursts, census));
    world.pass(1);
    assert_eq!(world.starts, [0, 1]);
}

/// Scenario: gcwatch stalls for ten minutes. Directly afterwards, an incident requests a burst of a process that
/// gcwatch has not read yet. Later, bursts are disabled for an hour and enabled again, with the same request.
/// Guarantee: the time before the request does not count as waiting time, so the request waits for 60 s in both cases.
#[test]
fn time_before_request_does_not_count_as_waiting() {
    let mut world = World::with_options(1);
    world.pass(1);
    world.now += 600;
    for answered in 1..=2 {
        world.open(1, Evidence::Callers);
        set_condition(&mut world.requests, 1, 1);
        world.pass(60);
        assert_eq!(world.answers.len(), answered - 1, "the request waits");
        world.pass(1);
        assert_eq!(world.answers.len(), answered, "the request is refused after 60 s");
        let (off, census) = options(0);
        world.step(Input::Options(off, census));
        world.pass(1);
        world.now += 3_600;
        let (on, census) = options(1);
        world.step(Input::Options(on, census));
    }
}

proptest! {
    /// Scenario: requests, conditions, results, hanging tasks, options and times occur in any order.
    /// Guarantee: one task runs at a time, and only if its kind is enabled and fewer than eight tasks are left behind.
    /// Each start has at most one answer. A process has at most one finished burst per interval. A heap dump is always
    /// announced and ended. No request waits longer than its patience.
    #[test]
    fn limits_hold_in_any_history(history in histories()) {
        let mut world = World::with_options(3);
        let (mut left, mut open_starts, mut dumping) = (0, 0_i64, None);
        let mut bursts_of_run: BTreeMap<RunKey, u64> = BTreeMap::new();
        let (mut bursts, mut census) = options(3);
        for action in history {
            let mut is_over = false;
            let mut is_busy = false;
            let outputs = match action {
                Action::Tick(seconds) => {
                    world.now += seconds - 1;
                    world.pass(1)
                }
                Action::Open(request) => {
                    open(&mut world.requests, &request);
                    Vec::new()
                }
                Action::Close(pid) => {
                    world.requests.retain(|request| request.run.pid != pid);
                    Vec::new()
                }
                Action::Condition(pid, kind) => {
                    set_condition(&mut world.requests, pid, kind);
                    Vec::new()
                }
                Action::End(kind) if kind != 2 && world.schedule.running.is_some() => {
                    (is_over, is_busy) = (true, kind == 0);
                    if let Some(running) = world.schedule.running.as_ref().filter(|_| is_busy) {
                        bursts_of_run.remove(&running.key.0);
                    }
                    world.end(kind)
                }
                Action::End(_) => Vec::new(),
                Action::LeftEnded => {
                    left = usize::saturating_sub(left, 1);
                    world.step(Input::LeftEnded)
                }
                Action::Options(new_bursts, new_census) => {
                    (bursts, census) = (new_bursts, new_census);
                    world.step(Input::Options(bursts, census))
                }
            };
            for output in outputs {
                match output {
                    Output::Start { request, task, .. } => {
                        prop_assert!(open_starts == 0, "two tasks run");
                        open_starts = 1;
                        prop_assert!(left < MAX_LEFT);
                        if let Task::Burst(_) = task {
                            prop_assert!(bursts.enabled && request.evidence != Evidence::Census);
                            let last = bursts_of_run.insert(request.run, world.now);
                            let every = bursts.every.as_secs();
                            prop_assert!(last.is_none_or(|last| world.now - last >= every), "{:?}", request.run);
                        } else {
                            prop_assert!(census.enabled && request.evidence == Evidence::Census);
                            prop_assert_eq!(dumping, Some(request.run));
                        }
                        prop_assert!(request.condition.is_attached && !request.condition.is_behind);
                        prop_assert!(request.run != run(6), "gcwatch was killed during a burst of this run");
                    }
                    Output::Leave => {
                        left += 1;
                        is_over = true;
                    }
                    Output::Dumps(run, true) => prop_assert!(dumping.replace(run).is_none()),
                    Output::Dumps(run, false) => prop_assert_eq!(dumping.take(), Some(run)),
                    Output::Answer { .. } if is_over && !is_busy => {
                        (is_over, open_starts) = (false, open_starts - 1);
                    }
                    Output::Answer { outcome, .. } => prop_assert_eq!(outcome, Outcome::Refused),
                    Output::Stop => prop_assert!(false, "gcwatch does not stop"),
                }
            }
            if is_busy {
                open_starts -= 1;
            }
            prop_assert_eq!(open_starts == 1, world.schedule.running.is_some());
            prop_assert_eq!(left, world.schedule.left);
            for (key, waits) in &world.schedule.waiting {
                let is_running = world.schedule.running.as_ref().is_some_and(|running| running.key == *key);
                prop_assert!(is_running || waits.waited < patience(key.2), "{:?} {:?}", key, waits);
            }
        }
    }
}
