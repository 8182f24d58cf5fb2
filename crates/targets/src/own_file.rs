//! Opens files that a process names, in the root of that process.
//!
//! Every read of a file below `/proc/PID/root` starts here: `clippy.toml` refuses the kernel's calls elsewhere. The
//! steps keep each promise of docs/security.md:
//!
//! ```text
//! O_PATH    `openat2` within the root of the process, without links that the kernel makes; nothing is opened yet
//! fstat     a regular file that has bytes, not more than the caller takes, and that the process can read itself
//! reopen    `/proc/self/fd/N`, which is the same inode
//! ```
//!
//! To open a FIFO lets its writer continue, and to open a device can act on the device, so that neither is opened to
//! find out its type. All functions block the calling thread: the file system belongs to the process, and can fail to
//! respond.

use std::fs::File;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, RawMode, ResolveFlags, fstat, openat, openat2, readlinkat};
use rustix::io::Errno;

use crate::proc_file::{MAX_STATUS_BYTES, text};

/// Maximum number of attempts to resolve a path while another process renames a part of it.
const MAX_RACES: u32 = 8;
/// `CAP_DAC_OVERRIDE` and `CAP_DAC_READ_SEARCH` of Linux's `capability.h`: each reads every file.
const READS_ALL: u64 = (1 << 1) | (1 << 2);

/// Error returned if a file of a process is not opened.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotOpened {
    /// The process has exited, or its root needs more rights.
    #[error("cannot open the root of process {pid}: {error}; gcwatch needs SYS_PTRACE for other users' processes")]
    Root {
        /// The process.
        pid: u32,
        /// The reason of the kernel.
        error: Errno,
    },
    /// The path does not lead to a file, or the file cannot be opened.
    #[error("cannot open {path:?} of process {pid}: {error}")]
    Path {
        /// The process.
        pid: u32,
        /// The path as the process has it.
        path: PathBuf,
        /// The reason of the kernel.
        error: Errno,
    },
    /// A FIFO, a device, a directory, a socket, or a file that the kernel makes.
    #[error("cannot read {path:?} of process {pid}: it is not a regular file with content; replace it by one")]
    NotAFile {
        /// The process.
        pid: u32,
        /// The path as the process has it.
        path: PathBuf,
    },
    /// The file has more bytes than the reader takes.
    #[error("cannot read {path:?} of process {pid}: {bytes} bytes are more than {most}")]
    TooLarge {
        /// The process.
        pid: u32,
        /// The path as the process has it.
        path: PathBuf,
        /// Size of the file.
        bytes: u64,
        /// Maximum size.
        most: u64,
    },
    /// gcwatch can read the file, but the process cannot.
    #[error("cannot read {path:?} of process {pid}: the process cannot read it itself; grant its user the file")]
    NotIts {
        /// The process.
        pid: u32,
        /// The path as the process has it.
        path: PathBuf,
    },
}

/// The files of one process.
#[derive(Debug)]
pub struct OwnFiles {
    pid: u32,
    root: OwnedFd,
    credentials: Credentials,
}

impl OwnFiles {
    /// Opens the root of a process and reads the credentials of the process. Blocks the calling thread.
    ///
    /// # Errors
    /// [`NotOpened::Root`].
    pub fn of(pid: u32) -> Result<Self, NotOpened> {
        let failed = |error| NotOpened::Root { pid, error };
        let folder = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        // A second process with this pid has another folder: the descriptor then returns errors.
        let process = openat(CWD, format!("/proc/{pid}"), folder, Mode::empty()).map_err(failed)?;
        let root = openat(&process, "root", folder, Mode::empty()).map_err(failed)?;
        let credentials = Credentials::read(&process).ok_or(failed(Errno::SRCH))?;
        Ok(Self { pid, root, credentials })
    }

