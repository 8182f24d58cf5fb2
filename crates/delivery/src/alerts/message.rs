//! An incident as one alert, whose labels stay the same as at its start.
//!
//! A rise of the severity changes a label and therefore creates another alert. The previous alert resolves at the same
//! time.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use opentelemetry_proto::tonic::resource::v1::Resource;
use serde_json::{Value, json};

use crate::alerts::labels::{INCIDENT, Labels, RULE, SEVERITY, fingerprint, labels};
use crate::alerts::settings::Links;
use base::run_key::RunKey;
use base::time::{Wall, rfc3339};
use gc_telemetry::notice::IncidentNotice;
use incidents::{IncidentChange, IncidentRecord, IncidentSubject, MemberRecord, QuotaOwner, key_of_record};
use rule_engine::rule::{Evidence, Severity};

/// Go's zero time, with which Alertmanager represents an alert without an end.
const NO_TIME: &str = "0001-01-01T00:00:00Z";

/// Version of Alertmanager's webhook format.
const WEBHOOK_VERSION: &str = "4";

/// Identity of an incident: the run, and the incident's number in the run.
pub(crate) type Key = (RunKey, u64);

/// The reason for a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// The incident started, or reached the minimum severity of the receiver.
    Began,
    /// The severity rose.
    Rose { is_critical: bool },
    /// The main cause is known or has changed.
    Explained,
    /// The incident ended.
    Ended,
    /// There is no change: the receiver already has the incident, or the receiver is new.
    Again,
}

impl Change {
    fn from_incident_change(change: &IncidentChange) -> Self {
        match change {
            IncidentChange::Began(_) => Self::Began,
            IncidentChange::Worse(incident, _) => Self::Rose {
                is_critical: incident.severity == Severity::Critical,
            },
            IncidentChange::Explained(_) => Self::Explained,
            IncidentChange::Ended(_) => Self::Ended,
            IncidentChange::Refreshed(_) | IncidentChange::Gathered(..) => Self::Again,
        }
    }
}

/// One state of an incident, as an alert.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Message {
    /// The labels, which identify the alert.
    pub(crate) labels: Arc<Labels>,
    /// Fingerprint of the labels.
    pub(crate) fingerprint: u64,
    annotations: Arc<BTreeMap<String, String>>,
    started_unix_ns: u64,
    /// Time of the end; `None` if the alert is firing.
    ended_unix_ns: Option<u64>,
    /// The resolved alert of the same incident with its previous severity, which had other labels; `None` if the
    /// severity did not rise.
    pub(crate) before: Option<Arc<Message>>,
    pid: u32,
    /// Body for a webhook that an earlier instance created; `None` for all other messages.
    stored: Option<Value>,
    /// Tenant and service of the message.
    pub(crate) share: QuotaOwner,
    pub(crate) incident: Key,
    pub(crate) change: Change,
}

/// Returns a share with an empty tenant and an empty service.
#[cfg(test)]
fn no_share() -> QuotaOwner {
    QuotaOwner {
        tenant: "".into(),
        service: "".into(),
    }
}

const NO_INCIDENT: Key = (RunKey { pid: 0, start_time: 0 }, 0);

impl Message {
    /// Creates a message for a change that an earlier instance could not send to a webhook.
    pub(crate) fn stored(body: Value, share: QuotaOwner) -> Self {
        Self {
            labels: Arc::default(),
            fingerprint: 0,
            annotations: Arc::default(),
            started_unix_ns: 0,
            ended_unix_ns: None,
            before: None,
            pid: 0,
            stored: Some(body),
            share,
            incident: NO_INCIDENT,
            change: Change::Again,
        }
    }

    /// Creates the message for the current state of an incident.
    pub(crate) fn from_notice(notice: &IncidentNotice, resource: &Resource, wall: Wall) -> Self {
        let incident = notice.change.incident();
        let labels = labels(notice, resource);
        Self {
            fingerprint: fingerprint(&labels),
            labels: Arc::new(labels),
            annotations: Arc::new(annotations(notice, wall)),
            started_unix_ns: wall.unix_ns(incident.began),
            ended_unix_ns: incident.ended.map(|at| wall.unix_ns(at)),
            before: None,
            pid: notice.run.pid,
            stored: None,
            share: notice.share.clone(),
            incident: (notice.run, incident.number),
            change: Change::from_incident_change(&notice.change),
        }
    }

