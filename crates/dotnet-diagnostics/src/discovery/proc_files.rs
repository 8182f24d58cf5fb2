//! Parsers of the files of `/proc/PID`: pure functions.
//!
//! Names, arguments and variables are the process's own and may hold any bytes.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use super::socket_name::SocketName;
use super::unix_table::Line;
use crate::text::is_plain;

/// Kernel thread flag (`PF_KTHREAD`) in the flags of `stat`.
const KERNEL_THREAD: u64 = 0x0020_0000;
/// Longest name that is made of a command line, in characters.
const MAX_NAME_CHARS: usize = 128;

/// What `/proc/PID/stat` says, by proc(5).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stat {
    /// Field 1: process id in the pid namespace of the `/proc` that was read.
    pub pid: u32,
    /// Field 2: name of the main thread, at most 15 bytes, which may hold spaces and parentheses. It is the process's
    /// own: show it with [`shown`](crate::text::shown).
    pub comm: String,
    /// Field 3: `R`, `S`, `D`, `T` (stopped), `Z` (exited, not reaped), ...
    pub state: char,
    /// Field 4: process id of the parent; 0 when it is outside of the pid namespace.
    pub parent: u32,
    /// Field 9 has the flag of the kernel's own threads.
    pub kernel_thread: bool,
    /// Field 14: time in user mode, clock ticks.
    pub user_ticks: u64,
    /// Field 15: time in kernel mode, clock ticks.
    pub system_ticks: u64,
    /// Field 20: number of threads.
    pub threads: u64,
    /// Field 22: start time in clock ticks since boot, the key in the socket's name.
    pub start_time: u64,
    /// Field 24: resident memory in pages; `None` when the text ends before.
    pub resident_pages: Option<u64>,
}

/// Reads `/proc/PID/stat`. `None` when it is malformed, or cut before the start time.
///
/// The name may hold spaces and parentheses: fields are counted after the last `)`.
pub fn parse_stat(stat: &[u8]) -> Option<Stat> {
    let stat = String::from_utf8_lossy(stat);
    let (head, tail) = stat.rsplit_once(')')?;
    let (pid, comm) = head.split_once('(')?;
    let mut fields = [""; 22];
    for (slot, field) in fields.iter_mut().zip(tail.split_ascii_whitespace()) {
        *slot = field;
    }
    // Field 3 is the first after the name. What is cut is empty, and no number.
    let field = |number: usize| fields.get(number - 3).copied();
    let number = |number| field(number)?.parse::<u64>().ok();
    Some(Stat {
        pid: pid.trim().parse().ok()?,
        comm: comm.to_owned(),
        state: field(3)?.chars().next()?,
        parent: field(4)?.parse().ok()?,
        kernel_thread: number(9)? & KERNEL_THREAD != 0,
        user_ticks: number(14)?,
        system_ticks: number(15)?,
        threads: number(20)?,
        start_time: number(22)?,
        resident_pages: number(24),
    })
}

/// The ids in `/proc/PID/status`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// The process id in the innermost pid namespace (last number of `NSpid`); `None` before Linux 4.1.
    pub ns_pid: Option<u32>,
    /// Effective user id.
    pub uid: Option<u32>,
}

/// Reads `/proc/PID/status`.
pub fn parse_status(status: &[u8]) -> Status {
    let status = String::from_utf8_lossy(status);
    let mut parsed = Status::default();
    for line in status.lines() {
        if let Some(pids) = line.strip_prefix("NSpid:") {
            parsed.ns_pid = pids
                .split_ascii_whitespace()
                .next_back()
                .and_then(|pid| pid.parse().ok());
        } else if let Some(uids) = line.strip_prefix("Uid:") {
            parsed.uid = uids.split_ascii_whitespace().nth(1).and_then(|uid| uid.parse().ok());
        }
    }
    parsed
}

/// What `/proc/PID/environ`, the environment that the process was started with, says of the diagnostics socket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environ {
    /// `TMPDIR`, where the runtime puts its socket; `None` when unset or empty: `/tmp`.
    pub tmpdir: Option<PathBuf>,
    /// `XDG_RUNTIME_DIR`, where a later runtime may put its socket; `None` when unset, empty or relative.
    pub runtime_dir: Option<PathBuf>,
    /// The variable that switches the diagnostics socket off, as it was found (`DOTNET_EnableDiagnostics=0`).
    pub switched_off: Option<String>,
}

/// Reads `/proc/PID/environ`. The first of two variables with one name counts, as for `getenv`.
pub fn parse_environ(environ: &[u8]) -> Environ {
    let mut parsed = Environ::default();
    let (mut tmpdir_seen, mut runtime_dir_seen) = (false, false);
    for variable in environ.split(|&byte| byte == 0) {
        if let Some(value) = variable.strip_prefix(b"TMPDIR=") {
            if !tmpdir_seen && !value.is_empty() {
                parsed.tmpdir = Some(PathBuf::from(OsString::from_vec(value.to_vec())));
            }
            tmpdir_seen = true;
        } else if let Some(value) = variable.strip_prefix(b"XDG_RUNTIME_DIR=") {
            if !runtime_dir_seen {
                let path = PathBuf::from(OsString::from_vec(value.to_vec()));
                parsed.runtime_dir = Some(path).filter(|path| path.is_absolute());
            }
            runtime_dir_seen = true;
        } else if parsed.switched_off.is_none() && switches_off(variable) {
            parsed.switched_off = Some(String::from_utf8_lossy(variable).into_owned());
        }
    }
    parsed
}

