//! Facts about a process that possibly runs .NET, from the files of the process in `/proc`.

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
/// Size of an ELF header, in bytes. The header contains the architecture of a program.
const ELF_HEADER_BYTES: u64 = 64;
/// Libraries that only a .NET runtime maps. NativeAOT and single-file programs map neither library.
const LIBRARIES: [&str; 2] = ["/libcoreclr.so", "/libclrjit.so"];

/// A process that possibly runs .NET.
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
    /// Reads the identity of a process. Returns `None` for a process without user memory: a kernel thread, or a process
    /// that has exited and that its parent has not reaped. Returns an error if a file cannot be read.
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

    /// Reads the `stat` file of a process. Returns an error if the file cannot be read or parsed.
    pub(super) fn stat(host: &Host, pid: u32) -> io::Result<Stat> {
        let path = host.proc_root().join(pid.to_string()).join("stat");
        parse_stat(&read_bounded(&path, MAX_STAT_BYTES)?).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Returns the name that the process's diagnostics socket should have.
    pub(super) fn socket_name(&self) -> SocketName {
        SocketName {
            pid: self.ns_pid,
            key: self.stat.start_time,
        }
    }

    /// Returns the settings of the diagnostics socket from the environment of the process, or `None` if the environment
    /// cannot be read.
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

    /// Returns the remedy if the permissions of this process are not sufficient to access the process.
    pub(super) fn remedy(&self) -> String {
        self.host.credentials().remedy(self.status.uid)
    }

    /// Returns `/proc/PID/root` if the process has a root directory other than `/` or is in a different mount
    /// namespace, because its paths then have a different meaning in this process. Returns `None` otherwise, and also
    /// if the links in `/proc` cannot be read.
    pub(super) fn foreign_root(&self) -> Option<PathBuf> {
        let root = self.directory.join("root");
        let changed = std::fs::read_link(&root).is_ok_and(|link| link != Path::new("/"));
        (changed || self.in_other_namespace("mnt")).then_some(root)
    }

    /// Returns whether the process and this process are in different namespaces. `kind` is the name of a file in
    /// `/proc/PID/ns`, such as `mnt`. Returns `false` if a namespace cannot be read: files below `/proc/PID/root`
    /// require the same permission, so they would not be readable either.
    pub(super) fn in_other_namespace(&self, kind: &str) -> bool {
        let theirs = std::fs::read_link(self.directory.join("ns").join(kind));
        let ours = std::fs::read_link(self.host.proc_root().join("self/ns").join(kind));
        matches!((theirs, ours), (Ok(theirs), Ok(ours)) if theirs != ours)
    }

    /// Returns the directory of the socket as a path of the process: `TMPDIR`, or `/tmp` if `TMPDIR` is unset or
    /// `environ` is `None`.
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

    /// Returns the private directories of the process's user in which a future runtime can create its socket (issue
    /// 5563 of dotnet/diagnostics): `XDG_RUNTIME_DIR` if the environment is readable and sets it, and `/run/user/UID`
    /// if the user is known.
    pub(super) fn runtime_directories(&self, environ: Option<&Environ>) -> Vec<PathBuf> {
        let named = environ.and_then(|environ| environ.runtime_dir.clone());
        let usual = self.status.uid.map(|uid| PathBuf::from(format!("/run/user/{uid}")));
        let mut directories: Vec<PathBuf> = named.into_iter().chain(usual).collect();
        directories.dedup();
        directories
    }

    /// Returns whether this candidate is the scanning process. A socket that the operator configured never belongs to
    /// the scanning process. If the owner of the socket is in a different pid namespace, the owner and the scanning
    /// process can both have pid 1 and the same start time, so their socket names do not differ.
    pub(super) fn is_own(&self) -> bool {
        self.host.own_pid() == Some(self.pid)
    }

    /// Returns the architecture of the process's program, or `None` if the program file cannot be read.
    pub(super) fn program(&self) -> Option<Program> {
        let exe = self.directory.join("exe");
        let header = read_bounded(&exe, ELF_HEADER_BYTES).ok()?;
        Some(Program::new(std::fs::read_link(&exe).ok().as_deref(), &header))
    }

    /// Returns the path of the mapped runtime library, or `None` if no runtime library is mapped. Returns an error if
    /// the list of mapped files cannot be read.
    pub(super) fn runtime_library(&self) -> io::Result<Option<PathBuf>> {
        let maps = File::open(self.directory.join("maps"))?.take(MAX_MAPS_BYTES);
        library_in(BufReader::new(maps))
    }

    /// Returns whether the list of mapped files can be opened.
    pub(super) fn shows_its_maps(&self) -> bool {
        File::open(self.directory.join("maps")).is_ok()
    }

    /// Returns whether the few visible facts about a process of another user suggest .NET: its main thread or its
    /// program is named `dotnet`. A shell with a `.dll` argument does not match.
    pub(super) fn looks_like_dotnet(&self) -> bool {
        let cmdline = read_bounded(&self.directory.join("cmdline"), MAX_CMDLINE_BYTES).unwrap_or_default();
        let program = cmdline.split(|&byte| byte == 0).next().unwrap_or_default();
        self.stat.comm == "dotnet" || program == b"dotnet" || program.ends_with(b"/dotnet")
    }

    /// Returns the age of the process, in clock ticks, or `None` if the uptime cannot be read or is less than the start
    /// time.
    pub(super) fn age(&self) -> Option<u64> {
        let uptime = read_bounded(&self.host.proc_root().join("uptime"), MAX_UPTIME_BYTES).ok()?;
        parse_uptime(&uptime)?.checked_sub(self.stat.start_time)
    }
}

/// Returns the first mapped runtime library in a `maps` file, or `None` if the file contains no runtime library.
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

    /// Scenario: the mapped files belong to a framework-dependent program, a self-contained program, and a program
    /// without .NET but with similar file names.
    /// Guarantee: the library is identified by its exact file name. Its version is the directory of the shared
    /// framework, and is unknown for a self-contained program.
    #[test]
    fn library_and_version_are_found_in_maps() {
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