    #[cfg(test)]
    pub(crate) fn test(fingerprint: u64, labels: Labels, ended: bool) -> Self {
        Self {
            labels: Arc::new(labels),
            fingerprint,
            annotations: Arc::default(),
            started_unix_ns: 1,
            ended_unix_ns: ended.then_some(2),
            before: None,
            pid: 1,
            stored: None,
            share: no_share(),
            incident: NO_INCIDENT,
            change: Change::Again,
        }
    }

    /// Returns the same alert with the current texts, and with its end if it has ended.
    pub(crate) fn renewed(&self, notice: &IncidentNotice, wall: Wall) -> Self {
        let ended = notice.change.incident().ended;
        Self {
            annotations: Arc::new(annotations(notice, wall)),
            // Receivers keep the first start time, so an end must not be before this time.
            ended_unix_ns: ended.map(|at| wall.unix_ns(at).max(self.started_unix_ns)),
            before: None,
            change: Change::from_incident_change(&notice.change),
            ..self.clone()
        }
    }

    /// Returns the message for a higher severity since `at_unix_ns`. The other labels stay the same as at the start.
    pub(crate) fn worse(&self, notice: &IncidentNotice, wall: Wall, at_unix_ns: u64) -> Self {
        let mut labels = (*self.labels).clone();
        labels.insert(SEVERITY.to_owned(), notice.change.incident().severity.name().to_owned());
        let before = Self {
            // Alertmanager refuses an end before the start.
            ended_unix_ns: Some(at_unix_ns.max(self.started_unix_ns)),
            before: None,
            ..self.clone()
        };
        Self {
            fingerprint: fingerprint(&labels),
            labels: Arc::new(labels),
            before: Some(Arc::new(before)),
            ..self.renewed(notice, wall)
        }
    }

    /// Returns the message without the previous alert, which a new receiver never got.
    pub(crate) fn alone(&self) -> Self {
        Self {
            before: None,
            ..self.clone()
        }
    }

    /// Returns the first message of the incident for a receiver whose minimum severity it had not reached before.
    pub(crate) fn as_first(&self) -> Self {
        let change = match self.change {
            Change::Rose { is_critical: true } => self.change,
            _ => Change::Began,
        };
        Self { change, ..self.alone() }
    }

    /// Returns the state of the incident for a new receiver.
    pub(crate) fn as_again(&self) -> Self {
        Self {
            change: Change::Again,
            ..self.alone()
        }
    }

    /// Returns whether the alert has not ended.
    pub(crate) fn is_firing(&self) -> bool {
        self.ended_unix_ns.is_none()
    }

    /// Returns whether both messages have the same state, although the texts can differ.
    pub(crate) fn is_state_of(&self, other: &Self) -> bool {
        self.started_unix_ns == other.started_unix_ns && self.ended_unix_ns == other.ended_unix_ns
    }

    /// Returns the `postableAlert` of Alertmanager's API v2. A firing alert ends at `until_unix_ns`, and is sent again
    /// before this time.
    pub(crate) fn postable(&self, until_unix_ns: u64, links: &Links) -> Value {
        let mut alert = json!({
            "labels": &*self.labels,
            "annotations": self.annotations(links),
            "startsAt": rfc3339(self.started_unix_ns),
            "endsAt": rfc3339(self.ended_unix_ns.unwrap_or(until_unix_ns)),
        });
        if let (Some(url), Some(fields)) = (&links.external_url, alert.as_object_mut()) {
            fields.insert("generatorURL".to_owned(), json!(generator(url, self.pid)));
        }
        alert
    }

