//! Where pod metadata comes from, and which of it is reported.

use std::path::PathBuf;
use std::time::Duration;

use base::words;

words! {
    /// The source of pod metadata.
    #[derive(Default)]
    pub enum Source {
        /// The API server where gcwatch runs in a pod with a service account, else none.
        #[default]
        Auto = "auto",
        /// The API server: pods are listed and watched.
        ApiServer = "api-server",
        /// The kubelet of the node: pods are polled.
        Kubelet = "kubelet",
        /// None.
        Nowhere = "none",
    }
}

/// Where pod metadata comes from, and which of it is reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub source: Source,
    /// The node whose pods are watched; `None`: those of all nodes, which is a heavy load on a large cluster.
    pub node: Option<String>,
    /// The kubelet's URL. `PATH/pods` is requested there.
    pub kubelet_url: String,
    /// The interval of requests to the kubelet.
    pub kubelet_interval: Duration,
    /// PEM file of the authorities that certify the kubelet; `None`: those of the service account, outside of a pod the
    /// system's.
    pub kubelet_certificate: Option<PathBuf>,
    /// False: the kubelet's certificate is not verified.
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
