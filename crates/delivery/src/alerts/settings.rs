//! Settings for the delivery of alerts.

use std::fmt;
use std::time::Duration;

use base::secret::Secret;
use rule_engine::rule::Severity;

use crate::alerts::post::host;
use crate::transport::receiver::Receiver;

/// The receivers of alerts, and the links in alerts.
#[derive(Debug, Clone, PartialEq)]
pub struct AlertSettings {
    /// Alertmanagers. Each Alertmanager gets all alerts with its minimum severity or a higher severity.
    pub alertmanagers: Vec<Alertmanager>,
    pub webhooks: Vec<Webhook>,
    /// Whether each change is written as a line to standard output.
    pub stdout: bool,
    /// Whether each change is exported as a log record over OTLP.
    pub log: bool,
    /// Interval at which firing alerts are sent again to an Alertmanager. The Alertmanager resolves an alert after four
    /// intervals without an update.
    pub resend_interval: Duration,
    /// Addresses for links in alerts.
    pub links: Links,
}

/// Addresses for links in alerts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Links {
    /// Address of this instance for users; `None` if alerts contain no links to this instance.
    pub external_url: Option<String>,
    /// Address of a dashboard, with the placeholders `{service}`, `{namespace}`, `{pod}`, `{from}` and `{to}`; `None`
    /// if alerts contain no links to a dashboard.
    pub grafana_url: Option<String>,
    /// Address of the store outside the host that contains this host's evidence; `None` if evidence stays on the host.
    pub store: Option<String>,
}

impl Default for AlertSettings {
    fn default() -> Self {
        Self {
            alertmanagers: Vec::new(),
            webhooks: Vec::new(),
            stdout: false,
            log: true,
            resend_interval: Duration::from_secs(60),
            links: Links::default(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alertmanager {
    /// Receiver. Its endpoint is the URL to which alerts are posted (`…/api/v2/alerts`).
    pub receiver: Receiver,
    /// Minimum severity of incidents that the receiver gets.
    pub min_severity: Severity,
}

/// A webhook. A webhook gets each change once.
#[derive(Clone, PartialEq, Eq)]
pub struct Webhook {
    /// URL, headers and certificates of the webhook.
    pub receiver: Receiver,
    /// Key of the signature in `X-Gcwatch-Signature`; `None` if requests are not signed.
    pub secret: Option<Secret>,
    /// Minimum severity of incidents that the receiver gets.
    pub min_severity: Severity,
}

impl fmt::Debug for Webhook {
    /// Shows only the host, because the path can be a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook")
            .field("host", &host(&self.receiver.endpoint))
            .field("signed", &self.secret.is_some())
            .finish_non_exhaustive()
    }
}
