//! Where a socket is, and how to reach it without leaving its process's root.

use std::fmt;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::text::shown;

/// How often an open is repeated that lost a race against a rename in the directory.
const MAX_RACES: u32 = 8;

/// Where a socket is: a path, and the root in which the path holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SocketAddress {
    /// Root of the process's mount namespace (`/proc/PID/root`) when it is not ours.
    root: Option<PathBuf>,
    path: PathBuf,
    /// Whether the last component may be a symbolic link.
    follow: bool,
}

impl SocketAddress {
    /// A path in our own root that the operator chose: it may be a symbolic link.
    pub fn chosen(path: impl Into<PathBuf>) -> Self {
        Self {
            root: None,
            path: path.into(),
            follow: true,
        }
    }

    /// A path that was found: a link in place of the socket is not followed, and with a root no link leads out of it.
    pub fn found(root: Option<PathBuf>, path: impl Into<PathBuf>) -> Self {
        Self {
            root,
            path: path.into(),
            follow: false,
        }
    }

    /// The path as the process itself sees it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path as we see it. It may be longer than a socket address can be, and its links are the process's own: use
    /// [`SocketAddress::open`] to reach it.
    pub fn host_path(&self) -> PathBuf {
        match &self.root {
            Some(root) => root.join(below_root(&self.path)),
            None => self.path.clone(),
        }
    }

    /// Opens the socket's file without connecting: the descriptor is connected to by `/proc/self/fd/N`, which has no
    /// limit of length and cannot be exchanged for another file between look and use.
    ///
    /// # Errors
    /// `ENOTSOCK` when it is something else than a socket, `ELOOP` when it is a link that is not followed; else what
    /// the system says.
    pub fn open(&self) -> Result<OwnedFd, Errno> {
        let nofollow = if self.follow { OFlags::empty() } else { OFlags::NOFOLLOW };
        let socket = open_in(self.root.as_deref(), &self.path, OFlags::PATH | nofollow)?;
        let kind = FileType::from_raw_mode(rustix::fs::fstat(&socket)?.st_mode);
        match kind {
            FileType::Socket => Ok(socket),
            FileType::Symlink => Err(Errno::LOOP),
            _ => Err(Errno::NOTSOCK),
        }
    }

    /// Opens the directory that holds the socket, as a place only (`O_PATH`): to be watched or compared, not read.
    ///
    /// # Errors
    /// The system's.
    pub fn open_parent(&self) -> Result<OwnedFd, Errno> {
        let parent = self.path.parent().ok_or(Errno::NOENT)?;
        open_in(self.root.as_deref(), parent, OFlags::PATH | OFlags::DIRECTORY)
    }

    /// Opens the directory that holds the socket, for reading its names.
    pub(super) fn open_directory(root: Option<&Path>, directory: &Path) -> Result<File, Errno> {
        open_in(root, directory, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK).map(File::from)
    }
}

impl fmt::Display for SocketAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The path may come from another process's environment.
        f.write_str(&shown(&self.host_path().to_string_lossy()))
    }
}

/// Whether we may connect to a socket that was opened: that needs the right to write to it.
pub(super) fn may_connect(socket: &OwnedFd) -> Result<bool, Errno> {
    match rustix::fs::accessat(CWD, descriptor_path(socket), Access::WRITE_OK, AtFlags::EACCESS) {
        Ok(()) => Ok(true),
        Err(Errno::ACCESS | Errno::PERM | Errno::ROFS) => Ok(false),
        Err(other) => Err(other),
    }
}

/// A path by which an open descriptor can be reached.
pub(crate) fn descriptor_path(socket: &OwnedFd) -> PathBuf {
    use std::os::fd::AsRawFd;
    PathBuf::from(format!("/proc/self/fd/{}", socket.as_raw_fd()))
}

fn below_root(path: &Path) -> PathBuf {
    path.components()
        .filter(|component| !matches!(component, Component::RootDir))
        .collect()
}

