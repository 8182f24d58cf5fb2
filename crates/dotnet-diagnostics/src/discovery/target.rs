//! One process: whether it runs .NET, where its socket is, what stands against attaching.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::Dir;
use rustix::io::Errno;

use super::address::{SocketAddress, may_connect};
use super::missing::Missing;
use super::obstacle::{Obstacle, Reason};
use super::proc_files::{Environ, Stat, Status, display_name, parse_environ, parse_stat, parse_status, parse_uptime};
use super::program::Program;
use super::scan::Scan;
use super::socket_name::SocketName;

const MAX_STAT_BYTES: u64 = 4 << 10;
const MAX_STATUS_BYTES: u64 = 64 << 10;
const MAX_CMDLINE_BYTES: u64 = 16 << 10;
const MAX_ENVIRON_BYTES: u64 = 1 << 20;
const MAX_MAPS_BYTES: u64 = 32 << 20;
pub(super) const MAX_NET_UNIX_BYTES: u64 = 8 << 20;
const MAX_UPTIME_BYTES: u64 = 256;
/// Most names that are read of a directory with sockets.
pub(super) const MAX_DIRECTORY_NAMES: usize = 1 << 16;
/// As much of a program's file as says what it is made for.
const ELF_HEADER_BYTES: u64 = 64;
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
    /// It is in our `/proc`: its pids are known, and whoever listens on its socket must be it. Of others nothing is known but what
    /// their socket's file says: [`Process::pid`] and [`Process::start_time`] are of its name.
    pub visible: bool,
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
        // A folder may be called anything.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+');
        let is_version = version.starts_with(|c: char| c.is_ascii_digit()) && version.chars().all(is_plain);
        (framework == "Microsoft.NETCore.App" && is_version).then_some(version)
    }
}

/// A process before it is known to be one of .NET.
#[derive(Debug)]
pub(super) struct Candidate<'a> {
    scan: &'a Scan,
    directory: PathBuf,
    pub(super) pid: u32,
    pub(super) ns_pid: u32,
    pub(super) stat: Stat,
    pub(super) status: Status,
}

/// Where a process's socket was looked for.
#[derive(Debug)]
struct Search {
    /// What its environment says, where that can be read.
    environ: Option<Environ>,
    root: Option<PathBuf>,
    /// Where the socket is to be.
    expected: SocketAddress,
    /// What stands against opening it there.
    error: Errno,
}

impl Search {
    fn directory(&self) -> &Path {
        self.expected.path().parent().unwrap_or(Path::new("/tmp"))
    }
}

impl<'a> Candidate<'a> {
    /// Reads who the process is. `None` for a process without user memory: a kernel thread, or one that has ended.
    pub(super) fn read(scan: &'a Scan, pid: u32) -> io::Result<Option<Self>> {
        let directory = scan.proc_root.join(pid.to_string());
        let stat = parse_stat(&read_bounded(&directory.join("stat"), MAX_STAT_BYTES)?);
        let stat = stat.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
        if stat.kernel_thread || matches!(stat.state, 'Z' | 'X') {
            return Ok(None);
        }
        let status = parse_status(&read_bounded(&directory.join("status"), MAX_STATUS_BYTES)?);
        Ok(Some(Self {
            scan,
            directory,
            pid,
            ns_pid: status.ns_pid.unwrap_or(pid),
            stat,
            status,
        }))
    }

    /// The name that its socket has.
    pub(super) fn socket_name(&self) -> SocketName {
        SocketName {
            pid: self.ns_pid,
            key: self.stat.start_time,
        }
    }

    /// Looks for the socket and, when there is none, for the reason.
    pub(super) fn examine(&self) -> Process {
        let environ = read_bounded(&self.directory.join("environ"), MAX_ENVIRON_BYTES);
        let environ = environ.ok().map(|text| parse_environ(&text));
        let root = self.foreign_root();
        let tmpdir = self.tmpdir(environ.as_ref());
        let name = self.socket_name();
        let expected = SocketAddress::found(root.clone(), tmpdir.join(name.to_string()));
        let mut process = self.process();
        match expected.open() {
            Ok(socket) => self.with_socket(&mut process, expected, &socket),
            Err(error) => {
                let search = Search {
                    environ,
                    root,
                    expected,
                    error,
                };
                self.search_on(&mut process, &search);
            }
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
            visible: true,
            evidence: None,
            socket: None,
            obstacle: None,
        }
    }

