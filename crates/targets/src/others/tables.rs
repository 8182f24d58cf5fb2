//! Reads the kernel's tables of Unix sockets, each table once for all processes that share it. Blocks the calling
//! thread.
//!
//! The kernel lists the runtime's end of a connection in the network namespace of the client. Two tables are therefore
//! relevant for a process. gcwatch's table contains the connections of gcwatch and of tools on the host or in gcwatch's
//! pod. The table of the process's namespace contains the connections of tools in this namespace. Reading the tables
//! needs no privileges.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use dotnet_diagnostics::OpenConnections;
use dotnet_diagnostics::discovery::{AcceptedConnections, SocketName};

use crate::others::{ObservedConnections, WatchedProcess};

/// Minimum interval between looks.
pub(crate) const SCAN_INTERVAL: Duration = Duration::from_secs(2);
/// Maximum number of bytes of one table that are read, about 25,000 sockets. The content of a longer table is unknown.
const MAX_TABLE_BYTES: u64 = 2 << 20;
const PIECE_BYTES: usize = 64 << 10;
/// Maximum number of connections to one runtime. If there are more, the connections are unknown.
const MAX_CONNECTIONS: usize = 256;

/// A network namespace, identified by device and inode of its table in `/proc`.
type Namespace = (u64, u64);
/// The accepted connections to the wanted runtimes. Each connection has a flag that states whether its path is the
/// expected path, and its number.
type Table = HashMap<SocketName, Vec<(bool, u64)>>;

/// The wanted socket names, with the paths of their sockets if known. Several processes in different containers can
/// have the same name.
type SocketIndex = HashMap<SocketName, Vec<Option<PathBuf>>>;

/// Examines all processes and returns the results in the same order. The result of a process is `None` if its
/// connections are unknown.
pub(crate) fn look(watched: &[Arc<WatchedProcess>]) -> Vec<Option<ObservedConnections>> {
    let mut wanted = SocketIndex::new();
    for run in watched {
        wanted.entry(run.name).or_default().push(run.path.clone());
    }
    let own: Vec<OpenConnections> = watched.iter().map(|run| run.connections.now()).collect();
    let mut buffer = vec![0; PIECE_BYTES];
    let our_path = Path::new("/proc/self/net/unix");
    let ours = read(our_path, &wanted, &mut buffer).ok();
    let our_namespace = namespace(our_path);
    let mut tables: HashMap<Namespace, Option<Table>> = HashMap::new();
    let mut looked = Vec::with_capacity(watched.len());
    for (run, own) in watched.iter().zip(own) {
        let theirs = run.pid.map(|pid| PathBuf::from(format!("/proc/{pid}/net/unix")));
        let place = theirs.as_deref().and_then(namespace);
        let in_ours = place.is_some() && place == our_namespace;
        let theirs = match (theirs, place) {
            (Some(path), Some(place)) if !in_ours => {
                let table = match tables.entry(place) {
                    Entry::Occupied(known) => known.into_mut(),
                    Entry::Vacant(new) => new.insert(read(&path, &wanted, &mut buffer).ok()),
                };
                table.as_ref()
            }
            _ => None,
        };
        let is_only_one = wanted.get(&run.name).is_some_and(|paths| paths.len() == 1);
        looked.push(match &ours {
            // Connections of two processes with the same name are indistinguishable in gcwatch's table.
            Some(ours) if is_only_one => seen(run, ours, theirs, in_ours, own),
            _ => None,
        });
    }
    // If a connection of gcwatch was opened or closed during the look, it is unknown whether the table contains the
    // connection. The returned generation then differs from the generation of the previous look, so this look does not
    // count.
    for (run, seen) in watched.iter().zip(&mut looked) {
        if let Some(seen) = seen {
            seen.own.generation = seen.own.generation.max(run.connections.now().generation);
        }
    }
    looked
}

/// Returns the number of connections that a runtime has accepted on this path, including gcwatch's own, or `None` if
/// the connections are not visible.
///
/// Blocks the calling thread.
pub(crate) fn connections(pid: u32, path: &Path) -> Option<usize> {
    let run = Arc::new(WatchedProcess::at(Some(pid), path)?);
    let seen = look(&[run]).into_iter().next()??;
    Some(seen.accepted.len())
}

