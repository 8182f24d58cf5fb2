//! `/api/v1/evidence/`: recordings of the black box, flame graphs, and requests. They can contain secrets, so `access`
//! guards the path.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::header;
use axum::response::{IntoResponse, Json, Response};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::Site;
use super::access::PRIVATE;
use super::answer::{Refusal, asked, bad, busy, busy_for_seconds, not_found, streamed};
use super::api::number;
use api::view::HistoryColumns;
use evidence::black_box::files::{Files, id_of, id_of_page};
use evidence::black_box::page::rendered;
use evidence::flames;

/// Number of bytes per read.
const PART: u64 = 64 << 10;

const LIST: &str = "GET /api/v1/evidence/ lists the available recordings";

fn files(site: &Site) -> Result<Arc<Files>, Refusal> {
    let remedy = "set state.directory and evidence.black_box.enabled";
    let files = site.views.black_box_files();
    files.ok_or_else(|| not_found("the recording of incidents is disabled", remedy))
}

/// Maximum time that a response waits for the disk.
const DISK_TIMEOUT: Duration = Duration::from_secs(5);

/// Limit of concurrent threads that wait for the disk, so that a hanging disk does not occupy all threads of the
/// daemon.
static READERS: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(4)));

/// Reads from a disk on another thread, at most for [`DISK_TIMEOUT`].
async fn reading<T: Send + 'static>(read: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    let reading = async move {
        let reader = Arc::clone(&READERS).acquire_owned().await.map_err(io::Error::other)?;
        let read = spawn_blocking(move || {
            let _reader = reader;
            read()
        });
        read.await.map_err(io::Error::other)?
    };
    timeout(DISK_TIMEOUT, reading)
        .await
        .map_err(|_| io::ErrorKind::TimedOut)?
}

async fn on_disk<T: Send + 'static>(
    files: &Arc<Files>,
    read: impl FnOnce(&Files) -> io::Result<T> + Send + 'static,
) -> Result<T, Refusal> {
    let of_thread = Arc::clone(files);
    let read = reading(move || read(&of_thread)).await;
    read.map_err(|error| {
        let error = format!("cannot read {}: {error}", files.folder().display());
        busy(&error, "check the directory on the host")
    })
}

/// Returns `true` if a response waits for a disk. [`READERS`] limits these responses, so that they need not run one
/// after another like other responses.
pub(super) fn waits_for_disk(path: &str) -> bool {
    let name = path.strip_prefix(PRIVATE);
    path.ends_with("/history") || name.is_some_and(|name| !name.starts_with("requests/") && !flames::is_name(name))
}

pub(super) async fn list(State(site): State<Site>) -> Result<Json<Value>, Refusal> {
    let records = on_disk(&files(&site)?, Files::list).await?;
    Ok(Json(json!({ "evidence": records })))
}

/// Content security policy for a graph in its own page: the graph has its own styles and no scripts.
const POLICY_OF_GRAPHS: &str = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'";

fn graph(site: &Site, name: &str) -> Result<Response, Refusal> {
    let svg = site.views.flame_graph(name).ok_or_else(|| {
        let error = "the flame graph does not exist: only the newest flame graphs are kept, in memory";
        not_found(error, "GET /api/v1/incidents lists the available flame graphs")
    })?;
    let headers = [
        (header::CONTENT_TYPE, "image/svg+xml"),
        (header::CACHE_CONTROL, "private, no-store"),
        (header::CONTENT_SECURITY_POLICY, POLICY_OF_GRAPHS),
    ];
    Ok((headers, svg).into_response())
}

/// Returns the requests of a process with the longest stops by collections; the ids identify requests of users.
pub(super) async fn requests(
    State(site): State<Site>,
    Path(pid): Path<String>,
) -> Result<impl IntoResponse + use<>, Refusal> {
    let found = pid.parse().ok().and_then(|pid| site.views.request_view(pid));
    let mut record = found.ok_or_else(|| {
        let remedy = "set requests.mode in the configuration; the process must serve requests";
        not_found("requests of the process are not observed", remedy)
    })?;
    record.trace_url = site.trace_url.as_deref().map(str::to_owned);
    Ok(([(header::CACHE_CONTROL, "private, no-store")], Json(record)))
}

/// Requested length of the history.
#[derive(Debug, Deserialize)]
pub(super) struct HistoryQuery {
    hours: Option<u64>,
}

/// Maximum length of a history, hours: one day is kept.
const MAX_HOURS: u64 = 24;