    /// Opens a regular file for reading, by the path that the process has for it. Links stay within the root of the
    /// process. Blocks the calling thread.
    ///
    /// The mode, owner and group of the file decide whether the process can read it, with the user, groups and
    /// capabilities that the process has now. Access control lists and the directories of the path are not checked.
    ///
    /// # Errors
    /// [`NotOpened`]; the file was not opened, except that the last step can fail.
    pub fn open(&self, path: &Path, most: u64) -> Result<File, NotOpened> {
        let pid = self.pid;
        let failed = |error| NotOpened::Path {
            pid,
            path: path.to_owned(),
            error,
        };
        let place = resolve(&self.root, path).map_err(failed)?;
        let stat = fstat(&place).map_err(failed)?;
        let bytes = u64::try_from(stat.st_size).unwrap_or(0);
        // Files that the kernel makes have no size; some of them change when they are read.
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || bytes == 0 {
            let path = path.to_owned();
            return Err(NotOpened::NotAFile { pid, path });
        }
        if bytes > most {
            let path = path.to_owned();
            return Err(NotOpened::TooLarge { pid, path, bytes, most });
        }
        if !self.credentials.can_read(stat.st_mode, stat.st_uid, stat.st_gid) {
            let path = path.to_owned();
            return Err(NotOpened::NotIts { pid, path });
        }
        // The descriptor leads to the inode that was checked, whatever its path leads to by now.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = openat(
            CWD,
            format!("/proc/self/fd/{}", place.as_raw_fd()),
            flags,
            Mode::empty(),
        );
        file.map(File::from).map_err(failed)
    }
}

/// Returns the place of a path (`O_PATH`) below a root, without opening the file.
fn resolve(root: &OwnedFd, path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let within = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let mut races = 0;
    loop {
        match openat2(root, path, flags, Mode::empty(), within) {
            Err(Errno::AGAIN) if races < MAX_RACES => races += 1,
            // Before Linux 5.6, on gVisor, or under a seccomp profile that does not know the call.
            Err(Errno::NOSYS | Errno::PERM) => return resolve_by_steps(root, path),
            result => return result,
        }
    }
}

/// Like [`resolve`], but refuses every link and `..`: a component that is not a link cannot leave the root. Refusing
/// all paths instead would leave old kernels without the limit of the heap, and links are rare in these paths.
fn resolve_by_steps(root: &OwnedFd, path: &Path) -> rustix::io::Result<OwnedFd> {
    let place = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut at = openat(root, ".", place | OFlags::DIRECTORY, Mode::empty())?;
    let mut components = path.components().peekable();
    while let Some(component) = components.next() {
        let name = match component {
            Component::RootDir | Component::CurDir => continue,
            Component::Normal(name) => name,
            Component::ParentDir | Component::Prefix(_) => return Err(Errno::XDEV),
        };
        let is_last = components.peek().is_none();
        let flags = if is_last { place } else { place | OFlags::DIRECTORY };
        at = openat(&at, name, flags, Mode::empty())?;
    }
    Ok(at)
}

/// The user, groups and capabilities of a process, by which the kernel decides about files.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Credentials {
    user: u32,
    groups: Vec<u32>,
    reads_all: ReadsAll,
}

/// The files that a capability lets a process read without a right by their mode.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ReadsAll {
    /// None.
    Never,
    /// Every file: the capability is one of our own user namespace.
    Always,
    /// Files whose user and group exist in the process's own user namespace. Anybody can create such a namespace.
    Mapped { users: Vec<Range>, groups: Vec<Range> },
}

/// The first id of a range, as our own user namespace has it, and the number of ids.
type Range = (u32, u32);