    /// Returns a body in the format that Alertmanager sends to webhooks, grouped by incident.
    pub(crate) fn webhook(&self, links: &Links) -> Value {
        if let Some(body) = &self.stored {
            return body.clone();
        }
        let status = if self.is_firing() { "firing" } else { "resolved" };
        let label = |name: &str| self.labels.get(name).map(|value| (name.to_owned(), value.clone()));
        let group: Labels = ["alertname", "incident"].into_iter().filter_map(label).collect();
        let before = self.before.as_deref();
        let is_common =
            |label: &(&String, &String)| before.is_none_or(|other| other.labels.get(label.0) == Some(label.1));
        let common: BTreeMap<&String, &String> = self.labels.iter().filter(is_common).collect();
        let alerts: Vec<Value> = std::iter::once(self)
            .chain(before)
            .map(|message| message.webhook_alert(links))
            .collect();
        json!({
            "version": WEBHOOK_VERSION,
            "groupKey": group_key(&group),
            "truncatedAlerts": 0,
            "status": status,
            "receiver": "gcwatch",
            "groupLabels": group,
            "commonLabels": common,
            "commonAnnotations": self.annotations(links),
            "externalURL": links.external_url.as_deref().unwrap_or_default(),
            "alerts": alerts,
        })
    }

    fn webhook_alert(&self, links: &Links) -> Value {
        let ends_at = self.ended_unix_ns.and_then(rfc3339);
        json!({
            "status": if self.is_firing() { "firing" } else { "resolved" },
            "labels": &*self.labels,
            "annotations": self.annotations(links),
            "startsAt": rfc3339(self.started_unix_ns),
            "endsAt": ends_at.as_deref().unwrap_or(NO_TIME),
            "generatorURL": links.external_url.as_deref().map(|url| generator(url, self.pid)).unwrap_or_default(),
            "fingerprint": format!("{:016x}", self.fingerprint),
        })
    }
}

/// The incidents of a tenant that share one message. The labels of the alert name the rule, the host and, if the tenant
/// is a namespace, the namespace.
#[derive(Debug, Clone)]
pub(crate) struct Summary {
    /// The labels, which a process of the tenant cannot choose.
    labels: Labels,
    started_unix_ns: u64,
    incidents: u64,
    changes: u64,
    services: BTreeMap<Arc<str>, u64>,
    /// Number of incidents and changes of services that are not named.
    of_others: u64,
}

impl Summary {
    /// Creates an empty summary with the labels of a message that is not sent.
    pub(crate) fn new(message: &Message) -> Self {
        let namespace = message.share.tenant.strip_prefix("namespace ");
        let is_common = |name: &str, value: &str| match name {
            "host_name" => true,
            "k8s_namespace_name" => namespace == Some(value),
            "k8s_node_name" | "k8s_cluster_name" => namespace.is_some(),
            _ => false,
        };
        let labels = message.labels.iter().filter(|(name, value)| is_common(name, value));
        Self {
            labels: labels.map(|(name, value)| (name.clone(), value.clone())).collect(),
            started_unix_ns: message.started_unix_ns,
            incidents: 0,
            changes: 0,
            services: BTreeMap::new(),
            of_others: 0,
        }
    }

    /// Counts a message. Only the first `most` services are named; all other services are counted together.
    pub(crate) fn add(&mut self, service: &Arc<str>, change: Change, most: usize) {
        let count = match change {
            Change::Began => &mut self.incidents,
            _ => &mut self.changes,
        };
        *count = count.saturating_add(1);
        let is_named = self.services.len() < most || self.services.contains_key(service);
        let of_service = if is_named {
            self.services.entry(Arc::clone(service)).or_default()
        } else {
            &mut self.of_others
        };
        *of_service = of_service.saturating_add(1);
    }

