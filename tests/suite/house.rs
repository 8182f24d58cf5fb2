//! Rules for modules inside crates: no import cycles, and few readers of the root folders of processes. Cargo already
//! prevents cyclic dependencies between crates.

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

/// Returns a source text without lines of comments and without the test module at its end.
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
                // A list can end with a comma.
                None if one.is_empty() => {}
                None => found.push(format!("{above}{one}")),
            }
        }
    }
}

/// Returns the position in a text at which a tree of imports or a path ends.
fn end_of_tree(text: &str) -> usize {
    let mut depth = 0;
    let is_over = |c: char| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        depth < 0 || depth == 0 && !(c.is_alphanumeric() || "_:{}*".contains(c))
    };
    text.find(is_over).unwrap_or(text.len())
}

/// Converts a path in a module to a path that starts at the crate root.
fn absolute(module: &[String], text: &str) -> Vec<String> {
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
}

/// Returns the paths that code in a module names with `crate::`, `super::` and `self::`, starting at the crate root.
fn named(module: &[String], code: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let starts = ["crate::", "super::", "self::"].into_iter();
    for (at, _) in starts.flat_map(|start| code.match_indices(start)) {
        if !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':') {
            let tree = &code[at..];
            expand("", &tree[..end_of_tree(tree)], &mut found);
        }
    }
    let path = |text: &String| absolute(module, text.split(" as ").next().unwrap());
    found.iter().map(path).collect()
}

/// The names that each module has from `use`: other modules can name them through this module. A glob has the name `*`.
type Imports = BTreeMap<Vec<String>, Vec<(String, Vec<String>)>>;

/// Returns the names that a module imports from its crate, and the paths of the names, starting at the crate root.
/// Private imports count, because the children of a module can name them.
fn imports(module: &[String], code: &str, modules: &BTreeSet<Vec<String>>) -> Vec<(String, Vec<String>)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("use ") {
        let before = code[..at].rsplit('\n').next().unwrap();
        let is_import = ["", "pub "].contains(&before) || before.starts_with("pub(") && before.ends_with(") ");
        if !is_import {
            continue;
        }
        let tree = code[at + "use ".len()..].split(';').next().unwrap();
        let mut paths = Vec::new();
        expand("", tree, &mut paths);
        for path in paths {
            let (path, alias) = path.split_once(" as ").unwrap_or((&path, ""));
            let whole = absolute(module, path);
            let first = path.split("::").next().unwrap();
            let child = &whole[..(module.len() + 1).min(whole.len())];
            if ["crate", "self", "super"].contains(&first) || modules.contains(child) {
                let name = if alias.is_empty() {
                    whole.last().cloned().unwrap_or_default()
                } else {
                    alias.to_owned()
                };
                found.push((name, whole));
            }
        }
    }
    found
}

