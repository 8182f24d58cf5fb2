//! Rules for the crates of the workspace: allowed edges, unused dependencies, sizes, and one file per type.
//!
//! `tests/crates.txt` contains one line per crate with its maximum number of product lines and the workspace crates on
//! which it may depend. A commit that adds an edge or raises a maximum states the reason in its message.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// A crate as described by `cargo metadata`.
struct Package {
    name: String,
    folder: PathBuf,
    /// Names of normal dependencies, each with the name under which code imports it.
    dependencies: Vec<(String, String)>,
}

fn packages() -> Vec<Package> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--locked", "--offline", "--format-version=1"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let package = |package: &Value| {
        let normal = package["dependencies"].as_array().unwrap().iter();
        let normal = normal.filter(|dependency| dependency["kind"].is_null());
        let manifest = PathBuf::from(text(&package["manifest_path"]));
        Package {
            name: text(&package["name"]),
            folder: manifest.parent().unwrap().to_owned(),
            dependencies: normal
                .map(|dependency| {
                    let name = text(&dependency["name"]);
                    let import = dependency["rename"]
                        .as_str()
                        .map_or_else(|| name.clone(), str::to_owned);
                    (name, import.replace('-', "_"))
                })
                .collect(),
        }
    };
    metadata["packages"].as_array().unwrap().iter().map(package).collect()
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.unwrap().path();
        match path.file_name().and_then(|name| name.to_str()) {
            Some("tests" | "tests.rs") => {}
            _ if path.is_dir() => rust_files(&path, found),
            Some(name) if name.ends_with(".rs") => found.push(path),
            _ => {}
        }
    }
}

/// Returns the trimmed lines of a file, without comments, blank lines and tests.
fn product_code(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let is_test = |two: &[&str]| two[0] == "#[cfg(test)]" && two[1].contains("mod ") && two[1].ends_with('{');
    let end = lines.windows(2).position(is_test).unwrap_or(lines.len());
    let lines = lines[..end].iter().map(|line| line.trim());
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with("//"));
    lines.map(str::to_owned).collect()
}

/// Returns the rows of `tests/crates.txt` by crate: the maximum number of product lines, and the allowed dependencies.
fn table() -> BTreeMap<String, (usize, BTreeSet<String>)> {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/crates.txt")).unwrap();
    let rows = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    rows.map(|row| {
        let mut words = row.split_whitespace().map(str::to_owned);
        let name = words.next().unwrap();
        let lines = words.next().unwrap().parse().unwrap();
        (name, (lines, words.collect()))
    })
    .collect()
}

/// Scenario: the dependencies between all crates of the workspace are compared with `tests/crates.txt`.
/// Guarantee: the file lists each edge, and each listed edge exists.
#[test]
fn crate_edges_are_allowed() {
    let packages = packages();
    let known: BTreeSet<&str> = packages.iter().map(|package| package.name.as_str()).collect();
    let mut actual = BTreeMap::new();
    for package in &packages {
        let names = package.dependencies.iter().map(|(name, _)| name.clone());
        let edges: BTreeSet<String> = names.filter(|name| known.contains(name.as_str())).collect();
        actual.insert(package.name.clone(), edges);
    }
    let allowed: BTreeMap<_, _> = table().into_iter().map(|(name, (_, edges))| (name, edges)).collect();
    assert_eq!(actual, allowed);
}

/// Scenario: `delivery` or `strict-yaml` changes, and the dependent crates are counted.
/// Guarantee: at most 3 crates depend on `delivery`, and at most 5 on `strict-yaml`, directly or indirectly.
#[test]
fn changes_rebuild_few_crates() {
    let table = table();
    let rebuilt = |changed: &str| {
        let mut found = BTreeSet::from([changed.to_owned()]);
        loop {
            let depends = |(name, (_, edges)): (&String, &(usize, BTreeSet<String>))| {
                (!edges.is_disjoint(&found)).then(|| name.clone())
            };
            let more: BTreeSet<String> = table.iter().filter_map(depends).collect();
            if more.is_subset(&found) {
                return found.len() - 1;
            }
            found.extend(more);
        }
    };
    assert!(rebuilt("delivery") <= 3, "{}", rebuilt("delivery"));
    assert!(rebuilt("strict-yaml") <= 5, "{}", rebuilt("strict-yaml"));
}

