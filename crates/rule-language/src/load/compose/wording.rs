//! The templates of a rule: summary, labels and annotations.

use std::collections::BTreeMap;
use std::sync::Arc;

use gc_rules::field::Root;
use gc_rules::rule::Template;
use strict_yaml::quote::quoted;
use strict_yaml::yaml::Position;

use super::RuleBuilder;
use crate::compile::{Wanted, compile};
use crate::load::draft::Draft;
use crate::load::partial_rule::PartialRule;
use crate::load::report::Placed;
use crate::load::text::{entries, scalar, template_trap};
use crate::load::{Level, lint};
use crate::template;

/// Maximum number of labels of a rule, and of annotations.
const MOST_TEXTS: usize = 20;
/// Labels that every alert has, and annotations that are keys of a rule.
const TAKEN_LABELS: [&str; 7] = ["alertname", "group", "instance", "pid", "process", "rule", "severity"];
const TAKEN_ANNOTATIONS: [&str; 5] = ["description", "remedy", "source", "summary", "title"];

/// Names and templates of labels or annotations.
type Texts = Vec<(Arc<str>, Template)>;

impl RuleBuilder<'_, '_> {
    pub(super) fn template(
        &mut self,
        placed: Placed<'_>,
        partial: &mut PartialRule<'_>,
        key: &str,
        roots: &[Root],
    ) -> Option<template::Filling> {
        let scalar = scalar(placed.node)?;
        let what = format!("{}: {key}", partial.id);
        if let Some(trap) = template_trap(self.report.lines(placed.file), placed, scalar) {
            self.report
                .error(placed.file, placed.node.at, format!("{what}: {trap}"));
            return None;
        }
        let words = self.words.get_mut(placed.file)?;
        let names = words.names(partial, roots);
        // A block ends with a line break, which is not a part of the string.
        let text = scalar.text.trim_end();
        let mut complete = true;
        let is_value = |text: &str| compile(text, &names, Wanted::Any).is_ok();
        let mut compile = |text: &str| {
            compile(text, &names, Wanted::Any).map_err(|mut mistakes| {
                mistakes.retain(|mistake| !words.is_reported(text, mistake));
                complete = false;
                mistakes
            })
        };
        let filling = template::parse(text, &mut compile, &is_value);
        let used = filling.values.iter().flat_map(|value| value.used.iter().cloned());
        let used: Vec<String> = used.collect();
        partial.named.extend(used.iter().cloned());
        words.used.extend(used);
        for value in &filling.values {
            partial.use_windows(value);
        }
        self.report
            .mistakes(placed, text, &what, &filling.mistakes, Level::Error);
        self.report
            .mistakes(placed, text, &what, &filling.warnings, Level::Warning);
        for value in &filling.values {
            self.report.mistakes_anywhere(placed, &what, &value.warnings);
        }
        (filling.mistakes.is_empty() && complete).then_some(filling)
    }

    /// Labels or annotations: the last one of each name is used.
    pub(super) fn texts(
        &mut self,
        draft: &Draft<'_>,
        partial: &mut PartialRule<'_>,
        key: &str,
        roots: &[Root],
    ) -> Texts {
        let mut last: BTreeMap<&str, (Position, Placed<'_>)> = BTreeMap::new();
        for layer in draft.layers(key) {
            for entry in entries(layer.node) {
                let placed = Placed {
                    node: &entry.value,
                    ..*layer
                };
                last.insert(&entry.key, (entry.at, placed));
            }
        }
        if last.len() > MOST_TEXTS {
            let message = format!("{}: {key}: there are {}; at most {MOST_TEXTS}", draft.id, last.len());
            self.report.error(draft.file, draft.at, message);
            return Texts::new();
        }
        let mut texts = Texts::new();
        for (name, (at, placed)) in last {
            if let Err(message) = text_name(name, key) {
                let message = format!("{}: {key}: {message}", draft.id);
                self.report.error(placed.file, at, message);
                continue;
            }
            // An empty value removes that of the defaults or the rule.
            let what = format!("{key}.{name}");
            if let Some(filling) = self.template(placed, partial, &what, roots) {
                if key == "labels" {
                    lint::label_name(placed.file, at, &draft.id, name, self.report);
                    lint::label(placed, &format!("{}: {what}", draft.id), &filling.values, self.report);
                }
                texts.push((name.into(), filling.template));
            }
        }
        texts
    }
}

/// Whether it is a valid name of a label or an annotation.
fn text_name(name: &str, key: &str) -> Result<(), String> {
    let first = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let rest = name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"_.".contains(&byte));
    if !first || !rest || name.len() > 60 {
        return Err(format!(
            "{} is not a valid name; write letters, digits, `_` and `.`, at most 60",
            quoted(name)
        ));
    }
    let taken: &[&str] = if key == "labels" {
        &TAKEN_LABELS
    } else {
        &TAKEN_ANNOTATIONS
    };
    if taken.contains(&name) {
        return Err(match key {
            "labels" => format!("every alert has the label {}; use another name", quoted(name)),
            _ => format!("{} is a key of rules; use another name", quoted(name)),
        });
    }
    Ok(())
}
