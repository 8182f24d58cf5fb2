//! Tests of services with processes that start and end.

use std::sync::Arc;
use std::time::Duration;

use base::time::{Moment, Wall};
use delivery::alerts::Notice;
use gc_telemetry::origin::Origin;
use gc_telemetry::value::key_value;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use rule_engine::alert::{Alert, Ending, Transition};
use rule_engine::rule_set::RuleSet;
use rule_language::load::{SourceFile, load, shipped};

use super::*;
use base::run_key::RunKey;
use processes::container::ContainerIdentity;
use processes::service::ServiceKey;
use processes::surroundings::ContainerEnd;
use processes::{Identity, Provenance};

const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
/// Start time of the scenarios.
const BEGAN: Moment = Moment::from_ns(1_767_323_045_000_000_000);

fn attribute(key: &str, value: &str) -> KeyValue {
    key_value(key, Value::StringValue(value.to_owned()))
}

fn run(pid: u32) -> RunKey {
    RunKey { pid, start_time: 1 }
}

fn identity(own_names: &[&str], container: ContainerIdentity, command: u64) -> Identity {
    let provenance = Provenance {
        own_names: own_names.iter().map(|&name| name.to_owned()).collect(),
        container,
        command: Some(command),
        ..Provenance::default()
    };
    Identity {
        provenance,
        ..Identity::new(run(1), "app")
    }
}

/// A host with the shipped rules that advances second by second.
struct Host {
    book: ServiceBook,
    watcher: WatcherLog,
    judged: FleetRules,
    own: (RunKey, Arc<Origin>),
    rules: Arc<RuleSet>,
    now: Moment,
    /// Notified changes in order, each as `rule +` or `rule -`.
    said: Vec<String>,
}

impl Host {
    fn new() -> Self {
        Self {
            book: ServiceBook::default(),
            watcher: WatcherLog::default(),
            judged: FleetRules::default(),
            own: (
                run(99),
                Arc::new(Origin::new(vec![attribute("service.name", "gcwatch")])),
            ),
            rules: Arc::new(load(&shipped()).unwrap().rules),
            now: BEGAN,
            said: Vec::new(),
        }
    }

    /// Creates a host with the given rules in addition to the shipped rules.
    fn with(rules: &str) -> Self {
        let mut files = shipped();
        files.push(SourceFile {
            name: "own.yaml".to_owned(),
            text: format!("apiVersion: gcwatch/v1\n{rules}"),
        });
        Self {
            rules: Arc::new(load(&files).unwrap().rules),
            ..Self::new()
        }
    }

    fn begins(&mut self, pid: u32, service: &str) {
        self.begins_as(pid, service, "1.0");
    }

    fn begins_as(&mut self, pid: u32, service: &str, version: &str) {
        let attributes = [
            ("service.name", service),
            ("service.version", version),
            ("process.pid", "changes"),
        ];
        let container = ContainerIdentity {
            container_id: Some(pid.to_string()),
            pod_uid: None,
        };
        self.belongs(pid, attributes, &container);
    }

    fn belongs(&mut self, pid: u32, attributes: [(&str, &str); 3], container: &ContainerIdentity) {
        let attributes = attributes.map(|(key, value)| attribute(key, value)).to_vec();
        let resource = Arc::new(Origin::new(attributes));
        let who = identity(&["service.name"], ContainerIdentity::default(), 7);
        let key = ServiceKey::for_process(&who, &resource.attributes);
        self.book
            .belongs(run(pid), key, ("app", &resource, container), self.now);
    }

    fn notice(&mut self, pid: u32, id: &str, ending: Option<Ending>) {
        let rule = self.rules.rule(id).unwrap();
        // The highest severity that the rule can reach.
        let worst = rule.worse.last().map_or(rule.severity, |(severity, _)| *severity);
        let alert = Arc::new(Alert {
            peak: None,
            amount: None,
            severity: worst,
            rule: Arc::clone(rule),
            number: 1,
            active: self.now,
            started: self.now,
            last: self.now,
            ended: None,
            labels: Arc::new([]),
            summary: "".into(),
            annotations: Arc::new([]),
            values: Arc::new([]),
            collection: None,
            count: 1,
            suppressed: 0,
        });
        let transition = match ending {
            None => Transition::Fired(alert),
            Some(ending) => Transition::Ended(alert, ending),
        };
        let notice = Notice {
            run: run(pid),
            process: "app".into(),
            group: None,
            transition,
            span: None,
        };
        self.book.notices(&[notice], self.now);
    }

