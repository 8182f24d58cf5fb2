//! Accessors for YAML nodes, and detection of unquoted strings whose value in YAML differs from their text in the file.

use strict_yaml::yaml::{Entry, Kind, Node, Scalar};

use super::place::Lines;
use super::report::PlacedValue;

/// Returns the scalar of a node, or `None` if the node is null, a mapping or a list.
pub(crate) fn scalar(node: &Node) -> Option<&Scalar> {
    match &node.kind {
        Kind::Scalar(scalar) if !scalar.is_null() => Some(scalar),
        _ => None,
    }
}

/// Returns the entries of a mapping, or an empty slice if the node is not a mapping.
pub(super) fn entries(node: &Node) -> &[Entry] {
    match &node.kind {
        Kind::Mapping(entries) => entries,
        _ => &[],
    }
}

/// Returns the elements of a list, or an empty slice if the node is not a list.
pub(crate) fn items(node: &Node) -> &[Node] {
    match &node.kind {
        Kind::Sequence(items) => items,
        _ => &[],
    }
}

/// Returns the entry with a key, or `None` if the key is missing or its value is null.
pub(crate) fn entry<'n>(node: &'n Node, key: &str) -> Option<&'n Entry> {
    entries(node)
        .iter()
        .find(|entry| entry.key == key && !entry.value.is_null())
}

/// Returns the entries of the mapping under a key.
pub(super) fn entries_of<'n>(node: &'n Node, key: &str) -> &'n [Entry] {
    entry(node, key).map(|entry| entries(&entry.value)).unwrap_or_default()
}

/// Returns the elements of the list under a key.
pub(crate) fn items_of<'n>(node: &'n Node, key: &str) -> &'n [Node] {
    entry(node, key).map(|entry| items(&entry.value)).unwrap_or_default()
}

/// Returns the fault of a condition that is empty, or that is unquoted and whose value in YAML differs from its text in
/// the file: YAML drops the text after ` #` as a comment, and joins lines. Returns `None` if the condition has neither
/// fault, or if the file is not available.
pub(super) fn condition_trap(
    lines: Option<&Lines<'_>>,
    placed: PlacedValue<'_>,
    scalar: &Scalar,
) -> Option<&'static str> {
    const SEVERAL: &str = "an unquoted condition must be on one line; write it as a block, below `|`";
    const COMMENT: &str =
        "YAML treats everything after `#` as a comment; write the condition as a block, below `|`, or in quotes";
    if scalar.text.trim().is_empty() {
        return Some("the condition is empty");
    }
    if !scalar.plain {
        return None;
    }
    match lines?.after(placed.node.at, &scalar.text) {
        None => Some(SEVERAL),
        Some(after) if after.trim_start().starts_with('#') => Some(COMMENT),
        Some(_) => None,
    }
}

/// Like [`condition_trap`], but for a template. A template can have several lines. A comment after the template is a
/// fault only if the comment contains `{{`, because such a comment was probably meant as a part of the template.
pub(super) fn template_trap(
    lines: Option<&Lines<'_>>,
    placed: PlacedValue<'_>,
    scalar: &Scalar,
) -> Option<&'static str> {
    let cut = scalar.plain
        && lines?
            .after(placed.node.at, &scalar.text)
            .is_some_and(|after| after.trim_start().starts_with('#') && after.contains("{{"));
    cut.then_some("YAML treats everything after `#` as a comment; put the string in quotes")
}