/// `DOTNET_` (from .NET 6) or `COMPlus_`, `EnableDiagnostics` or (from .NET 8) `EnableDiagnostics_IPC`, a hexadecimal
/// zero.
fn switches_off(variable: &[u8]) -> bool {
    let Some(rest) = variable
        .strip_prefix(b"DOTNET_")
        .or_else(|| variable.strip_prefix(b"COMPlus_"))
    else {
        return false;
    };
    let Some(rest) = rest.strip_prefix(b"EnableDiagnostics") else {
        return false;
    };
    let Some(value) = rest.strip_prefix(b"_IPC").unwrap_or(rest).strip_prefix(b"=") else {
        return false;
    };
    let digits = value
        .strip_prefix(b"0x")
        .or_else(|| value.strip_prefix(b"0X"))
        .unwrap_or(value);
    !digits.is_empty() && digits.iter().all(|&digit| digit == b'0')
}

/// The seconds since boot in `/proc/uptime`, in clock ticks (100 per second, fixed in Linux's interface).
pub fn parse_uptime(uptime: &[u8]) -> Option<u64> {
    let uptime = std::str::from_utf8(uptime).ok()?;
    let (seconds, hundredths) = uptime.split_ascii_whitespace().next()?.split_once('.')?;
    let (seconds, hundredths): (u64, u64) = (seconds.parse().ok()?, hundredths.parse().ok()?);
    seconds.checked_mul(100)?.checked_add(hundredths)
}

/// The display name of a process: the first argument that is a `.dll` (of `dotnet app.dll`), else the program's file
/// name, else the name of its main thread. Control characters are replaced: it can be shown.
pub fn display_name(cmdline: &[u8], comm: &str) -> String {
    let file_name = |argument: &[u8]| {
        let name = argument.rsplit(|&byte| byte == b'/').next().unwrap_or(argument);
        String::from_utf8_lossy(name).into_owned()
    };
    let mut arguments = cmdline.split(|&byte| byte == 0).filter(|argument| !argument.is_empty());
    let program = arguments.next().map(file_name).filter(|name| !name.is_empty());
    // A host's own options come before the assembly; arguments of the program come after it.
    let assembly = arguments
        .take(8)
        .find(|argument| argument.ends_with(b".dll"))
        .map(file_name);
    let name = assembly.or(program).unwrap_or_else(|| comm.to_owned());
    name.chars()
        .take(MAX_NAME_CHARS)
        .map(|c| if is_plain(c) { c } else { char::REPLACEMENT_CHARACTER })
        .collect()
}

/// The paths in `/proc/PID/net/unix` on which a process listens, also those whose file was deleted.
#[derive(Clone, Copy, Debug)]
pub struct ListeningSockets<'a>(
    /// The file's text.
    pub &'a [u8],
);