/// Scenario: the product lines of every crate are counted without comments, blank lines and tests.
/// Guarantee: no crate exceeds its maximum in `tests/crates.txt`.
#[test]
fn crates_stay_within_their_line_budgets() {
    let table = table();
    let mut over = Vec::new();
    for package in packages() {
        let mut files = Vec::new();
        rust_files(&package.folder.join("src"), &mut files);
        let lines: usize = files.iter().map(|file| product_code(file).len()).sum();
        let budget = table.get(&package.name).map_or(0, |(budget, _)| *budget);
        if lines > budget {
            over.push(format!("{}: {lines} lines, at most {budget}", package.name));
        }
    }
    assert!(over.is_empty(), "{over:#?}");
}

/// Exceptions: crates, each with a dependency that its code uses without naming it.
const UNNAMED: &[(&str, &str)] = &[];

/// Scenario: the normal dependencies of every crate are compared with its code.
/// Guarantee: the code of the crate names each dependency.
#[test]
fn no_dependency_is_unused() {
    let mut unused = Vec::new();
    for package in packages() {
        let mut files = Vec::new();
        rust_files(&package.folder.join("src"), &mut files);
        let code: String = files
            .iter()
            .flat_map(|file| product_code(file))
            .collect::<Vec<_>>()
            .join("\n");
        for (name, import) in &package.dependencies {
            let is_named = code.match_indices(import.as_str()).any(|(at, _)| {
                let is_word = |c: char| c.is_alphanumeric() || c == '_';
                !code[..at].ends_with(is_word) && !code[at + import.len()..].starts_with(is_word)
            });
            if !is_named && !UNNAMED.contains(&(package.name.as_str(), name.as_str())) {
                unused.push(format!("{} does not use {name}", package.name));
            }
        }
    }
    assert!(unused.is_empty(), "{unused:#?}");
}

/// Returns the name of the type of an inherent `impl` at the start of a line, or `None` if the line starts no such
/// block.
fn inherent_impl(line: &str) -> Option<&str> {
    let mut rest = line.strip_prefix("impl")?;
    if let Some(generics) = rest.strip_prefix('<') {
        let mut depth = 1;
        let end = generics.find(|c: char| {
            depth += i32::from(c == '<') - i32::from(c == '>');
            depth == 0
        })?;
        rest = &generics[end + 1..];
    }
    let rest = rest.strip_prefix(' ')?;
    if rest.contains(" for ") {
        return None;
    }
    let end = rest.find(|c: char| !(c.is_alphanumeric() || "_:".contains(c)))?;
    rest[..end].rsplit("::").next()
}

/// Scenario: the files of the inherent `impl` blocks of every crate are compared with the files of their types.
/// Guarantee: each block is in the file that defines its type. `tests/impls-elsewhere.txt` lists exactly the
/// exceptions.
#[test]
fn types_are_implemented_where_they_are_defined() {
    let mut elsewhere = BTreeSet::new();
    for package in packages() {
        let mut files = Vec::new();
        rust_files(&package.folder.join("src"), &mut files);
        for file in files {
            let text = fs::read_to_string(&file).unwrap();
            for name in text.lines().filter_map(inherent_impl) {
                let is_defined = ["struct ", "enum ", "union "].iter().any(|kind| {
                    text.match_indices(&format!("{kind}{name}")).any(|(at, found)| {
                        !text[at + found.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_')
                    })
                });
                if !is_defined {
                    let place = file.strip_prefix(&package.folder).unwrap().display();
                    elsewhere.insert(format!("{} {place} {name}", package.name));
                }
            }
        }
    }
    let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/impls-elsewhere.txt");
    let list = fs::read_to_string(list).unwrap();
    let listed: BTreeSet<String> = list
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(str::to_owned)
        .collect();
    assert_eq!(elsewhere, listed);
}

/// Scenario: `base` and the published `dotnet-diagnostics`, which depends on no other crate, classify every character.
/// Guarantee: both crates agree on whether the character is safe to display.
#[test]
fn characters_are_plain_in_both_crates() {
    for c in '\0'..=char::MAX {
        assert_eq!(base::text::is_plain(c), dotnet_diagnostics::text::is_plain(c), "{c:?}");
    }
}
