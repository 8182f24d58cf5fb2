//! The receivers of alerts.

use std::fmt;
use std::time::Duration;

use base::secret::Secret;
use gc_rules::rule::Severity;

use crate::alerts::post::host;
use crate::transport::receiver::Receiver;

/// The receivers of alerts.
#[derive(Debug, Clone, PartialEq)]
pub struct AlertSettings {
    /// Alertmanagers; each gets all alerts of its severity.
    pub alertmanagers: Vec<Alertmanager>,
    pub webhooks: Vec<Webhook>,
    /// Each change is a line on standard output.
    pub stdout: bool,
    /// Each change is a log record over OTLP.
    pub log: bool,
    /// How often firing alerts are sent again to an Alertmanager, which resolves them after four intervals without one.
    pub resend_interval: Duration,
    /// Where people look, for links in alerts.
    pub links: Links,
}

/// Where people look.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Links {
    /// Where people reach this gcwatch; `None`: no links there.
    pub external_url: Option<String>,
    /// A dashboard, with `{service}`, `{namespace}`, `{pod}`, `{from}` and `{to}`; `None`: no links there.
    pub grafana_url: Option<String>,
    /// Address of this host's evidence outside of the host; `None`: evidence stays on the host.
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
    /// The endpoint is the URL that alerts are posted to (`…/api/v2/alerts`).
    pub receiver: Receiver,
    /// It gets incidents once they have at least this severity.
    pub min_severity: Severity,
}

/// A webhook: it gets each change once.
#[derive(Clone, PartialEq, Eq)]
pub struct Webhook {
    /// Its URL, headers and certificates.
    pub receiver: Receiver,
    /// The key of the signature in `X-Gcwatch-Signature`; `None`: requests are not signed.
    pub secret: Option<Secret>,
    /// It gets incidents once they have at least this severity.
    pub min_severity: Severity,
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
