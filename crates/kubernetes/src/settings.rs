//! The source of pod metadata, and the selection of reported metadata.

use std::path::PathBuf;
use std::time::Duration;

use base::words;

words! {
    /// The source of pod metadata.
    #[derive(Default)]
    pub enum Source {
        /// The API server if gcwatch runs in a pod with a service account; otherwise, no source.
        #[default]
        Auto = "auto",
        /// The API server: pods are listed and watched.
        ApiServer = "api-server",
        /// The kubelet of the node: pods are polled.
        Kubelet = "kubelet",
        /// No source.
        Nowhere = "none",
    }
}

/// The source of pod metadata, and the selection of reported metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub source: Source,
    /// The node whose pods are watched. `None` watches the pods of all nodes, which is a heavy load on a large cluster.
    pub node: Option<String>,
    /// URL of the kubelet. Requests go to `PATH/pods` below it.
    pub kubelet_url: String,
    /// Interval between requests to the kubelet.
    pub kubelet_interval: Duration,
    /// PEM file of the authorities that certify the kubelet. `None` uses the authorities of the service account, or of
    /// the system if there is no service account.
    pub kubelet_certificate: Option<PathBuf>,
    /// Whether the kubelet's certificate is verified.
    pub kubelet_verify: bool,
    /// Labels of pods that become attributes `k8s.pod.label.*`.
    pub labels: Vec<String>,
    /// Annotations of pods that become attributes `k8s.pod.annotation.*`.
    pub annotations: Vec<String>,
    /// Whether the labels `app.kubernetes.io/instance`, `name` and `version` name a service.
    pub well_known_labels: bool,
    /// Whether incidents create events on their pods.
    pub events: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            source: Source::Auto,
            node: None,
            kubelet_url: "https://127.0.0.1:10250".to_owned(),
            kubelet_interval: Duration::from_secs(30),
            kubelet_certificate: None,
            kubelet_verify: true,
            labels: Vec::new(),
            annotations: Vec::new(),
            well_known_labels: false,
            events: false,
        }
    }
}
