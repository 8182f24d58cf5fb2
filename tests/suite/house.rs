//! The order of modules inside crates. Cargo prevents cyclic dependencies between crates; these tests prevent cycles
//! between modules.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.file_name().and_then(|name| name.to_str()) {
            Some("tests" | "tests.rs") => {}
            _ if path.is_dir() => sources(&path, found),
            Some(name) if name.ends_with(".rs") => found.push(path),
            _ => {}
        }
    }
}

/// Returns code without comments and without the tests at its end.
fn code(text: &str) -> String {
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect();
    let is_test = |two: &[&str]| two[0] == "#[cfg(test)]" && two[1].starts_with("mod ") && two[1].ends_with('{');
    let end = lines.windows(2).position(is_test).unwrap_or(lines.len());
    lines[..end].join("\n")
}

/// Expands a tree of imports to paths: `a::{b, c::d}` becomes `a::b` and `a::c::d`.
fn expand(above: &str, tree: &str, found: &mut Vec<String>) {
    let (mut depth, mut start) = (0, 0);
    for (at, c) in tree.char_indices().chain([(tree.len(), ',')]) {
        depth += i32::from(c == '{') - i32::from(c == '}');
        if c == ',' && depth == 0 {
            let one = tree[start..at].trim();
            start = at + 1;
            match one.split_once('{') {
                Some((path, list)) => expand(&format!("{above}{path}"), &list[..list.len() - 1], found),
                None => found.push(format!("{above}{one}")),
            }
        }
    }
}

/// Returns the paths that code in a module names with `crate::`, `super::` and `self::`, starting at the crate root.
fn named(module: &[String], code: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let starts = ["crate::", "super::", "self::"].into_iter();
    for (at, _) in starts.flat_map(|start| code.match_indices(start)) {
        if code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':') {
            continue;
        }
        let mut depth = 0;
        let is_over = |c: char| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            depth < 0 || depth == 0 && !(c.is_alphanumeric() || "_:{}*".contains(c))
        };
        let tree = &code[at..];
        expand("", &tree[..tree.find(is_over).unwrap_or(tree.len())], &mut found);
    }
    let path = |text: String| {
        let mut path = module.to_vec();
        for part in text.split("::") {
            match part {
                "crate" => path.clear(),
                "self" => {}
                "super" => drop(path.pop()),
                name => path.push(name.to_owned()),
            }
        }
        path
    };
    found.into_iter().map(path).collect()
}

/// Returns the import cycles among the children of each module of a crate. An import by a descendant counts for the
/// child that contains it. A parent and its child may import each other, because they form a unit.
fn circles(root: &Path) -> BTreeSet<String> {
    let mut files = Vec::new();
    sources(root, &mut files);
    let path_of = |file: &PathBuf| -> Vec<String> {
        let inside = file.strip_prefix(root).unwrap().with_extension("");
        let parts = inside.iter().map(|part| part.to_string_lossy().into_owned());
        parts.filter(|part| part != "lib" && part != "main").collect()
    };
    let modules: BTreeSet<Vec<String>> = files.iter().map(path_of).collect();
    let mut uses: BTreeMap<String, BTreeSet<(String, String)>> = BTreeMap::new();
    for file in &files {
        let module = path_of(file);
        for mut other in named(&module, &code(&fs::read_to_string(file).unwrap())) {
            while !modules.contains(&other) {
                other.pop();
            }
            let above = module
                .iter()
                .zip(&other)
                .take_while(|(one, other)| one == other)
                .count();
            if let (Some(from), Some(to)) = (module.get(above), other.get(above)) {
                let place = uses.entry(module[..above].join("::")).or_default();
                place.insert((from.clone(), to.clone()));
            }
        }
    }
    let mut found = BTreeSet::new();
    for (above, mut reaches) in uses {
        loop {
            let steps = reaches.iter().flat_map(|(one, via)| {
                let next = reaches.iter().filter(move |(from, _)| from == via);
                next.map(move |(_, other)| (one.clone(), other.clone()))
            });
            let longer: BTreeSet<_> = steps.filter(|way| !reaches.contains(way)).collect();
            if longer.is_empty() {
                break;
            }
            reaches.extend(longer);
        }
        for (one, _) in reaches.iter().filter(|(one, other)| one == other) {
            let is_back = |(from, to): &&(String, String)| from == one && reaches.contains(&(to.clone(), one.clone()));
            let circle: Vec<&str> = reaches.iter().filter(is_back).map(|(_, to)| to.as_str()).collect();
            found.insert(format!("{above}: {}", circle.join(" ")));
        }
    }
    found
}