    /// Returns the summaries of the open incidents.
    fn open(&self) -> Vec<String> {
        let records = self.judged.incidents().flat_map(|subject| subject.records(Wall::UNIX));
        records.map(|incident| incident.summary).collect()
    }

    fn ends(&mut self, pid: u32, in_order: bool) {
        self.book.ended(run(pid), Some(in_order), self.now);
    }

    fn passes(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.now = self.now.after(SECOND);
            self.book.forget(self.now);
            let changes = self
                .judged
                .tick(&self.book, &mut self.watcher, Some(&self.own), &self.rules, self.now);
            for notice in changes.into_iter().flat_map(|(_, notices)| notices.alerts) {
                let sign = match &notice.transition {
                    Transition::Fired(_) => '+',
                    Transition::Ended(..) => '-',
                };
                let rule = &notice.transition.alert().rule.id;
                self.said.push(format!("{rule} {sign}"));
            }
        }
    }
}

const FULL: &str = "memory.exhausted";

/// Scenario: four processes of a service run one after the other. Each ends after 30 s, not cleanly, while its memory
/// is exhausted. A fifth process then stays alive.
/// Guarantee: the first end is a death in an emergency; the third opens one alert about a restart loop, which ends five
/// minutes after the successor started. The book knows how the last dead run ended, and the time since which its
/// successor is healthy.
#[test]
fn crash_loop_is_one_alert() {
    let mut host = Host::new();
    for pid in 1..=4 {
        host.begins(pid, "shop");
        host.passes(20);
        host.notice(pid, FULL, None);
        host.passes(10);
        host.notice(pid, FULL, Some(Ending::ProcessEnded));
        host.ends(pid, false);
        host.passes(5);
    }
    assert_eq!(host.said, ["service.died-in-emergency +", "service.restart-loop +"]);
    assert_eq!(host.book.successor_well_since(run(4)), None);
    let death = host.book.death(run(4)).unwrap();
    assert!(death.in_emergency && death.is_short_and_failed());
    assert_eq!(death.uptime_ns, 30 * SECOND);
    host.begins(5, "shop");
    let since = host.now;
    host.passes(295);
    assert_eq!(host.said.len(), 2);
    assert_eq!(host.book.successor_well_since(run(1)), Some(since));
    // Like every alert, the alert about the loop is kept for a minute.
    host.passes(70);
    assert_eq!(
        host.said[2..],
        ["service.restart-loop -", "service.died-in-emergency -"]
    );
    assert_eq!(host.judged.alerts().len(), 0);
}

/// Scenario: eight processes of a rollout end cleanly, some with a past or a current emergency; a job ends; a process
/// is killed without an emergency.
/// Guarantee: no alert is raised.
#[test]
fn ordinary_ends_raise_no_alert() {
    let mut host = Host::new();
    for pid in 1..=8 {
        host.begins(pid, "shop");
    }
    host.passes(10 * 60);
    host.notice(1, FULL, None);
    host.notice(2, FULL, None);
    host.notice(2, FULL, Some(Ending::Cleared));
    host.passes(120);
    for pid in 1..=8 {
        host.begins(pid + 10, "shop");
        host.passes(1);
        host.ends(pid, true);
        host.passes(10);
    }
    host.begins(30, "job");
    host.passes(30);
    host.ends(30, true);
    host.ends(12, false);
    host.passes(60);
    assert_eq!(host.said, [""; 0]);
    assert!(!host.book.death(run(12)).unwrap().is_in_emergency());
}

/// Scenario: three processes of a pod end in an emergency and not cleanly, like a program that does not handle SIGTERM.
/// Kubernetes reports shortly afterwards that the first was terminated (exit code 143) and that the second failed.
/// Kubernetes reports nothing about the third.
/// Guarantee: the first end is ordinary; the other ends are deaths in an emergency, and gcwatch waits at most 5 s for
/// the exit code of the third.
#[test]
fn exit_code_decides_cause_of_death() {
    let death = |failed: Option<bool>| Death {
        run: run(1),
        at: BEGAN,
        uptime_ns: MINUTE,
        oom_killed: None,
        in_emergency: true,
        in_order: Some(false),
        failed,
        passed_on: false,
        version: None,
        place: "".into(),
        container: ContainerIdentity {
            container_id: Some("c".to_owned()),
            pod_uid: Some("u".to_owned()),
        },
    };
    let of = |failed| {
        let death = death(failed);
        (death.is_in_emergency(), death.is_short_and_failed())
    };
    assert_eq!(of(Some(false)), (false, false));
    assert_eq!((of(Some(true)), of(None)), ((true, true), (true, true)));
    let known = |failed, seconds| death(failed).is_known(BEGAN.after(seconds * SECOND));
    assert!(known(Some(true), 0) && !known(None, 4) && known(None, 5));
}

