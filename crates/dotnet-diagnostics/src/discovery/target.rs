//! One process: whether it runs .NET, where its socket is, what stands against attaching.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::Dir;
use rustix::io::Errno;

use super::address::{SocketAddress, may_connect};
use super::obstacle::{Obstacle, Reason};
use super::proc_files::{
    Environ, ListeningSockets, Stat, Status, display_name, parse_environ, parse_stat, parse_status, parse_uptime,
};
use super::socket_name::{MAX_SOCKET_PATH_BYTES, SocketName};

const MAX_STAT_BYTES: u64 = 4 << 10;
const MAX_STATUS_BYTES: u64 = 64 << 10;
const MAX_CMDLINE_BYTES: u64 = 16 << 10;
const MAX_ENVIRON_BYTES: u64 = 1 << 20;
const MAX_MAPS_BYTES: u64 = 32 << 20;
const MAX_NET_UNIX_BYTES: u64 = 8 << 20;
const MAX_UPTIME_BYTES: u64 = 256;
/// Most names that are read of a directory with sockets.
pub(super) const MAX_DIRECTORY_NAMES: usize = 1 << 16;
/// A process younger than this may still be about to make its socket (clock ticks: 10 s).
const STARTING_TICKS: u64 = 1000;
/// Libraries that only a .NET runtime maps. NativeAOT and single-file programs have neither.
const LIBRARIES: [&str; 2] = ["/libcoreclr.so", "/libclrjit.so"];

/// A process of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Process {
    /// Process id as we see it.
    pub pid: u32,
    /// Process id in its own pid namespace; the one in the socket's name.
    pub ns_pid: u32,
    /// Start time in clock ticks since boot: with the pid it identifies the process for ever.
    pub start_time: u64,
    /// Effective user id.
    pub uid: Option<u32>,
    /// What people call it, see [`display_name`].
    pub name: String,
    /// What says that it runs .NET; `None` when nothing does.
    pub evidence: Option<Evidence>,
    /// Its socket.
    pub socket: Option<SocketAddress>,
    /// What stands against attaching. `None` does not promise that the runtime answers: that only a command can tell.
    pub obstacle: Option<Obstacle>,
}

/// What says that a process runs .NET.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Evidence {
    /// It has a diagnostics socket.
    Socket,
    /// It has mapped the runtime's library, at this path in its own root.
    Library(PathBuf),
    /// Its command line looks like it, and more may not be read.
    CommandLine,
}

impl Evidence {
    /// The version in the library's path, `.../Microsoft.NETCore.App/3.1.23/libcoreclr.so`. The only way to learn the version
    /// of .NET Core 3.x, which has no ProcessInfo; self-contained programs have none in the path.
    pub fn version(&self) -> Option<&str> {
        let Self::Library(path) = self else { return None };
        let version = path.parent()?.file_name()?.to_str()?;
        let framework = path.parent()?.parent()?.file_name()?;
        (framework == "Microsoft.NETCore.App" && version.starts_with(|c: char| c.is_ascii_digit())).then_some(version)
    }
}

/// A process before it is known to be one of .NET.
#[derive(Debug)]
pub(super) struct Candidate<'a> {
    proc_root: &'a Path,
    directory: PathBuf,
    pub(super) pid: u32,
    pub(super) ns_pid: u32,
    pub(super) stat: Stat,
    status: Status,
}

impl<'a> Candidate<'a> {
    /// Reads who the process is. `None` for a process without user memory: a kernel thread, or one that has ended.
    pub(super) fn read(proc_root: &'a Path, pid: u32) -> io::Result<Option<Self>> {
        let directory = proc_root.join(pid.to_string());
        let stat = parse_stat(&read_bounded(&directory.join("stat"), MAX_STAT_BYTES)?);
        let stat = stat.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
        if stat.kernel_thread || matches!(stat.state, 'Z' | 'X') {
            return Ok(None);
        }
        let status = parse_status(&read_bounded(&directory.join("status"), MAX_STATUS_BYTES)?);
        Ok(Some(Self {
            proc_root,
            directory,
            pid,
            ns_pid: status.ns_pid.unwrap_or(pid),
            stat,
            status,
        }))
    }

