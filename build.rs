//! Passes the commit of the build to the program for `gcwatch --version`.
#![allow(clippy::print_stdout, reason = "a build script speaks to cargo on standard output")]

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=GCWATCH_COMMIT");
    println!("cargo:rerun-if-changed=.source-commit");
    // HEAD names the branch; the branch's file changes with each commit.
    for file in [".git/HEAD", ".git/refs/heads", ".git/packed-refs"] {
        if Path::new(file).exists() {
            println!("cargo:rerun-if-changed={file}");
        }
    }
    let given = std::env::var("GCWATCH_COMMIT").ok().filter(|commit| !commit.is_empty());
    let version = env!("CARGO_PKG_VERSION");
    let version = match given.or_else(archived).or_else(cloned) {
        Some(commit) => format!("{version} ({commit})"),
        None => version.to_owned(),
    };
    println!("cargo:rustc-env=GCWATCH_VERSION={version}");
}

/// Returns the commit that `git archive` wrote into the archive. In a clone, the file has a placeholder with a `$`.
fn archived() -> Option<String> {
    let text = std::fs::read_to_string(".source-commit").ok()?;
    let hash = text.split_whitespace().next()?;
    let is_hash = hash.len() >= 12 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hash.then(|| hash.get(..12).unwrap_or(hash).to_owned())
}

/// Returns the shortened commit of the clone, or `None` if the sources are not a clone or git is not installed.
fn cloned() -> Option<String> {
    // The sources can be inside another repository, whose commit does not count.
    if !Path::new(".git").exists() {
        return None;
    }
    let output = Command::new("git")
        .args(["rev-parse", "--short=12", "HEAD"])
        .output()
        .ok()?;
    let hash = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| hash.trim().to_owned())
}