/// Scenario: a rule on memory fires on a process, then the kernel kills the process for memory.
/// Guarantee: one death is one incident, the incident of the process; for the service there is only a note.
#[test]
fn announced_kill_is_only_an_incident_of_the_process() {
    let mut host = Host::new();
    host.begins(1, "one");
    host.passes(400);
    host.notice(1, FULL, None);
    host.ends(1, false);
    host.book.oom_killed(run(1), true);
    host.passes(5);
    assert_eq!(host.said, ["service.died-in-emergency +"]);
    let death = host.book.death(run(1)).unwrap();
    assert!(death.is_of_memory() && !death.is_sudden_oom_kill());
}

/// Scenario: three processes are killed without a prior alert. The control groups report later that the first was
/// killed for memory; Kubernetes reports the same for the second, and for the third that it failed.
/// Guarantee: the first two raise an alert for an OOM kill of their services, as soon as the cause is known; the third
/// raises no alert.
#[test]
fn oom_kills_raise_alerts_once_known() {
    let mut host = Host::new();
    for (pid, service) in [(1, "one"), (2, "two"), (3, "three")] {
        host.begins(pid, service);
    }
    host.passes(400);
    for pid in 1..=3 {
        host.ends(pid, false);
    }
    host.passes(5);
    assert_eq!(host.said, [""; 0]);
    assert_eq!(host.book.unexplained(), [run(1), run(3), run(2)]);
    host.book.oom_killed(run(1), true);
    host.passes(1);
    assert_eq!(host.said, ["service.oom-killed +"]);
    // The stream of the killed process is recorded, once.
    let of_memory = |host: &mut Host| {
        let taken = host.book.take_deaths_of_memory();
        taken.into_iter().map(|(_, run, _)| run).collect::<Vec<_>>()
    };
    assert_eq!(of_memory(&mut host), [run(1)]);
    host.book.ask(|container| match container.container_id.as_deref() {
        Some("2") => Some(ContainerEnd {
            oom_killed: true,
            failed: true,
        }),
        Some("3") => Some(ContainerEnd {
            oom_killed: false,
            failed: true,
        }),
        _ => None,
    });
    host.passes(1);
    assert_eq!(host.said[1..], ["service.oom-killed +"]);
    assert_eq!(of_memory(&mut host), [run(2)]);
    assert_eq!(of_memory(&mut host), []);
    host.passes(16 * 60);
    assert_eq!(host.said[2..], ["service.oom-killed -"; 2]);
    assert_eq!((host.book.services().count(), host.book.death(run(1))), (0, None));
}

/// Scenario: a service has five processes. The same severe rule fires on four of them, then on two. On four processes
/// of another service, four different rules fire.
/// Guarantee: the first service has one alert, which names the rule; the other service has no alert.
#[test]
fn same_rule_on_many_processes_is_one_service_alert() {
    let mut host = Host::new();
    for pid in 1..=5 {
        host.begins(pid, "shop");
        host.begins(pid + 10, "other");
    }
    let others = [FULL, "time.stuck", "time.stopped", "memory.limit"];
    for (pid, other) in (1..=4).zip(others) {
        host.notice(pid, FULL, None);
        host.notice(pid + 10, other, None);
    }
    host.passes(2);
    assert_eq!(host.said, ["service.several-affected +"]);
    let alerts = host.judged.alerts();
    assert_eq!(
        &*alerts[0].1.summary,
        "4 processes of the service have memory.exhausted at the same time"
    );
    let mut names = alerts[0].0.resource.attributes.iter().map(|attribute| &*attribute.key);
    assert_eq!((names.next(), names.next()), (Some("service.name"), None));
    for pid in 1..=2 {
        host.notice(pid, FULL, Some(Ending::Cleared));
    }
    host.passes(62);
    assert_eq!(host.said[1..], ["service.several-affected -"]);
}

/// Scenario: gcwatch stalls for 75 s.
/// Guarantee: one alert about gcwatch itself is raised, and it ends after ten minutes.
#[test]
fn stall_raises_alert_about_gcwatch() {
    let mut host = Host::new();
    host.passes(5);
    host.watcher.stalled(Duration::from_secs(75), host.now);
    host.passes(2);
    assert_eq!(host.said, ["watcher.stalled +"]);
    assert_eq!(host.judged.alerts()[0].0.run, run(99));
    host.passes(660);
    assert_eq!(host.said[1..], ["watcher.stalled -"]);
}

