//! An alert as it is sent: made when it begins, so that its labels stay the same.

use std::collections::BTreeMap;
use std::sync::Arc;

use opentelemetry_proto::tonic::resource::v1::Resource;
use serde_json::{Value, json};

use crate::alerts::labels::{Labels, fingerprint, labels};
use crate::alerts::notice::Notice;
use gc_rules::alert::Alert;
use gc_rules::time::rfc3339;

/// Go's zero time: Alertmanager's way to say that an alert has no end.
const NO_TIME: &str = "0001-01-01T00:00:00Z";

/// Version of Alertmanager's webhook format.
const WEBHOOK_VERSION: &str = "4";

/// One state of an alert.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Message {
    /// They identify it.
    pub(crate) labels: Arc<Labels>,
    /// Of the labels.
    pub(crate) fingerprint: u64,
    annotations: Arc<BTreeMap<String, String>>,
    started_unix_ns: u64,
    /// `None`: it is firing.
    ended_unix_ns: Option<u64>,
}

impl Message {
    /// A new alert.
    pub(crate) fn of(notice: &Notice, resource: &Resource) -> Self {
        let alert = notice.transition.alert();
        let labels = labels(notice, resource);
        Self {
            fingerprint: fingerprint(&labels),
            labels: Arc::new(labels),
            annotations: Arc::new(annotations(alert)),
            started_unix_ns: alert.started_unix_ns,
            ended_unix_ns: alert.ended_unix_ns.map(|ended| ended.max(alert.started_unix_ns)),
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
        }
    }

    /// The same alert, ended.
    pub(crate) fn ended(&self, alert: &Alert) -> Self {
        let ended = alert.ended_unix_ns.unwrap_or(alert.last_unix_ns);
        Self {
            // Alertmanager refuses an end before the beginning.
            ended_unix_ns: Some(ended.max(self.started_unix_ns)),
            ..self.clone()
        }
    }

    /// It has not ended.
    pub(crate) fn is_firing(&self) -> bool {
        self.ended_unix_ns.is_none()
    }

    /// As `postableAlert` of Alertmanager's API v2. A firing one ends at `until`, and is sent again before that.
    pub(crate) fn postable(&self, until_unix_ns: u64, external_url: Option<&str>) -> Value {
        let mut alert = json!({
            "labels": &*self.labels,
            "annotations": &*self.annotations,
            "startsAt": rfc3339(self.started_unix_ns),
            "endsAt": rfc3339(self.ended_unix_ns.unwrap_or(until_unix_ns)),
        });
        if let (Some(url), Some(fields)) = (external_url, alert.as_object_mut()) {
            fields.insert("generatorURL".to_owned(), json!(generator(url)));
        }
        alert
    }

    /// As the webhooks of Alertmanager send it, grouped by rule and process.
    pub(crate) fn webhook(&self, external_url: Option<&str>) -> Value {
        let status = if self.is_firing() { "firing" } else { "resolved" };
        let label = |name: &str| self.labels.get(name).map(|value| (name.to_owned(), value.clone()));
        let group: Labels = ["alertname", "instance", "pid"].into_iter().filter_map(label).collect();
        let ends_at = self.ended_unix_ns.and_then(rfc3339);
        json!({
            "version": WEBHOOK_VERSION,
            "groupKey": group_key(&group),
            "truncatedAlerts": 0,
            "status": status,
            "receiver": "gcwatch",
            "groupLabels": group,
            "commonLabels": &*self.labels,
            "commonAnnotations": &*self.annotations,
            "externalURL": external_url.unwrap_or_default(),
            "alerts": [{
                "status": status,
                "labels": &*self.labels,
                "annotations": &*self.annotations,
                "startsAt": rfc3339(self.started_unix_ns),
                "endsAt": ends_at.as_deref().unwrap_or(NO_TIME),
                "generatorURL": external_url.map(generator).unwrap_or_default(),
                "fingerprint": format!("{:016x}", self.fingerprint),
            }],
        })
    }
}

/// Where this gcwatch shows its alerts.
fn generator(external_url: &str) -> String {
    format!("{}/api/v1/alerts", external_url.trim_end_matches('/'))
}

/// `{}:{alertname="a", pid="1"}`, as Alertmanager writes the key of a group.
fn group_key(group: &Labels) -> String {
    let pairs: Vec<String> = group.iter().map(|(name, value)| format!("{name}={value:?}")).collect();
    format!("{{}}:{{{}}}", pairs.join(", "))
}

/// The summary, the rule's texts and the rule's own annotations, which cannot replace the others.
fn annotations(alert: &Alert) -> BTreeMap<String, String> {
    let rule = &alert.rule;
    let mut annotations: BTreeMap<String, String> = alert
        .annotations
        .iter()
        .map(|(name, text)| (name.to_string(), text.to_string()))
        .collect();
    let fixed = [
        ("summary", &alert.summary),
        ("title", &rule.title),
        ("description", &rule.description),
        ("remedy", &rule.remedy),
    ];
    for (name, text) in fixed.into_iter().filter(|(_, text)| !text.is_empty()) {
        annotations.insert(name.to_owned(), text.to_string());
    }
    if let Some(number) = alert.collection {
        annotations.insert("gc_number".to_owned(), number.to_string());
    }
    annotations
}
