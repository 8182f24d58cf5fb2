//! Where metadata of pods comes from, and what of it is told.

use std::path::PathBuf;
use std::time::Duration;

use strict_yaml::words;

words! {
    /// Where metadata of pods comes from.
    #[derive(Default)]
    pub enum Source {
        /// The API server, if gcwatch runs in a pod with a service account; else nowhere.
        #[default]
        Auto = "auto",
        /// The API server: lists and watches the pods of the node.
        ApiServer = "api-server",
        /// The kubelet of the node, polled.
        Kubelet = "kubelet",
        /// Nowhere.
        Nowhere = "none",
    }
}

/// Where metadata of pods comes from, and what of it is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Where it comes from.
    pub source: Source,
    /// The node whose pods are asked for; `None`: those of all nodes, which on a large cluster is a heavy thing to ask.
    pub node: Option<String>,
    /// Where the kubelet is.
    pub kubelet_url: String,
    /// How often the kubelet is asked.
    pub kubelet_interval: Duration,
    /// Certificates by which the kubelet is known; `None`: those of the service account.
    pub kubelet_certificate: Option<PathBuf>,
    /// False: whoever answers in the kubelet's place is believed.
    pub kubelet_verify: bool,
    /// Labels of pods that become attributes `k8s.pod.label.*`.
    pub labels: Vec<String>,
    /// Annotations of pods that become attributes `k8s.pod.annotation.*`.
    pub annotations: Vec<String>,
    /// Whether the labels `app.kubernetes.io/instance`, `name` and `version` name a service.
    pub well_known_labels: bool,
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
        }
    }
}