/// Returns the modules that a path depends on: the named module, and the modules that its name comes from by `use`. A
/// glob leads to its module if the code of this module defines the name.
fn origins(path: &[String], imports: &Imports, codes: &BTreeMap<Vec<String>, String>) -> BTreeSet<Vec<String>> {
    let mut found = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let mut open = vec![path.to_vec()];
    while let Some(path) = open.pop() {
        let is_module = |length: &usize| *length == 0 || codes.contains_key(&path[..*length]);
        let module = &path[..(0..=path.len()).rev().find(is_module).unwrap()];
        found.insert(module.to_vec());
        let Some(name) = path.get(module.len()).filter(|_| seen.insert(path.clone())) else {
            continue;
        };
        for (import, target) in imports.get(module).into_iter().flatten() {
            let mut target = target.clone();
            if import == "*" {
                target.pop();
                let Some(code) = codes.get(&target) else { continue };
                let kinds = ["struct", "enum", "union", "type", "trait", "fn", "const", "static"];
                let defines = |kind: &&str| {
                    let definition = format!("{kind} {name}");
                    code.match_indices(&definition).any(|(at, _)| {
                        !code[at + definition.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_')
                    })
                };
                if !kinds.iter().any(defines) {
                    continue;
                }
                target.push(name.clone());
            } else if import != name {
                continue;
            }
            target.extend_from_slice(&path[module.len() + 1..]);
            open.push(target);
        }
    }
    found
}

/// Returns the import cycles among the children of each module of a crate. An import by a descendant counts for the
/// child that contains it. A module that names an item which another module imports depends on both modules: the module
/// that imports the item, and the module that defines it. A parent and its child may import each other, because they
/// form a unit.
fn circles(root: &Path) -> BTreeSet<String> {
    let mut files = Vec::new();
    sources(root, &mut files);
    let path_of = |file: &PathBuf| -> Vec<String> {
        let inside = file.strip_prefix(root).unwrap().with_extension("");
        let parts = inside.iter().map(|part| part.to_string_lossy().into_owned());
        parts
            .filter(|part| !["lib", "main", "mod"].contains(&part.as_str()))
            .collect()
    };
    let mut codes: BTreeMap<Vec<String>, String> = BTreeMap::new();
    for file in &files {
        let text = code(&fs::read_to_string(file).unwrap());
        // A library and a program in the same folder share their root.
        codes.entry(path_of(file)).or_default().push_str(&(text + "\n"));
    }
    let modules = codes.keys().cloned().collect();
    let imports: Imports = codes
        .iter()
        .map(|(module, code)| (module.clone(), imports(module, code, &modules)))
        .collect();
    let mut uses: BTreeMap<String, BTreeSet<(String, String)>> = BTreeMap::new();
    for (module, code) in &codes {
        let paths: BTreeSet<_> = named(module, code).into_iter().collect();
        for other in paths.iter().flat_map(|path| origins(path, &imports, &codes)) {
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

/// Scenario: the imports in the sources of every crate, of `xtask` and of the test binaries are compared.
/// Guarantee: no modules with the same parent import each other in a cycle.
#[test]
fn modules_have_no_import_cycles() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = |above: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(above).into_iter().flatten();
        entries.map(|entry| entry.unwrap().path()).collect()
    };
    let mut packages = folders(&root.join("crates"));
    packages.extend([root.to_owned(), root.join("xtask"), root.join("tests/support")]);
    let sources = packages.iter().map(|package| package.join("src"));
    let tests = packages.iter().flat_map(|package| folders(&package.join("tests")));
    let tests = tests.filter(|folder| folder.join("main.rs").exists());
    let mut found = Vec::new();
    for folder in sources.chain(tests) {
        let name = folder.strip_prefix(root).unwrap().display();
        let circles = circles(&folder).into_iter();
        found.extend(circles.map(|circle| format!("{name} {circle}").replace(" :", ":")));
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

/// Scenario: a module has public, restricted and private imports, with lists, an alias and a glob, of children and of
/// another crate; a function has an import.
/// Guarantee: the imports of the crate are found with their names and paths. Imports of other crates and of functions
/// are ignored.
#[test]
fn imported_names_are_found() {
    let text = [
        "pub use child::{\n    A,\n    B as C,\n};",
        "pub(crate) use self::child::*;",
        "use crate::top::f;",
        "use std::fs;",
        "fn g() {\n    use crate::no;\n}",
    ];
    let path = |text: &str| -> Vec<String> { text.split("::").map(str::to_owned).collect() };
    let modules = ["one", "one::child", "top"].map(path).into();
    let found: Vec<String> = imports(&path("one"), &text.join("\n"), &modules)
        .iter()
        .map(|(name, path)| format!("{name}={}", path.join("::")))
        .collect();
    let expected = ["A=one::child::A", "C=one::child::B", "*=one::child::*", "f=top::f"];
    assert_eq!(found, expected);
}

/// Scenario: three modules import each other in a cycle. The crate root hides one import with `pub use`, and another
/// module hides one import with a glob.
/// Guarantee: the cycle is found.
#[test]
fn cycle_through_names_of_other_modules_is_found() {
    let found = circles_of(&[
        ("lib.rs", "mod one;\npub use one::One;\n"),
        ("one.rs", "use crate::facade::Two;\npub struct One;\n"),
        ("two.rs", "use crate::three::Three;\npub(crate) struct Two<T>;\n"),
        ("three.rs", "use super::{One as Other};\npub struct Three;\n"),
        ("facade.rs", "pub use crate::two::*;\nuse crate::three::*;\n"),
    ]);
    assert_eq!(found, [": facade one three two"]);
}

/// Scenario: three modules import each other in a cycle, one of them through a child; another module and its child
/// import each other.
/// Guarantee: only the cycle of the three modules is found.
#[test]
fn cycle_is_found() {
    let found = circles_of(&[
        ("lib.rs", "mod one;\nmod two;\nmod three;\nmod top;\n"),
        ("one.rs", "mod below;\n"),
        ("one/below.rs", "use crate::two::Two;\n"),
        ("two.rs", "use super::three::Three;\n"),
        ("three.rs", "use crate::{one::One, two};\n"),
        ("top.rs", "mod child;\nuse crate::one::One;\nuse child::Child;\n"),
        ("top/child.rs", "use super::Top;\n"),
    ]);
    assert_eq!(found, [": one three two"]);
}

/// Returns the cycles of a crate with these files.
fn circles_of(files: &[(&str, &str)]) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    circles(folder.path()).into_iter().collect()
}
