//! Hands the commit of the build to the program: `gcwatch --version`.
#![allow(clippy::print_stdout, reason = "a build script speaks to cargo on standard output")]

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=GCWATCH_COMMIT");
    // HEAD names the branch; the branch's file changes with each commit.
    for file in [".git/HEAD", ".git/refs/heads", ".git/packed-refs"] {
        if Path::new(file).exists() {
            println!("cargo:rerun-if-changed={file}");
        }
    }
    let given = std::env::var("GCWATCH_COMMIT").ok().filter(|commit| !commit.is_empty());
    let version = env!("CARGO_PKG_VERSION");
    let version = match given.or_else(commit) {
        Some(commit) => format!("{version} ({commit})"),
        None => version.to_owned(),
    };
    println!("cargo:rustc-env=GCWATCH_VERSION={version}");
}

/// The commit's short hash; none where the sources are no clone, or git is not there.
fn commit() -> Option<String> {
    let output = Command::new("git")
        .args(["rev-parse", "--short=12", "HEAD"])
        .output()
        .ok()?;
    let hash = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| hash.trim().to_owned())
}
