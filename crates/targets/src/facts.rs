//! Facts about a process in `/proc`, apart from its socket. The process controls the texts, which can contain anything.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use dotnet_diagnostics::discovery::{Process, parse_stat};

use crate::elf;
use crate::proc_file::bytes;
use processes::container::{ContainerIdentity, identity, tenant};

const MAX_ENVIRON_BYTES: u64 = 1 << 20;
const MAX_CMDLINE_BYTES: u64 = 16 << 10;
const MAX_CGROUP_BYTES: u64 = 64 << 10;
const MAX_SMALL_BYTES: u64 = 4 << 10;
const MAX_PASSWD_BYTES: u64 = 1 << 20;

/// Facts about a process in `/proc`. A field is `None` if it is not readable.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// Environment at the start of the process, with variables separated by NUL.
    pub(crate) environ: Option<Vec<u8>>,
    /// Arguments joined by spaces.
    pub(crate) command_line: Option<String>,
    /// Executable of the process.
    pub(crate) executable: Option<PathBuf>,
    /// Whether the program was compiled ahead of time (NativeAOT), including its runtime.
    pub native_aot: Option<bool>,
    pub(crate) parent: Option<u32>,
    /// Effective user id.
    pub(crate) uid: Option<u32>,
    /// Name of the effective user; `None` if the process is in another mount namespace than gcwatch, or the user has no
    /// name.
    pub(crate) user: Option<String>,
    /// Offset of the process's monotonic clock from gcwatch's, in nanoseconds (time namespaces).
    pub(crate) monotonic_ahead_ns: Option<i64>,
    /// Container and pod of the process, from its control groups.
    pub(crate) container: ContainerIdentity,
    /// Tenant of the process, in terms that the process cannot choose; empty if unknown.
    pub(crate) tenant: String,
}

impl Facts {
    /// Returns the facts about a process. If the process is not visible in gcwatch's `/proc`, its pid belongs to
    /// another process there, and only its user is known.
    ///
    /// Blocks the calling thread.
    pub fn for_process(process: &Process) -> Self {
        if process.visible {
            return Self::read(process.pid, process.uid);
        }
        Self {
            uid: process.uid,
            tenant: tenant("", &ContainerIdentity::default(), process.uid),
            ..Self::default()
        }
    }

    /// Returns the file name of the executable, or `None` if the executable is unknown.
    pub fn program(&self) -> Option<std::borrow::Cow<'_, str>> {
        Some(self.executable.as_ref()?.file_name()?.to_string_lossy())
    }

    /// Reads the facts. Blocks the calling thread.
    pub(crate) fn read(pid: u32, uid: Option<u32>) -> Self {
        let directory = PathBuf::from(format!("/proc/{pid}"));
        let read = |path: &Path, limit| bytes(File::open(path).ok()?, limit);
        let own = |name: &str, limit| read(&directory.join(name), limit);
        let own_files = {
            let namespace = |directory: &Path| std::fs::read_link(directory.join("ns/mnt")).ok();
            let theirs = namespace(&directory);
            theirs.is_some() && theirs == namespace(Path::new("/proc/self"))
        };
        let passwd = own_files.then(|| read(Path::new("/etc/passwd"), MAX_PASSWD_BYTES));
        let offset = |directory: &Path| monotonic_offset_ns(&read(&directory.join("timens_offsets"), MAX_SMALL_BYTES)?);
        let ahead = offset(&directory).zip(offset(Path::new("/proc/self")));
        let groups = own("cgroup", MAX_CGROUP_BYTES).unwrap_or_default();
        let groups = String::from_utf8_lossy(&groups);
        let container = identity(&groups);
        Self {
            environ: own("environ", MAX_ENVIRON_BYTES),
            command_line: own("cmdline", MAX_CMDLINE_BYTES).map(|text| joined(&text)),
            executable: std::fs::read_link(directory.join("exe")).ok(),
            native_aot: File::open(directory.join("exe"))
                .ok()
                .and_then(|file| elf::is_native_aot(|buffer, at| file.read_exact_at(buffer, at))),
            parent: own("stat", MAX_SMALL_BYTES).and_then(|stat| Some(parse_stat(&stat)?.parent)),
            uid,
            user: passwd
                .flatten()
                .zip(uid)
                .and_then(|(passwd, uid)| user_name(&passwd, uid)),
            monotonic_ahead_ns: ahead.and_then(|(theirs, ours)| theirs.checked_sub(ours)),
            tenant: tenant(&groups, &container, uid),
            container,
        }
    }

    /// Returns the value of an environment variable, or `None` if the variable is not set or the environment is
    /// unreadable. If the name occurs twice, the first value counts, as for `getenv`.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        let variables = self.environ.as_deref()?.split(|&byte| byte == 0);
        let value = |variable: &[u8]| {
            let rest = variable.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
            Some(String::from_utf8_lossy(rest).into_owned())
        };
        variables.into_iter().find_map(value)
    }
}