    /// Returns the current state of the summary as an alert. `ended_unix_ns` is `None` while the alert fires.
    pub(crate) fn message(&self, tenant: &Arc<str>, rule: &str, severity: &str, ended_unix_ns: Option<u64>) -> Message {
        let mut labels = self.labels.clone();
        labels.insert(RULE.to_owned(), rule.to_owned());
        labels.insert(SEVERITY.to_owned(), severity.to_owned());
        let mut identity = labels.clone();
        identity.insert("tenant".to_owned(), tenant.to_string());
        labels.insert(
            INCIDENT.to_owned(),
            format!("summed-up-{:016x}", fingerprint(&identity)),
        );
        let mut services: Vec<String> = self
            .services
            .iter()
            .map(|(name, count)| format!("{name} ({count})"))
            .collect();
        if self.of_others > 0 {
            services.push(format!("other services ({})", self.of_others));
        }
        let text = |text: &str| text.to_owned();
        let annotations = BTreeMap::from([
            ("title", text("Further incidents of a tenant")),
            (
                "summary",
                format!(
                    "{} further incidents and {} changes of incidents of {}: {}",
                    self.incidents,
                    self.changes,
                    if tenant.is_empty() { "an unknown tenant" } else { tenant },
                    services.join(", ")
                ),
            ),
            (
                "description",
                text(
                    "The tenant has used its share of messages. Further incidents of the same service and rule do not have \
                     separate messages; the page and the API show each of them.",
                ),
            ),
        ]);
        Message {
            fingerprint: fingerprint(&labels),
            labels: Arc::new(labels),
            annotations: Arc::new(
                annotations
                    .into_iter()
                    .map(|(name, text)| (name.to_owned(), text))
                    .collect(),
            ),
            started_unix_ns: self.started_unix_ns,
            ended_unix_ns: ended_unix_ns.map(|at| at.max(self.started_unix_ns)),
            before: None,
            pid: 0,
            stored: None,
            share: QuotaOwner {
                tenant: Arc::clone(tenant),
                service: "".into(),
            },
            incident: NO_INCIDENT,
            change: Change::Again,
        }
    }
}

/// Time that a dashboard shows before the start and after the end of an incident, in nanoseconds.
const AROUND_NS: u64 = 15 * 60 * 1_000_000_000;

impl Message {
    /// Returns the texts, with links that work from other hosts.
    fn annotations(&self, links: &Links) -> BTreeMap<String, String> {
        let mut annotations = (*self.annotations).clone();
        if let Some(base) = &links.store {
            annotations.extend(self.stored_at(base));
        }
        if let Some(url) = &links.external_url {
            let url = url.trim_end_matches('/');
            for name in SERVED_HERE {
                if let Some(path) = annotations.get_mut(name) {
                    *path = format!("{url}{path}");
                }
            }
        }
        if let Some(pattern) = &links.grafana_url {
            annotations.insert("grafana_url".to_owned(), self.dashboard(pattern));
        }
        annotations
    }

    /// Returns the addresses of the incident's recording and record outside the host, as names and values of
    /// annotations.
    fn stored_at(&self, base: &str) -> Vec<(String, String)> {
        let recording = self
            .annotations
            .get("black_box")
            .and_then(|path| path.rsplit('/').next());
        let is_any = EVIDENCE.iter().any(|name| self.annotations.contains_key(*name));
        let record = self
            .labels
            .get("incident")
            .filter(|_| is_any)
            .map(|id| key_of_record(id));
        let address = |name: &str, key: &str| (name.to_owned(), format!("{base}/{key}"));
        let recording = recording.map(|name| address("black_box_stored", name));
        recording
            .into_iter()
            .chain(record.map(|key| address("evidence_stored", &key)))
            .collect()
    }

    /// Returns the address of the dashboard of the service, from [`AROUND_NS`] before the incident until now, or until
    /// [`AROUND_NS`] after the end of the incident.
    fn dashboard(&self, pattern: &str) -> String {
        let label = |name: &str| self.labels.get(name).map(String::as_str);
        let ms = |unix_ns: u64| (unix_ns / 1_000_000).to_string();
        let from = ms(self.started_unix_ns.saturating_sub(AROUND_NS));
        let to = self.ended_unix_ns.map(|end| ms(end.saturating_add(AROUND_NS)));
        let values = [
            ("{service}", label("service_name").or_else(|| label("process"))),
            ("{namespace}", label("k8s_namespace_name")),
            ("{pod}", label("k8s_pod_name")),
            ("{from}", Some(&*from)),
            ("{to}", Some(to.as_deref().unwrap_or("now"))),
        ];
        values.into_iter().fold(pattern.to_owned(), |url, (place, value)| {
            url.replace(place, &encoded(value.unwrap_or_default()))
        })
    }
}

