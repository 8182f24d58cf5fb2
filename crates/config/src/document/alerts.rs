//! The keys of `alerts`.

use super::otlp::SecretSource;
use super::{BTreeMap, Deserialize, Duration, Hidden, JsonSchema, PathBuf, Serialize};
use crate::values::{LinkUrl, WebUrl};
use base::units::HumanDuration;
use delivery::alerts::settings::AlertSettings;
use gc_rules::rule::Severity;

/// Receivers of notifications when an alert begins and ends. The API, `/metrics` and the spans of collections always
/// have alerts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Alerts {
    /// Alertmanagers; each receives every alert, as an Alertmanager cluster expects.
    pub(crate) alertmanagers: Vec<Alertmanager>,
    /// Webhooks: one request for each change of an alert, in the format of Alertmanager's webhooks.
    pub(crate) webhooks: Vec<Webhook>,
    /// Write each change as a line of JSON to standard output.
    pub(crate) stdout: bool,
    /// Send each change as a log record over OTLP.
    pub(crate) log: bool,
    /// How often firing alerts are sent to Alertmanager again. After four intervals without a request, it resolves an
    /// alert.
    #[schemars(extend("x-minimum" = "1s", "x-maximum" = "1h"))]
    pub(crate) resend_interval: HumanDuration,
    /// URL of this gcwatch for links in notifications; without it, there are no links. `{node}` is the Kubernetes node
    /// (`NODE_NAME`), `{host}` the host, `{pod}` gcwatch's own pod (`POD_NAME`, else the host name of the container).
    pub(crate) external_url: Option<LinkUrl>,
}

impl Default for Alerts {
    fn default() -> Self {
        let settings = AlertSettings::default();
        Self {
            alertmanagers: Vec::new(),
            webhooks: Vec::new(),
            stdout: settings.stdout,
            log: settings.log,
            resend_interval: HumanDuration(settings.resend_interval),
            external_url: None,
        }
    }
}

/// One Alertmanager.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Alertmanager {
    /// URL, as in a browser; `/api/v2/alerts` is appended.
    pub(crate) url: Option<WebUrl>,
    /// The severity from which on incidents are sent; one that becomes as severe later is sent then.
    pub(crate) min_severity: Severity,
    /// Headers of every request: names and values. Values are never shown.
    #[schemars(extend("x-secret" = true))]
    pub(crate) headers: BTreeMap<String, Hidden>,
    /// Headers whose value is in a file or an environment variable: `authorization: {file: /run/secrets/alertmanager}`,
    /// which contains `Basic …` or `Bearer …`.
    #[schemars(extend("x-secret" = true))]
    pub(crate) headers_from: BTreeMap<String, SecretSource>,
    /// Timeout of one request.
    #[schemars(extend("x-minimum" = "1ms", "x-maximum" = "1h"))]
    pub(crate) timeout: HumanDuration,
    /// PEM file of the certificate authorities to trust instead of the system's.
    pub(crate) certificate: Option<PathBuf>,
    /// PEM file of gcwatch's own certificate chain (mTLS); needs `client_key`.
    pub(crate) client_certificate: Option<PathBuf>,
    /// PEM file of its private key; needs `client_certificate`.
    pub(crate) client_key: Option<PathBuf>,
}

impl Default for Alertmanager {
    fn default() -> Self {
        Self {
            url: None,
            min_severity: Severity::Warning,
            headers: BTreeMap::new(),
            headers_from: BTreeMap::new(),
            timeout: HumanDuration(TIMEOUT),
            certificate: None,
            client_certificate: None,
            client_key: None,
        }
    }
}

const TIMEOUT: Duration = Duration::from_secs(10);

/// One webhook.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Webhook {
    /// URL. Only its host is ever shown: the path of a webhook is often its password.
    pub(crate) url: Option<Hidden>,
    /// The source of the URL, instead of `url`.
    pub(crate) url_from: Option<SecretSource>,
    /// The source of the key that signs requests: `X-Gcwatch-Signature: sha256=…` is the HMAC-SHA256 of the body.
    /// Without it, requests are not signed.
    pub(crate) secret_from: Option<SecretSource>,
    /// The severity from which on incidents are sent; one that becomes as severe later is sent then.
    pub(crate) min_severity: Severity,
    /// Headers of every request: names and values. Values are never shown.
    #[schemars(extend("x-secret" = true))]
    pub(crate) headers: BTreeMap<String, Hidden>,
    /// Headers whose value is in a file or an environment variable.
    #[schemars(extend("x-secret" = true))]
    pub(crate) headers_from: BTreeMap<String, SecretSource>,
    /// Timeout of one request.
    #[schemars(extend("x-minimum" = "1ms", "x-maximum" = "1h"))]
    pub(crate) timeout: HumanDuration,
    /// PEM file of the certificate authorities to trust instead of the system's.
    pub(crate) certificate: Option<PathBuf>,
    /// PEM file of gcwatch's own certificate chain (mTLS); needs `client_key`.
    pub(crate) client_certificate: Option<PathBuf>,
    /// PEM file of its private key; needs `client_certificate`.
    pub(crate) client_key: Option<PathBuf>,
}

impl Default for Webhook {
    fn default() -> Self {
        Self {
            url: None,
            url_from: None,
            secret_from: None,
            min_severity: Severity::Warning,
            headers: BTreeMap::new(),
            headers_from: BTreeMap::new(),
            timeout: HumanDuration(TIMEOUT),
            certificate: None,
            client_certificate: None,
            client_key: None,
        }
    }
}
