use std::sync::Arc;

use base::run_key::RunKey;
use base::time::{Moment, Wall};
use incidents::{
    BegunRecordings, IncidentChange, IncidentEnding, IncidentRecord, IncidentSubject, Incidents, QuotaOwner,
    Recordings, StoredIncident, sample,
};
use rule_engine::ledger::{Ledger, MemoryVerdict};
use rule_engine::rule::Evidence;
use rule_engine::rule_set::RuleSet;

use super::story::{S, Story, StoryEvent, load_file, moment};

/// A cause precedes its consequence in group `memory`, `pauses` follows `memory`, and one rule has no group.
const RULES: &str = "\
apiVersion: gcwatch/v1
groups: {memory: One shortage, pauses: Long pauses}
follows: {pauses: [memory]}
rules:
  - {id: m.cause, title: Cause, on: gc, when: gc.generation == 2 && gc.pause_ms < 50.0, severity: warning, group: memory,
     summary: 'full {{ gc.pause_ms | ms }}', keep_firing_for: 20s}
  - {id: m.worse, title: Worse, on: gc, when: gc.generation == 2 && gc.pause_ms > 10.0, severity: critical, group: memory,
     evidence: [ledger], summary: 'worse {{ gc.pause_ms | ms }}', keep_firing_for: 20s}
  - {id: p.long, title: Long, on: gc, when: gc.pause_ms > 100.0, severity: info, group: pauses,
     summary: '{{ gc.pause_ms | ms }}', keep_firing_for: 20s}
  - {id: p.many, title: Many, on: process, let: {many: {fn: count, where: gc.generation == 0, over: 1m}}, when: many >= 3.0,
     clear: many < 1.0, keep_firing_for: 10s, severity: warning, evidence: [black-box],
     summary: '{{ many }} collections in a minute'}
";

struct Process {
    rules: Arc<RuleSet>,
    story: Story,
    incidents: Incidents,
}

impl Process {
    fn new() -> Self {
        Self::with_rules(RULES)
    }

    /// Creates a process with the rules of this file.
    fn with_rules(text: &str) -> Self {
        let rules = load_file(text);
        Self {
            story: Story::with(Arc::clone(&rules)),
            rules,
            incidents: Incidents::default(),
        }
    }

    /// Returns the changes of incidents at `at` seconds. Like the daemon, this method observes the incidents at each
    /// step.
    fn changes(&mut self, at: f64, what: &StoryEvent) -> Vec<IncidentChange> {
        let transitions = self.story.step(at, what);
        let holding = self.story.engine.holding();
        let at = (moment(at), Wall::UNIX);
        self.incidents.observe(&self.rules, &transitions, &holding, at)
    }

    fn step(&mut self, at: f64, what: &StoryEvent) -> String {
        words(&self.changes(at, what))
    }

    fn play(&mut self, lines: &[(f64, StoryEvent, &str)]) {
        for (at, what, expected) in lines {
            assert_eq!(self.step(*at, what), *expected, "at {at} s, {what:?}");
        }
    }

    fn records(&self) -> Vec<IncidentRecord> {
        let subject = IncidentSubject {
            run: Some(RunKey { pid: 7, start_time: 9 }),
            ..IncidentSubject::default()
        };
        let open = self.incidents.open();
        open.map(|incident| IncidentRecord::new(incident, &subject, Wall::UNIX))
            .collect()
    }
}

/// Returns, for example, `began m.cause warning`. Refreshes are omitted because a separate test covers them.
fn words(changes: &[IncidentChange]) -> String {
    let seconds = |at: Moment| at.since(moment(0.0)) as f64 / 1e9;
    let word = |change: &IncidentChange| {
        let incident = change.incident();
        let what = format!("{} {}", change.name(), incident.symptom.id);
        match change {
            IncidentChange::Refreshed(_) => None,
            IncidentChange::Ended(_) => {
                let at = incident.ended.map(seconds)?;
                Some(format!("{what} {at} {}", incident.ending?.name()))
            }
            _ => Some(format!("{what} {}", incident.severity.name())),
        }
    };
    changes.iter().filter_map(word).collect::<Vec<_>>().join(", ")
}

