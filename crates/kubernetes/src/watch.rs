//! Lists and watches of pods: requests, pages, events.
//!
//! A list returns the pods at one resource version. A watch from that version returns the changes, one JSON object per
//! line. The server ends a watch after some minutes, and the next watch continues at the last received version.
//! Bookmarks contain a newer version even if no pod changes. If the server no longer has a version, the server answers
//! with 410, and all pods are listed again.

use std::time::Duration;

use http::StatusCode;

use super::client::{Body, Client, Transport, refusal, within};
use super::error::AnswerError;
use super::lines::{Endless, Line, Lines};
use super::object::{ErrorEvent, EventKind, PodEvent, PodList, PodObject};
use processes::text::bounded;

/// Number of pods on a page of a list.
const PAGE: usize = 100;
/// Maximum number of pages. More than [`super::pods::MAX_PODS`] pods are not kept.
const MAX_PAGES: usize = 100;
/// Maximum size of a page, in bytes. An object has at most 1.5 MiB in etcd, and usually a few KiB.
const MAX_PAGE_BYTES: usize = 32 << 20;
/// Maximum size of a line of a watch, in bytes. The object of a longer line is skipped.
const MAX_LINE_BYTES: usize = 4 << 20;
/// Maximum number of skipped bytes of a line. A watch with a longer line is ended.
const MAX_SKIPPED_BYTES: usize = 32 << 20;
/// Duration for which a watch is requested.
const WATCH_SECONDS: u32 = 290;
/// Maximum silence of a watch: longer than its requested duration, so that the server ends it first.
pub(crate) const SILENT: Duration = Duration::from_secs(330);

/// An event of a watch.
#[derive(Debug)]
pub(crate) enum Event {
    /// The pod is new or has changed.
    Put(Box<PodObject>),
    Deleted(Box<PodObject>),
    /// There is only a newer resource version.
    Bookmark,
    /// The line is too long or is not an event of a pod.
    Unreadable,
}

fn path(node: Option<&str>, more: &str) -> String {
    let selector = node.map(|node| format!("fieldSelector=spec.nodeName%3D{}&", encoded(node)));
    format!("/api/v1/pods?{}{more}", selector.unwrap_or_default())
}

/// Encodes a value for a query (RFC 3986: all except the unreserved characters).
fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let one = |byte: u8| match byte {
        byte if plain(byte) => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(one).collect()
}

fn invalid(error: &serde_json::Error) -> AnswerError {
    AnswerError::Invalid(bounded(&error.to_string()))
}

async fn page<T: Transport>(client: &Client<T>, path: &str) -> Result<PodList, AnswerError> {
    let bytes = client.whole(path, MAX_PAGE_BYTES).await?;
    serde_json::from_slice(&bytes).map_err(|error| invalid(&error))
}

/// Returns the kept parts of all pods of the node, or of all nodes if `node` is `None`, and the resource version of the
/// list. `take` converts each pod while its page is read, so that only one page of whole pods is held in memory.
pub(crate) async fn list<T: Transport, K>(
    client: &Client<T>,
    node: Option<&str>,
    mut take: impl FnMut(PodObject) -> Option<K>,
) -> Result<(Vec<K>, String), AnswerError> {
    let mut taken = Vec::new();
    let mut token: Option<String> = None;
    for _ in 0..MAX_PAGES {
        let rest = match &token {
            Some(token) => format!("limit={PAGE}&continue={}", encoded(token)),
            None => format!("limit={PAGE}"),
        };
        let page = page(client, &path(node, &rest)).await?;
        taken.extend(page.items.unwrap_or_default().into_iter().filter_map(&mut take));
        match page.metadata.token.filter(|token| !token.is_empty()) {
            Some(next) => token = Some(next),
            None => {
                let version = page.metadata.resource_version;
                let version =
                    version.ok_or_else(|| AnswerError::Invalid("a list without resourceVersion".to_owned()))?;
                return Ok((taken, version));
            }
        }
    }
    Err(AnswerError::TooMany(MAX_PAGES * PAGE))
}

/// Returns the pods that the kubelet runs.
pub(crate) async fn kubelet<T: Transport>(client: &Client<T>) -> Result<Vec<PodObject>, AnswerError> {
    Ok(page(client, "/pods").await?.items.unwrap_or_default())
}

/// A running watch.
#[derive(Debug)]
pub(crate) struct Watch<B> {
    body: B,
    lines: Lines,
    /// The last received resource version.
    pub(crate) version: String,
}

impl<B: Body> Watch<B> {
    /// Starts a watch from a version.
    pub(crate) async fn begin<T: Transport<Body = B>>(
        client: &Client<T>,
        node: Option<&str>,
        version: String,
    ) -> Result<Self, AnswerError> {
        let more = format!(
            "watch=1&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}&resourceVersion={}",
            encoded(&version)
        );
        Ok(Self {
            body: client.get(&path(node, &more)).await?,
            lines: Lines::new(MAX_LINE_BYTES, MAX_SKIPPED_BYTES),
            version,
        })
    }

    /// Returns the next event, or `None` if the server ended the watch cleanly. This method is cancel safe: no event is
    /// lost.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, AnswerError> {
        loop {
            match self.lines.next() {
                Err(Endless) => return Err(AnswerError::TooLong(MAX_SKIPPED_BYTES)),
                Ok(Some(Line::Skipped)) => return Ok(Some(Event::Unreadable)),
                Ok(Some(Line::Whole(line))) if line.iter().all(u8::is_ascii_whitespace) => continue,
                Ok(Some(Line::Whole(line))) => return event(line, &mut self.version).map(Some),
                Ok(None) => {}
            }
            match within(SILENT, self.body.chunk()).await? {
                Some(piece) => self.lines.push(&piece),
                None if self.lines.is_within_a_line() => {
                    return Err(AnswerError::Broken("in the middle of a line".to_owned()));
                }
                None => return Ok(None),
            }
        }
    }
}

/// Parses a line, and sets `version` to the resource version of its object.
fn event(line: &[u8], version: &mut String) -> Result<Event, AnswerError> {
    let EventKind { kind } = serde_json::from_slice(line).map_err(|error| invalid(&error))?;
    if kind == "ERROR" {
        let ErrorEvent { object } = serde_json::from_slice(line).map_err(|error| invalid(&error))?;
        let status = object.code.and_then(|code| StatusCode::from_u16(code).ok());
        return Err(refusal(
            status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            &object,
            None,
        ));
    }
    let Ok(PodEvent { object }) = serde_json::from_slice::<PodEvent>(line) else {
        return Ok(Event::Unreadable);
    };
    if let Some(newer) = &object.metadata.resource_version {
        version.clone_from(newer);
    }
    Ok(match kind.as_str() {
        "ADDED" | "MODIFIED" => Event::Put(Box::new(object)),
        "DELETED" => Event::Deleted(Box::new(object)),
        "BOOKMARK" => Event::Bookmark,
        _ => Event::Unreadable,
    })
}
