//! Kill counts of the groups of a process: read while the process is running, and compared after its death.
//!
//! The group of a container is deleted with the container. With version 2, kills also count in all groups above, and
//! the pod's group survives a restart. With version 1, kills count only in the group itself, so a kill is known only if
//! the group outlives the process. Groups are stored by their paths below gcwatch's own mounts, because groups that are
//! visible only through the root of the process disappear with the process.

use std::os::fd::{AsFd as _, OwnedFd};

use rustix::fs::CWD;

use super::group::{file, folder, group_folder};
use super::level;
use super::mount::GroupFolder;

/// Maximum number of groups per process that are read.
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
    /// Reads the counts of a group and of the groups above it, through gcwatch's own mounts. Blocks the calling thread.
    pub(super) fn read(place: &GroupFolder) -> Self {
        let Ok(root) = folder(CWD, "/") else {
            return Self::default();
        };
        // With version 1, kills do not count in the groups above.
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

    /// Returns whether a kill has occurred since the counts were read, according to the innermost group that still
    /// exists. Returns `None` if no group exists. Blocks the calling thread.
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
