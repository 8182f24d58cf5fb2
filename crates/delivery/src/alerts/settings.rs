//! Who is told of alerts, and how.

use std::fmt;
use std::time::Duration;

use crate::alerts::post::host;
use crate::transport::receiver::{Receiver, Secret};

/// Who is told of alerts.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Alertmanagers, each told of everything. The endpoint is the URL that alerts are posted to (`…/api/v2/alerts`).
    pub alertmanagers: Vec<Receiver>,
    /// Webhooks.
    pub webhooks: Vec<Webhook>,
    /// Each change is a line on standard output.
    pub stdout: bool,
    /// Each change is a log record over OTLP.
    pub log: bool,
    /// How often an Alertmanager is told of what still fires. One that hears nothing for four times as long takes the alert for resolved.
    pub resend_interval: Duration,
    /// Where people reach this gcwatch, for links; `None`: no links.
    pub external_url: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            alertmanagers: Vec::new(),
            webhooks: Vec::new(),
            stdout: false,
            log: true,
            resend_interval: Duration::from_secs(60),
            external_url: None,
        }
    }
}

/// A webhook: it is told of each change once.
#[derive(Clone, PartialEq, Eq)]
pub struct Webhook {
    /// Where to.
    pub receiver: Receiver,
    /// The key of the signature in `X-Gcwatch-Signature`; `None`: requests are not signed.
    pub secret: Option<Secret>,
}

impl fmt::Debug for Webhook {
    /// Only the host: the path may be the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook")
            .field("host", &host(&self.receiver.endpoint))
            .field("signed", &self.secret.is_some())
            .finish_non_exhaustive()
    }
}
