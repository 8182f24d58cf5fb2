//! The licence texts of the crates that the program contains, which `cargo-about` collects from the crates.

use std::io::ErrorKind;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::cargo;
use crate::source::Source;

/// Name of the file in every artifact.
pub(crate) const NAME: &str = "THIRD-PARTY-LICENSES.txt";
/// Version that the release uses, because another version can write another file.
const VERSION: &str = "0.9.3";

/// Returns the file, or `None` if the tool is missing, which is reported.
///
/// # Errors
///
/// Returns an error if a crate has a licence that `licenses.toml` does not accept. If the tool is missing, a release
/// (`is_release`) fails.
pub(crate) fn write(source: &Source, is_release: bool) -> Result<Option<Vec<u8>>> {
    // The tool reads the crates offline.
    cargo::run(&source.root, "fetch", &[])?;
    let words = [
        "generate",
        "--frozen",
        "--fail",
        "--config",
        "xtask/licenses.toml",
        "xtask/licenses.hbs",
    ];
    let output = Command::new("cargo-about")
        .current_dir(&source.root)
        .args(words)
        .output();
    let output = match output {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let missing = format!(
                "{NAME}: cargo-about is missing: cargo install cargo-about --version {VERSION} --locked --features cli"
            );
            if is_release {
                bail!(missing);
            }
            println!("left out: {missing}");
            return Ok(None);
        }
        output => output.context("cannot run cargo-about")?,
    };
    if !output.status.success() {
        bail!("cargo-about: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(Some(output.stdout))
}
