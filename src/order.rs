//! Holds the order of modules that the crate's documentation states.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The modules of this crate; each may use those before it.
const ORDER: [&str; 16] = [
    "files",
    "container",
    "process",
    "guard",
    "targets",
    "records",
    "recording",
    "evidence",
    "pipeline",
    "report",
    "kubernetes",
    "mcp",
    "web",
    "config",
    "daemon",
    "commands",
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The modules of this crate that code names, comments left out: `crate::NAME` and `crate::{NAME, ...}`.
fn used(code: &str) -> BTreeSet<String> {
    let code: String = code
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect::<Vec<_>>()
        .join("\n");
    let name = |text: &str| -> String {
        let end = text
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap_or(text.len());
        text[..end].to_owned()
    };
    let mut names = BTreeSet::new();
    for (at, start) in code.match_indices("crate::") {
        let rest = &code[at + start.len()..];
        match rest.strip_prefix('{') {
            Some(list) => names.extend(
                list[..list.find("};").unwrap_or(0)]
                    .split(',')
                    .map(|one| name(one.trim())),
            ),
            None => {
                names.insert(name(rest));
            }
        }
    }
    names
}

/// Scenario: the sources of this crate, and the order of modules in its documentation.
/// Guarantee: no module uses one that comes after it, and the table in the documentation has this order.
#[test]
fn no_module_uses_one_that_comes_after_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    assert!(files.len() > 50, "{}", files.len());
    let mut back = Vec::new();
    for file in files {
        let inside = file.strip_prefix(&root).unwrap();
        let top = inside
            .components()
            .next()
            .unwrap()
            .as_os_str()
            .to_string_lossy()
            .into_owned();
        let Some(place) = ORDER.iter().position(|module| *module == top.trim_end_matches(".rs")) else {
            assert!(
                ["lib.rs", "main.rs", "order.rs"].contains(&top.as_str()),
                "{top} has no place in the order"
            );
            continue;
        };
        for name in used(&fs::read_to_string(&file).unwrap()) {
            if ORDER
                .iter()
                .position(|module| **module == *name)
                .is_some_and(|other| other > place)
            {
                back.push(format!("{} uses {name}", inside.display()));
            }
        }
    }
    assert_eq!(back, Vec::<String>::new());
    let documentation = fs::read_to_string(root.join("lib.rs")).unwrap();
    let rows: Vec<&str> = documentation
        .lines()
        .filter_map(|line| line.strip_prefix("//! | [`")?.split('`').next())
        .collect();
    assert_eq!(rows, ORDER);
}

/// Scenario: imports as they are written.
/// Guarantee: names are found after `crate::`, in lists too, and not in comments.
#[test]
fn imports_are_read_as_they_are_written() {
    let code = "// crate::web\nuse crate::{config, daemon::own};\nlet a = crate::targets::x;";
    let expected = ["config", "daemon", "targets"].map(str::to_owned);
    assert_eq!(used(code), BTreeSet::from(expected));
}