/// Annotations that contain evidence.
const EVIDENCE: [&str; 6] = ["ledger", "black_box", "callers", "allocations", "stacks", "census"];

/// Annotations that are paths on the listener of this instance.
const SERVED_HERE: [&str; 2] = ["black_box", "report"];

/// Encodes a part of a URL (RFC 3986: characters that are not unreserved are percent-encoded).
fn encoded(text: &str) -> String {
    let mut url = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            url.push(char::from(byte));
        } else {
            let _infallible = write!(url, "%{byte:02X}");
        }
    }
    url
}

/// Returns the page of the process on this instance, or the overview for a service, whose pid is 0.
fn generator(external_url: &str, pid: u32) -> String {
    let url = external_url.trim_end_matches('/');
    match pid {
        0 => format!("{url}/"),
        pid => format!("{url}/processes/{pid}"),
    }
}

/// Formats the key of a group like Alertmanager: `{}:{alertname="a", pid="1"}`.
fn group_key(group: &Labels) -> String {
    let pairs: Vec<String> = group.iter().map(|(name, value)| format!("{name}={value:?}")).collect();
    format!("{{}}:{{{}}}", pairs.join(", "))
}

/// Returns the annotations of the incident's record, and the current texts, which replace annotations with the same
/// names.
fn annotations(notice: &IncidentNotice, wall: Wall) -> BTreeMap<String, String> {
    let run = Some(notice.run);
    let subject = IncidentSubject {
        run,
        process: Some(notice.process.to_string()),
        ..IncidentSubject::default()
    };
    let record = IncidentRecord::new(notice.change.incident(), &subject, wall);
    let ledger = record.evidence_text(Evidence::Ledger).map(str::to_owned);
    let black_box = record.evidence_place(Evidence::BlackBox).map(str::to_owned);
    let report = record.evidence.iter().find_map(|evidence| evidence.report.clone());
    let text = |evidence| record.evidence_text(evidence).map(str::to_owned);
    let (callers, allocations) = (text(Evidence::Callers), text(Evidence::Allocations));
    let (stacks, census) = (text(Evidence::Stacks), text(Evidence::Census));
    let mut annotations = record.annotations;
    let cause = record.causes.first();
    let members = record.members.iter().map(MemberRecord::line);
    let fixed = [
        ("summary", Some(record.summary)),
        ("title", Some(record.title)),
        ("description", Some(record.description)),
        ("remedy", Some(record.remedy)),
        ("command", record.command),
        ("ledger", ledger),
        ("black_box", black_box),
        ("report", report),
        ("callers", callers),
        ("allocations", allocations),
        ("stacks", stacks),
        ("census", census),
        ("rules", Some(members.collect::<Vec<_>>().join(", "))),
        ("cause", cause.map(|cause| cause.rule.clone())),
        ("cause_title", cause.map(|cause| cause.line())),
        ("cause_summary", cause.map(|cause| cause.summary.clone())),
        ("gc_number", record.gc_number.map(|number| number.to_string())),
        ("ending", record.ending.map(|ending| ending.name().to_owned())),
        ("process_ended", record.process_ended),
    ];
    for (name, text) in fixed {
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            annotations.insert(name.to_owned(), text);
        }
    }
    annotations
}

#[cfg(test)]
mod tests {
    use incidents::sample;
    use rule_engine::ledger::{Ledger, MemoryVerdict};

    use super::*;

