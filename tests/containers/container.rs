//! A container: separate namespaces with a real .NET process as pid 1.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use dotnet_diagnostics::discovery::{SocketName, parse_stat};

use test_support::harness::{Missing, Need};
use test_support::runtimes::{ALL, Host, MUSL, MUSL_LIBRARIES, NET_10, Runtime};

/// Timeout for everything that the tests wait for.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// Default user of the processes.
pub(crate) const USER: u32 = 12345;

/// Namespaces, user and socket directory of a container.
#[derive(Debug, Clone)]
pub(crate) struct Recipe {
    /// Flags of `unshare`. Every container has its own mount namespace.
    pub(crate) namespaces: &'static [&'static str],
    /// Whether the process is root in its own user namespace.
    pub(crate) user_namespace: bool,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) tmpdir: Option<String>,
    /// Shell commands that run as root in the mount namespace before the process starts.
    pub(crate) prepare: String,
    pub(crate) env: Vec<(String, String)>,
    /// File name of the assembly, which is a copy of the workload.
    pub(crate) assembly: String,
    /// Whether the runtime is for musl, in a separate root.
    pub(crate) musl: bool,
    /// Folder of the host that is visible as `/mnt/shared`.
    pub(crate) shared: Option<PathBuf>,
}

impl Default for Recipe {
    fn default() -> Self {
        Self {
            namespaces: &["--pid", "--net", "--ipc"],
            user_namespace: false,
            uid: USER,
            gid: USER,
            tmpdir: None,
            prepare: String::new(),
            env: Vec::new(),
            assembly: "workload.dll".to_owned(),
            musl: false,
            shared: None,
        }
    }
}

/// A running container, whose processes are killed when this value is dropped.
#[derive(Debug)]
pub(crate) struct Container {
    unshare: Child,
    _stdin: ChildStdin,
    lines: Receiver<String>,
    /// Pid of the process on the host.
    pub(crate) pid: u32,
}

/// Returns .NET 10.0.14 if it is available, or .NET 10.0.0.
fn runtime() -> Runtime {
    if newest().is_there() { newest() } else { NET_10 }
}

fn newest() -> Runtime {
    let newest = ALL.into_iter().find(|runtime| runtime.name == "net10.0.14");
    newest.unwrap()
}

/// Returns the requirements of a container.
pub(crate) fn containers() -> Need {
    let missing = if !rustix::process::geteuid().is_root() {
        "this test needs root"
    } else if !works("setpriv", &["--reuid", "1", "--clear-groups", "true"]) {
        "setpriv (util-linux) is missing or refused"
    } else if !works(
        "unshare",
        &["--mount", "--pid", "--net", "--ipc", "--fork", "--kill-child", "true"],
    ) {
        "unshare (util-linux) is missing, or namespaces are refused"
    } else {
        return runtime().need();
    };
    Err(Missing::Ignored(missing.to_owned()))
}

/// Returns the requirements of a container whose process is recognized by its assembly or by the library of the
/// runtime. The single file of .NET 10.0.0 has neither.
pub(crate) fn containers_with_assemblies() -> Need {
    containers()?;
    newest().need()
}

/// Returns the requirements of a container with a working loopback device.
pub(crate) fn containers_with_loopback() -> Need {
    containers()?;
    if works("ip", &["link", "show", "lo"]) {
        return Ok(());
    }
    Err(Missing::Ignored("ip (iproute2) is missing".to_owned()))
}

/// Returns the requirements of a container with musl.
pub(crate) fn containers_with_musl() -> Need {
    containers()?;
    MUSL[0].need()
}

/// Returns the requirements of a container with its own user namespace.
pub(crate) fn user_namespaces() -> Need {
    let as_user = ["--reuid", "1", "--regid", "1", "--clear-groups"];
    let unshare = ["unshare", "--user", "--map-root-user", "true"];
    containers()?;
    if works("setpriv", &[&as_user[..], &unshare].concat()) {
        return Ok(());
    }
    Err(Missing::Ignored("user namespaces are refused to users".to_owned()))
}