/// Scenario: a cause fires, then its more severe consequence in the same group, then an alert of a group that follows
/// this group. The rules end one after the other, and the cause returns while the incident waits.
/// Guarantee: there is one incident with one start, one rise and one end, at the time when its last rule ended. The
/// cause names the incident.
#[test]
fn related_alerts_form_one_incident() {
    let mut process = Process::new();
    process.play(&[
        (1.0, StoryEvent::Full(5), "began m.cause warning"),
        (2.0, StoryEvent::Full(20), "worse m.cause critical"),
        (3.0, StoryEvent::Full(150), ""),
    ]);
    let record = &process.records()[0];
    let members: Vec<(&str, u64, Option<f64>)> = record
        .members
        .iter()
        .map(|member| (member.rule.as_str(), member.count, member.peak))
        .collect();
    assert_eq!(
        members,
        [
            ("m.cause", 2, Some(20.0)),
            ("m.worse", 2, Some(150.0)),
            ("p.long", 1, Some(150.0))
        ]
    );
    assert_eq!((record.rule.as_str(), record.state), ("m.cause", "firing"));
    process.play(&[
        (30.0, StoryEvent::Nothing, ""),
        (60.0, StoryEvent::Full(5), ""),
        (139.9, StoryEvent::Nothing, ""),
        (140.0, StoryEvent::Nothing, "ended m.cause 80 cleared"),
        (141.0, StoryEvent::Full(5), "began m.cause warning"),
    ]);
    assert_eq!(process.incidents.open().count(), 1);
}

/// Scenario: a consequence starts before its cause, and a rule without a group fires.
/// Guarantee: the cause joins the incident of its consequence as its head, receivers know the incident by the rule that
/// started it, and the unrelated rule has another incident.
#[test]
fn later_cause_joins_incident() {
    let mut process = Process::new();
    process.play(&[
        (1.0, StoryEvent::Gc(150), "began p.long info"),
        (2.0, StoryEvent::Gc(1), ""),
        (3.0, StoryEvent::Gc(1), "began p.many warning"),
        (5.0, StoryEvent::Full(150), "worse p.long critical"),
    ]);
    let records = process.records();
    assert_eq!(
        (records[0].members[0].rule.as_str(), records[0].symptom.as_str()),
        ("m.worse", "p.long")
    );
    assert_eq!(records[0].summary, "worse 150 ms");
    assert_eq!(records.len(), 2);
    assert_ne!(records[0].id, records[1].id);
}

/// Scenario: an alert of severity info fires, then a warning of a group that follows its group, then a critical alert
/// of its group.
/// Guarantee: there is one incident. Its head is first the alert of severity info, then the warning, and then the
/// critical alert.
#[test]
fn information_is_not_head_before_warning() {
    let text = RULES.replace("severity: warning, group: memory", "severity: info, group: memory");
    let mut process = Process::with_rules(&text.replace("evidence: [black-box]", "group: pauses"));
    let mut named = Vec::new();
    let story = [
        StoryEvent::Full(5),
        StoryEvent::Gc(150),
        StoryEvent::Gc(1),
        StoryEvent::Gc(1),
        StoryEvent::Full(20),
    ];
    for (at, what) in story.iter().enumerate() {
        process.step(at as f64, what);
        named.push(process.records()[0].members[0].rule.clone());
    }
    assert_eq!(named, ["m.cause", "m.cause", "m.cause", "p.many", "m.worse"]);
}

