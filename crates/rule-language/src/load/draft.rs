//! Rules before they are built: the values of their keys with positions, after defaults and overrides.

use std::collections::{BTreeMap, HashMap};

use base::pattern::Pattern;
use base::quote::quoted;
use strict_yaml::check::did_you_mean;
use strict_yaml::yaml::{Node, Position};

use super::report::{Part, Place, PlacedValue, Report};
use super::text::{entries, entries_of, entry, items_of, scalar};
use crate::document::Id;

/// Keys to which overrides and defaults can add values.
const LAYERED: [&str; 5] = ["labels", "annotations", "exceptions", "params", "params_for"];

/// A rule as a set of values.
#[derive(Debug)]
pub(super) struct Draft<'a> {
    pub(super) id: String,
    pub(super) part: Part,
    /// Start of the rule.
    pub(super) begin: Place,
    /// The value of each key.
    pub(super) keys: BTreeMap<&'a str, PlacedValue<'a>>,
    /// Values of keys with layers, in ascending precedence.
    layers: BTreeMap<&'a str, Vec<PlacedValue<'a>>>,
}

impl<'a> Draft<'a> {
    /// Replaces the value of a key.
    fn replace(&mut self, key: &'a str, placed: PlacedValue<'a>) {
        if LAYERED.contains(&key) {
            self.layers.insert(key, vec![placed]);
        } else {
            self.keys.insert(key, placed);
        }
    }

    /// Adds a value that takes precedence over the previous values.
    fn add(&mut self, key: &'a str, placed: PlacedValue<'a>) {
        self.layers.entry(key).or_default().push(placed);
    }

    /// Returns the values of a key with layers.
    pub(super) fn layers(&self, key: &str) -> &[PlacedValue<'a>] {
        self.layers.get(key).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the position of the value of a key, or the start of the rule if the key is missing.
    pub(super) fn place(&self, key: &str) -> Place {
        self.keys.get(key).map_or(self.begin, |placed| placed.place())
    }
}

/// Reads the rules of all files in order, and applies the overrides that are not left out. An override that matches no
/// rule is reported only if `complete`, which states that no file was refused.
pub(super) fn drafts<'a>(roots: &[PlacedValue<'a>], complete: bool, report: &mut Report<'_>) -> Vec<Draft<'a>> {
    let mut drafts: Vec<Draft<'a>> = Vec::new();
    // The first position of each id.
    let mut first: HashMap<String, (usize, Position)> = HashMap::new();
    for root in roots {
        let defaults = entry(root.node, "defaults").map(|defaults| &defaults.value);
        let file = root.file;
        for (index, node) in items_of(root.node, "rules").iter().enumerate() {
            let part = Part::Rule { file, index };
            let placed = PlacedValue {
                file,
                node,
                part: Some(part),
            };
            let Some(draft) = draft(part, placed, defaults) else {
                continue;
            };
            let id_at = entry(node, "id").map_or(node.at, |id| id.value.at);
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
                report.error(root.at(id_at), message);
                continue;
            }
            first.insert(draft.id.clone(), (root.file, id_at));
            drafts.push(draft);
        }
        for (index, node) in items_of(root.node, "overrides").iter().enumerate() {
            let part = Part::Override { file, index };
            if !report.left_out.parts.contains(&part) {
                let placed = PlacedValue {
                    file,
                    node,
                    part: Some(part),
                };
                change(placed, &mut drafts, complete, report);
            }
        }
    }
    drafts
}

fn draft<'a>(part: Part, rule: PlacedValue<'a>, defaults: Option<&'a Node>) -> Option<Draft<'a>> {
    // A missing or invalid id is reported by the check.
    let id: Id = scalar(&entry(rule.node, "id")?.value)?.text.parse().ok()?;
    let mut draft = Draft {
        id: id.0,
        part,
        begin: rule.place(),
        keys: BTreeMap::new(),
        layers: BTreeMap::new(),
    };
    for keys in defaults.into_iter().chain([rule.node]) {
        for entry in entries(keys).iter().filter(|entry| !entry.value.is_null()) {
            let node = &entry.value;
            if LAYERED.contains(&entry.key.as_str()) {
                draft.add(&entry.key, PlacedValue { node, ..rule });
            } else {
                draft.replace(&entry.key, PlacedValue { node, ..rule });
            }
        }
    }
    Some(draft)
}

fn change<'a>(placed: PlacedValue<'a>, drafts: &mut [Draft<'a>], complete: bool, report: &mut Report<'_>) {
    let node = placed.node;
    let Some(id) = entry(node, "id") else { return };
    let Some(text) = scalar(&id.value).map(|scalar| scalar.text.as_str()) else {
        return;
    };
    let pattern = Pattern(text.to_owned());
    if entry(node, "replace").is_none() && entry(node, "add").is_none() {
        report.warning(placed.place(), "overrides: no change; set `replace` or `add`");
    }
    let mut matched = false;
    for draft in drafts.iter_mut().filter(|draft| pattern.fits(&draft.id)) {
        matched = true;
        for entry in entries_of(node, "replace") {
            // The check of the file has already refused an `id`.
            if entry.key != "id" && !entry.value.is_null() {
                let node = &entry.value;
                draft.replace(&entry.key, PlacedValue { node, ..placed });
            }
        }
        for entry in entries_of(node, "add") {
            if LAYERED.contains(&entry.key.as_str()) && !entry.value.is_null() {
                let node = &entry.value;
                draft.add(&entry.key, PlacedValue { node, ..placed });
            }
        }
    }
    if !matched && complete {
        let hint = did_you_mean(text, drafts.iter().map(|draft| draft.id.as_str()));
        let message = format!(
            "overrides: {} matches no rule of this file or of previous files{}",
            quoted(text),
            hint.map(|hint| format!("; {hint}")).unwrap_or_default()
        );
        report.warning(placed.at(id.value.at), message);
    }
}
