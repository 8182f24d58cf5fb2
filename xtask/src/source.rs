//! The source tree of a release.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::address::Addresses;

/// The source tree with its version and date.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) root: PathBuf,
    pub(crate) version: String,
    /// The full commit hash; `None` if unknown.
    pub(crate) commit: Option<String>,
    /// Date in seconds since 1970.
    pub(crate) epoch: u64,
    pub(crate) addresses: Addresses,
}

impl Source {
    /// Returns the source tree that contains this program.
    pub(crate) fn here() -> Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .context("xtask is not in a repository")?
            .to_owned();
        // `git archive` writes "HASH SECONDS" into this file.
        let archived = std::fs::read_to_string(root.join(".source-commit")).unwrap_or_default();
        let mut archived = archived.split_whitespace().filter(|_| !archived.contains('$'));
        let (archived_commit, archived_epoch) = (archived.next(), archived.next());
        let commit = git(&root, &["rev-parse", "HEAD"]).or_else(|| archived_commit.map(str::to_owned));
        let epoch = std::env::var("SOURCE_DATE_EPOCH")
            .ok()
            .or_else(|| git(&root, &["log", "-1", "--format=%ct"]))
            .or_else(|| archived_epoch.map(str::to_owned))
            .context("the date of the sources is unknown; set SOURCE_DATE_EPOCH")?;
        let epoch = epoch
            .trim()
            .parse()
            .context("SOURCE_DATE_EPOCH is not a number of seconds")?;
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let addresses = Addresses::read(&root)?;
        Ok(Self {
            root,
            addresses,
            version,
            commit,
            epoch,
        })
    }

    /// Returns the version in the order of dpkg and rpm, in which a pre-release is older than its release.
    pub(crate) fn package_version(&self) -> String {
        self.version.replacen('-', "~", 1)
    }

    /// Refuses a tree with uncommitted changes, unless they are allowed.
    pub(crate) fn check_clean(&self, allowed: bool) -> Result<()> {
        let changes = git(&self.root, &["status", "--porcelain"]).unwrap_or_default();
        if !changes.is_empty() && !allowed {
            bail!("there are uncommitted changes (--allow-dirty includes them):\n{changes}");
        }
        Ok(())
    }

    /// Reads a file of the tree.
    pub(crate) fn read(&self, path: &str) -> Result<Vec<u8>> {
        std::fs::read(self.root.join(path)).with_context(|| format!("cannot read {path}"))
    }

    /// Returns the files below a folder, by relative path, sorted. Links are followed.
    pub(crate) fn list(&self, folder: &str) -> Result<Vec<String>> {
        let mut found = Vec::new();
        let top = self.root.join(folder);
        let mut folders = vec![top.clone()];
        while let Some(next) = folders.pop() {
            for entry in std::fs::read_dir(&next).with_context(|| format!("cannot read {}", next.display()))? {
                let path = entry?.path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    found.push(path.strip_prefix(&top)?.to_string_lossy().into_owned());
                }
            }
        }
        found.sort();
        Ok(found)
    }
}

fn git(root: &Path, words: &[&str]) -> Option<String> {
    // Ignore a repository that happens to contain an unpacked archive.
    if !root.join(".git").exists() {
        return None;
    }
    let output = Command::new("git").current_dir(root).args(words).output().ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
