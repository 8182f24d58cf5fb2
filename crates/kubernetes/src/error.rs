//! Errors of the setup and of requests to Kubernetes. Every message states the problem, its place, and the remedy.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Error returned if no client can be set up. The pod or the configuration must be changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SetupError {
    #[error(
        "the environment variable {0} is not set: gcwatch does not run in a pod; set kubernetes.metadata to `kubelet` or `none`"
    )]
    NotInPod(&'static str),
    #[error(
        "the environment variable {name} is invalid ({value:?}); the kubelet sets it for every pod, do not override it"
    )]
    Variable { name: &'static str, value: String },
    #[error("kubernetes.kubelet_url is invalid: {0}; write it as https://HOST:10250")]
    Url(String),
    #[error("cannot read the {what} {}: {source}; {remedy}", path.display())]
    Read {
        what: &'static str,
        path: PathBuf,
        source: io::Error,
        remedy: &'static str,
    },
    #[error("the token file {} is invalid: {reason}; mount the service account's token there", path.display())]
    Token { path: PathBuf, reason: &'static str },
    #[error("{} contains no valid certificate{reason}; it must be a PEM file of certificate authorities", path.display())]
    Certificates { path: PathBuf, reason: String },
    #[error("cannot set up TLS: {0}; set kubernetes.kubelet_certificate, or install the system's CA certificates")]
    Tls(String),
}

/// Error returned if an answer is not usable. The log messages add the name of the server
/// ([`super::client::Client::server`]).
#[derive(Debug, thiserror::Error)]
pub(crate) enum AnswerError {
    #[error("the resource version is no longer available (410 Gone); all pods are listed again")]
    Expired,
    #[error(
        "access denied ({0}); allow gcwatch's service account to list and watch pods, for the kubelet to get nodes/pods"
    )]
    Forbidden(String),
    #[error(
        "the token was rejected ({0}); check that the service account exists and its token is mounted (automountServiceAccountToken)"
    )]
    Unauthorized(String),
    #[error("the server answered {answer}")]
    Refused {
        answer: String,
        /// Delay that the server requests (429, 503).
        retry_after: Option<Duration>,
    },
    #[error("cannot connect: {0}; check the address, the NetworkPolicy and the server's certificate")]
    Unreachable(String),
    #[error("no answer within {0:?}")]
    Slow(Duration),
    #[error("the answer broke off: {0}")]
    Broken(String),
    #[error("the answer is longer than {0} bytes")]
    TooLong(usize),
    #[error("there are more than {0} pods; set NODE_NAME or kubernetes.node_name to list only the pods of this node")]
    TooMany(usize),
    #[error("the answer is invalid: {0}; check that the address belongs to a Kubernetes server")]
    Invalid(String),
}

impl AnswerError {
    /// Returns whether access was denied. Waiting does not help: the permissions or the service account must be
    /// changed.
    pub(crate) const fn is_denied(&self) -> bool {
        matches!(self, Self::Forbidden(_) | Self::Unauthorized(_))
    }

    /// Returns the delay that the server requests, or `None` if it requests no delay.
    pub(crate) const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

/// Returns an error and its causes on one line, each once.
pub(crate) fn causes(error: &dyn std::error::Error) -> String {
    processes::text::bounded(&base::error::causes(error))
}