fn seen(
    run: &WatchedProcess,
    ours: &Table,
    theirs: Option<&Table>,
    in_ours: bool,
    own: OpenConnections,
) -> Option<ObservedConnections> {
    let found = |table: &Table| table.get(&run.name).cloned().unwrap_or_default();
    let mut entries = found(ours);
    entries.extend(theirs.map(found).unwrap_or_default());
    if entries.len() > MAX_CONNECTIONS {
        return None;
    }
    // If the operator configured the socket, the path can differ from the runtime's own. In this case, only the name is
    // compared.
    if entries.iter().any(|(expected, _)| *expected) {
        entries.retain(|(expected, _)| *expected);
    }
    let mut accepted: Vec<u64> = entries.into_iter().map(|(_, number)| number).collect();
    accepted.sort_unstable();
    accepted.dedup();
    Some(ObservedConnections {
        accepted,
        whole: in_ours || theirs.is_some(),
        own,
    })
}

/// Returns device and inode of the file, or `None` if it does not exist. Device and inode identify the network
/// namespace, regardless of the process in the path.
fn namespace(table: &Path) -> Option<Namespace> {
    let file = rustix::fs::stat(table).ok()?;
    Some((file.st_dev, file.st_ino))
}

fn read(path: &Path, wanted: &SocketIndex, buffer: &mut [u8]) -> io::Result<Table> {
    let mut file = File::open(path)?.take(MAX_TABLE_BYTES);
    let (mut parser, mut table) = (AcceptedConnections::default(), Table::new());
    loop {
        let count = file.read(buffer)?;
        if count == 0 {
            break;
        }
        parser.take(buffer.get(..count).unwrap_or_default(), |entry| {
            let Some(paths) = wanted.get(&entry.name) else { return };
            let found = table.entry(entry.name).or_default();
            // Keep one more connection than allowed, to detect the excess.
            if found.len() <= MAX_CONNECTIONS {
                let expected = paths.iter().flatten().any(|path| path == entry.path);
                found.push((expected, entry.inode));
            }
        });
    }
    if file.limit() == 0 {
        return Err(io::Error::other("the table is too long"));
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    /// Binds a socket with the name of a runtime, in a new folder.
    fn runtime(pid: u32) -> (tempfile::TempDir, UnixListener, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(format!("dotnet-diagnostic-{pid}-7-socket"));
        let listener = UnixListener::bind(&path).unwrap();
        (folder, listener, path)
    }

    fn watched(path: &Path) -> Arc<WatchedProcess> {
        Arc::new(WatchedProcess::at(Some(std::process::id()), path).unwrap())
    }

    /// Scenario: two sockets in two folders have the same name, and one of them is watched; connections to both are
    /// opened and closed, and one waits to be accepted.
    /// Guarantee: only accepted connections to the watched path are found, each with a stable number; a closed
    /// connection disappears.
    #[test]
    fn accepted_connections_are_found_in_kernel_table() {
        let ((_a, here, path), (_b, elsewhere, other)) = (runtime(3), runtime(3));
        let run = watched(&path);
        let accepted = || look(&[Arc::clone(&run)]).remove(0).unwrap().accepted;
        assert!(accepted().is_empty());
        let (_first, end) = (UnixStream::connect(&path).unwrap(), here.accept().unwrap());
        let (_other, _other_end) = (UnixStream::connect(&other).unwrap(), elsewhere.accept().unwrap());
        let _waits = UnixStream::connect(&path).unwrap();
        let one = accepted();
        assert_eq!(one.len(), 1);
        let (_second, _second_end) = (UnixStream::connect(&path).unwrap(), here.accept().unwrap());
        let two = accepted();
        assert!(two.len() == 2 && two.contains(&one[0]), "{one:?} {two:?}");
        drop(end);
        let left = accepted();
        assert!(
            left.len() == 1 && two.contains(&left[0]) && left != one,
            "{two:?} {left:?}"
        );
    }

    /// Scenario: two processes with the same name are watched, as in two containers; one process has exited; one
    /// process has more connections than the limit.
    /// Guarantee: indistinguishable and excess connections are unknown; without the process's own table, the look is
    /// not whole.
    #[test]
    fn indistinguishable_connections_are_unknown() {
        let ((_a, _here, path), (_b, _elsewhere, other)) = (runtime(4), runtime(4));
        assert_eq!(look(&[watched(&path), watched(&other)]), [None, None]);
        let gone = Arc::new(WatchedProcess::at(Some(u32::MAX), &path).unwrap());
        assert!(!look(&[gone]).remove(0).unwrap().whole);
        let (_c, listener, path) = runtime(5);
        let mut open = Vec::new();
        for _ in 0..=MAX_CONNECTIONS {
            open.push((UnixStream::connect(&path).unwrap(), listener.accept().unwrap()));
        }
        assert_eq!(look(&[watched(&path)]), [None]);
    }
}
