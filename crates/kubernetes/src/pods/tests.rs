use serde_json::json;

use super::*;
use crate::settings::Settings;

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

/// Scenario: pods are added, changed and deleted; one is a static pod; a container is not yet in the status of its pod.
/// Guarantee: a pod is found by its container, its uid and its hash; a replaced or removed pod is not found by its old
/// names.
#[test]
fn pods_are_found() {
    let pods = Pods::default();
    assert_eq!(pods.put(pod("u1", "one", &[("a", "c1")], None)), PutOutcome::Changed);
    assert_eq!(pods.put(pod("u1", "one", &[("a", "c1")], None)), PutOutcome::Same);
    assert_eq!(
        pods.put(pod("u2", "static", &[("a", "c2")], Some("hash"))),
        PutOutcome::Changed
    );
    assert_eq!(name(&pods, Some("c1"), None).as_deref(), Some("one"));
    assert_eq!(name(&pods, Some("new"), Some("u1")).as_deref(), Some("one"));
    assert_eq!(name(&pods, None, Some("hash")).as_deref(), Some("static"));
    assert_eq!(name(&pods, None, None), None);
    // The container was restarted and has a new id.
    assert_eq!(pods.put(pod("u1", "one", &[("a", "c3")], None)), PutOutcome::Changed);
    assert_eq!(name(&pods, Some("c1"), None), None);
    assert_eq!(name(&pods, Some("c3"), None).as_deref(), Some("one"));
    assert!(pods.remove("u1") && !pods.remove("u1"));
    assert_eq!(name(&pods, Some("c3"), Some("u1")), None);
    assert_eq!(pods.count(), 1);
}

/// Scenario: a container is killed for memory, fails, ends because of SIGTERM, or completes. In each case, it first
/// waits for its restart and is then restarted with another id.
/// Guarantee: the end is known by the id of the ended container, the restarted container has no end, and changes are
/// detected.
#[test]
fn ends_of_containers_are_known() {
    let status = |id: &str, ended: serde_json::Value, waits: bool| {
        let key = if waits { "state" } else { "lastState" };
        json!({"name": "a", "containerID": format!("containerd://{id}"), key: {"terminated": ended}})
    };
    let pod = |status: serde_json::Value| {
        let object = json!({
            "metadata": {"name": "one", "uid": "u1"},
            "spec": {"containers": [{"name": "a"}]}, "status": {"containerStatuses": [status]}
        });
        Pod::new(&serde_json::from_value(object).unwrap(), &Settings::default()).unwrap()
    };
    let pods = Pods::default();
    let ended = |id: &str| {
        pods.ended(&ContainerIdentity {
            container_id: Some(id.to_owned()),
            pod_uid: Some("u1".to_owned()),
        })
    };
    let end = |id: &str, reason: &str, code: i32| json!({"containerID": format!("containerd://{id}"), "reason": reason, "exitCode": code});
    pods.put(pod(
        json!({"name": "a", "containerID": "containerd://c1", "state": {"running": {}}}),
    ));
    assert_eq!(ended("c1"), None);
    let cases = [
        ("OOMKilled", 137, true, true),
        ("Error", 134, false, true),
        ("Error", 143, false, false),
        ("Completed", 0, false, false),
    ];
    for (reason, code, oom_killed, failed) in cases {
        for waits in [true, false] {
            let changed = pods.put(pod(status(
                if waits { "c1" } else { "c2" },
                end("c1", reason, code),
                waits,
            )));
            assert_eq!(changed, PutOutcome::Changed);
            assert_eq!(
                ended("c1"),
                Some(ContainerEnd { oom_killed, failed }),
                "{reason} {code}"
            );
            assert_eq!(ended("c2"), None);
        }
    }
}

/// Scenario: lists of all pods are unchanged, shorter, or beyond the limit.
/// Guarantee: pods that are not in the list are forgotten; changes are detected; pods beyond the limit are counted.
#[test]
fn list_replaces_all_pods() {
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
