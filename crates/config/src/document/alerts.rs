//! The keys of `alerts`.

use super::otlp::SecretSource;
use super::{BTreeMap, Deserialize, Duration, HiddenString, JsonSchema, PathBuf, Serialize};
use crate::values::{LinkUrl, WebUrl};
use base::units::HumanDuration;
use delivery::alerts::settings::AlertSettings;
use rule_engine::rule::Severity;

/// Receivers of notifications when an alert starts and ends. Alerts are always available in the API, in `/metrics` and
/// in the spans of collections.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Alerts {
    /// Alertmanagers. Each Alertmanager receives every alert, as a cluster of Alertmanagers expects.
    pub(crate) alertmanagers: Vec<Alertmanager>,
    /// Webhooks. Each change of an alert is one request, in the format of Alertmanager's webhooks.
    pub(crate) webhooks: Vec<Webhook>,
    /// Whether each change of an alert is written as a line of JSON to standard output.
    pub(crate) stdout: bool,
    /// Whether each change of an alert is sent as a log record over OTLP.
    pub(crate) log: bool,
    /// Interval at which firing alerts are sent to Alertmanager again. Alertmanager resolves an alert after four
    /// intervals without a request.
    #[schemars(extend("x-minimum" = "1s", "x-maximum" = "1h"))]
    pub(crate) resend_interval: HumanDuration,
    /// URL of this gcwatch instance for links in notifications. Without this key, notifications contain no links.
    /// `{node}` is replaced with the Kubernetes node (`NODE_NAME`), `{host}` with the host, and `{pod}` with gcwatch's
    /// own pod (`POD_NAME`, or the host name of the container if `POD_NAME` is not set).
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

/// Default timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Declares the keys of a kind of receiver: its own keys, followed by the keys of all kinds.
macro_rules! receiver {
    ($(#[$meta:meta])* $name:ident { $($(#[$own_meta:meta])* $own:ident: $kind:ty,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(default, deny_unknown_fields)]
        pub(crate) struct $name {
            $($(#[$own_meta])* pub(crate) $own: $kind,)+
            /// Minimum severity of incidents that are sent. An incident that reaches this severity later is sent at
            /// that time.
            pub(crate) min_severity: Severity,
            /// Headers of every request: names and values. Values are never shown.
            #[schemars(extend("x-secret" = true))]
            pub(crate) headers: BTreeMap<String, HiddenString>,
            /// Headers with a value from a file or an environment variable: `authorization: {file:
            /// /run/secrets/token}`, where the file contains `Basic …` or `Bearer …`.
            #[schemars(extend("x-secret" = true))]
            pub(crate) headers_from: BTreeMap<String, SecretSource>,
            /// Timeout of a request.
            #[schemars(extend("x-minimum" = "1ms", "x-maximum" = "1h"))]
            pub(crate) timeout: HumanDuration,
            /// PEM file of trusted certificate authorities, instead of the authorities of the system.
            pub(crate) certificate: Option<PathBuf>,
            /// PEM file of gcwatch's own certificate chain (mTLS); requires `client_key`.
            pub(crate) client_certificate: Option<PathBuf>,
            /// PEM file of the private key; requires `client_certificate`.
            pub(crate) client_key: Option<PathBuf>,
        }

        impl Default for $name {
            fn default() -> Self {
                Self {
                    $($own: None,)+
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
    };
}

receiver! {
    /// An Alertmanager.
    Alertmanager {
        /// URL of the Alertmanager, as in a browser; `/api/v2/alerts` is appended.
        url: Option<WebUrl>,
    }
}

receiver! {
    /// A webhook.
    Webhook {
        /// URL of the webhook. gcwatch shows only the host of the URL, because the path of a webhook is often its
        /// password.
        url: Option<HiddenString>,
        /// Source of the URL, instead of `url`.
        url_from: Option<SecretSource>,
        /// Source of the key that signs requests: `X-Gcwatch-Signature: sha256=…` is the HMAC-SHA256 of the body.
        /// Without this key, requests are not signed.
        secret_from: Option<SecretSource>,
    }
}
