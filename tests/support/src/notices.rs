//! Changes of alerts and incidents, in the form in which the pipeline sends them. No process is needed.

use std::sync::Arc;

use base::run_key::RunKey;
use base::time::{Moment, Wall};
use delivery::alerts::{IncidentNotice, Notice};
use gc_telemetry::spans::SpanIds;
use gc_telemetry::value::key_value;
use incidents::{IncidentEnding, Incidents, QuotaOwner};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::resource::v1::Resource;
use rule_engine::alert::{Alert, Ending, HoldingRule, Transition};
use rule_engine::rule::Rule;
use rule_engine::rule_set::RuleSet;
use rule_language::load::{SourceFile, load};

/// Start of the alert: 2026-01-02 03:04:05 UTC, in nanoseconds since 1970.
pub const STARTED: u64 = 1_767_323_045_000_000_000;

/// End of the alert: one minute after [`STARTED`].
pub const ENDED: u64 = STARTED + 60_000_000_000;

pub const RULES: &str = "\
apiVersion: gcwatch/v1
groups:
  pauses: Long pauses of one process are one alert.
rules:
  - id: test.full
    title: Full collection
    on: gc
    when: gc.generation == 2
    severity: error
    group: pauses
    summary: Collection {{ gc.number }} was a full one
    description: All generations were collected.
    remedy: Look at what is kept.
    source: a test
";

/// Loads the rules in the text of a rule file.
pub fn rules(text: &str) -> RuleSet {
    let file = SourceFile {
        name: "test.yaml".to_owned(),
        text: text.to_owned(),
    };
    match load(&[file]) {
        Ok(loaded) => loaded.rules,
        Err(problems) => panic!("{problems:?}"),
    }
}

pub fn rule() -> Arc<Rule> {
    Arc::clone(&rules(RULES).rules[0])
}

pub fn attribute(key: &str, value: &str) -> KeyValue {
    key_value(key, Value::StringValue(value.to_owned()))
}

/// Returns the resource of a process in a cluster.
pub fn resource() -> Resource {
    Resource {
        attributes: vec![
            attribute("service.name", "checkout"),
            attribute("service.instance.id", "7d0a3d3c-2f5e-5a0b-9d1e-1c2b3a4d5e6f"),
            attribute("k8s.namespace.name", "shop"),
            attribute("k8s.pod.name", "checkout-5d9"),
            attribute("process.executable.path", "/usr/bin/dotnet"),
            attribute("gcwatch.gc.settings.server", "true"),
        ],
        ..Resource::default()
    }
}

/// Returns the notice that an alert of a process has started.
pub fn fired(pid: u32) -> Notice {
    let alert = Alert {
        rule: rule(),
        number: 1,
        active: Moment::from_ns(STARTED),
        started: Moment::from_ns(STARTED),
        last: Moment::from_ns(STARTED),
        ended: None,
        labels: Arc::from([(Arc::from("team.name"), Box::from("runtime"))]),
        summary: Arc::from("Collection 7 was a full one"),
        annotations: Arc::from([(Arc::from("runbook_url"), Box::from("https://runbooks.example/full"))]),
        values: Arc::from([]),
        collection: Some(7),
        count: 1,
        suppressed: 0,
        peak: None,
        amount: None,
        severity: rule().severity,
    };
    Notice {
        run: RunKey { pid, start_time: 9 },
        process: Arc::from("Shop.Checkout"),
        group: Some(Arc::from("pauses")),
        transition: Transition::Fired(Arc::new(alert)),
        span: Some(SpanIds {
            trace_id: [0xab; 16],
            span_id: [0xcd; 8],
        }),
    }
}

pub fn ended(pid: u32) -> Notice {
    let fired = fired(pid);
    let alert = Alert {
        ended: Some(Moment::from_ns(ENDED)),
        count: 3,
        ..(**fired.transition.alert()).clone()
    };
    Notice {
        transition: Transition::Ended(Arc::new(alert), Ending::Cleared),
        ..fired
    }
}

/// Returns the notice that an incident of a process has started.
pub fn began(pid: u32) -> IncidentNotice {
    changes(pid).remove(0)
}

/// Returns the notice that an incident of a process has ended.
pub fn over(pid: u32) -> IncidentNotice {
    changes(pid).remove(1)
}

fn changes(pid: u32) -> Vec<IncidentNotice> {
    let (fired, rules) = (fired(pid), rules(RULES));
    let mut incidents = Incidents::default();
    let held = HoldingRule {
        alert: Arc::clone(fired.transition.alert()),
        firing: true,
    };
    let at = (Moment::from_ns(STARTED), Wall::UNIX);
    let mut changes = incidents.observe(&rules, std::slice::from_ref(&fired.transition), &[held], at);
    changes.extend(incidents.end(IncidentEnding::Cleared, Moment::from_ns(ENDED)));
    let notice = |change| IncidentNotice {
        run: fired.run,
        process: Arc::clone(&fired.process),
        change,
        span: fired.span,
        share: QuotaOwner {
            tenant: "user 1000".into(),
            service: "checkout".into(),
        },
    };
    changes.into_iter().map(notice).collect()
}
