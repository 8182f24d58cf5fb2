//! Groups of processes that can share file systems. If several scans of a group have blocked, the whole group is
//! skipped. The data comes only from `/proc`, where the kernel answers without blocking.

/// Property shared by processes that can have the same file systems: the mount namespace, or a user other than root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FileSystemGroup {
    MountNamespace(u64),
    User(u32),
}

impl FileSystemGroup {
    /// Returns the groups of a process. The list is empty if they are not readable.
    pub(crate) fn for_process(pid: u32) -> Vec<Self> {
        let inode = |path: String| {
            let link = std::fs::read_link(path).ok()?;
            link.to_str()?.strip_prefix("mnt:[")?.strip_suffix(']')?.parse().ok()
        };
        let namespace = inode(format!("/proc/{pid}/ns/mnt"));
        let user = rustix::fs::stat(format!("/proc/{pid}")).ok().map(|stat| stat.st_uid);
        let user = user.filter(|uid| *uid != 0).map(Self::User);
        namespace.map(Self::MountNamespace).into_iter().chain(user).collect()
    }
}