    /// Looks for the socket and, when there is none, for the reason.
    pub(super) fn examine(&self) -> Process {
        let environ = read_bounded(&self.directory.join("environ"), MAX_ENVIRON_BYTES).map(|text| parse_environ(&text));
        let readable = environ.is_ok();
        let environ = environ.unwrap_or_default();
        let root = self.foreign_root();
        let tmpdir = self.tmpdir(&environ);
        let name = SocketName {
            pid: self.ns_pid,
            key: self.stat.start_time,
        };
        let address = SocketAddress::found(root.clone(), tmpdir.join(name.to_string()));
        let mut process = self.process();
        match address.open() {
            Ok(socket) => {
                process.evidence = Some(Evidence::Socket);
                // An error here says nothing about the right to connect; connecting will.
                if !may_connect(&socket).unwrap_or(true) {
                    process.obstacle = Some(self.foreign_owner(&address));
                }
                process.socket = Some(address);
            }
            Err(error) => self.without_socket(&mut process, &environ, readable, root.as_deref(), &address, error),
        }
        process
    }

    fn process(&self) -> Process {
        let cmdline = read_bounded(&self.directory.join("cmdline"), MAX_CMDLINE_BYTES).unwrap_or_default();
        Process {
            pid: self.pid,
            ns_pid: self.ns_pid,
            start_time: self.stat.start_time,
            uid: self.status.uid,
            name: display_name(&cmdline, &self.stat.comm),
            evidence: None,
            socket: None,
            obstacle: None,
        }
    }

    fn without_socket(
        &self,
        process: &mut Process,
        environ: &Environ,
        environ_readable: bool,
        root: Option<&Path>,
        expected: &SocketAddress,
        error: Errno,
    ) {
        let directory = expected.path().parent().unwrap_or(Path::new("/tmp"));
        let time_shifted = self.in_other_namespace("time");
        match self.runtime_library() {
            Ok(Some(library)) => process.evidence = Some(Evidence::Library(library)),
            Ok(None) if time_shifted => {}
            Ok(None) => return,
            Err(_) if self.looks_like_dotnet() => process.evidence = Some(Evidence::CommandLine),
            Err(_) => return,
        }
        let others = sockets_of(root, directory, self.ns_pid);
        // In another time namespace the runtime's start time is not ours: the newest socket is taken, and the pid of whoever
        // listens on it is compared when it is connected to.
        if let (true, Some(newest)) = (time_shifted, others.last()) {
            process.evidence = Some(Evidence::Socket);
            process.socket = Some(SocketAddress::found(
                root.map(Path::to_path_buf),
                directory.join(newest.to_string()),
            ));
            return;
        }
        if process.evidence.is_none() {
            return;
        }
        process.obstacle = Some(if !environ_readable {
            self.unreadable()
        } else {
            self.missing_socket(environ, directory, expected, &others, error)
        });
    }

