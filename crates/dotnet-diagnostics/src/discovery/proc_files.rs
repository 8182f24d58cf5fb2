//! Parsers for the files of `/proc/PID`, as pure functions.
//!
//! Names, arguments and variables are under the control of the process and can contain any bytes.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use super::socket_name::SocketName;
use super::unix_table::Line;
use crate::text::is_plain;

/// Kernel thread flag (`PF_KTHREAD`) in the flags of `stat`.
const KERNEL_THREAD: u64 = 0x0020_0000;
/// Maximum length of a name from a command line, in characters.
const MAX_NAME_CHARS: usize = 128;

/// The contents of `/proc/PID/stat`, see proc(5).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stat {
    /// Field 1: process id in the pid namespace of the `/proc` that was read.
    pub pid: u32,
    /// Field 2: name of the main thread, at most 15 bytes, which can contain spaces and parentheses. The process
    /// controls it: display it with [`shown`](crate::text::shown).
    pub comm: String,
    /// Field 3: `R`, `S`, `D`, `T` (stopped), `Z` (exited, not reaped), ...
    pub state: char,
    /// Field 4: process id of the parent; 0 if the parent is outside the pid namespace.
    pub parent: u32,
    /// Field 9: whether the process is a kernel thread.
    pub kernel_thread: bool,
    /// Field 14: time in user mode, in clock ticks.
    pub user_ticks: u64,
    /// Field 15: time in kernel mode, in clock ticks.
    pub system_ticks: u64,
    /// Field 20: number of threads.
    pub threads: u64,
    /// Field 22: start time in clock ticks since boot, which is the key in the socket name.
    pub start_time: u64,
    /// Field 24: resident memory, in pages; `None` if the text ends earlier.
    pub resident_pages: Option<u64>,
}

/// Parses `/proc/PID/stat`. Returns `None` if the text is malformed, or truncated before the start time.
///
/// The name can contain spaces and parentheses, so fields are counted after the last `)`.
pub fn parse_stat(stat: &[u8]) -> Option<Stat> {
    let stat = String::from_utf8_lossy(stat);
    let (head, tail) = stat.rsplit_once(')')?;
    let (pid, comm) = head.split_once('(')?;
    let mut fields = [""; 22];
    for (slot, field) in fields.iter_mut().zip(tail.split_ascii_whitespace()) {
        *slot = field;
    }
    // Field 3 is the first field after the name. Missing fields are empty and do not parse as numbers.
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
    /// Process id in the innermost pid namespace (last number of `NSpid`); `None` if the file does not contain it
    /// (before Linux 4.1).
    pub ns_pid: Option<u32>,
    /// Effective user id; `None` if the file does not contain it.
    pub uid: Option<u32>,
}

/// Parses `/proc/PID/status`.
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

/// Settings of the diagnostics socket in `/proc/PID/environ`, the environment at the start of the process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environ {
    /// `TMPDIR`, the directory of the runtime's socket; `None` if unset or empty, in which case the directory is
    /// `/tmp`.
    pub tmpdir: Option<PathBuf>,
    /// `XDG_RUNTIME_DIR`, in which a later runtime can create its socket; `None` if unset, empty or relative.
    pub runtime_dir: Option<PathBuf>,
    /// First variable that disables the diagnostics socket, with its value (`DOTNET_EnableDiagnostics=0`); `None` if no
    /// variable disables the socket.
    pub switched_off: Option<String>,
}

/// Parses `/proc/PID/environ`. If `TMPDIR` or `XDG_RUNTIME_DIR` occurs twice, the first variable counts, as for
/// `getenv`.
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

/// Returns whether a variable disables diagnostics: `DOTNET_` (since .NET 6) or `COMPlus_`, then `EnableDiagnostics` or
/// (since .NET 8) `EnableDiagnostics_IPC`, with a hexadecimal zero.
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

/// Returns the time since boot from `/proc/uptime`, in clock ticks (100 per second, a constant of Linux's interface),
/// or `None` if the text is malformed.
pub fn parse_uptime(uptime: &[u8]) -> Option<u64> {
    let uptime = std::str::from_utf8(uptime).ok()?;
    let (seconds, hundredths) = uptime.split_ascii_whitespace().next()?.split_once('.')?;
    let (seconds, hundredths): (u64, u64) = (seconds.parse().ok()?, hundredths.parse().ok()?);
    seconds.checked_mul(100)?.checked_add(hundredths)
}

/// Returns the display name of a process: the first of its first eight arguments that is a `.dll` (for `dotnet
/// app.dll`), otherwise the file name of the program, otherwise the name of its main thread. Control characters are
/// replaced and long names are truncated, so the name is safe to display.
pub fn display_name(cmdline: &[u8], comm: &str) -> String {
    let file_name = |argument: &[u8]| {
        let name = argument.rsplit(|&byte| byte == b'/').next().unwrap_or(argument);
        String::from_utf8_lossy(name).into_owned()
    };
    let mut arguments = cmdline.split(|&byte| byte == 0).filter(|argument| !argument.is_empty());
    let program = arguments.next().map(file_name).filter(|name| !name.is_empty());
    // Options of the host precede the assembly, and arguments of the program follow it.
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

/// The paths in `/proc/PID/net/unix` on which processes listen, including paths whose file was deleted.
#[derive(Clone, Copy, Debug)]
pub struct ListeningSockets<'a>(
    /// Contents of the file.
    pub &'a [u8],
);

impl ListeningSockets<'_> {
    /// Returns each absolute path whose file name is the name of a runtime's socket. Any process can listen on such a
    /// path; only a connection reveals the listener.
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

    /// Scenario: a thread name contains spaces and parentheses; a process is a kernel thread; a file is truncated.
    /// Guarantee: fields are counted after the last parenthesis; a file that is truncated before the start time is
    /// rejected, and a missing later field is `None`.
    #[test]
    fn stat_fields_are_counted_after_last_parenthesis() {
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

    /// Scenario: a process is in a container, another is on the host, and an old kernel has no `NSpid`.
    /// Guarantee: the innermost pid and the effective uid are returned; missing values are `None`.
    #[test]
    fn status_contains_inner_pid() {
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

    /// Scenario: environments contain `TMPDIR` and `XDG_RUNTIME_DIR` once, empty and twice, a relative
    /// `XDG_RUNTIME_DIR`, and each spelling of the switch.
    /// Guarantee: the values are interpreted as in the runtime.
    #[test]
    fn environ_contains_directory_and_switch() {
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

    /// Scenario: command lines are of a framework-dependent program, a custom host, a thread without arguments and a
    /// hostile program.
    /// Guarantee: the name is the file name of the assembly or of the program, or the thread name. The name contains no
    /// control characters and is limited in length.
    #[test]
    fn display_name_is_human_readable() {
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

    /// Scenario: an uptime has the format of the kernel, and another uptime is invalid.
    /// Guarantee: the valid uptime is in ticks of 1/100 s, and the invalid uptime is rejected.
    #[test]
    fn uptime_is_in_ticks() {
        assert_eq!(parse_uptime(b"1234.56 99.99\n"), Some(123_456));
        assert_eq!(parse_uptime(b"x"), None);
    }

    /// Scenario: `net/unix` contains listening sockets (one in a directory with blanks in its name, one abstract), a
    /// connected socket, sockets of other programs and a truncated line.
    /// Guarantee: only the listening socket with a runtime's name is found, with its complete path.
    #[test]
    fn listening_socket_is_found_by_name() {
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
