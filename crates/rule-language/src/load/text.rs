//! Access to values, and detection of strings that YAML reads differently from how they look.

use strict_yaml::yaml::{Entry, Kind, Node, Scalar};

use super::place::Lines;
use super::report::PlacedValue;

/// Returns the scalar, or `None` for null and for other values.
pub(crate) fn scalar(node: &Node) -> Option<&Scalar> {
    match &node.kind {
        Kind::Scalar(scalar) if !scalar.is_null() => Some(scalar),
        _ => None,
    }
}

/// Returns the entries of a mapping; empty for other values.
pub(super) fn entries(node: &Node) -> &[Entry] {
    match &node.kind {
        Kind::Mapping(entries) => entries,
        _ => &[],
    }
}

/// Returns the elements of a list; empty for other values.
pub(crate) fn items(node: &Node) -> &[Node] {
    match &node.kind {
        Kind::Sequence(items) => items,
        _ => &[],
    }
}

/// Returns the entry of a key, or `None` if it is missing or null.
pub(crate) fn entry<'n>(node: &'n Node, key: &str) -> Option<&'n Entry> {
    entries(node)
        .iter()
        .find(|entry| entry.key == key && !entry.value.is_null())
}

/// Returns the entries below a key.
pub(super) fn entries_of<'n>(node: &'n Node, key: &str) -> &'n [Entry] {
    entry(node, key).map(|entry| entries(&entry.value)).unwrap_or_default()
}

/// Returns the elements of the list under a key.
pub(crate) fn items_of<'n>(node: &'n Node, key: &str) -> &'n [Node] {
    entry(node, key).map(|entry| items(&entry.value)).unwrap_or_default()
}

/// Returns the reason why an unquoted condition differs from how it looks: YAML reads ` #` as a comment, and joins
/// lines.
pub(super) fn condition_trap(
    lines: Option<&Lines<'_>>,
    placed: PlacedValue<'_>,
    scalar: &Scalar,
) -> Option<&'static str> {
    const SEVERAL: &str = "an unquoted condition must be on one line; write it as a block, below `|`";
    const COMMENT: &str =
        "YAML reads the rest from `#` as a comment; write the condition as a block, below `|`, or in quotes";
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

/// Like [`condition_trap`], but for a template: a comment that contains a value is probably meant as part of it.
pub(super) fn template_trap(
    lines: Option<&Lines<'_>>,
    placed: PlacedValue<'_>,
    scalar: &Scalar,
) -> Option<&'static str> {
    let cut = scalar.plain
        && lines?
            .after(placed.node.at, &scalar.text)
            .is_some_and(|after| after.trim_start().starts_with('#') && after.contains("{{"));
    cut.then_some("YAML reads the rest from `#` as a comment; put the string in quotes")
}
