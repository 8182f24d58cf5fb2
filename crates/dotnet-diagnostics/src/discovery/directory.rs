//! The sockets in a directory.

use std::path::Path;

use rustix::fs::Dir;

use super::address::SocketAddress;
use super::socket_name::SocketName;

/// Maximum number of entries read from a directory with sockets.
const MAX_DIRECTORY_NAMES: usize = 1 << 16;

/// Returns the sockets of one pid in a directory, oldest first. The result is empty if the directory cannot be read.
pub(super) fn sockets_of(root: Option<&Path>, directory: &Path, pid: u32) -> Vec<SocketName> {
    let mut names: Vec<_> = socket_names(root, directory)
        .into_iter()
        .filter(|name| name.pid == pid)
        .collect();
    names.sort_unstable_by_key(|name| name.key);
    names
}

/// Returns the names of all runtime sockets in a directory. The result is empty if the directory cannot be read.
pub(super) fn socket_names(root: Option<&Path>, directory: &Path) -> Vec<SocketName> {
    let opened = SocketAddress::open_directory(root, directory).and_then(|file| Dir::read_from(&file));
    let Ok(entries) = opened else { return Vec::new() };
    let names = entries.take(MAX_DIRECTORY_NAMES).map_while(Result::ok);
    names
        .filter_map(|entry| SocketName::parse(entry.file_name().to_str().ok()?))
        .collect()
}
