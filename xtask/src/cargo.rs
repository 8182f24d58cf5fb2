//! Runs cargo.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

/// Runs a command of cargo in a directory and returns its output.
pub(crate) fn run(root: &Path, command: &str, words: &[&str]) -> Result<Vec<u8>> {
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .current_dir(root)
        .args([command, "--locked"])
        .args(words)
        .output()
        .with_context(|| format!("cannot run cargo {command}"))?;
    if !output.status.success() {
        bail!("cargo {command}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(output.stdout)
}
