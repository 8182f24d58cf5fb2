//! Parser for `/proc/PID/mountinfo`: locations of the files of a control group.

use super::membership::Membership;

/// Location of the files of one group and of the groups above it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GroupFolder {
    /// Mount point of the hierarchy, as seen by the process whose mounts are read.
    pub(crate) mount: String,
    /// Folders of the group below the mount point, outermost first.
    pub(crate) below: Vec<String>,
    /// Whether the group is of version 2.
    pub(crate) unified: bool,
}

/// Finds the files of a group in the mounts of one process. Returns `None` if the hierarchy is not mounted there, or if
/// no mounted part of the hierarchy contains the group.
///
/// The path of the group and the roots of the mounts are both seen from the reader's control group namespace, so they
/// can be compared.
pub(crate) fn place(mountinfo: &str, membership: &Membership<'_>, controller: &str) -> Option<GroupFolder> {
    let mut mounts = mountinfo.lines().filter_map(|line| {
        let (fields, rest) = line.split_once(" - ")?;
        let mut fields = fields.split(' ').skip(3);
        let (root, mount) = (fields.next()?, fields.next()?);
        let mut rest = rest.split(' ');
        let (kind, options) = (rest.next()?, rest.nth(1)?);
        let fits = match kind {
            "cgroup2" => membership.is_unified(),
            "cgroup" => !membership.is_unified() && options.split(',').any(|option| option == controller),
            _ => false,
        };
        fits.then_some((root, mount))
    });
    mounts.find_map(|(root, mount)| {
        let (root, path) = (unescaped(root), membership.path);
        let rest = if root == "/" { path } else { path.strip_prefix(&*root)? };
        // `/docker/ab` is not below `/docker/a`.
        let whole = rest.is_empty() || rest.starts_with('/');
        let below: Vec<String> = rest
            .split('/')
            .filter(|part| !part.is_empty())
            .map(str::to_owned)
            .collect();
        let inside = !below.iter().any(|part| part == ".." || part == ".");
        (whole && inside).then(|| GroupFolder {
            mount: unescaped(mount),
            below,
            unified: membership.is_unified(),
        })
    })
}

/// Decodes spaces, tabs, line feeds and backslashes, which the kernel writes as a backslash and three octal digits.
fn unescaped(text: &str) -> String {
    let mut plain = text.to_owned();
    for (code, sign) in [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")] {
        if plain.contains(code) {
            plain = plain.replace(code, sign);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::membership::group_of;

    const HOST: &str = "23 27 0:22 / /sys rw,relatime - sysfs sysfs rw\n\
        35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n\
        32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n\
        41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw,nsdelegate\n";

    fn found(mountinfo: &str, cgroup: &str, controller: &str) -> Option<String> {
        let place = place(mountinfo, &group_of(cgroup, controller)?, controller)?;
        Some(format!("{} {} {}", place.mount, place.below.join("/"), place.unified))
    }

    /// Scenario: a host has both versions; a container has its own part of version 1; another container has a control
    /// group namespace of version 2.
    /// Guarantee: the group is found below the mount of its hierarchy, and in a container below the container's own
    /// root.
    #[test]
    fn groups_are_found_below_mounts() {
        let cgroup = "4:memory:/a/b\n3:cpu,cpuacct:/\n0::/u\n";
        let is = |found: Option<String>, place: &str| assert_eq!(found.as_deref(), Some(place));
        is(found(HOST, cgroup, "memory"), "/sys/fs/cgroup/memory a/b false");
        is(found(HOST, cgroup, "cpu"), "/sys/fs/cgroup/cpu,cpuacct  false");
        is(found(HOST, cgroup, "io"), "/sys/fs/cgroup/unified u true");

        let own = "1 2 0:3 /docker/ab /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
        is(
            found(own, "4:memory:/docker/ab/in", "memory"),
            "/sys/fs/cgroup/memory in false",
        );
        assert_eq!(found(own, "4:memory:/docker/abc", "memory"), None);
        assert_eq!(found(own, "4:memory:/", "memory"), None);

        let namespace = "1 2 0:3 /../podx/cid /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw\n";
        is(
            found(namespace, "0::/../podx/cid/init", "memory"),
            "/sys/fs/cgroup init true",
        );
        let odd = "1 2 0:3 / /a\\040b\\134c rw - cgroup2 none rw\n";
        is(found(odd, "0::/x", "memory"), "/a b\\c x true");
    }

    /// Scenario: a group is not below the reader's group, in the reader's own mounts; some lines are truncated.
    /// Guarantee: no location outside the mount is returned, and truncated lines are ignored.
    #[test]
    fn group_outside_mount_is_not_found() {
        let reader = "1 2 0:3 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
        assert_eq!(found(reader, "0::/../podx/cid", "memory"), None);
        assert_eq!(found("1 2 0:3 / /sys", "0::/x", "memory"), None);
        assert_eq!(found("", "0::/x", "memory"), None);
    }
}
