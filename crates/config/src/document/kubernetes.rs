//! The keys of `kubernetes`.

use super::evidence::Switch;
use super::{Deserialize, JsonSchema, PathBuf, Serialize};
use crate::values::WebUrl;
use base::units::HumanDuration;
use kubernetes::settings::{Settings, Source};

/// Pod metadata from Kubernetes. gcwatch does not wait for it; without it, only the ids of container and pod are
/// exported, which come from control groups.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Kubernetes {
    /// The source of pod metadata. `auto`: the API server if gcwatch runs in a pod with a service account; otherwise,
    /// `none`.
    #[schemars(extend("x-restart" = true))]
    pub(crate) metadata: Source,
    /// The node that gcwatch runs on: only its pods are read. In a manifest it is `spec.nodeName` of the pod.
    #[schemars(length(min = 1), extend("x-restart" = true))]
    pub(crate) node_name: Option<String>,
    /// URL of the kubelet, for `metadata: kubelet`; not set: `https://127.0.0.1:10250`.
    #[schemars(extend("x-restart" = true))]
    pub(crate) kubelet_url: Option<WebUrl>,
    /// Interval between requests to the kubelet.
    #[schemars(extend("x-restart" = true, "x-minimum" = "5s", "x-maximum" = "1h"))]
    pub(crate) kubelet_interval: HumanDuration,
    /// PEM file of the certificate authorities of the kubelet. By default, the authorities of the service account are
    /// used, or the authorities of the system outside a pod.
    #[schemars(extend("x-restart" = true))]
    pub(crate) kubelet_certificate: Option<PathBuf>,
    /// Whether the kubelet's certificate, which is often self-signed, is verified. Without verification, an impostor
    /// can receive gcwatch's token.
    #[schemars(extend("x-restart" = true))]
    pub(crate) kubelet_verify: bool,
    /// Labels of pods that become attributes `k8s.pod.label.NAME`.
    #[schemars(extend("x-restart" = true))]
    pub(crate) labels: Vec<String>,
    /// Annotations of pods that become attributes `k8s.pod.annotation.NAME`. Those with the prefix
    /// `resource.opentelemetry.io/` always become attributes.
    #[schemars(extend("x-restart" = true))]
    pub(crate) annotations: Vec<String>,
    /// Whether the labels `app.kubernetes.io/instance`, `app.kubernetes.io/name` and `app.kubernetes.io/version`
    /// describe the service, in preference to the deployment.
    #[schemars(extend("x-restart" = true))]
    pub(crate) well_known_labels: bool,
    /// Kubernetes Events on the pod of an incident when it starts, becomes worse and ends, as shown by `kubectl
    /// describe pod`. The service account must be allowed to create events. Only incidents of which receivers are
    /// notified have events.
    #[schemars(extend("x-restart" = true))]
    pub(crate) events: Switch,
}

impl Default for Kubernetes {
    fn default() -> Self {
        let settings = Settings::default();
        Self {
            metadata: settings.source,
            node_name: settings.node,
            kubelet_url: None,
            kubelet_interval: HumanDuration(settings.kubelet_interval),
            kubelet_certificate: settings.kubelet_certificate,
            kubelet_verify: settings.kubelet_verify,
            labels: settings.labels,
            annotations: settings.annotations,
            well_known_labels: settings.well_known_labels,
            events: Switch::default(),
        }
    }
}

impl From<&Kubernetes> for Settings {
    fn from(keys: &Kubernetes) -> Self {
        let usual = Self::default();
        Self {
            source: keys.metadata,
            node: keys.node_name.clone(),
            kubelet_url: keys
                .kubelet_url
                .as_ref()
                .map_or(usual.kubelet_url, |url| url.as_str().to_owned()),
            kubelet_interval: keys.kubelet_interval.0,
            kubelet_certificate: keys.kubelet_certificate.clone(),
            kubelet_verify: keys.kubelet_verify,
            labels: keys.labels.clone(),
            annotations: keys.annotations.clone(),
            well_known_labels: keys.well_known_labels,
            events: keys.events == Switch::On,
        }
    }
}
