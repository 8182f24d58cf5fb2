//! The receivers of alerts.

use std::fmt;
use std::time::Duration;

use base::secret::Secret;
use rule_engine::rule::Severity;

use crate::alerts::post::host;
use crate::transport::receiver::Receiver;

/// The receivers of alerts.
#[derive(Debug, Clone, PartialEq)]
pub struct AlertSettings {
    /// Alertmanagers. Each gets all alerts of its minimum severity or above.
    pub alertmanagers: Vec<Alertmanager>,
    pub webhooks: Vec<Webhook>,
    /// Whether each change is written as a line to standard output.
    pub stdout: bool,
    /// Whether each change is exported as a log record over OTLP.
    pub log: bool,
    /// Interval at which firing alerts are sent again to an Alertmanager, which resolves them after four intervals
    /// without an update.
    pub resend_interval: Duration,
    /// Addresses for links in alerts.
    pub links: Links,
}

/// Addresses for links in alerts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Links {
    /// Address of this instance for users; `None` for no links to this instance.
    pub external_url: Option<String>,
    /// Address of a dashboard, with `{service}`, `{namespace}`, `{pod}`, `{from}` and `{to}`; `None` for no links to a
    /// dashboard.
    pub grafana_url: Option<String>,
    /// Address of this host's evidence outside the host; `None` if evidence stays on the host.
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
    /// The receiver, whose endpoint is the URL to which alerts are posted (`…/api/v2/alerts`).
    pub receiver: Receiver,
    /// Minimum severity of incidents that the receiver gets.
    pub min_severity: Severity,
}

/// A webhook, which gets each change once.
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