/// Scenario: the imports in the sources of every crate are compared.
/// Guarantee: no modules with the same parent import each other in a cycle.
#[test]
fn modules_have_no_import_cycles() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let crates = fs::read_dir(root.join("crates")).unwrap();
    let crates = crates.map(|one| one.unwrap().path()).chain([root.to_owned()]);
    let mut found = Vec::new();
    for one in crates {
        let name = one.file_name().unwrap().to_string_lossy();
        let name = if one == root { "gcwatch".into() } else { name };
        let of_crate = circles(&one.join("src")).into_iter();
        found.extend(of_crate.map(|circle| format!("{name} {circle}").replace(" :", ":")));
    }
    found.sort();
    assert!(found.is_empty(), "{found:#?}");
}

/// Scenario: the sources of every crate are searched for `/proc/PID/root`, the root folder of a process.
/// Guarantee: only three modules name this folder: the module that opens files below it, and the modules that open
/// directories and sockets. `clippy.toml` forbids the system calls with which other modules could open a path.
#[test]
fn roots_of_processes_have_few_readers() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for one in fs::read_dir(root.join("crates")).unwrap() {
        sources(&one.unwrap().path().join("src"), &mut files);
    }
    sources(&root.join("src"), &mut files);
    let names_root = |path: &PathBuf| {
        let code = code(&fs::read_to_string(path).unwrap());
        ["join(\"root\")", "process, \"root\"", "/root\"", "/root/"]
            .iter()
            .any(|words| code.contains(words))
    };
    let found: BTreeSet<&Path> = files
        .iter()
        .filter(|path| names_root(path))
        .map(|path| path.strip_prefix(root).unwrap())
        .collect();
    let expected = [
        "crates/dotnet-diagnostics/src/discovery/candidate.rs",
        "crates/processes/src/container/read.rs",
        "crates/targets/src/own_file.rs",
    ];
    assert_eq!(found, expected.map(Path::new).into());
}

/// Scenario: a file has imports in lists and expressions, and in comments and tests.
/// Guarantee: paths in lists and expressions are found, relative to each module. Paths in comments and tests are
/// ignored.
#[test]
fn imports_are_found_in_all_forms() {
    let text = "// crate::no\nuse crate::{a, b::{c, self}};\nlet x = super::d::f(crate::e::G { h });\n#[cfg(test)]\nmod tests {\nuse crate::no;";
    let module = ["one", "two"].map(str::to_owned);
    let found: Vec<String> = named(&module, &code(text)).iter().map(|path| path.join("::")).collect();
    assert_eq!(found, ["a", "b::c", "b", "e::G", "one::d::f"]);
}

/// Scenario: three modules import each other in a cycle, one of them through a child; another module and its child
/// import each other.
/// Guarantee: only the cycle of the three modules is found.
#[test]
fn cycle_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let files = [
        ("lib.rs", "mod one;\nmod two;\nmod three;\nmod top;\n"),
        ("one.rs", "mod below;\n"),
        ("one/below.rs", "use crate::two::Two;\n"),
        ("two.rs", "use super::three::Three;\n"),
        ("three.rs", "use crate::{one::One, two};\n"),
        ("top.rs", "mod child;\nuse crate::one::One;\nuse child::Child;\n"),
        ("top/child.rs", "use super::Top;\n"),
    ];
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let found: Vec<String> = circles(folder.path()).into_iter().collect();
    assert_eq!(found, [": one three two"]);
}