/// Scenario: there are more services than are remembered, a service with a hundred deaths, and a process that turns out
/// to belong to another service.
/// Guarantee: services beyond the limit are counted, the most recent deaths stay, and the process keeps its alerts.
#[test]
fn service_book_is_bounded() {
    let mut host = Host::new();
    for pid in 1..=100 {
        host.begins(pid, "loop");
        host.ends(pid, true);
    }
    assert_eq!(host.book.death(run(100 - 32)), None);
    assert!(host.book.death(run(100 - 31)).is_some());
    host.begins(200, "before");
    host.notice(200, FULL, None);
    host.begins(200, "after");
    host.ends(200, false);
    assert!(host.book.death(run(200)).unwrap().in_emergency);
    host.book.forget(host.now);
    for pid in 1000..3000 {
        host.begins(pid, &format!("service{pid}"));
    }
    assert_eq!(host.book.services().count(), book::MAX_SERVICES);
    assert_eq!(host.book.left_out, 2000 - (book::MAX_SERVICES as u64 - 2));
    let late = host.now.after(16 * MINUTE);
    host.book.forget(late);
    assert_eq!(host.book.services().count(), book::MAX_SERVICES - 2);
}

/// Scenario: processes run in Kubernetes, with a configured name, with neither of the two, and in a container that
/// restarts.
/// Guarantee: the key is the same for a process and its replacement, and differs between unrelated processes.
#[test]
fn service_key_is_stable_across_processes() {
    let key = |identity: &Identity, attributes: &[(&str, &str)]| {
        let attributes: Vec<KeyValue> = attributes.iter().map(|(key, value)| attribute(key, value)).collect();
        ServiceKey::for_process(identity, &attributes).text().to_string()
    };
    let pod = |uid: &str, id: &str| ContainerIdentity {
        container_id: Some(id.to_owned()),
        pod_uid: Some(uid.to_owned()),
    };
    let plain = |command| identity(&[], ContainerIdentity::default(), command);
    let in_pod = [
        ("k8s.namespace.name", "shop"),
        ("k8s.deployment.name", "web"),
        ("k8s.pod.name", "web-1"),
        ("k8s.container.name", "app"),
    ];
    assert_eq!(key(&identity(&[], pod("u", "1"), 7), &in_pod), "pod/shop/web/app");
    let named = identity(&["service.name"], ContainerIdentity::default(), 7);
    assert_eq!(key(&named, &[("service.name", "a")]), "service//a");
    // This service name was not configured: it is only the name of the program.
    assert_eq!(key(&plain(7), &[("service.name", "app")]), "command/app/7/");
    assert_ne!(key(&plain(7), &[]), key(&plain(8), &[]));
    // A container that is restarted has another id, in the same pod.
    let restarted = [pod("u", "1"), pod("u", "2")].map(|pod| key(&identity(&[], pod, 7), &[]));
    assert_eq!(restarted[0], restarted[1]);
}

/// Scenario: a rule expects two services. One never appears. The other service appears late and ends, and its end is no
/// longer remembered.
/// Guarantee: each absence raises one alert, after `for` has passed and until the service appears; services that the
/// rule does not name are not affected.
#[test]
fn absent_expected_service_raises_alert() {
    let mut host = Host::with(
        "rules:
  - id: shop.absent
    title: A service is absent
    on: service
    expect: [checkout, cart]
    when: service.processes == 0
    for: 1m
    severity: error
    summary: 'No process of {{ process.service }} runs here'
",
    );
    host.begins(1, "checkout");
    host.begins(2, "other");
    host.passes(30);
    host.ends(2, true);
    host.passes(60);
    assert_eq!(host.said, ["shop.absent +"]);
    assert_eq!(host.open().len(), 1);
    host.begins(3, "cart");
    host.passes(90);
    assert!(host.said.iter().any(|said| said == "shop.absent -"), "{:?}", host.said);
    host.said.clear();
    host.ends(1, true);
    host.passes(3600);
    assert_eq!(host.said.len(), 1, "{:?}", host.said);
    assert_eq!(host.open(), ["No process of checkout runs here"]);
}