/// Scenario: a rule `on: process` fires, and its figure rises and then falls.
/// Guarantee: the summary has the current figure, the peak is the highest figure, and receivers get both at most every
/// 10 s.
#[test]
fn figures_are_updated() {
    let mut process = Process::new();
    for at in 1..=20 {
        process.step(f64::from(at), &StoryEvent::Gc(1));
    }
    process.step(21.0, &StoryEvent::Nothing);
    assert_eq!(process.records()[0].summary, "20 collections in a minute");
    process.step(70.0, &StoryEvent::Nothing);
    let record = &process.records()[0];
    let number: u32 = record.summary.split(' ').next().unwrap().parse().unwrap();
    assert!((5..15).contains(&number), "{record:?}");
    assert_eq!(record.members[0].peak, Some(20.0));

    let times = (0..=20u32).map(|second| process.changes(71.0 + f64::from(second), &StoryEvent::Gc(1)).len());
    assert!((2..=3).contains(&times.sum::<usize>()));
}

/// Scenario: a process exits during an emergency; another exits during an incident of severity info.
/// Guarantee: the emergency stays open with unchanged members for 15 minutes, or until a successor is healthy; the
/// other incident ends with the process.
#[test]
fn emergency_outlives_its_process() {
    let mut process = Process::new();
    process.play(&[
        (1.0, StoryEvent::Full(20), "began m.worse critical"),
        (2.0, StoryEvent::End, ""),
    ]);
    assert_eq!(words(&process.incidents.advance(moment(901.9))), "");
    assert_eq!(process.records()[0].members[0].until, None);
    assert!(process.records()[0].process_ended.is_some());
    assert_eq!(
        words(&process.incidents.advance(moment(902.0))),
        "ended m.worse 902 process-ended"
    );

    let mut process = Process::new();
    process.play(&[
        (1.0, StoryEvent::Gc(150), "began p.long info"),
        (2.0, StoryEvent::End, "ended p.long 2 process-ended"),
    ]);

    let mut process = Process::new();
    process.play(&[
        (1.0, StoryEvent::Full(20), "began m.worse critical"),
        (2.0, StoryEvent::End, ""),
    ]);
    let ended = process.incidents.end(IncidentEnding::Recovered, moment(302.0));
    assert_eq!(words(&ended), "ended m.worse 302 recovered");
    let [IncidentChange::Ended(incident)] = &ended[..] else {
        panic!("{ended:?}")
    };
    assert_eq!(incident.members[0].until, Some(moment(2.0)));
}

/// Scenario: all rules are removed while an incident is open.
/// Guarantee: the incident ends at once with the reason rule-changed.
#[test]
fn incident_without_rules_ends() {
    let mut process = Process::new();
    process.play(&[
        (1.0, StoryEvent::Full(5), "began m.cause warning"),
        (2.0, StoryEvent::Rules(""), "ended m.cause 2 rule-changed"),
    ]);
}

/// Scenario: the sample incident for testing receivers is created.
/// Guarantee: the sample starts and ends, and states that no process is affected.
#[test]
fn sample_incident_starts_and_ends() {
    let changes = sample(moment(5.5));
    let names: Vec<&str> = changes.iter().map(IncidentChange::name).collect();
    assert_eq!(names, ["began", "ended"]);
    let cause = changes[0].incident().head().unwrap();
    assert!(cause.alert.summary.starts_with("No process is affected"));
}

fn ledger(live: u64) -> Arc<Ledger> {
    Arc::new(Ledger {
        limit: Some(512 << 20),
        live: Some(live << 20),
        verdict: MemoryVerdict::LiveHeap,
        ..Ledger::default()
    })
}