impl Credentials {
    /// Reads the credentials of a process by its folder in `/proc`. Returns `None` if the process has exited.
    fn read(process: &OwnedFd) -> Option<Self> {
        let own = openat(
            CWD,
            "/proc/self",
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .ok()?;
        let file = |name: &str| {
            let file = openat(process, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
            text(File::from(file), MAX_STATUS_BYTES)
        };
        let namespace = |of: &OwnedFd| readlinkat(of, "ns/user", Vec::new()).ok();
        let theirs = namespace(process);
        let is_own = theirs.is_some() && theirs == namespace(&own);
        let maps = || (file("uid_map").unwrap_or_default(), file("gid_map").unwrap_or_default());
        Self::of(&file("status")?, (!is_own).then(maps))
    }

    /// Reads the credentials in the text of `status`. `maps` are `uid_map` and `gid_map` if the process has another user
    /// namespace than gcwatch. Returns `None` if the text has no user or group.
    fn of(status: &str, maps: Option<(String, String)>) -> Option<Self> {
        let line = |key: &str| status.lines().find_map(|line| line.strip_prefix(key));
        // Real, effective, saved, and the one for files.
        let for_files = |key: &str| line(key)?.split_ascii_whitespace().nth(3)?.parse().ok();
        let more = line("Groups:").unwrap_or_default().split_ascii_whitespace();
        let mut groups: Vec<u32> = more.filter_map(|group| group.parse().ok()).collect();
        groups.push(for_files("Gid:")?);
        let capabilities = line("CapEff:").and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
        let reads_all = match maps {
            _ if capabilities.unwrap_or(0) & READS_ALL == 0 => ReadsAll::Never,
            None => ReadsAll::Always,
            Some((users, groups)) => ReadsAll::Mapped {
                users: ranges(&users),
                groups: ranges(&groups),
            },
        };
        Some(Self {
            user: for_files("Uid:")?,
            groups,
            reads_all,
        })
    }

    /// Returns whether the process can read a file with this mode and owner.
    fn can_read(&self, mode: RawMode, owner: u32, group: u32) -> bool {
        let mode = Mode::from_raw_mode(mode);
        // Only the first class that fits counts, as in the kernel.
        let needed = if owner == self.user {
            Mode::RUSR
        } else if self.groups.contains(&group) {
            Mode::RGRP
        } else {
            Mode::ROTH
        };
        let has = |ranges: &[Range], id: u32| {
            let is_in = |(first, count): &Range| id.checked_sub(*first).is_some_and(|after| after < *count);
            ranges.iter().any(is_in)
        };
        mode.contains(needed)
            || match &self.reads_all {
                ReadsAll::Never => false,
                ReadsAll::Always => true,
                ReadsAll::Mapped { users, groups } => has(users, owner) && has(groups, group),
            }
    }
}

/// The ranges of `uid_map` or `gid_map`: the id inside, the id outside, the number of ids.
fn ranges(map: &str) -> Vec<Range> {
    let range = |line: &str| {
        let mut numbers = line.split_ascii_whitespace().skip(1).map(str::parse);
        Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
    };
    map.lines().filter_map(range).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::io::Read as _;
    use std::mem::MaybeUninit;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};

    use super::*;

    const MAX_BYTES: u64 = 1 << 10;

    fn own() -> OwnFiles {
        OwnFiles::of(std::process::id()).unwrap()
    }

    /// A folder with a file, a link to it, a FIFO and a link to the FIFO.
    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("file"), "text").unwrap();
        std::fs::write(path("empty"), "").unwrap();
        symlink(path("file"), path("link")).unwrap();
        let fifo = rustix::fs::mknodat(CWD, path("fifo"), FileType::Fifo, Mode::RWXU, 0);
        fifo.unwrap();
        symlink(path("fifo"), path("fifo-link")).unwrap();
        folder
    }

    /// The names of the files in a folder that are opened while `work` runs, by any program, each once. Returns `None` if
    /// the kernel reports `O_PATH` as well, as those before Linux 6.10 do.
    fn opened_during(folder: &Path, work: impl FnOnce()) -> Option<BTreeSet<String>> {
        let watch = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).unwrap();
        inotify::add_watch(&watch, folder, WatchFlags::OPEN).unwrap();
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(&watch, &mut buffer);
        drop(openat(CWD, folder.join("empty"), OFlags::PATH, Mode::empty()).unwrap());
        let reports_places = events.next().is_ok();
        work();
        let mut names = BTreeSet::new();
        while let Ok(event) = events.next() {
            if event.events().contains(ReadFlags::OPEN)
                && let Some(name) = event.file_name()
            {
                names.insert(name.to_string_lossy().into_owned());
            }
        }
        (!reports_places).then_some(names)
    }

    /// Scenario: a process names a file, a link to the file, a FIFO, a link to the FIFO, an empty file, a directory, files
    /// of the kernel, a missing file, and a file that is larger than the reader takes.
    /// Guarantee: only the file is opened; the refusal of every other path says why; no FIFO is opened to find out its
    /// type.
    #[test]
    fn only_regular_files_are_opened() {
        let folder = folder();
        let path = |name: &str| folder.path().join(name);
        let files = own();
        let opened = opened_during(folder.path(), || {
            for name in ["file", "link"] {
                let mut text = String::new();
                let mut file = files.open(&path(name), MAX_BYTES).unwrap();
                file.read_to_string(&mut text).unwrap();
                assert_eq!(text, "text");
            }
            for path in [
                path("fifo"),
                path("fifo-link"),
                path("empty"),
                folder.path().to_owned(),
                "/proc/kmsg".into(),
                "/proc/self/status".into(),
            ] {
                let refused = files.open(&path, MAX_BYTES);
                assert!(
                    matches!(refused, Err(NotOpened::NotAFile { .. } | NotOpened::Path { .. })),
                    "{refused:?}"
                );
            }
            let refused = files.open(&path("fifo-link"), MAX_BYTES).unwrap_err();
            assert!(matches!(refused, NotOpened::NotAFile { .. }), "{refused}");
            let refused = files.open(&path("none"), MAX_BYTES).unwrap_err();
            assert!(
                matches!(
                    refused,
                    NotOpened::Path {
                        error: Errno::NOENT,
                        ..
                    }
                ),
                "{refused}"
            );
            let refused = files.open(&path("file"), 3).unwrap_err();
            assert!(
                matches!(refused, NotOpened::TooLarge { bytes: 4, most: 3, .. }),
                "{refused}"
            );
        });
        if let Some(opened) = opened {
            assert_eq!(opened, BTreeSet::from(["file".to_owned()]));
        }
    }

    /// Scenario: a kernel without `openat2`: a file, a link to the file, a path with a link and a path with `..`.
    /// Guarantee: the file is found, and every link and `..` is refused.
    #[test]
    fn steps_follow_no_link() {
        let folder = folder();
        let path = |name: &str| folder.path().join(name);
        symlink(folder.path(), path("folder")).unwrap();
        let root = openat(CWD, "/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
        let kind = |path: &Path| {
            let stat = fstat(resolve_by_steps(&root, path)?)?;
            Ok(FileType::from_raw_mode(stat.st_mode))
        };
        assert_eq!(kind(&path("file")), Ok(FileType::RegularFile));
        // The link itself is not a regular file.
        assert_eq!(kind(&path("link")), Ok(FileType::Symlink));
        assert_eq!(kind(&path("folder/file")), Err(Errno::NOTDIR));
        assert_eq!(kind(&path("folder/../file")), Err(Errno::NOTDIR));
        assert_eq!(kind(&path("../file")), Err(Errno::XDEV));
    }

    /// Scenario: files of several owners, groups and modes; processes with and without the group, with a capability of
    /// our user namespace and with the same capability in a user namespace that maps few ids.
    /// Guarantee: the first class of the mode that fits decides; a capability counts only for ids that it covers.
    #[test]
    fn the_rights_of_the_process_decide() {
        let status = |capabilities: &str| {
            format!("Name:\tx\nUid:\t1\t1\t1\t1000\nGid:\t1\t1\t1\t100\nGroups:\t20 30 \nCapEff:\t{capabilities}\n")
        };
        let none = Credentials::of(&status("0000000000000000"), None).unwrap();
        let reads = |of: &Credentials, mode: u32, owner, group| of.can_read(0o100_000 | mode, owner, group);
        assert!(reads(&none, 0o400, 1000, 7) && reads(&none, 0o040, 7, 30) && reads(&none, 0o004, 7, 7));
        assert!(reads(&none, 0o040, 7, 100) && !reads(&none, 0o600, 0, 0) && !reads(&none, 0o640, 0, 0));
        // A class with fewer rights than everybody has.
        assert!(!reads(&none, 0o044, 1000, 20) && !reads(&none, 0o404, 7, 20));

        let ours = Credentials::of(&status("0000000000000004"), None).unwrap();
        assert!(reads(&ours, 0o000, 0, 0));
        let maps = || Some(("0 1000 1\n1 5000 10\n".to_owned(), "0 100 1\n".to_owned()));
        let theirs = Credentials::of(&status("000001ffffffffff"), maps()).unwrap();
        assert!(reads(&theirs, 0o000, 1000, 100) && reads(&theirs, 0o000, 5009, 100));
        assert!(!reads(&theirs, 0o600, 0, 0) && !reads(&theirs, 0o600, 5010, 100) && !reads(&theirs, 0o000, 1000, 0));
        assert_eq!(
            Credentials::of(&status("0"), maps()).unwrap().reads_all,
            ReadsAll::Never
        );
        assert_eq!(Credentials::of("Name:\tx\n", None), None);
    }

    /// Scenario: this process, and a file without any right for its owner.
    /// Guarantee: the file is refused unless a capability of this process reads every file.
    #[test]
    fn a_file_of_another_user_is_refused() {
        let folder = folder();
        let path = folder.path().join("file");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).unwrap();
        let mut files = own();
        let reads_all = files.credentials.reads_all == ReadsAll::Always;
        let is_opened = files.open(&path, MAX_BYTES).is_ok();
        assert_eq!(is_opened, reads_all);
        files.credentials.reads_all = ReadsAll::Never;
        let refused = files.open(&path, MAX_BYTES).unwrap_err();
        assert!(matches!(refused, NotOpened::NotIts { .. }), "{refused}");
    }
}
