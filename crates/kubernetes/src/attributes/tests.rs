use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::pod::Pod;

fn object(value: serde_json::Value) -> PodObject {
    serde_json::from_value(value).unwrap()
}

fn shown(attributes: &[KeyValue], name: &str) -> Option<String> {
    let attribute = attributes.iter().find(|attribute| attribute.key == name)?;
    match attribute.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text.clone()),
        Value::ArrayValue(array) => Some(format!("{:?}", array.values.len())),
        other => panic!("{other:?}"),
    }
}

fn web() -> serde_json::Value {
    json!({
        "metadata": {
            "name": "web-7d9c5b8f6d-abcde", "namespace": "shop", "uid": "u-1", "resourceVersion": "7",
            "labels": {"pod-template-hash": "7d9c5b8f6d", "app.kubernetes.io/name": "web-name", "team": "blue"},
            "annotations": {"build": "12"},
            "ownerReferences": [
                {"kind": "Other", "name": "x", "controller": false},
                {"kind": "ReplicaSet", "name": "web-7d9c5b8f6d", "controller": true}
            ]
        },
        "spec": {"nodeName": "node-1", "containers": [
            {"name": "app", "image": "registry.example:5000/shop/web:1.2.3@sha256:ab"},
            {"name": "proxy", "image": "proxy"}
        ]},
        "status": {"containerStatuses": [
            {"name": "proxy", "containerID": "containerd://bbb"}, {"name": "app", "containerID": "containerd://aaa"}
        ]}
    })
}

/// Scenario: a pod of a deployment has two containers.
/// Guarantee: owner, node, names and image are those of the given container; each attribute is in the definition table;
/// an unknown container has only the attributes of the pod.
#[test]
fn pod_of_deployment_has_all_attributes() {
    let pod = Pod::new(&object(web()), &Settings::default()).unwrap();
    let app = pod.attributes(Some("aaa"));
    let is = |name: &str, value: &str| assert_eq!(shown(&app, name).as_deref(), Some(value), "{name}");
    is("service.name", "web");
    is("service.namespace", "shop");
    is("service.version", "1.2.3");
    is("k8s.deployment.name", "web");
    is("k8s.replicaset.name", "web-7d9c5b8f6d");
    is("k8s.pod.name", "web-7d9c5b8f6d-abcde");
    is("k8s.pod.uid", "u-1");
    is("k8s.node.name", "node-1");
    is("k8s.namespace.name", "shop");
    is("k8s.container.name", "app");
    is("container.image.name", "registry.example:5000/shop/web");
    is("container.image.tags", "1");
    assert_eq!(
        shown(&app, "k8s.pod.label.team"),
        None,
        "labels are reported only if they are configured"
    );
    assert_eq!(
        shown(&pod.attributes(Some("bbb")), "k8s.container.name").as_deref(),
        Some("proxy")
    );
    assert_eq!(shown(&pod.attributes(Some("ccc")), "k8s.container.name"), None);
    for attribute in &app {
        let known = row::ALL.iter().any(|known| known.attribute.name == attribute.key);
        assert!(known, "{}", attribute.key);
    }
}

/// Scenario: a pod has all sources of the service name, and each is removed in turn.
/// Guarantee: the order is annotation, instance, name, owner, pod; labels are used only if they are configured.
#[test]
fn service_name_sources_have_order() {
    let with_labels = Settings {
        well_known_labels: true,
        ..Settings::default()
    };
    let name = |value: &serde_json::Value, settings: &Settings| {
        let pod = Pod::new(&object(value.clone()), settings).unwrap();
        shown(&pod.attributes(None), "service.name").unwrap()
    };
    let mut pod = web();
    pod["metadata"]["annotations"]["resource.opentelemetry.io/service.name"] = json!("annotated");
    pod["metadata"]["labels"]["app.kubernetes.io/instance"] = json!("instance");
    assert_eq!(name(&pod, &with_labels), "annotated");
    pod["metadata"]["annotations"] = json!(null);
    assert_eq!(name(&pod, &with_labels), "instance");
    assert_eq!(name(&pod, &Settings::default()), "web");
    pod["metadata"]["labels"]["app.kubernetes.io/instance"] = json!("");
    assert_eq!(name(&pod, &with_labels), "web-name");
    pod["metadata"]["ownerReferences"] = json!(null);
    assert_eq!(name(&pod, &Settings::default()), "web-7d9c5b8f6d-abcde");
}