/// Scenario: the first rule of an incident gathers no evidence; then a rule that gathers the ledger joins. Ledgers
/// arrive before and after; the process exits, and another ledger arrives. Then the incident is stored and restored.
/// Guarantee: the incident has the newest ledger from the time when a rule gathers it until the process exits, as a
/// record and as a clause with its location. Without such a rule, the incident has no ledger.
#[test]
fn incident_has_ledger_if_rule_gathers_it() {
    let mut process = Process::new();
    process.incidents.set_ledger(ledger(100));
    process.play(&[(1.0, StoryEvent::Full(5), "began m.cause warning")]);
    assert!(!process.incidents.gather(Evidence::Ledger));
    assert_eq!(
        (process.records()[0].ledger, process.records()[0].evidence.len()),
        (None, 0)
    );
    process.play(&[(2.0, StoryEvent::Full(20), "worse m.cause critical")]);
    assert!(process.incidents.gather(Evidence::Ledger));
    let text = |process: &Process| process.records()[0].evidence_text(Evidence::Ledger).map(str::to_owned);
    assert_eq!(text(&process).unwrap(), "limit 512 MiB: live 100");
    process.incidents.set_ledger(ledger(200));
    assert_eq!(text(&process).unwrap(), "limit 512 MiB: live 200");
    let record = &process.records()[0];
    let json = serde_json::to_value(record).unwrap();
    assert_eq!(json["evidence"][0]["name"], "ledger");
    assert_eq!(json["evidence"][0]["where"], "ledger");
    assert_eq!(json["ledger"]["live"], 200 << 20);
    process.incidents.process_ended(moment(3.0));
    process.incidents.set_ledger(ledger(1));
    assert_eq!(text(&process).unwrap(), "limit 512 MiB: live 200");
    assert!(!process.incidents.gather(Evidence::Ledger));
    let open = process.incidents.open().next().unwrap();
    let stored = serde_json::to_string(&StoredIncident::from_incident(open, Wall::UNIX)).unwrap();
    let restored: StoredIncident = serde_json::from_str(&stored).unwrap();
    for rules in [load_file(RULES), Arc::default()] {
        let restored = restored.restore(&rules, Wall::UNIX);
        assert_eq!(restored.ledger, Some(ledger(200)));
        assert!(restored.gathers(Evidence::Ledger));
    }
}

/// The shared registry as the daemon uses it.
#[derive(Debug, Default)]
#[expect(clippy::disallowed_types, reason = "the test shares the registry like the daemon")]
struct SharedRegistry(std::sync::Mutex<BegunRecordings>);

impl Recordings for SharedRegistry {
    fn begin(&self, share: &QuotaOwner, rule: &Arc<str>, at: Moment, id: &Arc<str>) -> Result<(), Arc<str>> {
        self.0.lock().unwrap().begin(share, rule, at, id)
    }
}

/// Retains the events of the process, with a service as its owner.
fn keep(process: &mut Process, pid: u32, recordings: &Arc<SharedRegistry>) {
    let share = QuotaOwner {
        tenant: "user 1000".into(),
        service: "shop".into(),
    };
    let run = RunKey { pid, start_time: 9 };
    process
        .incidents
        .keep_events(run, "My.Shop".into(), share, recordings.clone());
}

/// Scenario: the processes of a service in a crash loop have critical incidents, two within ten minutes and one later.
/// The incidents are stored and restored.
/// Guarantee: the second incident refers to the recording of the first incident and states that this recording started
/// before, also after a restore; the third incident has its own recording.
#[test]
fn crash_loop_is_recorded_once_in_ten_minutes() {
    let recordings = Arc::default();
    let named = |pid: u32, at: f64| {
        let mut process = Process::new();
        keep(&mut process, pid, &recordings);
        process.play(&[(at, StoryEvent::Full(20), "began m.worse critical")]);
        let open = process.incidents.open().next().unwrap();
        let restored = StoredIncident::from_incident(open, Wall::UNIX).restore(&load_file(RULES), Wall::UNIX);
        assert_eq!(restored.is_recorded_before, open.is_recorded_before);
        let record = process.records().remove(0);
        let text = record.evidence_text(Evidence::BlackBox).unwrap().to_owned();
        (open.black_box.clone().unwrap(), open.is_recorded_before, text)
    };
    let (first, is_before, _) = named(7, 1.0);
    assert!(first.contains("-My-Shop-7-") && !is_before);
    let (second, is_before, text) = named(8, 599.0);
    assert!(
        second == first && is_before && text.contains("of an earlier incident"),
        "{text}"
    );
    let (third, is_before, _) = named(9, 602.0);
    assert!(third.contains("-My-Shop-9-") && !is_before);
}

