//! Builds the list of the program's components: CycloneDX 1.5.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::archive::sha256;
use crate::cargo;
use crate::image::date;
use crate::source::Source;

/// Target platform of the list, so that the list is the same on every machine.
const PLATFORM: &str = "x86_64-unknown-linux-musl";

/// Builds the list of crates that gcwatch links on Linux, from `cargo metadata`. Crates that are only used to build or
/// test gcwatch are excluded.
pub(crate) fn write(source: &Source) -> Result<Vec<u8>> {
    let linked = linked(source)?;
    let filter = ["--format-version", "1", "--filter-platform", PLATFORM];
    let metadata: Value = serde_json::from_slice(&cargo::run(&source.root, "metadata", &filter)?)?;
    let packages: BTreeMap<&str, &Value> = each(&metadata["packages"])
        .filter(|package| {
            let word = |key: &str| package[key].as_str().unwrap_or_default().to_owned();
            linked.contains(&(word("name"), word("version")))
        })
        .filter_map(|package| Some((package["id"].as_str()?, package)))
        .collect();
    let links: BTreeMap<&str, BTreeSet<&str>> = each(&metadata["resolve"]["nodes"])
        .filter_map(|node| {
            let is_linked = |dependency: &&Value| each(&dependency["dep_kinds"]).any(|kind| kind["kind"].is_null());
            let to = each(&node["deps"])
                .filter(is_linked)
                .filter_map(|dependency| dependency["pkg"].as_str());
            let to = to.filter(|id| packages.contains_key(id));
            Some((node["id"].as_str()?, to.collect()))
        })
        .collect();
    let top = packages
        .iter()
        .find(|(_, package)| package["name"] == "gcwatch")
        .map(|(id, _)| *id)
        .context("cargo metadata does not name gcwatch")?;

    let mut reached = BTreeSet::from([top]);
    let mut waiting = vec![top];
    while let Some(id) = waiting.pop() {
        for to in links.get(id).into_iter().flatten() {
            if reached.insert(to) {
                waiting.push(to);
            }
        }
    }
    let name_of = |id: &str| {
        let package = packages.get(id).copied().unwrap_or(&Value::Null);
        let word = |key: &str| package[key].as_str().unwrap_or_default().to_owned();
        (word("name"), word("version"))
    };
    let reference = |id: &str| {
        let (name, version) = name_of(id);
        format!("pkg:cargo/{name}@{version}")
    };
    let component = |id: &str, kind: &str| {
        let (name, version) = name_of(id);
        let mut one = json!({
            "type": kind, "bom-ref": reference(id), "name": name, "version": version, "purl": reference(id),
        });
        if let Some(license) = packages.get(id).and_then(|package| package["license"].as_str()) {
            // Cargo's old notation for "or".
            one["licenses"] = json!([{"expression": license.replace('/', " OR ")}]);
        }
        one
    };
    let mut components: Vec<Value> = reached
        .iter()
        .filter(|id| **id != top)
        .map(|id| component(id, "library"))
        .collect();
    components.sort_by_key(|one| one["bom-ref"].as_str().unwrap_or_default().to_owned());
    let mut dependencies: Vec<Value> = reached
        .iter()
        .map(|id| {
            let to: BTreeSet<String> = links.get(id).into_iter().flatten().map(|to| reference(to)).collect();
            json!({"ref": reference(id), "dependsOn": to})
        })
        .collect();
    dependencies.sort_by_key(|one| one["ref"].as_str().unwrap_or_default().to_owned());

    let mut list = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"timestamp": date(source.epoch)?, "component": component(top, "application")},
        "components": components,
        "dependencies": dependencies,
    });
    if let Some(repository) = &source.addresses.repository {
        list["metadata"]["component"]["externalReferences"] = json!([{"type": "vcs", "url": repository}]);
    }
    // Derive the serial number from the list, so that it is reproducible.
    let digest = sha256(&serde_json::to_vec(&list)?);
    let part = |from: usize, to: usize| digest.get(from..to).unwrap_or_default();
    let serial = format!(
        "urn:uuid:{}-{}-8{}-8{}-{}",
        part(0, 8),
        part(8, 12),
        part(13, 16),
        part(17, 20),
        part(20, 32)
    );
    list["serialNumber"] = json!(serial);
    let mut text = serde_json::to_vec_pretty(&list)?;
    text.push(b'\n');
    Ok(text)
}

/// Returns the linked packages, by name and version. `cargo metadata` alone would include the features of tests.
fn linked(source: &Source) -> Result<BTreeSet<(String, String)>> {
    let words = [
        "--package",
        "gcwatch",
        "--edges",
        "normal",
        "--target",
        PLATFORM,
        "--prefix",
        "none",
    ];
    let text = String::from_utf8(cargo::run(&source.root, "tree", &words)?).context("cargo tree did not write text")?;
    let package = |line: &str| {
        let mut words = line.split_whitespace();
        Some((
            words.next()?.to_owned(),
            words.next()?.trim_start_matches('v').to_owned(),
        ))
    };
    Ok(text.lines().filter_map(package).collect())
}

fn each(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}
