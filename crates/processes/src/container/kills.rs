//! How often the kernel killed for memory in the groups that a process is in: read while it lives, compared after its
//! death.
//!
//! A container's group goes with it. With version 2, kills count in all groups above too, of which the pod's survives a
//! restart; with version 1 in the group alone, so that a kill is known where the group outlives the process. Groups are
//! kept by their paths below gcwatch's own mounts: what can only be seen through the process's root is gone with it.

use std::os::fd::{AsFd as _, OwnedFd};

use rustix::fs::CWD;

use super::group::{file, folder, group_folder};
use super::level;
use super::mount::GroupFolder;

/// Limit of the groups of one process that are looked at.
const MAX_GROUPS: usize = 4;

/// The groups of a process with their kill counts, innermost first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KillCounts(Vec<Group>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Group {
    place: GroupFolder,
    depth: usize,
    kills: u64,
}

impl KillCounts {
    /// Those of a group and of the ones above it, as gcwatch's own mounts have them; blocking.
    pub(super) fn read(place: &GroupFolder) -> Self {
        let Ok(root) = folder(CWD, "/") else {
            return Self::default();
        };
        // With version 1 those above do not count.
        let levels = if place.unified { MAX_GROUPS } else { 1 };
        let depths = (1..=place.below.len()).rev().take(levels);
        let group = |depth| {
            Some(Group {
                kills: kills(&root, place, depth)?,
                place: place.clone(),
                depth,
            })
        };
        Self(depths.filter_map(group).collect())
    }

    /// Whether there was a kill since, by the innermost group that is still there; `None`: there is none. Blocking.
    pub fn have_grown(&self) -> Option<bool> {
        let root = folder(CWD, "/").ok()?;
        let mut groups = self.0.iter();
        groups.find_map(|group| Some(kills(&root, &group.place, group.depth)? > group.kills))
    }
}

fn kills(root: &OwnedFd, place: &GroupFolder, depth: usize) -> Option<u64> {
    let group = group_folder(root.as_fd(), place, depth)?;
    level::memory(place.unified, &|name| file(&group, name)).oom_kills
}
