//! What the files of one process say, before it is known whether it runs .NET.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::host::{Host, read_bounded};
use super::proc_files::{Environ, Stat, Status, display_name, parse_environ, parse_stat, parse_status, parse_uptime};
use super::process::Process;
use super::program::Program;
use super::socket_name::SocketName;

const MAX_STAT_BYTES: u64 = 4 << 10;
const MAX_STATUS_BYTES: u64 = 64 << 10;
const MAX_CMDLINE_BYTES: u64 = 16 << 10;
const MAX_ENVIRON_BYTES: u64 = 1 << 20;
const MAX_MAPS_BYTES: u64 = 32 << 20;
const MAX_UPTIME_BYTES: u64 = 256;
/// As much of a program's file as says what it is made for.
const ELF_HEADER_BYTES: u64 = 64;
/// Libraries that only a .NET runtime maps. NativeAOT and single-file programs have neither.
const LIBRARIES: [&str; 2] = ["/libcoreclr.so", "/libclrjit.so"];

/// A process before it is known to be one of .NET.
#[derive(Debug)]
pub(super) struct Candidate<'a> {
    pub(super) host: &'a Host,
    pub(super) directory: PathBuf,
    pub(super) pid: u32,
    pub(super) ns_pid: u32,
    pub(super) stat: Stat,
    pub(super) status: Status,
}

impl<'a> Candidate<'a> {
    /// Reads who the process is. `None` for a process without user memory: a kernel thread, or one that has ended.
    pub(super) fn read(host: &'a Host, pid: u32) -> io::Result<Option<Self>> {
        let directory = host.proc_root().join(pid.to_string());
        let stat = Self::stat(host, pid)?;
        if stat.kernel_thread || matches!(stat.state, 'Z' | 'X') {
            return Ok(None);
        }
        let status = parse_status(&read_bounded(&directory.join("status"), MAX_STATUS_BYTES)?);
        Ok(Some(Self {
            host,
            directory,
            pid,
            ns_pid: status.ns_pid.unwrap_or(pid),
            stat,
            status,
        }))
    }

    /// What `stat` says of a pid.
    pub(super) fn stat(host: &Host, pid: u32) -> io::Result<Stat> {
        let path = host.proc_root().join(pid.to_string()).join("stat");
        parse_stat(&read_bounded(&path, MAX_STAT_BYTES)?).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// The name that its socket has.
    pub(super) fn socket_name(&self) -> SocketName {
        SocketName {
            pid: self.ns_pid,
            key: self.stat.start_time,
        }
    }

    /// What its environment says of its socket. `None`: it may not be read.
    pub(super) fn environ(&self) -> Option<Environ> {
        let environ = read_bounded(&self.directory.join("environ"), MAX_ENVIRON_BYTES);
        environ.ok().map(|text| parse_environ(&text))
    }

    pub(super) fn process(&self) -> Process {
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

    pub(super) fn owner(&self) -> String {
        self.status
            .uid
            .map_or_else(|| "its user".to_owned(), |uid| format!("uid {uid}"))
    }

    /// What to do where its user's files may not be read.
    pub(super) fn remedy(&self) -> String {
        self.host.credentials().remedy(self.status.uid)
    }

    /// `/proc/PID/root` when the process's paths are not ours: another mount namespace, or a changed root.
    pub(super) fn foreign_root(&self) -> Option<PathBuf> {
        let root = self.directory.join("root");
        let changed = std::fs::read_link(&root).is_ok_and(|link| link != Path::new("/"));
        (changed || self.in_other_namespace("mnt")).then_some(root)
    }

    /// False also when it may not be asked: then nothing below the other root could be read either.
    pub(super) fn in_other_namespace(&self, kind: &str) -> bool {
        let theirs = std::fs::read_link(self.directory.join("ns").join(kind));
        let ours = std::fs::read_link(self.host.proc_root().join("self/ns").join(kind));
        matches!((theirs, ours), (Ok(theirs), Ok(ours)) if theirs != ours)
    }

    /// The directory of the socket, as the process sees it.
    pub(super) fn tmpdir(&self, environ: Option<&Environ>) -> PathBuf {
        match environ.and_then(|environ| environ.tmpdir.as_ref()) {
            None => PathBuf::from("/tmp"),
            Some(absolute) if absolute.is_absolute() => absolute.clone(),
            Some(relative) => {
                let cwd = std::fs::read_link(self.directory.join("cwd")).unwrap_or_else(|_| PathBuf::from("/"));
                cwd.join(relative)
            }
        }
    }

    /// Private directories of its user, in which a later runtime may put its socket (issue 5563 of dotnet/diagnostics).
    /// Without a readable environment, the user's usual one.
    pub(super) fn runtime_directories(&self, environ: Option<&Environ>) -> Vec<PathBuf> {
        let named = environ.and_then(|environ| environ.runtime_dir.clone());
        let usual = self.status.uid.map(|uid| PathBuf::from(format!("/run/user/{uid}")));
        let mut directories: Vec<PathBuf> = named.into_iter().chain(usual).collect();
        directories.dedup();
        directories
    }

    /// Whether this is the process that looks. It is never the process behind a socket that the operator named: in
    /// separate pid namespaces, both can have pid 1 and the same start time.
    pub(super) fn is_own(&self) -> bool {
        self.host.own_pid() == Some(self.pid)
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

    /// Whether its mapped files may be read.
    pub(super) fn shows_its_maps(&self) -> bool {
        File::open(self.directory.join("maps")).is_ok()
    }

    /// The little that can be seen of another user's process: a shell whose argument is a `.dll` does not
    /// count.
    pub(super) fn looks_like_dotnet(&self) -> bool {
        let cmdline = read_bounded(&self.directory.join("cmdline"), MAX_CMDLINE_BYTES).unwrap_or_default();
        let program = cmdline.split(|&byte| byte == 0).next().unwrap_or_default();
        self.stat.comm == "dotnet" || program == b"dotnet" || program.ends_with(b"/dotnet")
    }

    /// Since when it runs, in clock ticks.
    pub(super) fn age(&self) -> Option<u64> {
        let uptime = read_bounded(&self.host.proc_root().join("uptime"), MAX_UPTIME_BYTES).ok()?;
        parse_uptime(&uptime)?.checked_sub(self.stat.start_time)
    }
}

/// The first mapped library of a runtime in a `maps` file.
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

#[cfg(test)]
mod tests {
    use super::super::process::Evidence;
    use super::*;

    /// Scenario: the mapped files of a framework-dependent program, a self-contained one, and a program without .NET
    /// whose file names come close.
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
