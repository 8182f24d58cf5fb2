//! The groups of all files, and the groups that they follow.

use std::collections::BTreeMap;

use base::quote::quoted;
use rule_engine::rule::Group;
use strict_yaml::check::did_you_mean;

use super::report::{Place, PlacedValue, Report};
use super::text::{entries_of, items, scalar};
use crate::document::Name;

/// All groups and their positions.
#[derive(Debug, Default)]
pub(super) struct Groups {
    pub(super) all: Vec<(Group, Place)>,
    pub(super) places: BTreeMap<String, usize>,
}

impl Groups {
    /// Returns the message about an unknown group.
    pub(super) fn unknown(&self, name: &str) -> String {
        let hint = did_you_mean(name, self.places.keys().map(String::as_str));
        let hint = hint.unwrap_or_else(|| "add it to `groups`".to_owned());
        format!("there is no group {}; {hint}", quoted(name))
    }

    /// Returns the place of a group that is named in `follows`, or `None` if there is no such group, which is reported.
    fn followed(&self, name: &str, place: Place, report: &mut Report<'_>) -> Option<usize> {
        let found = self.places.get(name).copied();
        if found.is_none() {
            report.error(place, format!("follows: {}", self.unknown(name)));
        }
        found
    }
}

/// Reads the groups of all files.
pub(super) fn groups(roots: &[PlacedValue<'_>], report: &mut Report<'_>) -> Groups {
    let mut groups = Groups::default();
    for root in roots {
        for entry in entries_of(root.node, "groups") {
            let place = root.at(entry.at);
            if let Err(message) = entry.key.parse::<Name>() {
                report.error(place, format!("groups: {message}"));
                continue;
            }
            let Some(title) = scalar(&entry.value).map(|scalar| scalar.text.trim()) else {
                if entry.value.is_null() {
                    let message = format!("groups.{}: the description of the group is missing", entry.key);
                    report.error(place, message);
                }
                continue;
            };
            if let Some((group, first)) = groups.places.get(&entry.key).and_then(|place| groups.all.get(*place)) {
                if *group.title != *title {
                    let message = format!(
                        "groups.{}: the group has another description in {}:{}",
                        entry.key,
                        report.name(first.file),
                        first.at
                    );
                    report.error(place, message);
                }
                continue;
            }
            groups.places.insert(entry.key.clone(), groups.all.len());
            let group = Group {
                name: entry.key.as_str().into(),
                title: title.into(),
                follows: Vec::new(),
            };
            groups.all.push((group, place));
        }
    }
    for root in roots {
        follows(*root, &mut groups, report);
    }
    groups
}

/// Reads the `follows` section of a file.
fn follows(root: PlacedValue<'_>, groups: &mut Groups, report: &mut Report<'_>) {
    for entry in entries_of(root.node, "follows") {
        let follower = groups.followed(&entry.key, root.at(entry.at), report);
        for item in items(&entry.value) {
            let Some(cause) = scalar(item) else { continue };
            let cause = groups.followed(&cause.text, root.at(item.at), report);
            let (Some(follower), Some(cause)) = (follower, cause) else {
                continue;
            };
            if follower == cause {
                let message = format!("follows.{}: a group cannot follow itself", entry.key);
                report.error(root.at(item.at), message);
            } else if let Some((group, _)) = groups.all.get_mut(follower)
                && !group.follows.contains(&cause)
            {
                group.follows.push(cause);
            }
        }
    }
}
