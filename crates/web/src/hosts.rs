//! By which names the listener may be addressed.
//!
//! A page in a browser may read what has its own origin. With a name whose address its owner changes to 127.0.0.1
//! (DNS rebinding), a foreign page reaches a listener on loopback, which trusts whoever is on this host: the name in
//! the request gives it away. An address cannot be rebound, and programs that are no browsers send the name of their
//! URL.

use std::net::{IpAddr, Ipv6Addr};

use axum::http::header::HOST;
use axum::http::{HeaderMap, Uri};

/// The names that are allowed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Hosts {
    /// The listener's own address is loopback.
    pub(super) is_loopback: bool,
    /// Those of the configuration.
    pub(super) listed: Vec<String>,
}

impl Hosts {
    /// Whether a request may be answered. A request without a name is not from a browser. Health is reported under any name
    /// where others than this host can reach it: probes use the address of a pod, and load balancers names of their own.
    pub(super) fn allow(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        if !self.is_loopback && (self.listed.is_empty() || super::health::is_health(uri.path())) {
            return true;
        }
        named(uri, headers).all(|name| self.has(name))
    }

    /// Whether a request names loopback, or nothing: what came by another name was passed on by somebody.
    pub(super) fn is_of_loopback(uri: &Uri, headers: &HeaderMap) -> bool {
        named(uri, headers).all(is_loopback)
    }

    fn has(&self, name: &str) -> bool {
        let is_listed = |listed: &String| listed.trim_end_matches('.').eq_ignore_ascii_case(name);
        is_loopback(name) || self.listed.iter().any(is_listed)
    }
}

/// The names in a request.
fn named<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> impl Iterator<Item = &'a str> {
    let hosts = headers.get_all(HOST).iter();
    let hosts = hosts.map(|host| host.to_str().unwrap_or_default());
    hosts.chain(uri.authority().map(|host| host.as_str())).map(name)
}

/// Without the port, and without the dot of the root.
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

    /// Scenario: a listener on loopback is addressed by names of this host, and by others.
    /// Guarantee: only the first are answered, health included; so is a request without a name.
    #[test]
    fn loopback_has_the_names_of_this_host() {
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

    /// Scenario: a listener on all addresses, without a list of names and with one.
    /// Guarantee: without, every name is answered; with, those and the ones of loopback are, and health under any name.
    #[test]
    fn elsewhere_the_list_decides() {
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
