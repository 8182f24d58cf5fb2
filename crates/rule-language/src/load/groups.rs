//! The groups of all files, and which follow which.

use std::collections::BTreeMap;

use gc_rules::rule::Group;
use strict_yaml::check::nearest;
use strict_yaml::quote::quoted;
use strict_yaml::yaml::Position;

use super::report::{Placed, Report};
use super::text::{entries, entry, items, scalar};
use crate::document::Name;

/// All groups and their positions.
#[derive(Debug)]
pub(super) struct Groups {
    pub(super) all: Vec<(Group, usize, Position)>,
    pub(super) places: BTreeMap<String, usize>,
}

/// Reads the groups of all files.
pub(super) fn groups(roots: &[Placed<'_>], report: &mut Report<'_>) -> Groups {
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