    fn with_socket(&self, process: &mut Process, address: SocketAddress, socket: &OwnedFd) {
        process.evidence = Some(Evidence::Socket);
        // An error here says nothing about the right to connect; connecting will.
        if !may_connect(socket).unwrap_or(true) {
            process.obstacle = Some(Obstacle::new(
                Reason::Permission,
                format!("{address} is open to {} alone", self.owner()),
                self.scan.credentials().remedy(self.status.uid),
            ));
        }
        process.socket = Some(address);
    }

    /// The socket is not where it is to be: looks elsewhere. Whoever listens on what is found is compared with the process when it is
    /// connected to.
    fn search_on(&self, process: &mut Process, search: &Search) {
        let name = self.socket_name();
        // Where the operator says that sockets are.
        if let Some(given) = self.scan.given(name)
            && let Ok(socket) = given.open()
        {
            return self.with_socket(process, given.clone(), &socket);
        }
        let time_shifted = self.in_other_namespace("time");
        match self.runtime_library() {
            Ok(Some(library)) => process.evidence = Some(Evidence::Library(library)),
            Err(_) if self.looks_like_dotnet() => process.evidence = Some(Evidence::CommandLine),
            _ => {}
        }
        // The kernel knows where it listens: a TMPDIR that cannot be read, or was changed after the start.
        let listens_at = if process.evidence.is_some() || search.environ.is_none() {
            self.scan.listens_at(&self.directory.join("net/unix"), name)
        } else {
            None
        };
        let mut not_opened = None;
        if let Some(path) = &listens_at {
            let address = SocketAddress::found(search.root.clone(), path);
            match address.open() {
                Ok(socket) => return self.with_socket(process, address, &socket),
                Err(error) => not_opened = Some((path.as_path(), error)),
            }
            process.evidence.get_or_insert(Evidence::Socket);
        }
        if process.evidence.is_none() && !time_shifted {
            return;
        }
        let directory = search.directory();
        let others = sockets_of(search.root.as_deref(), directory, self.ns_pid);
        // In another time namespace the runtime's start time is not ours: the newest socket is taken. One that could not read its
        // start time (some emulators do not show it) has 0.
        let other = if time_shifted {
            others.last()
        } else {
            others.iter().find(|name| name.key == 0)
        };
        if let Some(other) = other {
            let address = SocketAddress::found(search.root.clone(), directory.join(other.to_string()));
            if let Ok(socket) = address.open() {
                return self.with_socket(process, address, &socket);
            }
        }
        if process.evidence.is_none() {
            return;
        }
        let version = process.evidence.as_ref().and_then(Evidence::version);
        let missing = Missing {
            candidate: self,
            environ: search.environ.as_ref(),
            root: search.root.as_deref(),
            expected: &search.expected,
            error: search.error,
            others: &others,
            listens_at: not_opened,
            version,
        };
        process.obstacle = Some(missing.obstacle());
    }

    pub(super) fn owner(&self) -> String {
        self.status
            .uid
            .map_or_else(|| "its user".to_owned(), |uid| format!("uid {uid}"))
    }

    /// What to do where its user's files may not be read.
    pub(super) fn remedy(&self) -> String {
        self.scan.credentials().remedy(self.status.uid)
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
        let ours = std::fs::read_link(self.scan.proc_root.join("self/ns").join(kind));
        matches!((theirs, ours), (Ok(theirs), Ok(ours)) if theirs != ours)
    }

    /// The directory of the socket, as the process sees it.
    fn tmpdir(&self, environ: Option<&Environ>) -> PathBuf {
        match environ.and_then(|environ| environ.tmpdir.as_ref()) {
            None => PathBuf::from("/tmp"),
            Some(absolute) if absolute.is_absolute() => absolute.clone(),
            Some(relative) => {
                let cwd = std::fs::read_link(self.directory.join("cwd")).unwrap_or_else(|_| PathBuf::from("/"));
                cwd.join(relative)
            }
        }
    }

    /// What its program is made for. `None`: it may not be read.
    pub(super) fn program(&self) -> Option<Program> {
        let exe = self.directory.join("exe");
        let header = read_bounded(&exe, ELF_HEADER_BYTES).ok()?;
        Some(Program::new(std::fs::read_link(&exe).ok().as_deref(), &header))
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

    /// Since when it runs, in clock ticks.
    pub(super) fn age(&self) -> Option<u64> {
        let uptime = read_bounded(&self.scan.proc_root.join("uptime"), MAX_UPTIME_BYTES).ok()?;
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
