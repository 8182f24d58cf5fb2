//! Processes that may have file systems in common: where several looks at them have hung, their group is left alone.
//! Asked of `/proc` alone, which the kernel answers by itself.

/// What processes have in common that may have the same file systems: the mount namespace, or a user other than root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FileSystemGroup {
    MountNamespace(u64),
    User(u32),
}

impl FileSystemGroup {
    /// Of a process. Empty: it may not be asked.
    pub(crate) fn of(pid: u32) -> Vec<Self> {
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
