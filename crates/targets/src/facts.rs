//! What `/proc` has of a process beside its socket. The texts are the process's own and may hold anything.

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

/// What `/proc` has of a process beside its socket. `None`: it cannot be read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// The environment that it was started with, variables separated by NUL.
    pub(crate) environ: Option<Vec<u8>>,
    /// Its arguments joined by a space.
    pub(crate) command_line: Option<String>,
    /// The program that runs.
    pub(crate) executable: Option<PathBuf>,
    /// That was compiled ahead of time (NativeAOT), runtime and all.
    pub native_aot: Option<bool>,
    pub(crate) parent: Option<u32>,
    /// Effective user id.
    pub(crate) uid: Option<u32>,
    /// That user's name, where the process has the same files as we.
    pub(crate) user: Option<String>,
    /// What its monotonic clock is ahead of ours by, nanoseconds (time namespaces).
    pub(crate) monotonic_ahead_ns: Option<i64>,
    /// The container and the pod that it is in, by its control groups.
    pub(crate) container: ContainerIdentity,
    /// Whose it is, in words that it cannot choose; empty: unknown.
    pub(crate) tenant: String,
}

impl Facts {
    /// What can be known of a process: nothing but its user when it is not in our `/proc`, where its pid is somebody
    /// else's; blocking.
    pub fn of(process: &Process) -> Self {
        if process.visible {
            return Self::read(process.pid, process.uid);
        }
        Self {
            uid: process.uid,
            tenant: tenant("", &ContainerIdentity::default(), process.uid),
            ..Self::default()
        }
    }

    /// The file name of its program.
    pub fn program(&self) -> Option<std::borrow::Cow<'_, str>> {
        Some(self.executable.as_ref()?.file_name()?.to_string_lossy())
    }

    /// Reads them; blocking.
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

    /// A variable of its environment; the first of two with one name counts, as for `getenv`. `None` also when nothing
    /// may be read.
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

/// The line `monotonic SECONDS NANOSECONDS` of `timens_offsets`.
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

    /// Scenario: an environment with a variable twice, one whose name begins like another, one without a value.
    /// Guarantee: the first one counts, by its whole name; nothing readable is not "unset" but unknown all the same.
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

    /// Scenario: files of `/proc` as the kernel writes them, and cut ones.
    /// Guarantee: clock offset, user and arguments are read; what is cut is unknown.
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

    /// Scenario: this very test's process.
    /// Guarantee: what may be read is read.
    #[test]
    fn our_own_facts_are_known() {
        let facts = Facts::read(std::process::id(), Some(rustix::process::geteuid().as_raw()));
        assert!(facts.environ.is_some() && facts.parent.is_some());
        assert_eq!(facts.executable, std::env::current_exe().ok());
        assert_eq!(facts.native_aot, Some(false));
        assert!(matches!(facts.monotonic_ahead_ns, None | Some(0)));
    }
}