fn open_in(root: Option<&Path>, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::CLOEXEC;
    let Some(root) = root else {
        return rustix::fs::openat(CWD, path, flags, Mode::empty());
    };
    let root = rustix::fs::openat(
        CWD,
        root,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let mut races = 0;
    loop {
        match rustix::fs::openat2(&root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT) {
            Err(Errno::AGAIN) if races < MAX_RACES => races += 1,
            // Before Linux 5.6, or under a seccomp profile that does not know the call.
            Err(Errno::NOSYS | Errno::PERM) => return open_by_steps(root, path, flags),
            result => return result,
        }
    }
}

/// Opens a path below a directory one component at a time and follows no links at all.
fn open_by_steps(root: OwnedFd, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let step = OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut at = root;
    let path = below_root(path);
    let mut components = path.iter().peekable();
    while let Some(name) = components.next() {
        if name == ".." {
            return Err(Errno::XDEV);
        }
        let flags = if components.peek().is_some() {
            step
        } else {
            flags | OFlags::NOFOLLOW
        };
        at = rustix::fs::openat(&at, name, flags, Mode::empty())?;
    }
    Ok(at)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    /// Scenario: inside a process's root, `/link` is an absolute link to a directory that exists in that root and in
    /// ours.
    /// Guarantee: the link leads to the root's own directory, never to ours.
    #[test]
    fn absolute_links_stay_inside_the_root() {
        let ours = tempfile::tempdir().unwrap();
        let root = ours.path().join("root");
        let elsewhere = ours.path().join("elsewhere");
        for directory in [&root, &elsewhere] {
            std::fs::create_dir(directory).unwrap();
        }
        let _outside = UnixListener::bind(elsewhere.join("s")).unwrap();
        symlink(&elsewhere, root.join("link")).unwrap();
        let address = SocketAddress::found(Some(root.clone()), "/link/s");
        assert!(address.host_path().exists(), "a plain path walks out of the root");
        assert_eq!(address.open().unwrap_err(), Errno::NOENT);

        let mirror = root.join(below_root(&elsewhere));
        std::fs::create_dir_all(&mirror).unwrap();
        let _inside = UnixListener::bind(mirror.join("s")).unwrap();
        let opened = address.open().unwrap();
        let inode = |stat: rustix::fs::Stat| stat.st_ino;
        let expected = inode(rustix::fs::stat(mirror.join("s")).unwrap());
        assert_eq!(inode(rustix::fs::fstat(&opened).unwrap()), expected);
    }

    /// Scenario: the socket's name is a link to another socket; a file; a directory.
    /// Guarantee: each is refused for what it is, unless the operator chose the link.
    #[test]
    fn only_sockets_are_opened() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let _listener = UnixListener::bind(at("socket")).unwrap();
        symlink(at("socket"), at("link")).unwrap();
        std::fs::write(at("file"), b"").unwrap();
        assert!(SocketAddress::found(None, at("socket")).open().is_ok());
        assert_eq!(SocketAddress::found(None, at("link")).open().unwrap_err(), Errno::LOOP);
        assert!(SocketAddress::chosen(at("link")).open().is_ok());
        assert_eq!(SocketAddress::chosen(at("file")).open().unwrap_err(), Errno::NOTSOCK);
        assert_eq!(
            SocketAddress::chosen(directory.path()).open().unwrap_err(),
            Errno::NOTSOCK
        );
        let rooted = SocketAddress::found(Some(directory.path().into()), "/link");
        assert_eq!(rooted.open().unwrap_err(), Errno::LOOP);
    }

    /// Scenario: between the open and the connection another socket is renamed to the path, and then the path is a
    /// link.
    /// Guarantee: the connection reaches the socket that was opened.
    #[test]
    fn what_was_opened_is_connected_to() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let first = UnixListener::bind(at("socket")).unwrap();
        let other = UnixListener::bind(at("other")).unwrap();
        other.set_nonblocking(true).unwrap();
        let opened = SocketAddress::found(Some(directory.path().into()), "/socket")
            .open()
            .unwrap();
        std::fs::rename(at("other"), at("socket")).unwrap();
        let _connection = std::os::unix::net::UnixStream::connect(descriptor_path(&opened)).unwrap();
        first.accept().unwrap();
        std::fs::remove_file(at("socket")).unwrap();
        symlink(at("other"), at("socket")).unwrap();
        let _connection = std::os::unix::net::UnixStream::connect(descriptor_path(&opened)).unwrap();
        first.accept().unwrap();
        assert!(other.accept().is_err());
    }

    /// Scenario: in a process's root, each component of the path in turn is a link to our own root's directory:
    /// absolute, by many `..`, by `/proc/self/root` and by an open descriptor; then `..` stands in the path itself.
    /// Guarantee: none leads to the socket outside; `..` stays at the root.
    #[test]
    fn no_component_leads_out() {
        let ours = tempfile::tempdir().unwrap();
        let root = ours.path().join("root");
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::fs::create_dir_all(ours.path().join("b")).unwrap();
        for directory in [ours.path().to_path_buf(), ours.path().join("b")] {
            std::mem::forget(UnixListener::bind(directory.join("s")).unwrap());
        }
        let ups = "../".repeat(40);
        let outside = ours.path().display();
        let held = File::open(ours.path()).unwrap();
        let by_descriptor = descriptor_path(&held.into());
        let ways = [
            format!("{outside}"),
            format!("{ups}{outside}"),
            format!("/proc/self/root{outside}"),
            format!("{}", by_descriptor.display()),
        ];
        for way in ways {
            for (place, path, target) in [
                ("a", "/a/b/s", way.clone()),
                ("a/b", "/a/b/s", format!("{way}/b")),
                ("a/b/s", "/a/b/s", format!("{way}/b/s")),
            ] {
                let _gone = std::fs::remove_dir_all(root.join("a"));
                std::fs::create_dir_all(root.join(place).parent().unwrap()).unwrap();
                symlink(&target, root.join(place)).unwrap();
                let opened = SocketAddress::found(Some(root.clone()), path).open();
                assert!(opened.is_err(), "{place} -> {target}");
            }
        }
        let dots = SocketAddress::found(Some(root), format!("/../../..{outside}/s"));
        assert_eq!(dots.open().unwrap_err(), Errno::NOENT);
    }

    /// Scenario: a kernel without `openat2`; the path holds a link and a `..`.
    /// Guarantee: the stepwise open reaches plain paths and refuses the others.
    #[test]
    fn steps_follow_no_links() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("a")).unwrap();
        let _listener = UnixListener::bind(directory.path().join("a/s")).unwrap();
        symlink(directory.path().join("a"), directory.path().join("b")).unwrap();
        let open = |path: &str| {
            let root = File::open(directory.path()).unwrap();
            open_by_steps(root.into(), Path::new(path), OFlags::PATH | OFlags::CLOEXEC)
        };
        assert!(open("/a/s").is_ok());
        assert!(open("/b/s").is_err());
        assert_eq!(open("/a/../a/s").unwrap_err(), Errno::XDEV);
    }
}
