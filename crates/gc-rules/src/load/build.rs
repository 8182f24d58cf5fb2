//! All files together: from trees to the rule set.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::compose::{Composer, Groups, role};
use super::draft::drafts;
use super::file::{Words, check, is_readable, tree, words};
use super::report::{Placed, Report};
use super::text::{entries, entry, items, scalar};
use super::window::Windows;
use super::{Loaded, MOST_FILES, Problem, SourceFile, lint, memory};
use crate::document::Name;
use crate::plan::Plan;
use crate::rule::{Group, RuleSet};
use crate::turns::Turns;
use strict_yaml::check::nearest;
use strict_yaml::quote::quoted;
use strict_yaml::yaml::Position;

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
    let mut composer = Composer {
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
        .filter_map(|draft| composer.rule(draft).map(Arc::new))
        .collect();
    let (used_groups, windows, expiries) = (composer.used_groups, composer.windows, composer.expiries);
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
    let rules = RuleSet {
        turns: Turns::of(&rules, groups.len()),
        rules,
        plan: Plan::new(&windows.windows),
        windows: windows.windows,
        groups,
    };
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

/// Reads the groups of all files.
fn groups(roots: &[Placed<'_>], report: &mut Report<'_>) -> Groups {
    let mut groups = Groups {
        all: Vec::new(),
        places: BTreeMap::new(),
    };
    for root in roots {
        let own = entry(root.node, "groups").map(|groups| entries(&groups.value));
        for entry in own.unwrap_or_default() {
            if let Err(message) = entry.key.parse::<Name>() {
                report.error(root.file, entry.at, format!("groups: {message}"));
                continue;
            }
            let Some(title) = scalar(&entry.value).map(|scalar| scalar.text.trim()) else {
                if entry.value.is_null() {
                    let message = format!("groups.{}: the description of the group is missing", entry.key);
                    report.error(root.file, entry.at, message);
                }
                continue;
            };
            if let Some((group, file, at)) = groups.places.get(&entry.key).and_then(|place| groups.all.get(*place)) {
                if *group.title != *title {
                    let message = format!(
                        "groups.{}: the group has another description in {}:{at}",
                        entry.key,
                        report.name(*file)
                    );
                    report.error(root.file, entry.at, message);
                }
                continue;
            }
            groups.places.insert(entry.key.clone(), groups.all.len());
            let group = Group {
                name: entry.key.as_str().into(),
                title: title.into(),
                follows: Vec::new(),
            };
            groups.all.push((group, root.file, entry.at));
        }
    }
    for root in roots {
        follows(*root, &mut groups, report);
    }
    groups
}

/// Reads which groups of a file follow which others.
fn follows(root: Placed<'_>, groups: &mut Groups, report: &mut Report<'_>) {
    let own = entry(root.node, "follows").map(|follows| entries(&follows.value));
    for entry in own.unwrap_or_default() {
        let place = group_place(&entry.key, (root.file, entry.at), groups, report);
        for item in items(&entry.value) {
            let Some(cause) = scalar(item) else { continue };
            let cause = group_place(&cause.text, (root.file, item.at), groups, report);
            let (Some(place), Some(cause)) = (place, cause) else {
                continue;
            };
            if place == cause {
                let message = format!("follows.{}: a group does not follow itself", entry.key);
                report.error(root.file, item.at, message);
            } else if let Some((group, ..)) = groups.all.get_mut(place)
                && !group.follows.contains(&cause)
            {
                group.follows.push(cause);
            }
        }
    }
}

/// The place of a group that `follows` names.
fn group_place(name: &str, (file, at): (usize, Position), groups: &Groups, report: &mut Report<'_>) -> Option<usize> {
    let place = groups.places.get(name).copied();
    if place.is_none() {
        let near = nearest(name, groups.places.keys().map(String::as_str));
        let hint = near.map_or_else(
            || "add it to `groups`".to_owned(),
            |near| format!("did you mean `{near}`?"),
        );
        report.error(file, at, format!("follows: there is no group {}; {hint}", quoted(name)));
    }
    place
}
