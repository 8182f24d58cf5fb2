//! The files that accompany the program: manual pages, completions, configuration, rules.

use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::archive::Files;
use crate::build::Program;
use crate::licenses;
use crate::source::Source;

/// The shells, with the paths of their completion files below `/usr/share`.
pub(crate) const SHELLS: [(&str, &str); 3] = [
    ("bash", "bash-completion/completions/gcwatch"),
    ("fish", "fish/vendor_completions.d/gcwatch.fish"),
    ("zsh", "zsh/vendor-completions/_gcwatch"),
];

/// File name of the page of the shipped rules, to which `gcwatch rules show` refers.
pub(crate) const CATALOGUE: &str = "rules-catalogue.md";

/// Documentation that the program generates.
#[derive(Debug)]
pub(crate) struct Documents {
    /// Manual pages by file name.
    pub(crate) pages: Vec<(String, Vec<u8>)>,
    /// Completions by the paths of [`SHELLS`].
    pub(crate) completions: Vec<(&'static str, Vec<u8>)>,
    /// The page of the shipped rules.
    pub(crate) catalogue: Vec<u8>,
    /// Licence texts of the crates; `None` if they were left out.
    pub(crate) licenses: Option<Vec<u8>>,
}

impl Documents {
    /// Adds the licences to a folder: the empty string, or a path with `/` at its end.
    pub(crate) fn add_licenses(&self, files: &mut Files, folder: &str) {
        if let Some(text) = &self.licenses {
            files.add(format!("{folder}{}", licenses::NAME), text.clone());
        }
    }
}

/// Runs the program to generate its manual pages, completions and the page of its rules.
pub(crate) fn documents(source: &Source, program: &Program) -> Result<Documents> {
    let said = String::from_utf8_lossy(&output(program, &["--version"])?)
        .trim()
        .to_owned();
    if !said.starts_with(&format!("gcwatch {}", source.version)) {
        bail!("{} has another version: {said}", program.path.display());
    }
    let folder = tempfile::tempdir().context("cannot create a folder")?;
    output(program, &["man", &folder.path().to_string_lossy()])?;
    let mut pages = Vec::new();
    for entry in std::fs::read_dir(folder.path())? {
        let entry = entry?;
        pages.push((
            entry.file_name().to_string_lossy().into_owned(),
            std::fs::read(entry.path())?,
        ));
    }
    pages.sort();
    let completions = SHELLS
        .iter()
        .map(|(shell, path)| Ok((*path, output(program, &["completions", shell])?)))
        .collect::<Result<_>>()?;
    Ok(Documents {
        pages,
        completions,
        catalogue: output(program, &["rules", "catalogue"])?,
        licenses: None,
    })
}

fn output(program: &Program, words: &[&str]) -> Result<Vec<u8>> {
    let output = Command::new(&program.path)
        .args(words)
        .output()
        .with_context(|| format!("cannot run {}", program.path.display()))?;
    if !output.status.success() {
        bail!(
            "gcwatch {}: {}",
            words.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(output.stdout)
}

/// Returns the contents of the tar archive.
pub(crate) fn unpacked(source: &Source, program: &Program, documents: &Documents) -> Result<Files> {
    let mut files = Files::default();
    files.add_with("bin/gcwatch", program.bytes.clone(), 0o755);
    for (name, page) in &documents.pages {
        files.add(format!("share/man/man1/{name}"), page.clone());
    }
    for (path, script) in &documents.completions {
        files.add(format!("share/{path}"), script.clone());
    }
    for name in ["LICENSE", "README.md", "CHANGELOG.md"] {
        files.add(name, source.read(name)?);
    }
    documents.add_licenses(&mut files, "");
    for name in ["gcwatch.service", "gcwatch.yaml"] {
        files.add(
            format!("systemd/{name}"),
            source.read(&format!("deploy/systemd/{name}"))?,
        );
    }
    files.add(CATALOGUE, documents.catalogue.clone());
    add_rules(source, &mut files, "")?;
    Ok(files)
}

/// Adds the rule files that the program contains, for users to read and to copy, and the alert rules of Prometheus.
pub(crate) fn add_rules(source: &Source, files: &mut Files, to: &str) -> Result<()> {
    for name in source.list("rules")? {
        files.add(format!("{to}rules/{name}"), source.read(&format!("rules/{name}"))?);
    }
    for name in ["gcwatch.rules.yaml", "gcwatch.fleet.rules.yaml"] {
        let alerts = source.read(&format!("deploy/prometheus/{name}"))?;
        files.add(format!("{to}prometheus/{name}"), alerts);
    }
    Ok(())
}