fn works(program: &str, args: &[&str]) -> bool {
    let status = Command::new(program)
        .args(args)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

impl Recipe {
    /// Starts the container and waits until its process works.
    pub(crate) fn start(&self) -> Container {
        let mut container = self.spawn();
        container.await_line("ready ");
        container.pid = container.find();
        container
    }

    fn spawn(&self) -> Container {
        let runtime = if self.musl { MUSL[0] } else { runtime() };
        let workload = test_support::repository("tests/workload");
        // The user of the container can lack access to the runtime and the workload, so mount both.
        let program = match runtime.host == Host::StartupHook {
            true => "export DOTNET_STARTUP_HOOKS=\"/mnt/w/$ASSEMBLY\"; set -- /mnt/r/dosai --help",
            false => "set -- /mnt/r/run \"/mnt/w/$ASSEMBLY\"",
        };
        let shared = if self.shared.is_some() {
            "mkdir /mnt/shared; mount --bind \"$SHARED\" /mnt/shared"
        } else {
            ""
        };
        // Mounts the same folders into a root whose C library is musl.
        let root = if self.musl {
            "mkdir -p /mnt/root/mnt /mnt/root/lib /mnt/root/proc /mnt/root/dev /mnt/root/tmp\n\
             mount --bind \"$LIBRARIES\" /mnt/root/lib; mount --rbind /mnt /mnt/root/mnt\n\
             for folder in proc dev tmp; do mount --rbind /$folder /mnt/root/$folder; done"
        } else {
            ""
        };
        let drop = format!("setpriv --reuid {} --regid {} --clear-groups", self.uid, self.gid);
        // A user namespace comes first: the other namespaces must belong to its user.
        let inner = if self.musl {
            let user = format!("--userspec {}:{} --groups=", self.uid, self.gid);
            format!("exec chroot {user} /mnt/root \"$@\"")
        } else if self.user_namespace {
            format!(
                "exec {drop} unshare --user --map-root-user --mount {} --fork --kill-child sh -c 'mount -t tmpfs t /tmp; mount -t proc proc /proc; exec \"$@\"' sh \"$@\"",
                self.namespaces.join(" ")
            )
        } else {
            format!("exec {drop} \"$@\"")
        };
        let script = format!(
            "set -e\n\
             mount -t tmpfs t /mnt; mkdir /mnt/r /mnt/w; mount --bind \"$RUNTIME\" /mnt/r; mount -t tmpfs t /mnt/w\n\
             cp \"$WORKLOAD\"/workload.* /mnt/w/; cp \"$WORKLOAD/workload.dll\" \"/mnt/w/$ASSEMBLY\" 2>/dev/null || true\n\
             {shared}\n\
             mount -t tmpfs -o mode=1777 t /tmp\n\
             [ -z \"$OWN_PROC\" ] || mount -t proc proc /proc\n\
             {}\n{program}\n{root}\n{inner}\n",
            self.prepare
        );
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private"]);
        if !self.user_namespace {
            command.args(self.namespaces).args(["--fork", "--kill-child"]);
        }
        let own_proc = !self.user_namespace && self.namespaces.contains(&"--pid");
        command
            .args(["sh", "-c", &script])
            .env_remove("TMPDIR")
            .env("RUNTIME", runtime.folder())
            .env("WORKLOAD", workload)
            .env("LIBRARIES", MUSL_LIBRARIES.folder())
            .env("ASSEMBLY", &self.assembly)
            .env("SHARED", self.shared.clone().unwrap_or_default())
            .env("OWN_PROC", if own_proc { "1" } else { "" })
            .env("DOTNET_SYSTEM_GLOBALIZATION_INVARIANT", "1")
            .env("WMODE", "steady")
            .env("WSECS", "60")
            .envs(self.tmpdir.iter().map(|tmpdir| ("TMPDIR", tmpdir)))
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit());
        let mut unshare = command.spawn().unwrap();
        let stdout = BufReader::new(unshare.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let stdin = unshare.stdin.take().unwrap();
        Container {
            pid: unshare.id(),
            unshare,
            _stdin: stdin,
            lines,
        }
    }
}

impl Container {
    /// Returns the pid of the runtime's process, which is the last descendant of `unshare`.
    fn find(&self) -> u32 {
        let mut pid = self.unshare.id();
        while let Some(child) = child_of(pid) {
            pid = child;
        }
        let comm = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap();
        assert!(matches!(comm.trim(), "run" | "dosai"), "{comm}");
        pid
    }

    fn await_line(&self, start: &str) {
        let until = Instant::now() + TIMEOUT;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let line = self
                .lines
                .recv_timeout(left)
                .unwrap_or_else(|error| panic!("'{start}': {error}"));
            if line.starts_with(start) {
                return;
            }
        }
    }

    /// Returns the name of the socket, which contains the inner pid and the start time.
    pub(crate) fn socket_name(&self) -> String {
        let stat = parse_stat(&std::fs::read(format!("/proc/{}/stat", self.pid)).unwrap()).unwrap();
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap();
        let ns_pid = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap();
        let pid = ns_pid.split_whitespace().last().unwrap().parse().unwrap();
        let name = SocketName {
            pid,
            key: stat.start_time,
        };
        name.to_string()
    }

    /// Runs shell commands as root in the mount namespace. `$S` is the path of the socket in `/tmp`.
    pub(crate) fn inside(&self, commands: &str) {
        let output = Command::new("nsenter")
            .args(["--mount", "--target", &self.pid.to_string(), "sh", "-ec", commands])
            .env("S", format!("/tmp/{}", self.socket_name()))
            .output()
            .unwrap();
        assert_ran(commands, &output);
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        // Because of `--kill-child`, the kernel also kills the child of `unshare`. If the child is pid 1 of its
        // namespace, the kernel kills all other processes of the namespace.
        let _gone = self.unshare.kill();
        let _reaped = self.unshare.wait();
    }
}

fn assert_ran(what: &str, output: &Output) {
    assert!(
        output.status.success(),
        "{what}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn child_of(parent: u32) -> Option<u32> {
    let pids = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let is_child = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let of = stat
            .rsplit(')')
            .next()
            .and_then(|rest| rest.split_whitespace().nth(1)?.parse().ok());
        of == Some(parent)
    };
    pids.into_iter().find(is_child)
}
