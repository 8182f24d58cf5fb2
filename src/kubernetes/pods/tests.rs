use serde_json::json;

use super::*;
use crate::kubernetes::settings::Settings;

fn pod(uid: &str, name: &str, containers: &[(&str, &str)], hash: Option<&str>) -> Pod {
    let specs: Vec<_> = containers.iter().map(|(name, _)| json!({"name": name})).collect();
    let statuses = containers
        .iter()
        .map(|(name, id)| json!({"name": name, "containerID": format!("cri-o://{id}")}));
    let object = json!({
        "metadata": {"name": name, "uid": uid, "annotations": hash.map(|hash| json!({"kubernetes.io/config.hash": hash}))},
        "spec": {"containers": specs}, "status": {"containerStatuses": statuses.collect::<Vec<_>>()}
    });
    Pod::new(&serde_json::from_value(object).unwrap(), &Settings::default()).unwrap()
}

fn name(pods: &Pods, container: Option<&str>, pod: Option<&str>) -> Option<String> {
    let attributes = pods.attributes(&ContainerIdentity {
        container_id: container.map(str::to_owned),
        pod_uid: pod.map(str::to_owned),
    });
    gc_telemetry::value::text(&attributes, "k8s.pod.name")
}

/// Scenario: pods that come, change and go; a static pod; a container that is not in its pod's status yet.
/// Guarantee: a pod is found by its container, its uid and its hash; a pod that was replaced or removed is not found by
/// any of its old names.
#[test]
fn pods_are_found() {
    let pods = Pods::default();
    assert_eq!(pods.put(pod("u1", "one", &[("a", "c1")], None)), Put::Changed);
    assert_eq!(pods.put(pod("u1", "one", &[("a", "c1")], None)), Put::Same);
    assert_eq!(
        pods.put(pod("u2", "static", &[("a", "c2")], Some("hash"))),
        Put::Changed
    );
    assert_eq!(name(&pods, Some("c1"), None).as_deref(), Some("one"));
    assert_eq!(name(&pods, Some("new"), Some("u1")).as_deref(), Some("one"));
    assert_eq!(name(&pods, None, Some("hash")).as_deref(), Some("static"));
    assert_eq!(name(&pods, None, None), None);
    // The container was restarted: it has another id.
    assert_eq!(pods.put(pod("u1", "one", &[("a", "c3")], None)), Put::Changed);
    assert_eq!(name(&pods, Some("c1"), None), None);
    assert_eq!(name(&pods, Some("c3"), None).as_deref(), Some("one"));
    assert!(pods.remove("u1") && !pods.remove("u1"));
    assert_eq!(name(&pods, Some("c3"), Some("u1")), None);
    assert_eq!(pods.count(), 1);
}

/// Scenario: lists of all pods: the same again, a shorter one, and one beyond the limit.
/// Guarantee: pods not in the list are forgotten; changes are noticed; pods beyond the limit are counted.
#[test]
fn a_list_takes_the_place_of_all() {
    let pods = Pods::default();
    let list = || vec![pod("u1", "one", &[], None), pod("u2", "two", &[], None)];
    assert_eq!(pods.replace(list()), (true, 0));
    assert_eq!(pods.replace(list()), (false, 0));
    assert_eq!(pods.replace(vec![pod("u2", "two", &[], None)]), (true, 0));
    assert_eq!(pods.count(), 1);
    let many = (0..MAX_PODS + 3).map(|number| pod(&format!("m{number}"), "many", &[], None));
    assert_eq!(pods.replace(many.collect()), (true, 3));
    assert_eq!(pods.count(), MAX_PODS);
}
