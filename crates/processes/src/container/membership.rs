//! Parser for `/proc/PID/cgroup`: the control groups of a process.

/// A line of the file: the group in one hierarchy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Membership<'a> {
    /// Controllers of the hierarchy: `memory` or `cpu,cpuacct` or `name=systemd`; empty for version 2.
    pub(crate) controllers: &'a str,
    /// Path of the group, as seen from the reader's control group namespace. The path starts with `/`, or with `/..` if
    /// the group is not below the reader's group.
    pub(crate) path: &'a str,
}

impl Membership<'_> {
    /// Returns whether the hierarchy belongs to version 2.
    pub(crate) fn is_unified(&self) -> bool {
        self.controllers.is_empty()
    }

    /// Returns whether the hierarchy belongs to version 1 and has this controller.
    pub(crate) fn has(&self, controller: &str) -> bool {
        self.controllers.split(',').any(|known| known == controller)
    }
}

/// Parses the lines of the file, `ID:CONTROLLERS:PATH` each. A path can contain colons. Other lines are skipped.
pub(crate) fn memberships(text: &str) -> impl Iterator<Item = Membership<'_>> {
    text.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (hierarchy, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        // The kernel marks a group that was removed while it had a process.
        let path = path.strip_suffix(" (deleted)").unwrap_or(path);
        let known = hierarchy.bytes().all(|byte| byte.is_ascii_digit()) && path.starts_with('/');
        known.then_some(Membership { controllers, path })
    })
}

/// Returns the group of a controller: in version 1 if a hierarchy of version 1 has the controller, otherwise in version
/// 2. Returns `None` if neither exists.
pub(crate) fn group_of<'a>(text: &'a str, controller: &str) -> Option<Membership<'a>> {
    memberships(text)
        .find(|membership| membership.has(controller))
        .or_else(|| memberships(text).find(Membership::is_unified))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: the file of a host has both versions, a path with colons, a removed group, and invalid lines.
    /// Guarantee: each hierarchy has its controllers and path. A controller is found in its hierarchy, or in version 2
    /// if no hierarchy has it.
    #[test]
    fn lines_are_distinguished() {
        let text =
            "12:memory:/a\n4:cpu,cpuacct:/b:c:d\n1:name=systemd:/s (deleted)\n0::/u\nnonsense\n:x\n7:pids:relative\n";
        let all: Vec<_> = memberships(text).map(|one| (one.controllers, one.path)).collect();
        assert_eq!(
            all,
            [
                ("memory", "/a"),
                ("cpu,cpuacct", "/b:c:d"),
                ("name=systemd", "/s"),
                ("", "/u")
            ]
        );
        assert_eq!(group_of(text, "cpu").map(|one| one.path), Some("/b:c:d"));
        assert_eq!(group_of(text, "cpuacct").map(|one| one.path), Some("/b:c:d"));
        assert_eq!(group_of(text, "io").map(|one| one.path), Some("/u"));
        assert_eq!(group_of("12:memory:/a", "cpu"), None);
    }
}
