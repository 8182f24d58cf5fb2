//! `kubectl gcwatch`: the archive that krew installs, and the manifest that names it.

use anyhow::{Context as _, Result, bail, ensure};

use crate::archive::{self, Files};
use crate::source::Source;

const FOLDER: &str = "deploy/kubectl";
const PROGRAM: &str = "kubectl-gcwatch";

/// Returns the name of the archive.
pub(crate) fn archive_name(source: &Source) -> String {
    format!("{PROGRAM}-{}.tar.gz", source.version)
}

/// Returns the archive: the script and the licence, without a folder, as the manifest names them.
pub(crate) fn package(source: &Source) -> Result<Vec<u8>> {
    let mut files = Files::default();
    files.add_with(PROGRAM, source.read(&format!("{FOLDER}/{PROGRAM}"))?, 0o755);
    files.add("LICENSE", source.read("LICENSE")?);
    archive::gzip(&files.tar("", source.epoch)?)
}

/// Returns the manifest with version, digest and the address of the repository, or a placeholder if the address is not
/// set.
///
/// # Errors
///
/// Returns an error if the manifest of the tree lacks a field that has to be written.
pub(crate) fn manifest(source: &Source, archive: &[u8]) -> Result<Vec<u8>> {
    let text =
        String::from_utf8(source.read(&format!("{FOLDER}/gcwatch.yaml"))?).context("the manifest is not text")?;
    Ok(filled(source, &text, &archive::sha256(archive))?.into_bytes())
}

fn filled(source: &Source, text: &str, digest: &str) -> Result<String> {
    let version = &source.version;
    let mut values = vec![("version", format!("v{version}")), ("sha256", format!("\"{digest}\""))];
    let repository = source.addresses.repository.as_deref();
    let repository = repository.unwrap_or("https://git.example/team/gcwatch");
    let address = format!("{repository}/releases/download/v{version}/{}", archive_name(source));
    values.extend([("homepage", repository.to_owned()), ("uri", address)]);
    let mut lines = Vec::new();
    // Comments only apply to the file in the tree.
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, _) = line.trim_start().split_once(": ").unwrap_or_default();
        let place = values.iter().position(|(key, _)| *key == name);
        let Some((_, value)) = place.map(|place| values.swap_remove(place)) else {
            lines.push(line.to_owned());
            continue;
        };
        let indent = line.len() - line.trim_start().len();
        lines.push(format!("{:indent$}{name}: {value}", ""));
    }
    if let Some((name, _)) = values.first() {
        bail!("{FOLDER}/gcwatch.yaml has no `{name}`");
    }
    ensure!(!lines.is_empty(), "{FOLDER}/gcwatch.yaml is empty");
    Ok(lines.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: the archive and the manifest of a version with addresses are built; another manifest has no digest.
    /// Guarantee: the first manifest has the version, address and digest of the archive, and no comment; the second
    /// manifest is refused.
    #[test]
    fn manifest_names_the_archive() {
        let mut source = Source::here().unwrap();
        source.version = "7.8.9".to_owned();
        source.addresses.repository = Some("https://host.test/team/gcwatch".to_owned());
        let archive = package(&source).unwrap();
        let text = String::from_utf8(manifest(&source, &archive).unwrap()).unwrap();
        for line in [
            "  version: v7.8.9\n",
            "  homepage: https://host.test/team/gcwatch\n",
            "https://host.test/team/gcwatch/releases/download/v7.8.9/kubectl-gcwatch-7.8.9.tar.gz\n",
            &format!("      sha256: \"{}\"\n", archive::sha256(&archive)),
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert!(!text.contains('#'), "{text}");
        let error = filled(&source, "version: v1\nhomepage: x\nuri: y\n", "0").unwrap_err();
        assert_eq!(error.to_string(), "deploy/kubectl/gcwatch.yaml has no `sha256`");
    }
}