/// Returns `/api/v1/processes/PID/history`: the history of a process on disk, beyond the half hour of its record.
pub(super) async fn history(
    State(site): State<Site>,
    Path(pid): Path<String>,
    wanted: Result<Query<HistoryQuery>, QueryRejection>,
) -> Result<Json<HistoryColumns>, Refusal> {
    let pid: u32 = number(&pid, "pid")?;
    let hours = asked(wanted, HOURS)?.hours.unwrap_or(1);
    if !(1..=MAX_HOURS).contains(&hours) {
        return Err(bad(&format!("hours={hours} is out of range"), HOURS));
    }
    let views = Arc::clone(&site.views);
    let read = reading(move || views.long_history(pid, hours).transpose());
    let columns = read.await.map_err(|error| {
        let error = format!("cannot read the history of pid {pid}: {error}");
        busy(&error, "check state.directory on the host")
    })?;
    columns.map(Json).ok_or_else(|| {
        let remedy = "set state.directory in the configuration; GET /api/v1/processes/PID has the last half hour";
        not_found(&format!("the disk has no history of pid {pid}"), remedy)
    })
}

const HOURS: &str = "use the parameter hours=N, from 1 to 24";

pub(super) async fn recording(State(site): State<Site>, Path(part): Path<String>) -> Result<Response, Refusal> {
    if flames::is_name(&part) {
        return graph(&site, &part);
    }
    if let Some(id) = id_of_page(&part) {
        return page(&site, id).await;
    }
    let id = id_of(&part).ok_or_else(|| not_found("the name is not a name of a recording", LIST))?;
    let (file, bytes, name) = found(&site, id).await?;
    Ok(response(file, bytes, &name))
}

/// Limit of concurrent page renders: each render runs in a separate process and needs memory.
static RENDERERS: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(1)));

/// Content security policy for a page. A page has its own style and script, each allowed by its digest in the page. The
/// content comes from an observed process, so the page is isolated from all other served content.
const POLICY_OF_PAGES: &str = "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src \
                               'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

async fn page(site: &Site, id: &str) -> Result<Response, Refusal> {
    let (file, _, name) = found(site, id).await?;
    let Ok(Ok(renderer)) = timeout(DISK_TIMEOUT, Arc::clone(&RENDERERS).acquire_owned()).await else {
        return Err(busy("another report is in progress", "retry in ten seconds"));
    };
    let rendered = spawn_blocking(move || {
        let _renderer = renderer;
        rendered(file, &name)
    });
    let rendered = rendered.await.map_err(io::Error::other).and_then(|html| html);
    let html = rendered.map_err(|error| {
        let error = format!("cannot create the report: {error}");
        busy(&error, "download the recording and run gcwatch analyze on it")
    })?;
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CACHE_CONTROL, "private, no-store"),
        (header::CONTENT_SECURITY_POLICY, POLICY_OF_PAGES),
    ];
    Ok((headers, html).into_response())
}

/// Returns the file of a recording, its size in bytes and its name.
async fn found(site: &Site, id: &str) -> Result<(File, u64, String), Refusal> {
    let files = files(site)?;
    let asked = id.to_owned();
    let found = on_disk(&files, move |files| {
        Ok((files.read(&asked)?, files.is_being_written(&asked)))
    });
    match found.await? {
        (Some(found), _) => Ok(found),
        (None, true) => Err(busy_for_seconds(
            "the recording is not complete yet",
            "retry in ten seconds",
        )),
        (None, false) => {
            let error = format!("recording {id} does not exist: newer recordings replaced it, or the write failed");
            Err(not_found(&error, LIST))
        }
    }
}

fn response(file: File, bytes: u64, name: &str) -> Response {
    let (parts, body) = mpsc::channel(1);
    tokio::spawn(send(Arc::new(file), bytes, parts));
    // The name contains only letters, digits, dots, `-` and `_`.
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream"),
        (header::CACHE_CONTROL, "private, no-store"),
        (header::CONTENT_LENGTH, &bytes.to_string()),
        (header::CONTENT_DISPOSITION, &format!("attachment; filename=\"{name}\"")),
    ];
    (headers, streamed(body)).into_response()
}

/// Sends parts until the file ends or the client disconnects. A thread is used for each part only if the channel has
/// capacity, so a slow reader occupies no thread.
async fn send(file: Arc<File>, bytes: u64, parts: mpsc::Sender<Bytes>) {
    let mut at = 0;
    while at < bytes {
        let Ok(room) = parts.reserve().await else { return };
        let (file, len) = (Arc::clone(&file), (bytes - at).min(PART));
        let part = reading(move || {
            let mut part = vec![0; usize::try_from(len).unwrap_or_default()];
            file.read_exact_at(&mut part, at)?;
            Ok(part)
        });
        // After a failed read, for example of a truncated file, the connection ends before the announced length.
        let Ok(part) = part.await else { return };
        room.send(part.into());
        at += len;
    }
}