/// Scenario: an incident of severity warning becomes critical. An incident of a rule with severity warning that
/// requires the black box starts seconds later, another one much later. The same happens without retained events. The
/// critical incident is stored and restored.
/// Guarantee: critical incidents and incidents of rules that require the black box refer to a recording, and this
/// reference never changes. Incidents within 10 s share a recording. The message of the rise already contains the
/// reference. Without retained events there is no recording.
#[test]
fn severe_incidents_are_recorded() {
    let kept = |keeps: bool| {
        let mut process = Process::new();
        if keeps {
            keep(&mut process, 7, &Arc::default());
        }
        process
    };
    let places = |process: &Process| -> Vec<Option<String>> {
        let place = |record: &IncidentRecord| record.evidence_place(Evidence::BlackBox).map(str::to_owned);
        process.records().iter().map(place).collect()
    };
    let mut process = kept(true);
    process.play(&[
        (1.0, StoryEvent::Full(5), "began m.cause warning"),
        (2.0, StoryEvent::Nothing, ""),
    ]);
    assert_eq!(places(&process), [None]);
    let transitions = process.story.step(3.0, &StoryEvent::Full(20));
    let changes = process
        .incidents
        .observe(&process.rules, &transitions, &[], (moment(3.0), Wall::UNIX));
    let IncidentChange::Worse(incident, _) = &changes[0] else {
        panic!("{changes:?}");
    };
    let id = incident.black_box.clone().unwrap();
    assert!(id.contains("-My-Shop-7-"), "{id}");
    let first = Some(format!("/api/v1/evidence/{id}.nettrace"));
    process.play(&[
        (4.0, StoryEvent::Gc(1), ""),
        (5.0, StoryEvent::Gc(1), ""),
        (6.0, StoryEvent::Gc(1), "began p.many warning"),
    ]);
    assert_eq!(places(&process), [first.clone(), first.clone()]);
    let stored = StoredIncident::from_incident(process.incidents.open().next().unwrap(), Wall::UNIX);
    let restored = stored.restore(&load_file(RULES), Wall::UNIX);
    assert_eq!(restored.black_box.as_ref(), Some(&id));
    let mut resumed = Incidents::default();
    resumed.resume(restored, Moment::NEVER);
    assert_eq!(resumed.open().next().unwrap().black_box.as_ref(), Some(&id));

    let mut process = kept(true);
    process.play(&[(1.0, StoryEvent::Full(20), "began m.worse critical")]);
    let first = places(&process)[0].clone().unwrap();
    process.play(&[
        (17.0, StoryEvent::Gc(1), ""),
        (18.0, StoryEvent::Gc(1), ""),
        (19.0, StoryEvent::Gc(1), "began p.many warning"),
    ]);
    let both = places(&process);
    assert_eq!(both[0].as_ref(), Some(&first));
    assert!(both[1].is_some() && both[1] != both[0], "{both:?}");

    let mut process = kept(false);
    process.play(&[(1.0, StoryEvent::Full(20), "began m.worse critical")]);
    assert_eq!(places(&process), [None]);
}

/// Two symptoms, their causes, and a note.
const ROLES: &str = "\
apiVersion: gcwatch/v1
groups: {stopped: It is stopped, short: Memory is short}
rules:
  - {id: time.stopped, role: symptom, title: It is stopped, on: process, group: stopped, severity: warning,
     let: {stopped: {fn: sum, of: gc.pause_ns, over: 1m}}, when: stopped > 100000000.0, clear: stopped < 50000000.0,
     keep_firing_for: 1s, harm: stopped, lasting: 30.0, worse: {error: stopped > 1000000000.0}, summary: '{{ stopped }}'}
  - {id: memory.short, role: symptom, title: Memory is short, on: gc, group: short, severity: error,
     when: gc.generation == 2 && gc.pause_ms < 55.0, keep_firing_for: 2m, summary: short}
  - {id: old, role: cause, of: [time.stopped], title: Full collections, on: process, consequence_of: [memory.short],
     let: {full: {fn: sum, of: gc.pause_ns, where: gc.generation == 2, over: 1m}},
     when: full > 0.0, explains: full, remedy: Collect less., summary: '{{ full }}'}
  - {id: young, role: cause, of: [time.stopped], title: Young collections, on: process,
     let: {young: {fn: sum, of: gc.pause_ns, where: gc.generation == 0, over: 1m}},
     when: young > 0.0, explains: young, summary: '{{ young }}'}
  - {id: each, role: note, title: Each, on: gc, when: gc.pause_ms >= 1.0, summary: one, keep_firing_for: 10m}
