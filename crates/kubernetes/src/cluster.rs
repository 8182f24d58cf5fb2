//! The cluster from the point of view of a pod: the API server's address from the environment, and token and
//! certificates of the service account.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use reqwest::Url;

use super::error::SetupError;
use processes::text::bounded;

const HOST: &str = "KUBERNETES_SERVICE_HOST";
const PORT: &str = "KUBERNETES_SERVICE_PORT";

/// Path at which the kubelet mounts a pod's service account.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The service account of gcwatch's own pod.
#[derive(Debug, Clone)]
pub(crate) struct ServiceAccount {
    pub(crate) token: PathBuf,
    pub(crate) certificates: PathBuf,
}

/// The API server, and gcwatch's account on it.
#[derive(Debug, Clone)]
pub(crate) struct Cluster {
    pub(crate) url: Url,
    pub(crate) account: ServiceAccount,
}

impl Cluster {
    /// Reads the environment of this process.
    pub(crate) fn from_environment() -> Result<Self, SetupError> {
        Ok(Self {
            url: api_server(std::env::var_os(HOST), std::env::var_os(PORT))?,
            account: ServiceAccount::mounted(Path::new(ACCOUNT)),
        })
    }

    /// Returns whether this process runs in a pod with a service account.
    pub(crate) fn is_at_hand() -> bool {
        std::env::var_os(HOST).is_some() && Path::new(ACCOUNT).join("token").exists()
    }
}

impl ServiceAccount {
    fn mounted(folder: &Path) -> Self {
        Self {
            token: folder.join("token"),
            certificates: folder.join("ca.crt"),
        }
    }

    /// Returns whether both files exist. Pods can be without an account.
    pub(crate) fn is_mounted(&self) -> bool {
        self.token.exists() && self.certificates.exists()
    }
}

/// Returns the URL of the API server from the variables that the kubelet sets. IPv6 addresses are enclosed in brackets.
fn api_server(host: Option<OsString>, port: Option<OsString>) -> Result<Url, SetupError> {
    let text = |name: &'static str, value: Option<OsString>| -> Result<String, SetupError> {
        let value = value.filter(|value| !value.is_empty());
        value.ok_or(SetupError::NotInPod(name))?.into_string().map_err(|value| {
            let value = bounded(&value.to_string_lossy());
            SetupError::Variable { name, value }
        })
    };
    let (host, port) = (text(HOST, host)?, text(PORT, port)?);
    let invalid = |name, value: &str| {
        let value = bounded(value);
        SetupError::Variable { name, value }
    };
    let number: u16 = port.parse().map_err(|_| invalid(PORT, &port))?;
    let address = match host.parse() {
        Ok(IpAddr::V6(address)) => format!("[{address}]"),
        _ => host.clone(),
    };
    let is_host = |url: &Url| url.path() == "/" && url.query().is_none() && url.fragment().is_none();
    let is_host = |url: &Url| is_host(url) && url.username().is_empty() && url.password().is_none();
    let url = Url::parse(&format!("https://{address}:{number}"));
    url.ok().filter(is_host).ok_or_else(|| invalid(HOST, &host))
}

/// Reads a whole small file. More than `limit` bytes are an error.
pub(crate) fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(limit.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::other(format!("the file has more than {limit} bytes")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(host: &str, port: &str) -> Result<String, SetupError> {
        let given = |text: &str| Some(OsString::from(text));
        api_server(given(host), given(port)).map(|url| url.to_string())
    }

    /// Scenario: the host is a name, an IPv4 or an IPv6 address, with and without brackets, with the default port and
    /// with another port.
    /// Guarantee: each becomes a valid URL with TLS.
    #[test]
    fn api_server_is_found_by_name_and_address() {
        let urls = [
            ("kubernetes.default.svc", "443", "https://kubernetes.default.svc/"),
            ("10.11.12.13", "6443", "https://10.11.12.13:6443/"),
            ("10.11.12.13", "443", "https://10.11.12.13/"),
            (
                "2001:0db8:85a3::8a2e:0370:7334",
                "6443",
                "https://[2001:db8:85a3::8a2e:370:7334]:6443/",
            ),
            ("fd00::1", "443", "https://[fd00::1]/"),
            ("[fd00::1]", "8443", "https://[fd00::1]:8443/"),
        ];
        for (host, port, expected) in urls {
            assert_eq!(url(host, port).unwrap(), expected);
        }
    }

    /// Scenario: variables are missing, empty, not a port, or more than a host.
    /// Guarantee: the error names the variable, and for a missing variable the remedy. A host with an `@` is refused,
    /// so no token is sent to the host after the `@`.
    #[test]
    fn missing_and_invalid_variables_are_named() {
        let missing = api_server(None, Some("443".into())).unwrap_err().to_string();
        assert!(
            missing.contains(HOST) && missing.contains("kubernetes.metadata"),
            "{missing}"
        );
        assert!(matches!(url("10.0.0.1", ""), Err(SetupError::NotInPod(PORT))));
        for port in ["https", "0x1bb", "65536", "-1", "tcp://10.0.0.1:443"] {
            let error = url("10.0.0.1", port).unwrap_err();
            assert!(matches!(error, SetupError::Variable { name: PORT, .. }), "{error}");
        }
        for host in ["host/path", "user@evil", "a b", "host?x=", "host#", "::1::", "host:1"] {
            let error = url(host, "443").unwrap_err();
            assert!(
                matches!(error, SetupError::Variable { name: HOST, .. }),
                "{host}: {error}"
            );
        }
    }

    /// Scenario: files have exactly the maximum size, or more.
    /// Guarantee: at most `limit` bytes are read, and a file that is too large is an error.
    #[test]
    fn files_are_read_within_their_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "12345").unwrap();
        assert_eq!(read(&path, 5).unwrap(), b"12345");
        assert!(read(&path, 4).is_err());
        assert!(read(&folder.path().join("none"), 4).is_err());
    }
}
