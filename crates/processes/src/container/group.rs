//! Folders and files of control groups, opened such that no other files can be read.
//!
//! The root of a process contains files that others put there. Links are therefore resolved within that root, the
//! folder must belong to a control group file system, and files are opened on the same mount. These rules guarantee
//! that the kernel wrote the contents of the files.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Dir, FileType, FsWord, Mode, OFlags, ResolveFlags, fstatfs, openat, openat2};

use super::mount::GroupFolder;

/// Maximum number of bytes read from one file.
pub(super) const MAX_FILE_BYTES: u64 = 64 << 10;

/// `CGROUP_SUPER_MAGIC` and `CGROUP2_SUPER_MAGIC` of Linux's `magic.h`.
const CGROUP: FsWord = 0x0027_e0eb;
const CGROUP2: FsWord = 0x6367_7270;

/// Opens a folder by its path.
pub(super) fn folder(at: impl AsFd, path: &str) -> rustix::io::Result<OwnedFd> {
    openat(
        at,
        path,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )
}

/// Opens the folder of a group, with the first `depth` parts of its path. Returns `None` if the folder does not exist
/// or is not a group.
pub(super) fn group_folder(root: BorrowedFd<'_>, place: &GroupFolder, depth: usize) -> Option<OwnedFd> {
    let mut path = place.mount.clone();
    for part in place.below.iter().take(depth) {
        path.push('/');
        path.push_str(part);
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let folder = openat2(root, &path, flags, Mode::empty(), resolve).ok()?;
    let kind = fstatfs(&folder).ok()?.f_type;
    let wanted = if place.unified { CGROUP2 } else { CGROUP };
    (kind == wanted).then_some(folder)
}

/// Reads a file of a group. Returns `None` if the file does not exist or is not a file of the group's own file system.
pub(super) fn file(folder: &OwnedFd, name: &str) -> Option<String> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    // Files mounted over a file of the kernel are rejected.
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    let file = openat2(folder, name, flags, Mode::empty(), resolve).ok()?;
    text(File::from(file), MAX_FILE_BYTES)
}

/// Opens the groups directly below a group, at most `limit` of them. The second value states whether some are omitted.
pub(super) fn children(folder: &OwnedFd, limit: usize) -> (Vec<OwnedFd>, bool) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(entries) = openat(folder, ".", flags, Mode::empty()).and_then(Dir::new) else {
        return (Vec::new(), false);
    };
    let mut groups = Vec::new();
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name();
        if entry.file_type() != FileType::Directory || matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        if groups.len() >= limit {
            return (groups, true);
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        // Skip file systems that are mounted over a group.
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        groups.extend(openat2(folder, name, flags, Mode::empty(), resolve));
    }
    (groups, false)
}

/// Opens a file of the kernel in the folder of a process. Returns `None` if the process has exited or the file is not
/// readable.
pub(super) fn open(process: &OwnedFd, name: &str) -> Option<File> {
    let file = openat(process, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    Some(File::from(file))
}

/// Reads the first `limit` bytes of a file as text, or returns `None` if the read fails.
pub(super) fn text(file: File, limit: u64) -> Option<String> {
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