    /// Why a process that runs .NET has no socket.
    fn missing_socket(
        &self,
        environ: &Environ,
        directory: &Path,
        expected: &SocketAddress,
        others: &[SocketName],
        error: Errno,
    ) -> Obstacle {
        if let Some(variable) = &environ.switched_off {
            return Obstacle::new(
                Reason::DiagnosticsOff,
                format!("{variable} is set in its environment; start it without this variable"),
            );
        }
        if !matches!(error, Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG) {
            let reason = if matches!(error, Errno::ACCESS | Errno::PERM) {
                Reason::Permission
            } else {
                Reason::Failed
            };
            let error = io::Error::from(error);
            return Obstacle::new(reason, format!("{expected} cannot be opened: {error}"));
        }
        let name = expected.path().file_name().unwrap_or_default().to_string_lossy();
        let listens = read_bounded(&self.directory.join("net/unix"), MAX_NET_UNIX_BYTES)
            .is_ok_and(|text| ListeningSockets(&text).holds(&name));
        if listens {
            return Obstacle::new(
                Reason::SocketRemoved,
                format!(
                    "it listens, but {expected} was deleted; restart it, and keep whatever cleans the directory away from \
                     dotnet-diagnostic-*"
                ),
            );
        }
        let length = expected.path().as_os_str().len();
        if length > MAX_SOCKET_PATH_BYTES {
            return Obstacle::new(
                Reason::NoSocket,
                format!(
                    "its TMPDIR is too long: the socket's path would have {length} bytes and the runtime can use \
                     {MAX_SOCKET_PATH_BYTES}; start it with a shorter TMPDIR"
                ),
            );
        }
        if self.age().is_some_and(|ticks| ticks < STARTING_TICKS) {
            return Obstacle::new(Reason::Starting, "it was started less than 10 seconds ago; try again");
        }
        if let Some(other) = others.last() {
            return Obstacle::new(
                Reason::StaleSocket,
                format!(
                    "{other} in {} was left behind by an earlier process with pid {}; this one has no socket: start it with a \
                     writable TMPDIR and without DOTNET_EnableDiagnostics=0",
                    shown(directory),
                    self.ns_pid
                ),
            );
        }
        Obstacle::new(
            Reason::NoSocket,
            format!(
                "there is no {expected}; the runtime makes it at its start unless diagnostics are off (also in \
                 runtimeconfig.json) or the directory cannot be written: start it with a writable TMPDIR"
            ),
        )
    }

    fn foreign_owner(&self, address: &SocketAddress) -> Obstacle {
        Obstacle::new(
            Reason::Permission,
            format!(
                "{address} is open to {} alone; run as that user and group, or as root with CAP_DAC_OVERRIDE",
                self.owner()
            ),
        )
    }

    fn unreadable(&self) -> Obstacle {
        Obstacle::new(
            Reason::Permission,
            format!(
                "its environment cannot be read, so only /tmp was searched for its socket; run as {}, or as root with \
                 CAP_SYS_PTRACE and CAP_DAC_OVERRIDE",
                self.owner()
            ),
        )
    }

    fn owner(&self) -> String {
        self.status
            .uid
            .map_or_else(|| "its user".to_owned(), |uid| format!("uid {uid}"))
    }

    /// `/proc/PID/root` when the process's paths are not ours: another mount namespace, or a changed root.
    fn foreign_root(&self) -> Option<PathBuf> {
        let root = self.directory.join("root");
        let changed = std::fs::read_link(&root).is_ok_and(|link| link != Path::new("/"));
        (changed || self.in_other_namespace("mnt")).then_some(root)
    }

    /// False also when it may not be asked: then nothing below the other root could be read either.
    fn in_other_namespace(&self, kind: &str) -> bool {
        let theirs = std::fs::read_link(self.directory.join("ns").join(kind));
        let ours = std::fs::read_link(self.proc_root.join("self/ns").join(kind));
        matches!((theirs, ours), (Ok(theirs), Ok(ours)) if theirs != ours)
    }

    /// The directory of the socket, as the process sees it.
    fn tmpdir(&self, environ: &Environ) -> PathBuf {
        match &environ.tmpdir {
            None => PathBuf::from("/tmp"),
            Some(absolute) if absolute.is_absolute() => absolute.clone(),
            Some(relative) => {
                let cwd = std::fs::read_link(self.directory.join("cwd")).unwrap_or_else(|_| PathBuf::from("/"));
                cwd.join(relative)
            }
        }
    }

    /// The runtime's library among the mapped files. An error when they may not be read.
    pub(super) fn runtime_library(&self) -> io::Result<Option<PathBuf>> {
        let maps = File::open(self.directory.join("maps"))?.take(MAX_MAPS_BYTES);
        library_in(BufReader::new(maps))
    }

