//! `/proc/PID/mountinfo`: where the files of a control group are.

use super::membership::Membership;

/// Where the files of one group are, and those of the groups above it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GroupFolder {
    /// The folder where the hierarchy is mounted, as the process sees it that the mounts are of.
    pub(crate) mount: String,
    /// The group's folders below it, outermost first.
    pub(crate) below: Vec<String>,
    /// Whether it is of version 2.
    pub(crate) unified: bool,
}

/// Finds a group's files by the mounts of one process. `None`: the hierarchy is not mounted there, or only in a part
/// that the group is not in.
///
/// The group's path and the roots of the mounts are both seen from the reader's control group namespace, so that they
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

/// The kernel writes blanks, line ends and backslashes as three octal digits.
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

    /// Scenario: a host with both versions; a container with its own part of version 1; one with a namespace for
    /// version 2.
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

    /// Scenario: a group beside the reader's, by the reader's own mounts; lines that are cut.
    /// Guarantee: nothing outside of the mount is looked for, and nothing is made of pieces.
    #[test]
    fn nothing_outside_of_a_mount_is_a_place() {
        let reader = "1 2 0:3 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
        assert_eq!(found(reader, "0::/../podx/cid", "memory"), None);
        assert_eq!(found("1 2 0:3 / /sys", "0::/x", "memory"), None);
        assert_eq!(found("", "0::/x", "memory"), None);
    }
}
