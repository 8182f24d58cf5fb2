//! Health: `/livez` and `/readyz`, which are answered even if all other places are taken.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::site::{PartAge, Site};

/// Returns the routes that are served even if all places are taken.
pub(super) fn health() -> Router<Site> {
    Router::new().route("/livez", get(live)).route("/readyz", get(ready))
}

/// Returns `true` if a path is a route of [`health`].
pub(super) fn is_health(path: &str) -> bool {
    matches!(path, "/livez" | "/readyz")
}

/// Returns the response to other paths while all places are taken.
pub(super) async fn no_place() -> Response {
    let text = "all connections are in use; only /livez and /readyz are served; retry\n";
    (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
}

async fn live(State(site): State<Site>) -> Response {
    liveness(&site.watcher.parts()).into_response()
}

fn liveness(parts: &[PartAge]) -> (StatusCode, String) {
    let is_late = parts.iter().any(|part| part.is_late);
    let mut text = String::from(if is_late { "late\n" } else { "ok\n" });
    for PartAge { name, age, is_late } in parts {
        let late = if *is_late { ", late" } else { "" };
        // A write to a String cannot fail.
        let _ = writeln!(text, "{name}: alive {:.1} s ago{late}", age.as_secs_f64());
    }
    let status = if is_late {
        StatusCode::SERVICE_UNAVAILABLE
    } else {
        StatusCode::OK
    };
    (status, text)
}

async fn ready(State(site): State<Site>) -> Response {
    if site.ready.load(Ordering::Acquire) {
        "ready\n".into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not ready\n").into_response()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn part(name: &'static str, ms: u64, is_late: bool) -> PartAge {
        let age = Duration::from_millis(ms);
        PartAge { name, age, is_late }
    }

    /// Scenario: all parts are alive; one part is late; a command that replays a recording has no parts.
    /// Guarantee: the status is 503 if a part is late, and each part is listed with its age.
    #[test]
    fn late_part_is_not_alive() {
        let alive = liveness(&[part("reading", 140, false), part("exporter", 2000, false)]);
        let text = "ok\nreading: alive 0.1 s ago\nexporter: alive 2.0 s ago\n".to_owned();
        assert_eq!(alive, (StatusCode::OK, text));
        let (status, text) = liveness(&[part("reading", 11_000, true), part("exporter", 0, false)]);
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(text.starts_with("late\nreading: alive 11.0 s ago, late\n"), "{text}");
        assert_eq!(liveness(&[]), (StatusCode::OK, "ok\n".to_owned()));
    }
}
