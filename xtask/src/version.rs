//! The version, which `[workspace.package]` of `Cargo.toml` defines. xtask writes the version from there to all other
//! places.

use anyhow::{Context as _, Result, bail, ensure};

use crate::source::Source;

/// The places that contain the version; `{}` stands for the version.
const PLACES: [(&str, &[&str]); 8] = [
    (
        "Cargo.toml",
        &[
            "[workspace.package]\nversion = \"{}\"\n",
            "\nnettrace = { version = \"{}\",",
            "\ndotnet-diagnostics = { version = \"{}\",",
            "\nclr-gc = { version = \"{}\",",
            "\nclr-evidence = { version = \"{}\",",
            "\nclr-heap = { version = \"{}\",",
        ],
    ),
    ("deploy/container/Containerfile", &["\nARG VERSION={}\n"]),
    (
        "deploy/helm/gcwatch/Chart.yaml",
        &["\nversion: {}\n", "\nappVersion: {}\n"],
    ),
    ("deploy/kustomize/base/daemonset.yaml", &[" image: gcwatch:{}\n"]),
    ("deploy/kustomize/overlays/plain/kustomization.yaml", &[" newTag: {}\n"]),
    (
        "deploy/kustomize/overlays/sidecar/deployment.yaml",
        &[" image: gcwatch:{}\n"],
    ),
    (
        "deploy/kustomize/overlays/sidecar/kustomization.yaml",
        &[" newTag: {}\n"],
    ),
    (
        "docs/kubernetes.md",
        &[
            "gcwatch-{}-oci-amd64.tar\n",
            "gcwatch-chart-{}.tgz ",
            "/gcwatch:{} . && podman push REGISTRY/gcwatch:{}\n",
        ],
    ),
];
const CHANGELOG: &str = "CHANGELOG.md";
const UNRELEASED: &str = "\n## Unreleased\n";

/// Refuses a tree in which a place contains another version.
pub(crate) fn check(source: &Source) -> Result<()> {
    for (path, forms) in PLACES {
        let text = text(source, path)?;
        for form in forms {
            let written = form.replace("{}", &source.version);
            ensure!(
                text.contains(&written),
                "{path} does not contain {:?}; `cargo xtask version VERSION` updates every place",
                written.trim()
            );
        }
    }
    Ok(())
}

/// Refuses a release with a tag of another version, without a section in the changelog, or without addresses.
pub(crate) fn check_release(source: &Source, tag: &str) -> Result<()> {
    check(source)?;
    let version = tag.strip_prefix('v').unwrap_or_default();
    ensure!(
        version == source.version,
        "the tag {tag} is not v{}, the version in Cargo.toml",
        source.version
    );
    changes(source)?;
    ensure!(
        source.addresses.repository.is_some() && source.addresses.registry.is_some(),
        "set `repository` and `registry` in Cargo.toml: [workspace.package] and [workspace.metadata.addresses]"
    );
    Ok(())
}

/// Writes a new version to every place, and adds a section with the date to the changelog if the version has no
/// section.
pub(crate) fn set(source: &Source, new: &str, date: &str) -> Result<()> {
    ensure!(is_version(new), "{new} is not a version like 1.2.3 or 1.2.3-rc.1");
    check(source)?;
    for (path, forms) in PLACES {
        let mut text = text(source, path)?;
        for form in forms {
            text = text.replace(&form.replace("{}", &source.version), &form.replace("{}", new));
        }
        write(source, path, &text)?;
    }
    let changelog = text(source, CHANGELOG)?;
    if section(&changelog, new).is_none() {
        ensure!(
            changelog.contains(UNRELEASED),
            "{CHANGELOG} has no heading \"Unreleased\""
        );
        let released = changelog.replacen(UNRELEASED, &format!("{UNRELEASED}\n## {new} - {date}\n"), 1);
        write(source, CHANGELOG, &released)?;
    }
    Ok(())
}

/// Returns the section of the changelog for the version of the source.
pub(crate) fn changes(source: &Source) -> Result<String> {
    let changelog = text(source, CHANGELOG)?;
    let section = section(&changelog, &source.version);
    Ok(section
        .with_context(|| format!("{CHANGELOG} has no section \"## {} - DATE\"", source.version))?
        .to_owned())
}

