//! Lists and watches of pods: requests, pages, events.
//!
//! A list returns the pods at one resource version; a watch from that version on returns what changes, one JSON object
//! per line. The server ends a watch after some minutes, and the next one continues at the newest version received
//! (bookmarks carry it also while no pod changes). A version that the server no longer has is answered with 410, and
//! all pods are listed again.

use std::time::Duration;

use http::StatusCode;

use super::client::{Body, Client, Transport, refusal, within};
use super::error::Failed;
use super::lines::{Endless, Line, Lines};
use super::object::{ErrorEvent, EventKind, PodEvent, PodList, PodObject};
use processes::text::bounded;

/// Pods on a page of a list.
const PAGE: usize = 100;
/// Most pages: more than [`super::pods::MAX_PODS`] pods are not kept.
const MAX_PAGES: usize = 100;
/// Most bytes of a page. An object has 1.5 MiB at most in etcd, and mostly a few KiB.
const MAX_PAGE_BYTES: usize = 32 << 20;
/// Most bytes of a line of a watch; the object of a longer one is skipped.
const MAX_LINE_BYTES: usize = 4 << 20;
/// Most bytes of a line that are skipped; a watch with a longer one is ended.
const MAX_SKIPPED_BYTES: usize = 32 << 20;
/// How long the server is asked to keep a watch.
const WATCH_SECONDS: u32 = 290;
/// How long a watch may be silent: longer than it is asked for, so that the server ends it first.
pub(crate) const SILENT: Duration = Duration::from_secs(330);

/// An event of a watch.
#[derive(Debug)]
pub(crate) enum Event {
    /// The pod is new or changed.
    Put(Box<PodObject>),
    Deleted(Box<PodObject>),
    /// Only a newer resource version.
    Bookmark,
    /// The line is too long or is no event of a pod.
    Unreadable,
}

fn path(node: Option<&str>, more: &str) -> String {
    let selector = node.map(|node| format!("fieldSelector=spec.nodeName%3D{}&", encoded(node)));
    format!("/api/v1/pods?{}{more}", selector.unwrap_or_default())
}

/// A value in a query (RFC 3986: all but the unreserved characters).
fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let one = |byte: u8| match byte {
        byte if plain(byte) => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(one).collect()
}

fn invalid(error: &serde_json::Error) -> Failed {
    Failed::Invalid(bounded(&error.to_string()))
}

async fn page<T: Transport>(client: &Client<T>, path: &str) -> Result<PodList, Failed> {
    let bytes = client.whole(path, MAX_PAGE_BYTES).await?;
    serde_json::from_slice(&bytes).map_err(|error| invalid(&error))
}

/// All pods of the node, and their resource version. `take` gets each pod while its page is read, so that of pods that
/// are not kept no more than a page is held.
pub(crate) async fn list<T: Transport, K>(
    client: &Client<T>,
    node: Option<&str>,
    mut take: impl FnMut(PodObject) -> Option<K>,
) -> Result<(Vec<K>, String), Failed> {
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
                let version = version.ok_or_else(|| Failed::Invalid("a list without resourceVersion".to_owned()))?;
                return Ok((taken, version));
            }
        }
    }
    Err(Failed::TooMany(MAX_PAGES * PAGE))
}

/// The pods that the kubelet runs.
pub(crate) async fn kubelet<T: Transport>(client: &Client<T>) -> Result<Vec<PodObject>, Failed> {
    Ok(page(client, "/pods").await?.items.unwrap_or_default())
}

/// A watch that has begun.
#[derive(Debug)]
pub(crate) struct Watch<B> {
    body: B,
    lines: Lines,
    /// The newest resource version received.
    pub(crate) version: String,
}

impl<B: Body> Watch<B> {
    /// Begins to watch from that version on.
    pub(crate) async fn begin<T: Transport<Body = B>>(
        client: &Client<T>,
        node: Option<&str>,
        version: String,
    ) -> Result<Self, Failed> {
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

    /// The next event; `None`: the server ended the watch in order. No event is lost when this is dropped before it is
    /// done.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, Failed> {
        loop {
            match self.lines.next() {
                Err(Endless) => return Err(Failed::TooLong(MAX_SKIPPED_BYTES)),
                Ok(Some(Line::Skipped)) => return Ok(Some(Event::Unreadable)),
                Ok(Some(Line::Whole(line))) if line.iter().all(u8::is_ascii_whitespace) => continue,
                Ok(Some(Line::Whole(line))) => return event(line, &mut self.version).map(Some),
                Ok(None) => {}
            }
            match within(SILENT, self.body.chunk()).await? {
                Some(piece) => self.lines.push(&piece),
                None if self.lines.is_within_a_line() => {
                    return Err(Failed::Broken("in the middle of a line".to_owned()));
                }
                None => return Ok(None),
            }
        }
    }
}

/// What a line says. `version` becomes that of its object.
fn event(line: &[u8], version: &mut String) -> Result<Event, Failed> {
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
