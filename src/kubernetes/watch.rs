//! Lists and watches of the API server: requests, pages, lines.
//!
//! A list says which pods there are at a version; a watch from that version on says what changes, one JSON object per line. The server ends a watch
//! after some minutes: it goes on from the newest version that was told (bookmarks tell it also where nothing changes). A version
//! that the server has forgotten is answered with 410, and everything is listed anew.

use std::time::Duration;

use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use tokio::time::timeout;

use super::object::{ErrorEvent, EventKind, PodEvent, PodList, PodObject, Status};
use crate::process::text::bounded;

/// How many pods a page of a list has.
const PAGE: u32 = 100;
/// Most pages: more than [`super::pods::MAX_PODS`] are not kept.
const MAX_PAGES: usize = 100;
/// Most bytes of a page. An object is 1.5 MiB at most in etcd, and a few KiB mostly.
const MAX_PAGE_BYTES: usize = 32 << 20;
/// Most bytes of a line of a watch.
const MAX_LINE_BYTES: usize = 4 << 20;
/// Most bytes of an error that are looked at.
const MAX_ERROR_BYTES: usize = 64 << 10;
/// How long a request may take until its answer is complete, or a watch's begins.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// How long the server is asked to keep a watch.
const WATCH_SECONDS: u32 = 290;
/// How long a watch may be silent: longer than it is asked for, so that the server ends it first.
const SILENT: Duration = Duration::from_secs(330);

/// Why an answer is of no use.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failed {
    #[error("it forgot the version that was to go on from (410)")]
    Expired,
    #[error(
        "it may not be asked: {0}; give gcwatch's service account list and watch of pods, for the kubelet get of nodes/pods"
    )]
    Forbidden(String),
    #[error(
        "it does not know gcwatch's token: {0}; see whether the service account is still there and its token is mounted (automountServiceAccountToken)"
    )]
    Unauthorized(String),
    #[error("it answered {0}")]
    Refused(String),
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
    #[error("it took longer than {0:?}")]
    Slow(Duration),
    #[error("its answer broke off: {0}")]
    Broken(String),
    #[error("its answer is longer than {0} bytes")]
    Long(usize),
    #[error("its answer is not what was asked for: {0}")]
    Odd(String),
}

/// What a watch told.
#[derive(Debug)]
pub(crate) enum Event {
    Put(Box<PodObject>),
    Deleted(Box<PodObject>),
    /// Nothing but a newer version.
    Bookmark,
    /// A line that is no event of a pod.
    Odd,
}

fn path(node: Option<&str>, more: &str) -> String {
    // Names of nodes are host names: nothing in them is to be encoded but in one that is none.
    let selector = node.map(|node| format!("fieldSelector=spec.nodeName%3D{}&", encoded(node)));
    format!("/api/v1/pods?{}{more}", selector.unwrap_or_default())
}

fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let one = |byte: u8| match byte {
        byte if plain(byte) => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(one).collect()
}

/// Asks, and looks at the status of the answer.
async fn ask(client: &Client, path: &str) -> Result<Body, Failed> {
    let request = Request::get(path)
        .body(Body::empty())
        .map_err(|error| Failed::Odd(error.to_string()))?;
    let answer = timeout(ANSWER_WITHIN, client.send(request)).await;
    let answer = answer
        .map_err(|_| Failed::Slow(ANSWER_WITHIN))?
        .map_err(|error| Failed::Unreachable(chain(&error)))?;
    let status = answer.status();
    if status.is_success() {
        return Ok(answer.into_body());
    }
    let body = timeout(ANSWER_WITHIN, whole(answer.into_body(), MAX_ERROR_BYTES)).await;
    let said: Status = match &body {
        Ok(Ok(body)) => serde_json::from_slice(body).unwrap_or_default(),
        _ => Status::default(),
    };
    Err(refusal(status, &said))
}

fn refusal(status: StatusCode, said: &Status) -> Failed {
    let text = match &said.message {
        Some(message) => format!("{status}: {}", bounded(message)),
        None => status.to_string(),
    };
    match status {
        StatusCode::GONE => Failed::Expired,
        StatusCode::UNAUTHORIZED => Failed::Unauthorized(text),
        StatusCode::FORBIDDEN => Failed::Forbidden(text),
        _ => Failed::Refused(text),
    }
}