/// Returns the section below `## VERSION - DATE`, or `None` if the changelog has no such heading.
fn section<'a>(changelog: &'a str, version: &str) -> Option<&'a str> {
    let (_, rest) = changelog.split_once(&format!("\n## {version} - "))?;
    let (_, rest) = rest.split_once('\n')?;
    Some(rest.split("\n## ").next().unwrap_or(rest).trim())
}

/// Returns whether a text consists of three numbers and an optional pre-release.
fn is_version(text: &str) -> bool {
    let (numbers, before) = text.split_once('-').unwrap_or((text, "0"));
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    let is_word = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric());
    numbers.split('.').count() == 3 && numbers.split('.').all(is_number) && before.split('.').all(is_word)
}

fn text(source: &Source, path: &str) -> Result<String> {
    String::from_utf8(source.read(path)?).with_context(|| format!("{path} is not text"))
}

fn write(source: &Source, path: &str, text: &str) -> Result<()> {
    match std::fs::write(source.root.join(path), text) {
        Ok(()) => Ok(()),
        Err(error) => bail!("cannot write {path}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{PLACES, changes, check, check_release, is_version, section, set};
    use crate::address::Addresses;
    use crate::source::Source;

    /// Scenario: the tree is this one. Guarantee: every place contains the version of Cargo.toml.
    #[test]
    fn places_contain_the_version() {
        check(&Source::here().unwrap()).unwrap();
    }

    /// Scenario: a new version is set twice in a copy. Guarantee: an invalid version is refused, every place contains
    /// the new version, and the changelog has one section for it. A release is refused for the tag of another version,
    /// or without an address.
    #[test]
    fn new_version_is_written_to_every_place() {
        let folder = tempfile::tempdir().unwrap();
        let mut source = Source::here().unwrap();
        for path in PLACES.iter().map(|(path, _)| *path).chain(["CHANGELOG.md"]) {
            let to = folder.path().join(path);
            std::fs::create_dir_all(to.parent().unwrap()).unwrap();
            std::fs::copy(source.root.join(path), to).unwrap();
        }
        source.root = folder.path().to_owned();
        for bad in ["1.2", "v1.2.3", "1.2.3-", "1.2.x", "1.2.3\n"] {
            set(&source, bad, "2026-01-02").unwrap_err();
        }
        set(&source, "99.0.1", "2026-01-02").unwrap();
        check(&source).unwrap_err();
        source.version = "99.0.1".to_owned();
        set(&source, "99.0.1", "2026-01-03").unwrap();
        check(&source).unwrap();
        let changelog = std::fs::read_to_string(folder.path().join("CHANGELOG.md")).unwrap();
        assert_eq!(changelog.matches("## 99.0.1 - ").count(), 1);
        assert!(changelog.contains("## 99.0.1 - 2026-01-02\n"));
        assert!(!changes(&source).unwrap().is_empty());

        source.addresses = Addresses::default();
        check_release(&source, "v99.0.1").unwrap_err();
        source.addresses.repository = Some("https://host.test/a".to_owned());
        source.addresses.registry = Some("host.test/a".to_owned());
        check_release(&source, "v99.0.1").unwrap();
        check_release(&source, "99.0.1").unwrap_err();
        check_release(&source, "v99.0.2").unwrap_err();
    }

    /// Scenario: a changelog has two versions, of which one is a prefix of the other. Guarantee: each section ends
    /// where the next starts.
    #[test]
    fn section_belongs_to_one_version() {
        let text = "# Changelog\n\n## Unreleased\n\n## 1.2.30 - 2026-01-02\n\n* b\n\n### Added\n\n* c\n\n## 1.2.3 - 2026-01-01\n\n* a\n";
        assert_eq!(section(text, "1.2.30"), Some("* b\n\n### Added\n\n* c"));
        assert_eq!(section(text, "1.2.3"), Some("* a"));
        assert_eq!(section(text, "1.2"), None);
        assert!(is_version("1.2.3-rc.1") && !is_version("1.2.3+a b"));
    }
}