/// Scenario: pods have owners of every kind.
/// Guarantee: each owner is reported under its kind. A job whose name contains its cron job is reported together with
/// the cron job. Unknown kinds are not reported.
#[test]
fn owners_are_reported() {
    let cases = [
        ("StatefulSet", "db", vec![("k8s.statefulset.name", "db")]),
        ("DaemonSet", "agent", vec![("k8s.daemonset.name", "agent")]),
        ("ReplicaSet", "alone", vec![("k8s.replicaset.name", "alone")]),
        ("Job", "import", vec![("k8s.job.name", "import")]),
        (
            "Job",
            "nightly-28934560",
            vec![("k8s.cronjob.name", "nightly"), ("k8s.job.name", "nightly-28934560")],
        ),
        ("Job", "import-2024", vec![("k8s.job.name", "import-2024")]),
        ("Node", "node-1", vec![]),
    ];
    for (kind, name, expected) in cases {
        let pod = object(json!({"metadata": {
            "name": "p", "uid": "u", "ownerReferences": [{"kind": kind, "name": name, "controller": true}]
        }}));
        let owners: Vec<_> = owner(&pod.metadata)
            .into_iter()
            .map(|(attribute, name)| (attribute.name, name))
            .collect();
        let expected: Vec<_> = expected
            .into_iter()
            .map(|(attribute, name)| (attribute, name.to_owned()))
            .collect();
        assert_eq!(owners, expected, "{kind} {name}");
    }
}

/// Scenario: some annotations are attributes, others try to set reserved attributes; labels are configured; texts are
/// long and contain control characters.
/// Guarantee: reserved attributes are not changed; configured labels and annotations are reported; texts are bounded
/// and safe to show.
#[test]
fn annotations_and_labels_are_reported() {
    let settings = Settings {
        labels: vec!["team".to_owned(), "none".to_owned()],
        annotations: vec!["build".to_owned()],
        ..Settings::default()
    };
    let mut pod = web();
    pod["metadata"]["annotations"] = json!({
        "build": "a\u{1b}b", "resource.opentelemetry.io/tier": "x".repeat(5000), "resource.opentelemetry.io/container.id": "lie",
        "resource.opentelemetry.io/telemetry.distro.name": "lie", "resource.opentelemetry.io/": "nothing",
        "resource.opentelemetry.io/k8s.container.name": "annotated"
    });
    let reported = Pod::new(&object(pod), &settings).unwrap().attributes(Some("aaa"));
    assert_eq!(shown(&reported, "k8s.pod.label.team").as_deref(), Some("blue"));
    assert_eq!(
        shown(&reported, "k8s.pod.annotation.build").as_deref(),
        Some("a\u{fffd}b")
    );
    assert_eq!(
        shown(&reported, "tier").map(|text| text.len()),
        Some(processes::text::MAX_VALUE_BYTES)
    );
    assert_eq!(shown(&reported, "k8s.container.name").as_deref(), Some("annotated"));
    for name in ["container.id", "telemetry.distro.name", "", "k8s.pod.label.none"] {
        assert_eq!(shown(&reported, name), None, "{name}");
    }
}

/// Scenario: images have a registry, port, tag and digest, or not.
/// Guarantee: name, tag and digest are parsed.
#[test]
fn image_parts_are_parsed() {
    let is = |text, name, tag, digest| assert_eq!(Image::parse(text), Image { name, tag, digest });
    is("web", "web", None, None);
    is("shop/web:1", "shop/web", Some("1"), None);
    is("host:5000/web", "host:5000/web", None, None);
    is(
        "host:5000/web:1@sha256:ab",
        "host:5000/web",
        Some("1"),
        Some("sha256:ab"),
    );
    is("web@sha256:ab", "web", None, Some("sha256:ab"));
}

proptest! {
    /// Scenario: a pod's fields contain arbitrary JSON.
    /// Guarantee: the pod is refused, or becomes attributes without panic; no name occurs twice.
    #[test]
    fn any_object_is_handled(name in ".{0,9}", label in ".{0,30}", image in "[a-z:/@.]{0,20}", odd: bool) {
        let owner = if odd { json!("text") } else { json!([{"kind": "ReplicaSet", "name": name, "controller": true}]) };
        let value = json!({
            "metadata": {"name": name, "uid": "u", "labels": {"pod-template-hash": label, &*label: label}, "ownerReferences": owner},
            "spec": {"containers": [{"name": name, "image": image}]}
        });
        if let Ok(object) = serde_json::from_value::<PodObject>(value)
            && let Some(pod) = Pod::new(&object, &Settings::default())
        {
            let attributes = pod.attributes(None);
            let mut names: Vec<_> = attributes.iter().map(|attribute| &attribute.key).collect();
            names.sort();
            names.dedup();
            prop_assert_eq!(names.len(), attributes.len());
        }
    }
}
