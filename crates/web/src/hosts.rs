//! Allowed host names of the listener.
//!
//! A page in a browser can read content of its origin. If the owner of a name changes its address to 127.0.0.1 (DNS
//! rebinding), a foreign page can reach a listener on loopback, which trusts all users of the host. The host name in
//! the request reveals the attack. Addresses cannot be rebound, and other programs send the host name of their URL.

use std::net::{IpAddr, Ipv6Addr};

use axum::http::header::HOST;
use axum::http::{HeaderMap, Uri};

/// Allowed host names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Hosts {
    /// Whether the listener's address is loopback.
    pub(super) is_loopback: bool,
    /// Names from the configuration.
    pub(super) listed: Vec<String>,
}

impl Hosts {
    /// Returns `true` if all host names of a request are allowed. A request without a name does not come from a
    /// browser, and is allowed. A listener on an address other than loopback allows every name if no names are
    /// configured, and always for health: probes use the address of a pod, and load balancers use other names.
    pub(super) fn allow(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        if !self.is_loopback && (self.listed.is_empty() || super::health::is_health(uri.path())) {
            return true;
        }
        named(uri, headers).all(|name| self.has(name))
    }

    /// Returns `true` if a request names only loopback or has no host name. A request with another name was forwarded.
    pub(super) fn is_of_loopback(uri: &Uri, headers: &HeaderMap) -> bool {
        named(uri, headers).all(is_loopback)
    }

    fn has(&self, name: &str) -> bool {
        let is_listed = |listed: &String| listed.trim_end_matches('.').eq_ignore_ascii_case(name);
        is_loopback(name) || self.listed.iter().any(is_listed)
    }
}

/// Returns the host names in the headers and in the URI of a request.
fn named<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> impl Iterator<Item = &'a str> {
    let hosts = headers.get_all(HOST).iter();
    let hosts = hosts.map(|host| host.to_str().unwrap_or_default());
    hosts.chain(uri.authority().map(|host| host.as_str())).map(name)
}

/// Returns the host name without the port and without the final dot.
fn name(host: &str) -> &str {
    let without_port = match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') && port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    without_port.trim_end_matches('.')
}

fn is_loopback(name: &str) -> bool {
    if name.eq_ignore_ascii_case("localhost") {
        return true;
    }
    match name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(address) => address.parse::<Ipv6Addr>().is_ok_and(|address| address.is_loopback()),
        None => name
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_ipv4() && address.is_loopback()),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn allows(hosts: &Hosts, uri: &str, host: Option<&str>) -> bool {
        let mut headers = HeaderMap::new();
        if let Some(host) = host {
            headers.insert(HOST, HeaderValue::from_str(host).unwrap());
        }
        hosts.allow(&uri.parse().unwrap(), &headers)
    }

    fn hosts(is_loopback: bool, listed: &[&str]) -> Hosts {
        let listed = listed.iter().map(|&name| name.to_owned()).collect();
        Hosts { is_loopback, listed }
    }

    /// Scenario: requests address a listener on loopback by names of this host and by other names.
    /// Guarantee: only requests with names of this host, including health requests, and requests without a name are
    /// served.
    #[test]
    fn loopback_accepts_names_of_this_host() {
        let loopback = hosts(true, &[]);
        for own in [
            "localhost",
            "LocalHost:9464",
            "localhost.",
            "127.0.0.1:9464",
            "127.1.2.3",
            "[::1]:9464",
            "[::1]",
        ] {
            assert!(allows(&loopback, "/metrics", Some(own)), "{own}");
        }
        assert!(allows(&loopback, "/metrics", None));
        let foreign = [
            "evil.example",
            "evil.example:9464",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
        ];
        for foreign in foreign
            .into_iter()
            .chain(["10.0.0.1", "::1", "[::2]", "[::1].evil", "", "localhost:80:80"])
        {
            assert!(!allows(&loopback, "/metrics", Some(foreign)), "{foreign}");
            assert!(!allows(&loopback, "/livez", Some(foreign)), "{foreign}");
        }
        assert!(!allows(&loopback, "http://evil.example/metrics", Some("localhost")));
        assert!(allows(
            &hosts(true, &["gcwatch.internal"]),
            "/",
            Some("gcwatch.internal:80")
        ));
    }

    /// Scenario: listeners on all addresses have no list of names or a list of names.
    /// Guarantee: without a list, every name is allowed. With a list, only the listed names and the names of loopback
    /// are allowed, except for health, which allows every name.
    #[test]
    fn other_listeners_accept_listed_names() {
        let open = hosts(false, &[]);
        assert!(allows(&open, "/metrics", Some("evil.example")));
        let listed = hosts(false, &["Node-1.example.", "10.0.0.7"]);
        for own in ["node-1.example:9464", "node-1.example.", "10.0.0.7", "localhost:1"] {
            assert!(allows(&listed, "/metrics", Some(own)), "{own}");
        }
        assert!(!allows(&listed, "/metrics", Some("10.0.0.8:9464")));
        assert!(allows(&listed, "/livez", Some("10.0.0.8:9464")) && allows(&listed, "/readyz", Some("x")));
    }
}
