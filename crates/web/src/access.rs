//! Access control of paths; pure.
//!
//! | Path | Without a login | With a login |
//! |---|---|---|
//! | `/livez`, `/readyz` | yes | yes |
//! | possible secrets ([`PRIVATE`]) | on loopback, for root and the user of gcwatch, not through a proxy | yes |
//! | other paths | yes, unless `web.protects` is `all` | yes |

use axum::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest as _, Sha256};

use super::options::{Protects, WebOptions};

/// Prefix of paths with possible secrets: recordings, flame graphs, requests.
pub(super) const PRIVATE: &str = "/api/v1/evidence/";

/// Accepted logins, and the paths that require a login.
#[derive(Debug, Clone, Default)]
pub(super) struct Access {
    /// SHA-256 hashes of `Bearer TOKEN` and of each `Basic BASE64`. The duration of a comparison of hashes does not
    /// disclose the part of a secret that a guess matches.
    accepted: Vec<[u8; 32]>,
    has_users: bool,
    has_token: bool,
    protects: Protects,
    is_loopback: bool,
}

/// Decision whether a request is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    /// The request is served.
    Served,
    /// The request is served after a login.
    Login,
    /// The request is never served: this listener has no logins.
    Closed,
}

impl Access {
    pub(super) fn new(options: &WebOptions, is_loopback: bool) -> Self {
        let token = options.token.iter().map(|token| format!("Bearer {}", token.reveal()));
        let users = options.users.iter().map(|(name, password)| {
            let pair = BASE64_STANDARD.encode(format!("{name}:{}", password.reveal()));
            format!("Basic {pair}")
        });
        Self {
            accepted: token.chain(users).map(|text| Sha256::digest(text).into()).collect(),
            has_users: !options.users.is_empty(),
            has_token: options.token.is_some(),
            protects: options.protects,
            is_loopback,
        }
    }

    /// Returns `true` if the decision about a path depends on the user who sends the request, and on the presence of a
    /// proxy.
    pub(super) fn depends_on_user(&self, path: &str) -> bool {
        path.starts_with(PRIVATE) && self.is_loopback && self.protects == Protects::Private
    }

    /// Returns the decision about a request. `is_own` is `true` if root or the user of gcwatch sends the request from
    /// this host.
    pub(super) fn verdict(&self, path: &str, headers: &HeaderMap, is_own: bool) -> Admission {
        if super::health::is_health(path) {
            return Admission::Served;
        }
        let is_open = if path.starts_with(PRIVATE) {
            is_own && self.depends_on_user(path)
        } else {
            self.protects == Protects::Private
        };
        if is_open || self.is_known(headers) {
            Admission::Served
        } else if self.accepted.is_empty() {
            Admission::Closed
        } else {
            Admission::Login
        }
    }

    fn is_known(&self, headers: &HeaderMap) -> bool {
        let Some(given) = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()) else {
            return false;
        };
        // The scheme is case-insensitive (RFC 9110, 11.1).
        let Some((scheme, secret)) = given.split_once(' ') else {
            return false;
        };
        let scheme = if scheme.eq_ignore_ascii_case("bearer") {
            "Bearer"
        } else if scheme.eq_ignore_ascii_case("basic") {
            "Basic"
        } else {
            return false;
        };
        let hash: [u8; 32] = Sha256::digest(format!("{scheme} {}", secret.trim())).into();
        self.accepted.contains(&hash)
    }

    /// Returns the response to a request that is not served.
    pub(super) fn refusal(&self, verdict: Admission) -> Response {
        if verdict == Admission::Closed {
            let text = "the content may contain secrets: it is served on loopback to root and the user of gcwatch, or \
                        after a login; set web.token_from or web.users_from, and web.tls\n";
            return (StatusCode::FORBIDDEN, text).into_response();
        }
        let mut answer = (
            StatusCode::UNAUTHORIZED,
            "log in with web.token or as a user of web.users\n",
        )
            .into_response();
        let headers = answer.headers_mut();
        if self.has_users {
            // Browsers prompt for name and password.
            let basic = HeaderValue::from_static("Basic realm=\"gcwatch\", charset=\"UTF-8\"");
            headers.append(WWW_AUTHENTICATE, basic);
        }
        if self.has_token {
            headers.append(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"gcwatch\""));
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use base::secret::Secret;

    use super::*;

    fn options(protects: Protects) -> WebOptions {
        WebOptions {
            token: Some(Secret::new("0123456789abcdef")),
            users: vec![("ann".to_owned(), Secret::new("correct horse"))],
            protects,
            ..WebOptions::default()
        }
    }

    fn with(value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, HeaderValue::from_str(value).unwrap());
        headers
    }

    /// Scenario: listeners are on loopback and elsewhere, with and without logins. Requests have no login, a user, the
    /// token or a wrong login, from root or from another user, for health, metrics and private paths.
    /// Guarantee: the decisions match the table of the module. Debug output contains no secret.
    #[test]
    fn decisions_match_table() {
        let ann = format!("basic {}", BASE64_STANDARD.encode("ann:correct horse"));
        let known = [
            with(&ann),
            with("Bearer 0123456789abcdef"),
            with("bearer  0123456789abcdef "),
        ];
        let liars = [
            HeaderMap::new(),
            with("Bearer 0123456789abcde"),
            with("Bearer"),
            with("Basic 0123456789abcdef"),
            with(&format!("Basic {}", BASE64_STANDARD.encode("ann:wrong"))),
            with("Digest 0123456789abcdef"),
        ];
        for is_loopback in [true, false] {
            let private = Access::new(&options(Protects::Private), is_loopback);
            let all = Access::new(&options(Protects::All), is_loopback);
            for headers in &known {
                for path in ["/livez", "/metrics", "/api/v1/overview", "/api/v1/evidence/1"] {
                    assert_eq!(private.verdict(path, headers, false), Admission::Served);
                    assert_eq!(all.verdict(path, headers, false), Admission::Served);
                }
            }
            for headers in &liars {
                for access in [&private, &all] {
                    assert_eq!(access.verdict("/livez", headers, false), Admission::Served);
                    assert_eq!(access.verdict("/readyz", headers, false), Admission::Served);
                }
                assert_eq!(private.verdict("/metrics", headers, false), Admission::Served);
                assert_eq!(all.verdict("/metrics", headers, true), Admission::Login);
                let expected = if is_loopback {
                    Admission::Served
                } else {
                    Admission::Login
                };
                assert_eq!(private.verdict("/api/v1/evidence/1", headers, true), expected);
                assert_eq!(private.verdict("/api/v1/evidence/1", headers, false), Admission::Login);
                assert_eq!(all.verdict("/api/v1/evidence/1", headers, true), Admission::Login);
            }
        }
        let nobody = Access::new(&WebOptions::default(), false);
        let none = HeaderMap::new();
        assert_eq!(nobody.verdict("/metrics", &none, false), Admission::Served);
        assert_eq!(nobody.verdict("/api/v1/evidence/1", &none, true), Admission::Closed);
        let local = Access::new(&WebOptions::default(), true);
        assert_eq!(local.verdict("/api/v1/evidence/1", &none, true), Admission::Served);
        assert_eq!(local.verdict("/api/v1/evidence/1", &none, false), Admission::Closed);
        let shown = format!("{nobody:?} {:?}", options(Protects::All));
        assert!(!shown.contains("0123456789") && !shown.contains("horse"), "{shown}");
    }
}