    /// Scenario: an incident with a memory ledger is recorded.
    /// Guarantee: messages for Alertmanager and webhooks have the ledger and the address of the recording as
    /// annotations.
    #[test]
    fn evidence_is_in_annotations() {
        let IncidentChange::Began(incident) = sample(Wall::UNIX.moment(1_800_000_000_000_000_000)).remove(0) else {
            panic!("expected the start of an incident");
        };
        let mut incident = (*incident).clone();
        incident.ledger = Some(Arc::new(Ledger {
            verdict: MemoryVerdict::LiveHeap,
            limit: Some(512 << 20),
            live: Some(400 << 20),
            ..Ledger::default()
        }));
        incident.black_box = Some("20261123T114742Z-shop-1-0f".into());
        let notice = IncidentNotice {
            run: RunKey { pid: 1, start_time: 2 },
            process: Arc::from("shop"),
            change: IncidentChange::Began(Arc::new(incident)),
            span: None,
            share: no_share(),
        };
        let message = Message::from_notice(&notice, &Resource::default(), Wall::UNIX);
        let text = "limit 512 MiB: live 400";
        assert_eq!(message.postable(1, &Links::default())["annotations"]["ledger"], text);
        assert_eq!(
            message.webhook(&Links::default())["alerts"][0]["annotations"]["ledger"],
            text
        );
        let place = "/api/v1/evidence/20261123T114742Z-shop-1-0f.nettrace";
        assert_eq!(
            message.postable(1, &Links::default())["annotations"]["black_box"],
            place
        );
        assert_eq!(
            message.webhook(&Links::default())["alerts"][0]["annotations"]["black_box"],
            place
        );
    }

    /// Scenario: a recorded incident of a service whose name needs encoding is sent while it is open and after it
    /// ended; the address of this instance, a dashboard and a store for evidence are configured.
    /// Guarantee: the addresses of recording and report are absolute, on this instance and in the store; the dashboard
    /// shows the service from 15 minutes before the incident until now, or until 15 minutes after its end.
    #[test]
    fn links_work_from_elsewhere() {
        let all = sample(Wall::UNIX.moment(1_800_000_000_000_000_000));
        let mut incident = (**all[0].incident()).clone();
        incident.black_box = Some("20261123T114742Z-shop-1-0f".into());
        let mut notice = IncidentNotice {
            run: RunKey { pid: 1, start_time: 2 },
            process: Arc::from("shop a&b{to}"),
            change: IncidentChange::Began(Arc::new(incident.clone())),
            span: None,
            share: no_share(),
        };
        let links = Links {
            external_url: Some("https://gcwatch.example/n1/".to_owned()),
            grafana_url: Some("https://g/d/x?var-service={service}&p={pod}&from={from}&to={to}".to_owned()),
            store: Some("s3://incidents/n1".to_owned()),
        };
        let texts = |notice: &IncidentNotice| {
            let body = Message::from_notice(notice, &Resource::default(), Wall::UNIX).webhook(&links);
            body["alerts"][0]["annotations"].clone()
        };
        let open = texts(&notice);
        let place = "https://gcwatch.example/n1/api/v1/evidence/20261123T114742Z-shop-1-0f";
        assert_eq!(open["black_box"], format!("{place}.nettrace"));
        assert_eq!(open["report"], format!("{place}.html"));
        let stored = "s3://incidents/n1";
        assert_eq!(
            open["black_box_stored"],
            format!("{stored}/20261123T114742Z-shop-1-0f.nettrace")
        );
        let id = incidents::id_of(&incident, Some(notice.run));
        assert_eq!(open["evidence_stored"], format!("{stored}/{id}/incident.json"));
        let from = incident.began.ns() / 1_000_000 - 900_000;
        let dashboard = |to: &str| format!("https://g/d/x?var-service=shop%20a%26b%7Bto%7D&p=&from={from}&to={to}");
        assert_eq!(open["grafana_url"], dashboard("now"));
        let end = incident.began.after(60_000_000_000);
        incident.ended = Some(end);
        notice.change = IncidentChange::Ended(Arc::new(incident));
        let to = end.ns() / 1_000_000 + 900_000;
        assert_eq!(texts(&notice)["grafana_url"], dashboard(&to.to_string()));
    }
}