fn joined(cmdline: &[u8]) -> String {
    let arguments = cmdline.strip_suffix(b"\0").unwrap_or(cmdline);
    String::from_utf8_lossy(arguments).replace('\0', " ")
}

/// Parses the line `monotonic SECONDS NANOSECONDS` of `timens_offsets`.
fn monotonic_offset_ns(text: &[u8]) -> Option<i64> {
    let text = String::from_utf8_lossy(text);
    let mut fields = text
        .lines()
        .find_map(|line| line.strip_prefix("monotonic"))?
        .split_ascii_whitespace();
    let (seconds, nanoseconds): (i64, i64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    seconds.checked_mul(1_000_000_000)?.checked_add(nanoseconds)
}

fn user_name(passwd: &[u8], uid: u32) -> Option<String> {
    let passwd = String::from_utf8_lossy(passwd);
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: an environment contains a variable twice, a variable with a longer name, and one without a value;
    /// another environment is unreadable.
    /// Guarantee: variables are matched by their whole name, the first of two values counts, and an unreadable
    /// environment has no variables.
    #[test]
    fn variables_are_found_by_name() {
        let environ = b"AB=1\0A=2\0A=3\0EMPTY=\0NOSIGN\0".to_vec();
        let facts = Facts {
            environ: Some(environ),
            ..Facts::default()
        };
        assert_eq!(facts.variable("A").as_deref(), Some("2"));
        assert_eq!(facts.variable("EMPTY").as_deref(), Some(""));
        assert_eq!(facts.variable("NOSIGN"), None);
        assert_eq!(Facts::default().variable("A"), None);
    }

    /// Scenario: files of `/proc` are as written by the kernel, or truncated.
    /// Guarantee: clock offset, user and arguments are parsed; truncated values are unknown.
    #[test]
    fn files_of_proc_are_read() {
        let offsets = b"monotonic           -5        10\nboottime            0         0\n";
        assert_eq!(monotonic_offset_ns(offsets), Some(-4_999_999_990));
        assert_eq!(monotonic_offset_ns(b"boottime 0 0"), None);
        let passwd = b"root:x:0:0:root:/root:/bin/sh\nweb:x:33:33::/:/bin/false\n";
        assert_eq!(user_name(passwd, 33).as_deref(), Some("web"));
        assert_eq!(user_name(passwd, 34), None);
        assert_eq!(joined(b"dotnet\0app.dll\0--x\0"), "dotnet app.dll --x");
    }

    /// Scenario: facts are read about the process of this test.
    /// Guarantee: the environment, the parent, the executable and the kind of program are known. The clock offset is 0
    /// or unknown.
    #[test]
    fn facts_of_own_process_are_read() {
        let facts = Facts::read(std::process::id(), Some(rustix::process::geteuid().as_raw()));
        assert!(facts.environ.is_some() && facts.parent.is_some());
        assert_eq!(facts.executable, std::env::current_exe().ok());
        assert_eq!(facts.native_aot, Some(false));
        assert!(matches!(facts.monotonic_ahead_ns, None | Some(0)));
    }
}