    /// The little that can be seen of another user's process: a shell whose argument is somebody's `.dll` does not count.
    fn looks_like_dotnet(&self) -> bool {
        let cmdline = read_bounded(&self.directory.join("cmdline"), MAX_CMDLINE_BYTES).unwrap_or_default();
        let program = cmdline.split(|&byte| byte == 0).next().unwrap_or_default();
        self.stat.comm == "dotnet" || program == b"dotnet" || program.ends_with(b"/dotnet")
    }

    fn age(&self) -> Option<u64> {
        let uptime = read_bounded(&self.proc_root.join("uptime"), MAX_UPTIME_BYTES).ok()?;
        parse_uptime(&uptime)?.checked_sub(self.stat.start_time)
    }
}

/// The first mapped library of a runtime in the text of a `maps` file.
fn library_in(mut maps: impl BufRead) -> io::Result<Option<PathBuf>> {
    let mut line = Vec::new();
    loop {
        line.clear();
        if maps.read_until(b'\n', &mut line)? == 0 {
            return Ok(None);
        }
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        if LIBRARIES.iter().any(|library| text.ends_with(library.as_bytes())) {
            let path = text
                .iter()
                .position(|&byte| byte == b'/')
                .and_then(|start| text.get(start..));
            return Ok(path.map(|path| PathBuf::from(OsStr::from_bytes(path))));
        }
    }
}

/// The sockets of one pid in a directory, oldest first. Empty when the directory cannot be read.
fn sockets_of(root: Option<&Path>, directory: &Path, pid: u32) -> Vec<SocketName> {
    let mut names: Vec<_> = socket_names(root, directory)
        .into_iter()
        .filter(|name| name.pid == pid)
        .collect();
    names.sort_unstable_by_key(|name| name.key);
    names
}

/// The names of all runtimes' sockets in a directory. Empty when the directory cannot be read.
pub(super) fn socket_names(root: Option<&Path>, directory: &Path) -> Vec<SocketName> {
    let opened = SocketAddress::open_directory(root, directory).and_then(|file| Dir::read_from(&file));
    let Ok(entries) = opened else { return Vec::new() };
    let names = entries.take(MAX_DIRECTORY_NAMES).map_while(Result::ok);
    names
        .filter_map(|entry| SocketName::parse(entry.file_name().to_str().ok()?))
        .collect()
}

pub(super) fn read_bounded(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn shown(path: &Path) -> String {
    path.to_string_lossy()
        .chars()
        .map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: the mapped files of a framework-dependent program, a self-contained one, and a program without .NET whose file
    /// names come close.
    /// Guarantee: the library is found by its exact file name, its version by the framework's directory.
    #[test]
    fn the_library_and_its_version_are_found_in_maps() {
        let library = |text: &str| library_in(text.as_bytes()).unwrap().map(Evidence::Library);
        let shared = "55d0-55d1 r--p 00000000 08:01 77 /usr/bin/dotnet\n\
            7f00-7f01 r-xp 00000000 08:01 99                 /usr/share/dotnet/shared/Microsoft.NETCore.App/3.1.23/libcoreclr.so\n";
        assert_eq!(library(shared).unwrap().version(), Some("3.1.23"));
        let own = "7f00-7f01 r-xp 00000000 08:01 99 /srv/my app/libcoreclr.so\n";
        let own = library(own).unwrap();
        assert_eq!(own, Evidence::Library(PathBuf::from("/srv/my app/libcoreclr.so")));
        assert_eq!(own.version(), None);
        assert_eq!(
            library("7f00-7f01 r-xp 00000000 08:01 99 /usr/lib/notlibcoreclr.so\n"),
            None
        );
        assert_eq!(
            library("7f00-7f01 r-xp 00000000 08:01 99 /x/libcoreclr.so.dbg\n7fff-7fff rw-p 0 00:00 0 [stack]"),
            None
        );
    }
}
