//! Report of recordings as one HTML file. The file contains the style and the scripts of the page and the record, and
//! needs no server.
//!
//! Modules of the page import each other by name, which is impossible in one file. Each module becomes a function that
//! returns its exports. The file allows only its own script and style, by digest, and no network access.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use super::assets;
use api::view::ReportRecord;

/// Modules of the report, each after its imports.
const MODULES: [&str; 12] = [
    "dom.js",
    "format.js",
    "changes.js",
    "live.js",
    "charts.js",
    "account.js",
    "incidents.js",
    "requests.js",
    "sizing.js",
    "process.js",
    "collection.js",
    "report.js",
];

/// Error returned if the page cannot be created from its record.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the record of the recording as JSON: {0}")]
pub struct PageError(#[from] serde_json::Error);

/// Returns the HTML file of a report.
///
/// # Errors
///
/// Returns an error if the record cannot be serialized; records of numbers and texts never fail.
pub fn page(record: &ReportRecord) -> Result<String, PageError> {
    let script = script();
    let style = assets::text("page.css");
    // Names in the record come from observed processes; the escape prevents a name from ending the script element.
    let json = serde_json::to_string(record)?.replace('<', "\\u003c");
    let digest = |text: &str| STANDARD.encode(Sha256::digest(text));
    let mut page = String::with_capacity(json.len() + script.len() + style.len() + 2048);
    let _infallible = write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>gcwatch</title>\n<meta \
         name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<meta name=\"color-scheme\" \
         content=\"light dark\">\n<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         script-src 'sha256-{}'; style-src 'sha256-{}'; base-uri 'none'; form-action 'none'; \
         require-trusted-types-for 'script'; trusted-types 'none'\">\n<style>{style}</style>\n</head>\n<body>\n<main \
         id=\"main\" tabindex=\"-1\"><noscript><p class=\"note\">This report needs JavaScript; it loads nothing from \
         the network.</p></noscript></main>\n<div id=\"tip\" class=\"tip\" hidden></div>\n<script \
         type=\"application/json\" id=\"record\">{json}</script>\n<script>{script}</script>\n</body>\n</html>\n",
        digest(&script),
        digest(style),
    );
    Ok(page)
}

/// Returns all modules in one script.
fn script() -> String {
    let mut script = "'use strict';\nconst modules = {};\n".to_owned();
    for name in MODULES {
        let (body, exports) = module(assets::text(name));
        let _infallible = write!(
            script,
            "modules['{name}'] = (() => {{\n{body}\nreturn {{ {} }};\n}})();\n",
            exports.join(", ")
        );
    }
    script
}

/// Returns the body of a module with its imports as constants, and the names of its exports.
fn module(text: &str) -> (String, Vec<String>) {
    let mut exports = Vec::new();
    let mut body = String::with_capacity(text.len());
    for line in text.lines() {
        if let Some((names, from)) = line
            .strip_prefix("import ")
            .and_then(|rest| rest.split_once(" from './"))
        {
            let names = names.trim_start_matches("* as ");
            let from = from.trim_end_matches("';");
            let _infallible = writeln!(body, "const {names} = modules['{from}'];");
            continue;
        }
        let exported = line.strip_prefix("export ");
        if let Some(line) = exported {
            let rest = ["async ", "function ", "const ", "class "]
                .iter()
                .fold(line, |rest, word| rest.strip_prefix(word).unwrap_or(rest));
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            exports.push(rest[..end.unwrap_or(rest.len())].to_owned());
        }
        body.push_str(exported.unwrap_or(line));
        body.push('\n');
    }
    (body, exports)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: the script contains all modules of the report.
    /// Guarantee: no import or export is left, each module comes after its imports, and all imported names are
    /// exported.
    #[test]
    fn modules_are_combined() {
        for (place, name) in MODULES.iter().enumerate() {
            let text = assets::text(name);
            let (body, _) = module(text);
            assert!(
                !body
                    .lines()
                    .any(|line| line.starts_with("import ") || line.starts_with("export ")),
                "{name}"
            );
            for line in text.lines().filter(|line| line.starts_with("import ")) {
                let (names, from) = line.split_once(" from './").unwrap();
                let from = from.trim_end_matches("';");
                let before = MODULES.iter().position(|module| *module == from).unwrap();
                assert!(before < place, "{name} imports {from}");
                let (_, exports) = module(assets::text(from));
                let names = names.trim_start_matches("import ").trim_matches(['{', '}', ' ']);
                for imported in names.split(", ") {
                    assert!(
                        exports.iter().any(|export| export == imported),
                        "{name}: {imported} of {from}"
                    );
                }
            }
        }
    }
}
