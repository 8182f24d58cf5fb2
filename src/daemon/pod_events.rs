//! Incidents as Kubernetes Events on their pods.

use base::time::Wall;
use delivery::alerts::{IncidentNotice, subject};
use gc_telemetry::value::text;
use incidents::{IncidentChange, IncidentRecord};
use kubernetes::{EventPod, PodEvent};
use opentelemetry_proto::tonic::resource::v1::Resource;
use rule_engine::rule::Severity;

/// Returns the event of a change. Returns `None` if the process is not in a known pod, if the incident does not notify,
/// or if the change is only an explanation, evidence or a refresh.
pub(crate) fn event(notice: &IncidentNotice, resource: &Resource, wall: Wall) -> Option<PodEvent> {
    let incident = notice.change.incident();
    let attribute = |name: &str| text(&resource.attributes, name);
    let pod = EventPod {
        namespace: attribute("k8s.namespace.name")?,
        name: attribute("k8s.pod.name")?,
        uid: attribute("k8s.pod.uid")?,
    };
    if !incident.notifies() {
        return None;
    }
    let severity = incident.severity;
    let (reason, part) = match &notice.change {
        IncidentChange::Began(_) => ("GcIncident", "firing"),
        IncidentChange::Worse(..) => ("GcIncidentEscalated", severity.name()),
        IncidentChange::Ended(_) => ("GcIncidentEnded", "ended"),
        IncidentChange::Explained(_) | IncidentChange::Gathered(..) | IncidentChange::Refreshed(_) => return None,
    };
    let is_ended = !incident.is_open();
    let record = IncidentRecord::new(incident, &subject(notice.run, &notice.process, resource), wall);
    let mut message = format!("{} ({}): {}", record.title, record.symptom, record.summary);
    if let Some(cause) = record.causes.first() {
        message += &format!("; cause: {}", cause.line());
    }
    let at = if is_ended { record.until } else { record.noticed };
    Some(PodEvent {
        pod,
        id: format!("{}-{part}", record.id),
        reason,
        message,
        is_warning: !is_ended && severity > Severity::Info,
        at: seconds(&at?)?,
    })
}

/// Returns an RFC 3339 time without the fraction of the second, because the times of events have no fraction. Returns
/// `None` if the text is not a time.
fn seconds(time: &str) -> Option<String> {
    let time: jiff::Timestamp = time.parse().ok()?;
    Some(time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

#[cfg(test)]
mod tests {
    use base::run_key::RunKey;
    use gc_telemetry::value::key_value;
    use opentelemetry_proto::tonic::common::v1::any_value::Value;

    use super::*;

    /// Scenario: an incident starts and ends, first in a known pod, then without a pod.
    /// Guarantee: the start and the end each create an event with the figures, a separate name and a time in whole
    /// seconds. An event is a warning only if its incident is severe. Without a pod there is no event.
    #[test]
    fn incident_is_an_event_of_its_pod() {
        let changes = incidents::sample(Wall::UNIX.moment(1_800_000_000_123_000_000));
        let names = ["k8s.namespace.name", "k8s.pod.name", "k8s.pod.uid"];
        let attributes = names.map(|name| key_value(name, Value::StringValue(name.to_owned())));
        let resource = Resource {
            attributes: attributes.to_vec(),
            ..Resource::default()
        };
        let notice = |change| IncidentNotice {
            run: RunKey { pid: 7, start_time: 1 },
            process: "shop".into(),
            share: incidents::QuotaOwner {
                tenant: "shop".into(),
                service: "shop".into(),
            },
            change,
            span: None,
        };
        let events: Vec<PodEvent> = changes
            .iter()
            .filter_map(|change| event(&notice(change.clone()), &resource, Wall::UNIX))
            .collect();
        let (first, last) = (events.first().unwrap(), events.last().unwrap());
        assert_eq!((first.reason, last.reason), ("GcIncident", "GcIncidentEnded"));
        // The severity of the sample is `info`.
        assert!(!first.is_warning && !last.is_warning && first.id != last.id);
        let mut grave = (**changes[0].incident()).clone();
        grave.severity = Severity::Error;
        let grave = event(&notice(IncidentChange::Began(grave.into())), &resource, Wall::UNIX);
        assert!(grave.is_some_and(|event| event.is_warning));
        assert_eq!(first.pod.uid, "k8s.pod.uid");
        assert!(first.at.ends_with('Z') && !first.at.contains('.'), "{}", first.at);
        assert!(first.message.contains(": "), "{}", first.message);
        assert_eq!(
            event(&notice(changes[0].clone()), &Resource::default(), Wall::UNIX),
            None
        );
    }
}
