//! The licence texts of the crates that the program contains, which `cargo-about` collects from the crates.

use std::process::Command;

use anyhow::Result;

use crate::cargo;
use crate::source::Source;
use crate::tool::Tool;

/// Name of the file in every artifact.
pub(crate) const NAME: &str = "THIRD-PARTY-LICENSES.txt";
const ABOUT: Tool = Tool {
    name: "cargo-about",
    version: "0.9.3",
    install: " --features cli",
};

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
    let mut command = Command::new(ABOUT.name);
    ABOUT.run(NAME, command.current_dir(&source.root).args(words), is_release)
}
