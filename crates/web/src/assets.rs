//! Files of the page. The files are part of the binary and contain no data of processes.

use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::answer::not_found;

/// File of the page.
struct Asset {
    name: &'static str,
    media: &'static str,
    text: &'static str,
}

const SCRIPT: &str = "text/javascript; charset=utf-8";

macro_rules! assets {
    ($($name:literal $media:expr;)+) => {
        [$(Asset { name: $name, media: $media, text: include_str!(concat!("assets/", $name)) },)+]
    };
}

static ASSETS: [Asset; 17] = assets! {
    "account.js" SCRIPT;
    "app.js" SCRIPT;
    "changes.js" SCRIPT;
    "charts.js" SCRIPT;
    "collection.js" SCRIPT;
    "dom.js" SCRIPT;
    "format.js" SCRIPT;
    "incidents.js" SCRIPT;
    "live.js" SCRIPT;
    "overview.js" SCRIPT;
    "process.js" SCRIPT;
    "report.js" SCRIPT;
    "requests.js" SCRIPT;
    "rules.js" SCRIPT;
    "self.js" SCRIPT;
    "sizing.js" SCRIPT;
    "page.css" "text/css; charset=utf-8";
};

const FAVICON: &str = include_str!("assets/favicon.svg");
const SHELL: &str = include_str!("assets/index.html");

/// Returns the text of a file, or an empty text if the file does not exist.
pub(super) fn text(name: &str) -> &'static str {
    let known = ASSETS.iter().find(|asset| asset.name == name);
    known.map_or("", |asset| asset.text)
}

/// Returns the page, whose scripts render all views in the browser.
pub(super) fn shell(status: StatusCode) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (status, headers, SHELL).into_response()
}

/// Serves `/assets/NAME`.
pub(super) async fn asset(Path(name): Path<String>) -> Response {
    let known = ASSETS.iter().find(|asset| asset.name == name);
    let (media, text) = match known {
        Some(asset) => (asset.media, asset.text),
        None if name == "favicon.svg" => ("image/svg+xml", FAVICON),
        None => return not_found(&format!("the page has no file {name:?}"), "").into_response(),
    };
    let headers = [(header::CONTENT_TYPE, media), (header::CACHE_CONTROL, "no-cache")];
    (headers, text).into_response()
}