impl ListeningSockets<'_> {
    /// Each absolute path on which a runtime might listen, by its file name. Any process may listen on such a path:
    /// only a connection shows which one does.
    pub fn runtimes(self) -> impl Iterator<Item = (SocketName, PathBuf)> {
        self.0.split(|&byte| byte == b'\n').filter_map(|line| {
            let line = Line::parse(line).filter(Line::listens)?;
            Some((line.runtime()?, PathBuf::from(OsString::from_vec(line.path.to_vec()))))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Scenario: a thread name with spaces and parentheses, a kernel thread, and a cut file.
    /// Guarantee: fields are counted after the last parenthesis; what is cut before the start time is `None`, else what
    /// is cut.
    #[test]
    fn stat_is_read_after_the_last_parenthesis() {
        let line =
            b"4321 (a) b (c) S 17 4321 4321 0 -1 4194560 9 0 0 0 1 2 0 0 20 0 7 0 123456 278 99 18446744073709551615";
        let stat = parse_stat(line).unwrap();
        assert_eq!(
            stat,
            Stat {
                pid: 4321,
                comm: "a) b (c".into(),
                state: 'S',
                parent: 17,
                kernel_thread: false,
                user_ticks: 1,
                system_ticks: 2,
                threads: 7,
                start_time: 123_456,
                resident_pages: Some(99)
            }
        );
        let kernel = parse_stat(b"2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 3").unwrap();
        assert!(kernel.kernel_thread);
        assert_eq!(kernel.resident_pages, None);
        assert_eq!(parse_stat(b"4321 (dotnet) S 1 4321"), None);
        assert_eq!(parse_stat(b""), None);
    }

    /// Scenario: a process in a container, one on the host, and an old kernel without `NSpid`.
    /// Guarantee: the innermost pid and the effective uid.
    #[test]
    fn status_gives_the_inner_pid() {
        let status = b"Name:\tdotnet\nPid:\t4321\nUid:\t1000\t1654\t1000\t1000\nNSpid:\t4321\t88\t1\n";
        assert_eq!(
            parse_status(status),
            Status {
                ns_pid: Some(1),
                uid: Some(1654)
            }
        );
        assert_eq!(
            parse_status(b"NSpid:\t4321\n"),
            Status {
                ns_pid: Some(4321),
                uid: None
            }
        );
        assert_eq!(parse_status(b"Name:\tx\n"), Status::default());
    }

    /// Scenario: environments with TMPDIR set, empty and twice, and with each spelling of the switch.
    /// Guarantee: the runtime's own reading of them.
    #[test]
    fn environ_gives_directory_and_switch() {
        let tmpdir = |environ: &[u8]| parse_environ(environ).tmpdir;
        assert_eq!(
            tmpdir(b"A=1\0TMPDIR=/var/t\0B=2\0").as_deref(),
            Some(Path::new("/var/t"))
        );
        assert_eq!(tmpdir(b"TMPDIR=/a\0TMPDIR=/b\0").as_deref(), Some(Path::new("/a")));
        assert_eq!(tmpdir(b"TMPDIR=\0XTMPDIR=/x\0"), None);
        let runtime = |text: &[u8]| parse_environ(text).runtime_dir;
        let first = runtime(b"XDG_RUNTIME_DIR=/run/user/5\0XDG_RUNTIME_DIR=/x\0");
        assert_eq!(first.as_deref(), Some(Path::new("/run/user/5")));
        for none in [
            &b"XDG_RUNTIME_DIR=\0"[..],
            b"XDG_RUNTIME_DIR=run\0XDG_RUNTIME_DIR=/x\0",
            b"A=1\0",
        ] {
            assert_eq!(runtime(none), None);
        }
        let off = |variable: &str| parse_environ(variable.as_bytes()).switched_off;
        for variable in [
            "DOTNET_EnableDiagnostics=0",
            "DOTNET_EnableDiagnostics_IPC=0",
            "COMPlus_EnableDiagnostics=00",
            "COMPlus_EnableDiagnostics_IPC=0x0",
        ] {
            assert_eq!(off(variable).as_deref(), Some(variable));
        }
        for variable in [
            "DOTNET_EnableDiagnostics=1",
            "DOTNET_EnableDiagnostics=",
            "DOTNET_EnableDiagnostics_Profiler=0",
            "DOTNET_EnableDiagnostics_Debugger=0",
            "EnableDiagnostics=0",
            "DOTNET_EnableDiagnosticsX=0",
        ] {
            assert_eq!(off(variable), None, "{variable}");
        }
    }

    /// Scenario: command lines of a framework-dependent program, an own host, a bare thread and a hostile one.
    /// Guarantee: the name that a person would use, without control characters.
    #[test]
    fn names_are_what_people_call_the_process() {
        assert_eq!(
            display_name(
                b"/usr/bin/dotnet\0exec\0--depsfile\0x.json\0/srv/app.dll\0arg\0",
                "dotnet"
            ),
            "app.dll"
        );
        assert_eq!(display_name(b"/srv/shop\0--port\x0080\0", "shop"), "shop");
        assert_eq!(display_name(b"", "kworker"), "kworker");
        assert_eq!(display_name(b"/x/\x1b[2Jevil\0", "e"), "\u{fffd}[2Jevil");
        assert_eq!(display_name(&[b'n'; 5000], "n").len(), MAX_NAME_CHARS);
    }

    /// Scenario: uptimes as the kernel writes them, and an invalid one.
    /// Guarantee: ticks of a hundredth of a second.
    #[test]
    fn uptime_is_in_ticks() {
        assert_eq!(parse_uptime(b"1234.56 99.99\n"), Some(123_456));
        assert_eq!(parse_uptime(b"x"), None);
    }

    /// Scenario: `net/unix` with listening sockets (one in a directory whose name has blanks, one abstract), a
    /// connected one, others' and a cut line.
    /// Guarantee: the listening ones with a runtime's name are found with their whole paths, and no others.
    #[test]
    fn listening_sockets_are_found_by_name() {
        let text = b"Num       RefCount Protocol Flags    Type St Inode Path\n\
            0000000000000000: 00000002 00000000 00010000 0001 01    30 /tmp/a  b/dotnet-diagnostic-1-2-socket\n\
            0000000000000000: 00000003 00000000 00000000 0001 03    31 /tmp/dotnet-diagnostic-3-4-socket\n\
            0000000000000000: 00000003 00000000 00000000 0001 03    32\n\
            0000000000000000: 00000002 00000000 00010000 0001 01    33 @/dotnet-diagnostic-5-6-socket\n\
            0000000000000000: 00000002 00000000 00010000 0001 01    34 /run/x.sock\n\
            0000000000000000: 00000002 000000";
        let sockets = ListeningSockets(text);
        let name = |pid, key| SocketName { pid, key };
        let found: Vec<_> = sockets.runtimes().collect();
        assert_eq!(
            found,
            [(name(1, 2), PathBuf::from("/tmp/a  b/dotnet-diagnostic-1-2-socket"))]
        );
    }
}
