//! All files together: from trees to the rule set.

use std::collections::BTreeSet;
use std::sync::Arc;

use gc_rules::rule_set::RuleSet;
use strict_yaml::yaml::Position;

use super::compose::{RuleBuilder, role};
use super::draft::drafts;
use super::file::{Words, check, is_readable, tree, words};
use super::groups::groups;
use super::report::{Placed, Report};
use super::window::Windows;
use super::{Loaded, MOST_FILES, Problem, SourceFile, lint, memory};

/// See [`super::load`].
pub(super) fn load(files: &[SourceFile]) -> Result<Loaded, Vec<Problem>> {
    let mut report = Report::new(files);
    if files.len() > MOST_FILES {
        let message = format!("{} rule files; at most {MOST_FILES} are read", files.len());
        report.error(0, Position::START, message);
        return Err(report.finish());
    }
    let mut trees = Vec::new();
    for (file, source) in files.iter().enumerate() {
        trees.push(tree(file, &source.text, &mut report));
    }
    let mut all_words: Vec<Words> = Vec::new();
    let mut roots = Vec::new();
    for (file, tree) in trees.iter().enumerate() {
        all_words.push(Words::default());
        let Some(node) = tree else { continue };
        let root = Placed { file, node };
        if !is_readable(root, &mut report) {
            continue;
        }
        check(root, &mut report);
        if let Some(own) = all_words.last_mut() {
            *own = words(root, &mut report);
        }
        roots.push(root);
    }
    let complete = roots.len() == files.len();
    let drafts = drafts(&roots, complete, &mut report);
    let groups = groups(&roots, &mut report);
    let mut builder = RuleBuilder {
        words: &mut all_words,
        groups: &groups,
        used_groups: BTreeSet::new(),
        windows: Windows::default(),
        report: &mut report,
        complete,
        expiries: Vec::new(),
    };
    let rules: Vec<_> = drafts
        .iter()
        .filter_map(|draft| builder.rule(draft).map(Arc::new))
        .collect();
    let (used_groups, windows, expiries) = (builder.used_groups, builder.windows, builder.expiries);
    if report.errors() == 0 {
        role::check(&drafts, &rules, complete, &mut report);
    }
    if report.errors() == 0 {
        lint::unknown_rules(&drafts, &rules, &mut report);
    }
    // An invalid expression may be the one that uses them.
    if report.errors() == 0 {
        lint::unused_words(&all_words, &mut report);
        lint::unused_groups(&groups, &used_groups, &mut report);
    }
    if report.errors() > 0 {
        return Err(report.finish());
    }
    let groups: Vec<_> = groups.all.into_iter().map(|(group, ..)| group).collect();
    let rules = RuleSet::new(rules, windows.windows, groups);
    memory::check(&rules, &windows.origins, &mut report);
    if report.errors() > 0 {
        return Err(report.finish());
    }
    Ok(Loaded {
        rules,
        warnings: report.finish(),
        expiries,
    })
}