/// Scenario: three processes of version 1.0 and three of version 1.1 run during a rollout. A rule of severity warning
/// fires on all new processes and on one old process. Then two of the new processes recover.
/// Guarantee: the rule `by: service.version` fires only for version 1.1, and its alert has this version and its
/// numbers; rules about the whole service do not fire.
#[test]
fn version_is_evaluated_separately() {
    let mut host = Host::with(
        "rules:
  - id: own.version
    title: A version
    on: service
    by: service.version
    when: service.firing['churn.allocation'] >= 3
    clear: service.firing['churn.allocation'] <= 1
    keep_firing_for: 0s
    severity: error
    summary: \"{{ service.firing['churn.allocation'] }} of {{ service.processes }}\"
  - id: own.whole
    title: The service
    on: service
    when: service.firing['churn.allocation'] > 4
    severity: error
    summary: never
",
    );
    for pid in 1..=3 {
        host.begins_as(pid, "shop", "1.0");
        host.begins_as(pid + 10, "shop", "1.1");
    }
    for pid in [1, 11, 12] {
        host.notice(pid, "churn.allocation", None);
    }
    host.passes(5);
    assert_eq!(host.said, [""; 0]);
    host.notice(13, "churn.allocation", None);
    host.passes(2);
    assert_eq!(host.said, ["own.version +"]);
    let alerts = host.judged.alerts();
    assert_eq!(&*alerts[0].1.summary, "3 of 3");
    assert_eq!(
        gc_telemetry::value::text(&alerts[0].0.resource.attributes, "service.version").as_deref(),
        Some("1.1")
    );
    assert_eq!(alerts[0].0.run.pid, 0);
    // In the list of rules, the rule fires for one of two versions.
    let states = host.judged.states();
    let own = states.iter().filter(|(_, rule, _)| &*rule.id == "own.version");
    let mut states: Vec<(&str, &str)> = own
        .map(|(subject, _, state)| {
            let attributes = &subject.resource.attributes;
            let version = attributes.iter().any(|attribute| attribute.key == "service.version");
            (if version { "version" } else { "whole" }, state.state.name())
        })
        .collect();
    states.sort_unstable();
    assert_eq!(
        states,
        [
            ("version", "firing"),
            ("version", "inactive"),
            ("whole", "not_selected")
        ]
    );
    for pid in [11, 12] {
        host.notice(pid, "churn.allocation", Some(Ending::Cleared));
    }
    host.passes(2);
    assert_eq!(host.said[1..], ["own.version -"]);
}

/// Scenario: three of the four processes of a service end cleanly; a rule compares with the maximum of the last ten
/// minutes.
/// Guarantee: the window of the rule started with the service and contains the earlier values.
#[test]
fn window_contains_earlier_values_of_service() {
    let mut host = Host::with(
        "rules:
  - id: own.fewer
    title: Fewer processes
    on: service
    let: { most: { fn: max, of: service.processes, over: 10m } }
    when: double(service.processes) < 0.5 * most
    severity: warning
    summary: \"{{ service.processes }} of {{ most | round(0) }}\"
",
    );
    for pid in 1..=4 {
        host.begins(pid, "shop");
    }
    host.begins(20, "small");
    host.passes(30);
    for pid in 1..=2 {
        host.ends(pid, true);
    }
    host.passes(30);
    assert_eq!(host.said, [""; 0]);
    host.ends(3, true);
    host.passes(2);
    assert_eq!(host.said, ["own.fewer +"]);
    assert_eq!(&*host.judged.alerts()[0].1.summary, "1 of 4");
    // Ten minutes later, one process is the usual number.
    host.passes(12 * 60);
    assert_eq!(host.said[1..], ["own.fewer -"]);
}

/// Scenario: the process of a pod is killed for memory, then a process without a pod ends in an emergency.
/// Guarantee: the alert names the pod and container of the first death, then the pid of the second.
#[test]
fn alert_names_the_last_death() {
    let mut host = Host::new();
    let pod = [
        ("service.name", "shop"),
        ("k8s.pod.name", "shop-7f-x"),
        ("k8s.container.name", "web"),
    ];
    host.belongs(1, pod, &ContainerIdentity::default());
    host.passes(400);
    host.ends(1, false);
    host.book.oom_killed(run(1), true);
    host.passes(2);
    let summary = |host: &Host| host.judged.alerts()[0].1.summary.to_string();
    assert!(
        summary(&host).ends_with(", the last one pod shop-7f-x (container web)"),
        "{}",
        summary(&host)
    );
    host.begins(2, "shop");
    host.passes(1);
    host.notice(2, FULL, None);
    host.ends(2, false);
    host.passes(2);
    assert!(summary(&host).ends_with(", the last one pid 2"), "{}", summary(&host));
}
