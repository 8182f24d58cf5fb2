//! The keys of `rules` and `alerts`.

use super::otlp::SecretSource;
use super::{BTreeMap, Deserialize, Duration, Hidden, JsonSchema, PathBuf, Serialize};
use crate::config::options::RuleSources;
use crate::config::values::WebUrl;
use delivery::alerts::settings::AlertSettings;
use strict_yaml::units::HumanDuration;

/// Which rules say what an anomaly is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Rules {
    /// The rules that ship with gcwatch come first. Single ones are changed or switched off by `overrides` in a file of your own.
    pub(crate) shipped: bool,
    /// Rule files, and folders whose `*.yaml` files are read in the order of their names (`*.test.yaml` aside). Later ones may change what
    /// earlier ones say. They are read again when they change.
    pub(crate) files: Vec<PathBuf>,
}

impl Default for Rules {
    fn default() -> Self {
        let sources = RuleSources::default();
        Self {
            shipped: sources.shipped,
            files: sources.paths,
        }
    }
}

impl From<&Rules> for RuleSources {
    fn from(keys: &Rules) -> Self {
        Self {
            shipped: keys.shipped,
            paths: keys.files.clone(),
        }
    }
}

/// Who is told when an alert begins and ends. The API, `/metrics` and the spans of collections have alerts in any case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Alerts {
    /// Alertmanagers; each is told of every alert, as a cluster of them expects.
    pub(crate) alertmanagers: Vec<Alertmanager>,
    /// Receivers of requests in the format of Alertmanager's webhooks, one for each change of an alert.
    pub(crate) webhooks: Vec<Webhook>,
    /// Each change is a line of JSON on standard output.
    pub(crate) stdout: bool,
    /// Each change is a log record over OTLP.
    pub(crate) log: bool,
    /// How often an Alertmanager is told of what still fires. After four times as long without a word it takes an alert for resolved.
    #[schemars(extend("x-minimum" = "1s", "x-maximum" = "1h"))]
    pub(crate) resend_interval: HumanDuration,
    /// Where people reach this gcwatch, for links in notifications; not set: there are none.
    pub(crate) external_url: Option<WebUrl>,
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

/// How requests to one receiver of alerts are made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Alertmanager {
    /// Its URL, as a browser shows it; `/api/v2/alerts` is appended.
    pub(crate) url: Option<WebUrl>,
    /// Sent with every request: names and values. Values are never shown.
    #[schemars(extend("x-secret" = true))]
    pub(crate) headers: BTreeMap<String, Hidden>,
    /// Headers whose value is in a file or in a variable of the environment: `authorization: {file: /run/secrets/alertmanager}`, which holds
    /// `Basic …` or `Bearer …`.
    #[schemars(extend("x-secret" = true))]
    pub(crate) headers_from: BTreeMap<String, SecretSource>,
    /// Bound on one attempt to send.
    #[schemars(extend("x-minimum" = "1ms", "x-maximum" = "1h"))]
    pub(crate) timeout: HumanDuration,
    /// PEM file of the authorities that are trusted instead of the system's.
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
    /// Its URL. It is never shown but for its host: many a webhook's path is its password.
    pub(crate) url: Option<Hidden>,
    /// Where its URL is, instead.
    pub(crate) url_from: Option<SecretSource>,
    /// Where the key is with which requests are signed: `X-Gcwatch-Signature: sha256=…` is the HMAC-SHA256 of the body. Not set: they are not
    /// signed.
    pub(crate) secret_from: Option<SecretSource>,
    /// Sent with every request: names and values. Values are never shown.
    #[schemars(extend("x-secret" = true))]
    pub(crate) headers: BTreeMap<String, Hidden>,
    /// Headers whose value is in a file or in a variable of the environment.
    #[schemars(extend("x-secret" = true))]
    pub(crate) headers_from: BTreeMap<String, SecretSource>,
    /// Bound on one attempt to send.
    #[schemars(extend("x-minimum" = "1ms", "x-maximum" = "1h"))]
    pub(crate) timeout: HumanDuration,
    /// PEM file of the authorities that are trusted instead of the system's.
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
            headers: BTreeMap::new(),
            headers_from: BTreeMap::new(),
            timeout: HumanDuration(TIMEOUT),
            certificate: None,
            client_certificate: None,
            client_key: None,
        }
    }
}
