//! `/proc/PID/cgroup`: the control groups that a process is in.

/// One line: the group of one hierarchy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Membership<'a> {
    /// The controllers of the hierarchy, `memory` or `cpu,cpuacct` or `name=systemd`; empty for version 2.
    pub(crate) controllers: &'a str,
    /// The group's path, seen from the reader's own control group namespace: it begins with `/`, and with `/..` where
    /// the group lies beside the reader's.
    pub(crate) path: &'a str,
}

impl Membership<'_> {
    /// Whether the hierarchy is that of version 2.
    pub(crate) fn is_unified(&self) -> bool {
        self.controllers.is_empty()
    }

    /// Whether the hierarchy is of version 1 and has this controller.
    pub(crate) fn has(&self, controller: &str) -> bool {
        self.controllers.split(',').any(|known| known == controller)
    }
}

/// The lines of the file, `ID:CONTROLLERS:PATH` each. A path may hold colons. Other lines are skipped.
pub(crate) fn memberships(text: &str) -> impl Iterator<Item = Membership<'_>> {
    text.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (hierarchy, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        // So the kernel marks a group that was removed while a process was in it.
        let path = path.strip_suffix(" (deleted)").unwrap_or(path);
        let known = hierarchy.bytes().all(|byte| byte.is_ascii_digit()) && path.starts_with('/');
        known.then_some(Membership { controllers, path })
    })
}

/// The group that has a controller: of version 1 where that hierarchy has it, else that of version 2.
pub(crate) fn group_of<'a>(text: &'a str, controller: &str) -> Option<Membership<'a>> {
    memberships(text)
        .find(|membership| membership.has(controller))
        .or_else(|| memberships(text).find(Membership::is_unified))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: the file of a host with both versions, with a path with colons, a removed group, and what is no line
    /// of it.
    /// Guarantee: each hierarchy has its controllers and path; a controller is found where it is, else in version 2.
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