";

/// Scenario: a note and a cause are active before there is harm; then harm starts, which another cause explains later.
/// Guarantee: the incident starts with the harm, and has the name and the start of the harm. Causes are sorted by share
/// and never start or prolong the incident. A message announces the main cause, at most one in five minutes. Notes are
/// not part of the incident.
#[test]
fn only_harm_starts_incident() {
    let mut process = Process::with_rules(ROLES);
    process.play(&[
        (40.0, StoryEvent::Full(60), ""),
        (41.0, StoryEvent::Gc(80), "began time.stopped warning"),
        (42.0, StoryEvent::Nothing, ""),
    ]);
    let record = &process.records()[0];
    let causes = |record: &IncidentRecord| -> Vec<(String, u32)> {
        let causes = record.causes.iter();
        causes
            .map(|cause| (cause.rule.clone(), (cause.share.unwrap() * 100.0) as u32))
            .collect()
    };
    assert_eq!(causes(record), [("young".to_owned(), 57), ("old".to_owned(), 42)]);
    assert_eq!((record.symptom.as_str(), record.remedy.as_str()), ("time.stopped", ""));
    let incident = process.incidents.open().next().unwrap();
    assert_eq!(incident.noticed.since(incident.began), 30 * S);
    assert!(record.members.iter().all(|member| member.rule != "each"));
    // The other cause now explains more, which is reported after the first was known for five minutes.
    process.play(&[
        (50.0, StoryEvent::Full(900), ""),
        (51.0, StoryEvent::Nothing, "worse time.stopped error"),
    ]);
    assert_eq!(causes(&process.records()[0])[0].0, "old");
    let mut notified = Vec::new();
    for second in 52..400 {
        let what = if second % 20 == 0 {
            StoryEvent::Full(300)
        } else {
            StoryEvent::Nothing
        };
        let said = process.step(f64::from(second), &what);
        if !said.is_empty() {
            notified.push((second, said));
        }
    }
    assert_eq!(notified, [(341, "explained time.stopped error".to_owned())]);
    assert_eq!(process.records()[0].remedy, "Collect less.");
    // The last collection leaves the window at 440 s. The cause is active until then, and the incident waits one
    // minute.
    let mut ended = String::new();
    for second in 400..600 {
        ended += &process.step(f64::from(second), &StoryEvent::Nothing);
    }
    assert!(ended.starts_with("ended time.stopped"), "{ended}");
}

/// Scenario: memory is short, and the resulting collections stop the process; then the symptoms start in the reverse
/// order.
/// Guarantee: both symptoms form one incident, the incident of the memory, and receivers that do not know the merged
/// incident are not notified of its end.
#[test]
fn consequence_joins_incident_of_its_cause() {
    let mut process = Process::with_rules(ROLES);
    process.play(&[
        (10.0, StoryEvent::Full(50), "began memory.short error"),
        (11.0, StoryEvent::Full(70), ""),
    ]);
    let members: Vec<String> = process.records()[0]
        .members
        .iter()
        .map(|member| member.rule.clone())
        .collect();
    assert_eq!(members, ["memory.short", "time.stopped", "old"]);
    // A cause of the stopped time does not explain the memory.
    let record = &process.records()[0];
    assert_eq!((record.title.as_str(), record.causes.len()), ("Memory is short", 0));
    let mut process = Process::with_rules(ROLES);
    process.play(&[
        (10.0, StoryEvent::Full(150), "began time.stopped warning"),
        (
            11.0,
            StoryEvent::Full(50),
            "began memory.short error, ended time.stopped 11 merged",
        ),
    ]);
    assert_eq!(process.records().len(), 1);
}
