//! Builds the notes of a release: the changes and the installation, with the addresses that the documentation leaves
//! open.

use anyhow::{Context as _, Result};

use crate::source::Source;
use crate::version;

const INSTALL: &str = "docs/install.md";
/// The sections that are copied, each up to the next heading.
const SECTIONS: [&str; 2] = ["## Get gcwatch", "## Verify a release"];

/// Returns the section of the changelog, followed by the [`SECTIONS`] of docs/install.md.
pub(crate) fn write(source: &Source) -> Result<String> {
    let text = String::from_utf8(source.read(INSTALL)?).context("docs/install.md is not text")?;
    let mut notes = version::changes(source)?;
    for heading in SECTIONS {
        let section = section(&text, heading).with_context(|| format!("{INSTALL} has no {heading:?}"))?;
        notes += &format!("\n\n{heading}\n\n{section}");
    }
    notes.push('\n');
    Ok(filled(source, &notes))
}

/// Replaces variables of the documentation by the values of this release. A variable without a value stays.
fn filled(source: &Source, text: &str) -> String {
    let addresses = &source.addresses;
    let mut text = text.replace("$VERSION", &source.version);
    for (variable, value) in [
        ("$REGISTRY", &addresses.registry),
        ("$REPOSITORY", &addresses.repository),
    ] {
        if let Some(value) = value {
            // Insert the result of the shell expansion that removes scheme and host from a variable.
            let path = value.split_once("://").and_then(|(_, rest)| rest.split_once('/'));
            if let Some((_, path)) = path {
                text = text.replace(&format!("${{{}#https://*/}}", variable.trim_start_matches('$')), path);
            }
            text = text.replace(variable, value);
        }
    }
    text
}

fn section<'a>(text: &'a str, heading: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("\n{heading}\n"))?;
    Some(rest.split("\n## ").next().unwrap_or(rest).trim())
}

#[cfg(test)]
mod tests {
    use super::{filled, write};
    use crate::source::Source;
    use crate::version;

    /// Scenario: the notes of a version are built from a copy of their sources. Guarantee: they contain the section of
    /// the changelog, and commands without open variables.
    #[test]
    fn notes_have_no_open_variable() {
        let folder = tempfile::tempdir().unwrap();
        let mut source = Source::here().unwrap();
        std::fs::create_dir(folder.path().join("docs")).unwrap();
        std::fs::copy(
            source.root.join("docs/install.md"),
            folder.path().join("docs/install.md"),
        )
        .unwrap();
        let changelog = "# Changelog\n\n## Unreleased\n\n## 7.8.9 - 2026-01-02\n\n* New.\n\n## 7.8.8 - 2026-01-01\n";
        std::fs::write(folder.path().join("CHANGELOG.md"), changelog).unwrap();
        source.root = folder.path().to_owned();
        source.version = "7.8.9".to_owned();
        source.addresses.repository = Some("https://host.test/team/gcwatch".to_owned());
        source.addresses.registry = Some("registry.test/team".to_owned());
        let notes = write(&source).unwrap();
        assert!(notes.starts_with("* New.\n\n## Get gcwatch\n"), "{notes}");
        assert!(
            notes.contains("oci://registry.test/team/charts/gcwatch --version 7.8.9"),
            "{notes}"
        );
        assert!(notes.contains("--repo team/gcwatch\n"), "{notes}");
        for open in ["$VERSION", "$REGISTRY", "$REPOSITORY", "${"] {
            assert!(!notes.contains(open), "{open}: {notes}");
        }
        source.version = "7.8.7".to_owned();
        write(&source).unwrap_err();
        version::changes(&source).unwrap_err();
        source.addresses.registry = None;
        assert_eq!(filled(&source, "$REGISTRY"), "$REGISTRY");
    }
}
