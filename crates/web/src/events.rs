//! `/api/v1/events`: a view of the page with its changes, as server-sent events.
//!
//! ```text
//! a viewer -- one of 16 places --> a task: every 2 s, after the last event was sent: view -> one event -> body
//! ```
//!
//! gcwatch computes events only for viewers that read their events. If a viewer does not read its events for [`SLOW`],
//! gcwatch closes the connection. Viewers have separate places and take no places of scrapers and probes. A stream ends
//! after nine minutes; browsers reconnect automatically.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Extension, Query, State};
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use base::clock::now_unix_ns;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use super::answer::{Refusal, asked, bad, busy_for_seconds, streamed};
use super::viewers::{Link, MAX_VIEWERS, ViewerPlace};
use super::{Site, api};

/// Interval between events.
const EVENT_INTERVAL: Duration = Duration::from_secs(2);
/// Time after which a viewer that does not receive an event is disconnected.
const SLOW: Duration = Duration::from_secs(15);
/// Duration of a stream. The maximum age of a connection is ten minutes.
const MAX_STREAM_DURATION: Duration = Duration::from_secs(540);
/// Period of overview events with the half-hour history of each row, in events.
const SPARKS_PERIOD: u32 = 15;
/// Period of full events of an unchanged process, in events.
const UNCHANGED_PROCESS_PERIOD: u32 = 5;

/// View that a viewer follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum View {
    Overview,
    Process(u32),
    Rules,
    Watcher,
}

#[derive(Debug, Deserialize)]
pub(super) struct EventQuery {
    view: Option<String>,
    pid: Option<u32>,
}

impl EventQuery {
    fn view(&self) -> Option<View> {
        Some(match (self.view.as_deref().unwrap_or("overview"), self.pid) {
            ("overview", None) => View::Overview,
            ("process", Some(pid)) => View::Process(pid),
            ("rules", None) => View::Rules,
            ("self", None) => View::Watcher,
            _ => return None,
        })
    }
}

const REMEDY: &str = "view=overview, view=process&pid=PID, view=rules or view=self";

pub(super) async fn events(
    State(site): State<Site>,
    link: Option<Extension<Link>>,
    wanted: Result<Query<EventQuery>, QueryRejection>,
) -> Result<Response, Refusal> {
    let view = asked(wanted, REMEDY)?.view();
    let view = view.ok_or_else(|| bad("the view does not exist", REMEDY))?;
    let place = link.and_then(|Extension(link)| Some((site.viewers.take(&link)?, link)));
    let (place, link) = place.ok_or_else(|| {
        let error = format!("the limit of {MAX_VIEWERS} viewers is reached");
        busy_for_seconds(&error, "close a page, or request the records at intervals")
    })?;
    let (events, body) = mpsc::channel(1);
    tokio::spawn(follow(site, view, events, link, place));
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        // The connection has no place for further requests.
        (header::CONNECTION, "close"),
    ];
    Ok((headers, streamed(body)).into_response())
}

/// Returns `true` if a response is a stream of events.
pub(super) fn is_stream(response: &Response<Body>) -> bool {
    let media = response.headers().get(header::CONTENT_TYPE);
    media.is_some_and(|media| media == "text/event-stream")
}

/// Sends events until the viewer disconnects or is too slow, the listener shuts down, or [`MAX_STREAM_DURATION`] has
/// passed.
async fn follow(site: Site, view: View, events: mpsc::Sender<Bytes>, mut link: Link, place: ViewerPlace) {
    let until = Instant::now() + MAX_STREAM_DURATION;
    let mut ticks = interval(EVENT_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut seen = SentState::default();
    let mut count = 0u32;
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = events.closed() => break,
            _ended = link.ended.wait_for(|ended| *ended) => break,
        }
        if Instant::now() >= until {
            break;
        }
        let Ok(room) = timeout(SLOW, events.reserve()).await else {
            link.slow.notify_one();
            break;
        };
        let Ok(room) = room else { break };
        if let View::Process(pid) = view {
            site.views.look_at_memory(pid).await;
        }
        if let Some(event) = event_of(&site, view, count, &mut seen) {
            room.send(event);
        }
        count = count.wrapping_add(1);
    }
    drop(place);
}

/// State that a viewer has received.
#[derive(Debug, Default, PartialEq, Eq)]
struct SentState {
    revision: Option<u64>,
    state: &'static str,
    incidents: String,
}

fn event_of(site: &Site, view: View, count: u32, seen: &mut SentState) -> Option<Bytes> {
    match view {
        View::Overview if count.is_multiple_of(SPARKS_PERIOD) => event("overview", &api::overview_record(site, true)),
        View::Overview => {
            let overview = || event("overview", &api::overview_record(site, false));
            site.viewers.overview(Instant::now(), overview)
        }
        View::Rules => event("rules", &api::rules_record(site, None)),
        View::Watcher => event("self", &site.watcher_record()),
        View::Process(pid) => {
            let Some(record) = api::process_record(site, pid) else {
                let incidents = site.views.incidents().into_iter();
                let incidents: Vec<_> = incidents.filter(|incident| incident.pid == Some(pid)).collect();
                let gone =
                    serde_json::json!({ "at_ms": now_unix_ns() / 1_000_000, "pid": pid, "incidents": incidents });
                return event("gone", &gone);
            };
            let next = SentState {
                revision: Some(record.revision),
                state: record.process.state,
                incidents: record
                    .incidents
                    .iter()
                    .map(|one| format!("{}{}{} ", one.id, one.state, one.severity))
                    .collect(),
            };
            let is_still = next == *seen && !count.is_multiple_of(UNCHANGED_PROCESS_PERIOD);
            *seen = next;
            if is_still {
                return event("still", &serde_json::json!({ "at_ms": record.at_ms }));
            }
            event("process", &record)
        }
    }
}

/// Returns a record as an event with one line of JSON; `None` if the serialization fails.
fn event(name: &str, record: &impl Serialize) -> Option<Bytes> {
    let mut text = format!("event: {name}\ndata: ").into_bytes();
    serde_json::to_writer(&mut text, record).ok()?;
    text.extend_from_slice(b"\n\n");
    Some(text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: queries name known and unknown views, with and without a pid.
    /// Guarantee: only complete and known views are parsed.
    #[test]
    fn views_require_complete_names() {
        let view = |view: Option<&str>, pid| {
            let view = view.map(str::to_owned);
            EventQuery { view, pid }.view()
        };
        assert_eq!(view(None, None), Some(View::Overview));
        assert_eq!(view(Some("process"), Some(7)), Some(View::Process(7)));
        assert_eq!(view(Some("self"), None), Some(View::Watcher));
        for (name, pid) in [("process", None), ("overview", Some(1)), ("rules", Some(1)), ("", None)] {
            assert_eq!(view(Some(name), pid), None, "{name}");
        }
    }

    /// Scenario: a record contains the name of a process, and the name contains newlines.
    /// Guarantee: an event is one line of data.
    #[test]
    fn event_is_one_line() {
        let text = event("overview", &serde_json::json!({ "name": "a\n\ndata: b\r" })).unwrap();
        let text = std::str::from_utf8(&text).unwrap();
        assert_eq!(text, "event: overview\ndata: {\"name\":\"a\\n\\ndata: b\\r\"}\n\n");
    }
}
