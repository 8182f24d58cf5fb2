//! The address of a socket, and functions to open it without leaving the root directory of its process.

use std::fmt;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::text::shown;

/// Maximum number of retries for an open that lost a race against a rename in the directory.
const MAX_RACES: u32 = 8;

/// The location of a socket: a path, and the root directory for the path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SocketAddress {
    /// Root of the process's mount namespace (`/proc/PID/root`), if it differs from the root of this process.
    root: Option<PathBuf>,
    path: PathBuf,
    /// Whether the last component can be a symbolic link.
    follow: bool,
}

impl SocketAddress {
    /// Creates an address for a path that the operator chose, in the root of this process. The path can be a symbolic
    /// link.
    pub fn chosen(path: impl Into<PathBuf>) -> Self {
        Self {
            root: None,
            path: path.into(),
            follow: true,
        }
    }

    /// Creates an address for a path that was found. A link in place of the socket is not followed and, with a root, no
    /// link leads outside the root.
    pub fn found(root: Option<PathBuf>, path: impl Into<PathBuf>) -> Self {
        Self {
            root,
            path: path.into(),
            follow: false,
        }
    }

    /// Returns the path from the perspective of the owning process.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path from the perspective of this process. The path can exceed the length of a socket address, and
    /// its links belong to the other process; use [`SocketAddress::open`] to access it.
    pub fn host_path(&self) -> PathBuf {
        match &self.root {
            Some(root) => root.join(below_root(&self.path)),
            None => self.path.clone(),
        }
    }

    /// Opens the socket file without connecting. Clients connect through `/proc/self/fd/N`, which has no length limit
    /// and cannot be replaced by another file between check and use.
    ///
    /// # Errors
    /// Returns `ENOTSOCK` if the file is not a socket, `ELOOP` if it is a link that is not followed, or the error of
    /// the system.
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

    /// Opens the parent directory of the socket as a location (`O_PATH`), to watch or compare it. The descriptor cannot
    /// be read.
    ///
    /// # Errors
    /// Returns the error of the system.
    pub fn open_parent(&self) -> Result<OwnedFd, Errno> {
        let parent = self.path.parent().ok_or(Errno::NOENT)?;
        open_in(self.root.as_deref(), parent, OFlags::PATH | OFlags::DIRECTORY)
    }

    /// Opens the directory that contains the socket, to read its entries.
    pub(super) fn open_directory(root: Option<&Path>, directory: &Path) -> Result<File, Errno> {
        open_in(root, directory, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK).map(File::from)
    }
}

impl fmt::Display for SocketAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The path can come from the environment of another process and contain any characters.
        f.write_str(&shown(&self.host_path().to_string_lossy()))
    }
}

/// Returns whether this process may connect to an open socket, which requires write permission.
pub(super) fn may_connect(socket: &OwnedFd) -> Result<bool, Errno> {
    match rustix::fs::accessat(CWD, descriptor_path(socket), Access::WRITE_OK, AtFlags::EACCESS) {
        Ok(()) => Ok(true),
        Err(Errno::ACCESS | Errno::PERM | Errno::ROFS) => Ok(false),
        Err(other) => Err(other),
    }
}

/// Returns a path that refers to an open descriptor.
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
            // The kernel is older than Linux 5.6, or a seccomp profile does not allow the call.
            Err(Errno::NOSYS | Errno::PERM) => return open_by_steps(root, path, flags),
            result => return result,
        }
    }
}

/// Opens a path below a directory one component at a time without following links.
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

    /// Scenario: in the root of a process, `/link` is an absolute link to a directory that exists both in that root and
    /// in the root of this process.
    /// Guarantee: the link resolves to the directory in the root of the process.
    #[test]
    fn absolute_link_stays_inside_root() {
        let ours = tempfile::tempdir().unwrap();
        let root = ours.path().join("root");
        let elsewhere = ours.path().join("elsewhere");
        for directory in [&root, &elsewhere] {
            std::fs::create_dir(directory).unwrap();
        }
        let _outside = UnixListener::bind(elsewhere.join("s")).unwrap();
        symlink(&elsewhere, root.join("link")).unwrap();
        let address = SocketAddress::found(Some(root.clone()), "/link/s");
        assert!(address.host_path().exists(), "a plain path leads outside the root");
        assert_eq!(address.open().unwrap_err(), Errno::NOENT);

        let mirror = root.join(below_root(&elsewhere));
        std::fs::create_dir_all(&mirror).unwrap();
        let _inside = UnixListener::bind(mirror.join("s")).unwrap();
        let opened = address.open().unwrap();
        let inode = |stat: rustix::fs::Stat| stat.st_ino;
        let expected = inode(rustix::fs::stat(mirror.join("s")).unwrap());
        assert_eq!(inode(rustix::fs::fstat(&opened).unwrap()), expected);
    }

    /// Scenario: the path of a socket is a link to another socket, a file, or a directory.
    /// Guarantee: each path is refused with its specific error, unless the operator chose the link.
    #[test]
    fn non_socket_is_refused() {
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

    /// Scenario: between open and connect, another socket is renamed to the path, and then the path becomes a link.
    /// Guarantee: the connection reaches the socket that was opened.
    #[test]
    fn connection_reaches_opened_socket() {
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

    /// Scenario: in the root of a process, each component of the path in turn is a link to a directory outside that
    /// root: absolute, through many `..`, through `/proc/self/root` and through an open descriptor; then the path
    /// itself contains `..`.
    /// Guarantee: no path leads to the socket outside the root; `..` stays at the root.
    #[test]
    fn path_component_stays_inside_root() {
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

    /// Scenario: the kernel has no `openat2`; the path contains a link or a `..`.
    /// Guarantee: the stepwise open reaches plain paths and refuses the other paths.
    #[test]
    fn stepwise_open_follows_no_links() {
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