/// The error and what it comes from.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        source = error.source();
    }
    bounded(&text)
}

/// The whole of a body.
async fn whole(mut body: Body, limit: usize) -> Result<Vec<u8>, Failed> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Failed::Broken(bounded(&error.to_string())))?;
        if let Some(part) = frame.data_ref() {
            if bytes.len().saturating_add(part.len()) > limit {
                return Err(Failed::Long(limit));
            }
            bytes.extend_from_slice(part);
        }
    }
    Ok(bytes)
}

async fn page(client: &Client, path: &str) -> Result<PodList, Failed> {
    let body = ask(client, path).await?;
    let bytes = timeout(ANSWER_WITHIN, whole(body, MAX_PAGE_BYTES)).await;
    let bytes = bytes.map_err(|_| Failed::Slow(ANSWER_WITHIN))??;
    serde_json::from_slice(&bytes).map_err(|error| Failed::Odd(bounded(&error.to_string())))
}

/// Every pod of the node, page by page; each is given to `take` so that a page is all that is held of what is not kept.
pub(crate) async fn list<T>(
    client: &Client,
    node: Option<&str>,
    mut take: impl FnMut(PodObject) -> Option<T>,
) -> Result<(Vec<T>, String), Failed> {
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
                let version = version.ok_or_else(|| Failed::Odd("a list without resourceVersion".to_owned()))?;
                return Ok((taken, version));
            }
        }
    }
    Err(Failed::Long(MAX_PAGES * PAGE as usize))
}

/// The pods that the kubelet runs.
pub(crate) async fn kubelet(client: &Client) -> Result<Vec<PodObject>, Failed> {
    Ok(page(client, "/pods").await?.items.unwrap_or_default())
}

/// A watch that has begun.
#[derive(Debug)]
pub(crate) struct Watch {
    body: Body,
    /// What came after the last whole line.
    rest: Vec<u8>,
    /// The newest version that was told.
    pub(crate) version: String,
}

impl Watch {
    /// Begins to watch from that version on.
    pub(crate) async fn begin(client: &Client, node: Option<&str>, version: String) -> Result<Self, Failed> {
        let more = format!(
            "watch=1&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}&resourceVersion={}",
            encoded(&version)
        );
        let body = ask(client, &path(node, &more)).await?;
        Ok(Self {
            body,
            rest: Vec::new(),
            version,
        })
    }

    /// The next event; `None`: the server ended the watch in order.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, Failed> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                if line.iter().all(u8::is_ascii_whitespace) {
                    continue;
                }
                return self.event(&line).map(Some);
            }
            if self.rest.len() > MAX_LINE_BYTES {
                return Err(Failed::Long(MAX_LINE_BYTES));
            }
            let frame = timeout(SILENT, self.body.frame())
                .await
                .map_err(|_| Failed::Slow(SILENT))?;
            match frame {
                None if self.rest.is_empty() => return Ok(None),
                None => return Err(Failed::Broken("in the middle of a line".to_owned())),
                Some(frame) => {
                    let frame = frame.map_err(|error| Failed::Broken(bounded(&error.to_string())))?;
                    if let Some(part) = frame.data_ref() {
                        self.rest.extend_from_slice(part);
                    }
                }
            }
        }
    }

    fn event(&mut self, line: &[u8]) -> Result<Event, Failed> {
        let odd = |error: serde_json::Error| Failed::Odd(bounded(&error.to_string()));
        let EventKind { kind } = serde_json::from_slice(line).map_err(odd)?;
        if kind == "ERROR" {
            let ErrorEvent { object } = serde_json::from_slice(line).map_err(odd)?;
            let status = object.code.and_then(|code| StatusCode::from_u16(code).ok());
            return Err(refusal(status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), &object));
        }
        let Ok(PodEvent { object }) = serde_json::from_slice::<PodEvent>(line) else {
            return Ok(Event::Odd);
        };
        if let Some(version) = &object.metadata.resource_version {
            self.version.clone_from(version);
        }
        Ok(match kind.as_str() {
            "ADDED" | "MODIFIED" => Event::Put(Box::new(object)),
            "DELETED" => Event::Deleted(Box::new(object)),
            "BOOKMARK" => Event::Bookmark,
            _ => Event::Odd,
        })
    }
}
