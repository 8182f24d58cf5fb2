//! Texts of values: what YAML may have done to them.

use super::place::Lines;
use super::report::Placed;
use strict_yaml::yaml::{Entry, Kind, Node, Scalar};

/// The value as a scalar; `None` for what is none, and for nothing.
pub(super) fn scalar(node: &Node) -> Option<&Scalar> {
    match &node.kind {
        Kind::Scalar(scalar) if !scalar.is_null() => Some(scalar),
        _ => None,
    }
}

/// Keys and values; none for what has none.
pub(super) fn entries(node: &Node) -> &[Entry] {
    match &node.kind {
        Kind::Mapping(entries) => entries,
        _ => &[],
    }
}

/// Elements of a list; none for what is no list.
pub(super) fn items(node: &Node) -> &[Node] {
    match &node.kind {
        Kind::Sequence(items) => items,
        _ => &[],
    }
}

/// The value of a key; `None` where it is not there or empty.
pub(super) fn entry<'n>(node: &'n Node, key: &str) -> Option<&'n Entry> {
    entries(node)
        .iter()
        .find(|entry| entry.key == key && !entry.value.is_null())
}

/// What makes the text of a condition not what its writer sees: in an unquoted text YAML takes ` #` for a comment, and joins lines.
pub(super) fn condition_trap(lines: Option<&Lines<'_>>, placed: Placed<'_>, scalar: &Scalar) -> Option<&'static str> {
    const SEVERAL: &str = "an unquoted condition has to stand on one line; write it as a block, below `|`";
    const COMMENT: &str = "what follows `#` is a comment to YAML and no part of the condition; write the condition as a block, below `|`, or in quotes";
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

/// The same of a template: a comment with a value in it was meant to be text.
pub(super) fn template_trap(lines: Option<&Lines<'_>>, placed: Placed<'_>, scalar: &Scalar) -> Option<&'static str> {
    let cut = scalar.plain
        && lines?
            .after(placed.node.at, &scalar.text)
            .is_some_and(|after| after.trim_start().starts_with('#') && after.contains("{{"));
    cut.then_some("what follows `#` is a comment to YAML and no part of the text; put the text in quotes")
}
