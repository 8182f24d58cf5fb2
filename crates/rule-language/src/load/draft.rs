//! Rules before they are built: the values of their keys, each with its position, after defaults and overrides.

use std::collections::{BTreeMap, HashMap};

use strict_yaml::check::nearest;
use strict_yaml::pattern::Pattern;
use strict_yaml::quote::quoted;
use strict_yaml::yaml::{Node, Position};

use super::report::{Placed, Report};
use super::text::{entries, entry, items, scalar};
use crate::document::Id;

/// Keys that overrides and defaults add to, not only replace.
const LAYERED: [&str; 5] = ["labels", "annotations", "exceptions", "params", "params_for"];

/// A rule by its values.
#[derive(Debug)]
pub(super) struct Draft<'a> {
    pub(super) id: String,
    /// Where it begins.
    pub(super) file: usize,
    pub(super) at: Position,
    /// The value of each key.
    pub(super) keys: BTreeMap<&'a str, Placed<'a>>,
    /// The values of keys with layers, in ascending precedence.
    pub(super) layers: BTreeMap<&'a str, Vec<Placed<'a>>>,
}

impl<'a> Draft<'a> {
    /// Replaces the value of a key.
    fn replace(&mut self, key: &'a str, placed: Placed<'a>) {
        if LAYERED.contains(&key) {
            self.layers.insert(key, vec![placed]);
        } else {
            self.keys.insert(key, placed);
        }
    }

    /// Adds a value above the previous ones.
    fn add(&mut self, key: &'a str, placed: Placed<'a>) {
        self.layers.entry(key).or_default().push(placed);
    }

    /// The values of a key with layers.
    pub(super) fn layers(&self, key: &str) -> &[Placed<'a>] {
        self.layers.get(key).map(Vec::as_slice).unwrap_or_default()
    }
}

/// Reads the rules of all files in order, and applies the overrides.
/// `complete`: no file was refused, so overrides without a match can be reported.
pub(super) fn drafts<'a>(roots: &[Placed<'a>], complete: bool, report: &mut Report<'_>) -> Vec<Draft<'a>> {
    let mut drafts: Vec<Draft<'a>> = Vec::new();
    // The first position of each id.
    let mut first: HashMap<String, (usize, Position)> = HashMap::new();
    for root in roots {
        let defaults = entry(root.node, "defaults").map(|defaults| &defaults.value);
        let rules = entry(root.node, "rules").map(|rules| items(&rules.value));
        for node in rules.unwrap_or_default() {
            let Some(draft) = draft(Placed { node, ..*root }, defaults) else {
                continue;
            };
            if let Some((file, at)) = first.get(&draft.id) {
                let place = if *file == root.file {
                    format!("in line {}", at.line)
                } else {
                    format!("in {}:{at}", report.name(*file))
                };
                let message = format!(
                    "{}: duplicate id; first {place}; to change that rule, use `overrides`",
                    draft.id
                );
                report.error(root.file, id_place(node), message);
                continue;
            }
            first.insert(draft.id.clone(), (root.file, id_place(node)));
            drafts.push(draft);
        }
        let overrides = entry(root.node, "overrides").map(|overrides| items(&overrides.value));
        for node in overrides.unwrap_or_default() {
            change(Placed { node, ..*root }, &mut drafts, complete, report);
        }
    }
    drafts
}

fn id_place(rule: &Node) -> Position {
    entry(rule, "id").map_or(rule.at, |id| id.value.at)
}

fn draft<'a>(rule: Placed<'a>, defaults: Option<&'a Node>) -> Option<Draft<'a>> {
    // A missing or invalid id is reported by the check.
    let id: Id = scalar(&entry(rule.node, "id")?.value)?.text.parse().ok()?;
    let mut draft = Draft {
        id: id.0,
        file: rule.file,
        at: rule.node.at,
        keys: BTreeMap::new(),
        layers: BTreeMap::new(),
    };
    for keys in defaults.into_iter().chain([rule.node]) {
        for entry in entries(keys).iter().filter(|entry| !entry.value.is_null()) {
            let placed = Placed {
                node: &entry.value,
                ..rule
            };
            if LAYERED.contains(&entry.key.as_str()) {
                draft.add(&entry.key, placed);
            } else {
                draft.replace(&entry.key, placed);
            }
        }
    }
    Some(draft)
}

/// Applies an override.
fn change<'a>(placed: Placed<'a>, drafts: &mut [Draft<'a>], complete: bool, report: &mut Report<'_>) {
    let (file, node) = (placed.file, placed.node);
    let Some(id) = entry(node, "id") else { return };
    let Some(text) = scalar(&id.value).map(|scalar| scalar.text.as_str()) else {
        return;
    };
    let pattern = Pattern(text.to_owned());
    let replace = entry(node, "replace").map(|replace| entries(&replace.value));
    let add = entry(node, "add").map(|add| entries(&add.value));
    if replace.is_none() && add.is_none() {
        report.warning(file, node.at, "overrides: no change; set `replace` or `add`");
    }
    let mut matched = false;
    for draft in drafts.iter_mut().filter(|draft| pattern.fits(&draft.id)) {
        matched = true;
        for entry in replace.unwrap_or_default() {
            // Refused by the check.
            if entry.key != "id" && !entry.value.is_null() {
                let node = &entry.value;
                draft.replace(&entry.key, Placed { file, node });
            }
        }
        for entry in add.unwrap_or_default() {
            if LAYERED.contains(&entry.key.as_str()) && !entry.value.is_null() {
                let node = &entry.value;
                draft.add(&entry.key, Placed { file, node });
            }
        }
    }
    if !matched && complete {
        let hint = nearest(text, drafts.iter().map(|draft| draft.id.as_str()))
            .map(|near| format!("; did you mean `{near}`?"))
            .unwrap_or_default();
        let message = format!(
            "overrides: {} matches no rule of this file and earlier ones{hint}",
            quoted(text)
        );
        report.warning(file, id.value.at, message);
    }
}
