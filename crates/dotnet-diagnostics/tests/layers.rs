//! The order of the modules, as the crate's documentation has it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

/// Each may use those before it.
const CRATE: [&str; 14] = [
    "text",
    "message",
    "obstacle",
    "error",
    "deadlines",
    "guard",
    "discovery",
    "connections",
    "waiting",
    "endpoint",
    "exchange",
    "session",
    "client",
    "reverse",
];
const MESSAGE: [&str; 10] = [
    "error",
    "primitive",
    "frame",
    "command",
    "runtime_error",
    "process_info",
    "advertise",
    "session_config",
    "request",
    "answer",
];
const DISCOVERY: [&str; 13] = [
    "socket_name",
    "address",
    "directory",
    "unix_table",
    "proc_files",
    "program",
    "credentials",
    "host",
    "process",
    "candidate",
    "missing",
    "examine",
    "scan",
];

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(files(&path));
        } else {
            all.push(path);
        }
    }
    all
}

/// The modules that code names after `prefix`; comments and unit tests do not count.
fn named<'t>(text: &'t str, prefix: &str) -> Vec<&'t str> {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let after = lines.flat_map(|line| line.split(prefix).skip(1));
    after
        .map(|rest| {
            let end = rest.find(|c: char| !c.is_ascii_lowercase() && c != '_');
            rest.get(..end.unwrap_or(rest.len())).unwrap()
        })
        .collect()
}

/// Every module of a folder is in the order, and names only modules before it.
fn check(folder: &Path, order: &[&str], prefix: &str) {
    let place = |module: &str| order.iter().position(|known| *known == module);
    let mut checked = 0;
    for file in files(folder) {
        let below = file.strip_prefix(folder).unwrap();
        let module = below.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs");
        if module == "lib" {
            continue;
        }
        let own = place(module).unwrap_or_else(|| panic!("{module} has no place in the order"));
        for used in named(&fs::read_to_string(&file).unwrap(), prefix) {
            if let Some(used_at) = place(used) {
                checked += 1;
                assert!(used_at <= own, "{}: {module} uses {used}", file.display());
            }
        }
    }
    assert!(checked > 10, "{checked} uses of modules: they are not found");
}

/// Scenario: the imports of every source file.
/// Guarantee: each module uses only those above it, so that there is no circle.
#[test]
fn modules_use_those_above_them() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    check(&source, &CRATE, "crate::");
    check(&source.join("message"), &MESSAGE, "super::");
    check(&source.join("discovery"), &DISCOVERY, "super::");
}
