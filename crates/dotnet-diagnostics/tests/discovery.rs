//! Discovery in a made-up `/proc`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a failed step is a failed test"
)]

use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use dotnet_diagnostics::discovery::{Evidence, Reason, Scan, SocketName};
use dotnet_diagnostics::{Endpoint, Error};

const CORECLR: &str =
    "7f00-7f01 r-xp 00000000 08:01 9  /usr/share/dotnet/shared/Microsoft.NETCore.App/8.0.1/libcoreclr.so\n";
/// A minute after boot, in clock ticks; the made-up uptime is an hour.
const STARTED: u64 = 6000;

/// A made-up host: `/proc`, and a directory for sockets.
struct Host {
    directory: tempfile::TempDir,
}

/// A made-up process. Its defaults are a program without .NET in our namespaces.
struct Entry {
    pid: u32,
    ns_pids: String,
    state: char,
    flags: u64,
    start_time: u64,
    environ: String,
    cmdline: &'static str,
    maps: &'static str,
    net_unix: String,
    root: PathBuf,
    mount_namespace: &'static str,
    time_namespace: &'static str,
}

impl Host {
    fn new() -> Self {
        let host = Self {
            directory: tempfile::tempdir().unwrap(),
        };
        for part in ["proc/self/ns", "tmp"] {
            std::fs::create_dir_all(host.path(part)).unwrap();
        }
        std::fs::write(host.path("proc/uptime"), "3600.00 1.00\n").unwrap();
        symlink("mnt:[1]", host.path("proc/self/ns/mnt")).unwrap();
        symlink("time:[1]", host.path("proc/self/ns/time")).unwrap();
        host
    }

    fn path(&self, part: &str) -> PathBuf {
        self.directory.path().join(part)
    }

    fn scan(&self) -> Scan {
        Scan::host()
            .with_proc_root(self.path("proc"))
            .with_socket_directories([self.path("tmp")])
    }

    /// A process whose TMPDIR is the host's directory for sockets.
    fn entry(&self, pid: u32) -> Entry {
        Entry {
            pid,
            ns_pids: pid.to_string(),
            state: 'S',
            flags: 0,
            start_time: STARTED,
            environ: format!("A=b\0TMPDIR={}\0", self.path("tmp").display()),
            cmdline: "/usr/bin/program\0",
            maps: "",
            net_unix: String::new(),
            root: PathBuf::from("/"),
            mount_namespace: "mnt:[1]",
            time_namespace: "time:[1]",
        }
    }

    fn add(&self, entry: &Entry) {
        let directory = self.path("proc").join(entry.pid.to_string());
        std::fs::create_dir_all(directory.join("ns")).unwrap();
        std::fs::create_dir_all(directory.join("net")).unwrap();
        let Entry {
            pid,
            state,
            flags,
            start_time,
            ns_pids,
            ..
        } = entry;
        let zeros = "0 ".repeat(12);
        let write = |name: &str, text: &str| std::fs::write(directory.join(name), text).unwrap();
        write(
            "stat",
            &format!("{pid} (program) {state} 1 1 1 0 -1 {flags} {zeros}{start_time} 1 1\n"),
        );
        write(
            "status",
            &format!("Name:\tprogram\nUid:\t5\t5\t5\t5\nNSpid:\t{ns_pids}\n"),
        );
        write("environ", &entry.environ);
        write("cmdline", entry.cmdline);
        write("maps", entry.maps);
        write("net/unix", &entry.net_unix);
        symlink(&entry.root, directory.join("root")).unwrap();
        symlink(entry.mount_namespace, directory.join("ns/mnt")).unwrap();
        symlink(entry.time_namespace, directory.join("ns/time")).unwrap();
    }

    fn socket(&self, directory: &Path, pid: u32, key: u64) -> UnixListener {
        UnixListener::bind(directory.join(SocketName { pid, key }.to_string())).unwrap()
    }

    fn reason(&self, entry: &Entry) -> Reason {
        self.add(entry);
        let process = self.scan().inspect(entry.pid).unwrap();
        assert_eq!(process.socket, None, "{process:?}");
        let error = Endpoint::of(&process).unwrap_err();
        let obstacle = process.obstacle.unwrap();
        assert_eq!(error.obstacle(), obstacle);
        obstacle.reason
    }
}

/// Scenario: a host with a .NET process, others without, a kernel thread, one that has ended, and one that vanishes while it is
/// read; beside its socket older ones with its pid, and a dsrouter's.
/// Guarantee: exactly the .NET process is listed, with the socket of its start time.
#[test]
fn the_socket_of_the_start_time_is_taken() {
    let host = Host::new();
    let tmp = host.path("tmp");
    host.add(&Entry {
        cmdline: "/usr/bin/dotnet\0/srv/shop.dll\0",
        ..host.entry(10)
    });
    let _live = host.socket(&tmp, 10, STARTED);
    drop(host.socket(&tmp, 10, STARTED - 1));
    drop(host.socket(&tmp, 10, STARTED + 1));
    drop(UnixListener::bind(tmp.join("dotnet-diagnostic-dsrouter-10-6000-socket")).unwrap());
    host.add(&host.entry(11));
    host.add(&Entry {
        flags: 0x0020_0000,
        maps: CORECLR,
        ..host.entry(12)
    });
    host.add(&Entry {
        state: 'Z',
        maps: CORECLR,
        ..host.entry(13)
    });
    std::fs::create_dir(host.path("proc/14")).unwrap();
    std::fs::create_dir(host.path("proc/acpi")).unwrap();

    let listing = host.scan().list().unwrap();
    let [process] = listing.processes.as_slice() else {
        panic!("{listing:?}")
    };
    assert_eq!(
        (process.pid, process.ns_pid, process.start_time, process.uid),
        (10, 10, STARTED, Some(5))
    );
    assert_eq!(
        (process.name.as_str(), &process.evidence),
        ("shop.dll", &Some(Evidence::Socket))
    );
    assert_eq!(process.obstacle, None);
    let address = process.socket.as_ref().unwrap();
    assert_eq!(address.host_path(), tmp.join("dotnet-diagnostic-10-6000-socket"));
    let stale: Vec<_> = listing
        .stale
        .iter()
        .map(|stale| (stale.name.key, stale.refused))
        .collect();
    assert_eq!(stale, [(STARTED - 1, true), (STARTED + 1, true)]);
    assert!(matches!(host.scan().inspect(13), Err(Error::NoProcess { pid: 13 })));
    assert!(matches!(host.scan().inspect(14), Err(Error::NoProcess { pid: 14 })));
    assert!(matches!(host.scan().inspect(99), Err(Error::NoProcess { pid: 99 })));
}

/// Scenario: a process in a container: other pid, other root, the same TMPDIR text as on the host, where another socket lies.
/// Guarantee: the socket is found by the inner pid inside the root; the host's is not taken.
#[test]
fn containers_are_searched_inside() {
    let host = Host::new();
    let root = host.path("container");
    let inner_tmp = root.join("var/tmp");
    std::fs::create_dir_all(&inner_tmp).unwrap();
    let entry = Entry {
        ns_pids: "20\t7\t1".to_owned(),
        environ: "TMPDIR=/var/tmp/\0".to_owned(),
        root: root.clone(),
        mount_namespace: "mnt:[2]",
        ..host.entry(20)
    };
    host.add(&entry);
    let _live = host.socket(&inner_tmp, 1, STARTED);
    let process = host.scan().inspect(20).unwrap();
    assert_eq!((process.ns_pid, &process.obstacle), (1, &None));
    let address = process.socket.unwrap();
    assert_eq!(address.path(), Path::new("/var/tmp/dotnet-diagnostic-1-6000-socket"));
    assert_eq!(
        address.host_path(),
        host.path("proc/20/root/var/tmp/dotnet-diagnostic-1-6000-socket")
    );
    address.open().unwrap();
}

/// Scenario: .NET processes without a socket: switched off, one of an earlier process left, the file deleted, TMPDIR too long, just
/// started, and no cause to be seen; and a program without .NET.
/// Guarantee: each has its reason.
#[test]
fn missing_sockets_have_reasons() {
    let host = Host::new();
    let tmp = host.path("tmp");
    let dotnet = |pid| Entry {
        maps: CORECLR,
        ..host.entry(pid)
    };
    assert_eq!(host.reason(&dotnet(30)), Reason::NoSocket);
    assert_eq!(host.reason(&host.entry(31)), Reason::NotDotnet);
    let off = Entry {
        environ: format!("{}DOTNET_EnableDiagnostics=0\0", dotnet(32).environ),
        ..dotnet(32)
    };
    assert_eq!(host.reason(&off), Reason::DiagnosticsOff);
    drop(host.socket(&tmp, 33, 17));
    assert_eq!(host.reason(&dotnet(33)), Reason::StaleSocket);
    let path = tmp.join("dotnet-diagnostic-34-6000-socket");
    let net_unix = format!("0: 00000002 00000000 00010000 0001 01 30 {}\n", path.display());
    assert_eq!(host.reason(&Entry { net_unix, ..dotnet(34) }), Reason::SocketRemoved);
    let environ = format!("TMPDIR=/{}\0", "x".repeat(90));
    assert_eq!(host.reason(&Entry { environ, ..dotnet(35) }), Reason::NoSocket);
    let detail = host.scan().inspect(35).unwrap().obstacle.unwrap().detail;
    assert!(detail.contains("TMPDIR is too long"), "{detail}");
    assert_eq!(
        host.reason(&Entry {
            start_time: 359_900,
            ..dotnet(36)
        }),
        Reason::Starting
    );
    let listed: Vec<_> = host
        .scan()
        .list()
        .unwrap()
        .processes
        .iter()
        .map(|process| process.pid)
        .collect();
    assert_eq!(
        listed,
        [30, 32, 33, 34, 35, 36],
        "a process that cannot be attached to is listed all the same"
    );
    let library = host.scan().inspect(30).unwrap().evidence.unwrap();
    assert_eq!(library.version(), Some("8.0.1"));
}

/// Scenario: a process in another time namespace, whose start time is not the one that it sees itself.
/// Guarantee: its newest socket is taken; whose it is the connection tells.
#[test]
fn time_namespaces_shift_the_key() {
    let host = Host::new();
    let tmp = host.path("tmp");
    let _older = host.socket(&tmp, 40, 100);
    let _newer = host.socket(&tmp, 40, 999_999);
    host.add(&Entry {
        time_namespace: "time:[2]",
        ..host.entry(40)
    });
    let process = host.scan().inspect(40).unwrap();
    assert_eq!(
        process.socket.unwrap().host_path(),
        tmp.join("dotnet-diagnostic-40-999999-socket")
    );
    host.add(&Entry {
        time_namespace: "time:[2]",
        ..host.entry(41)
    });
    assert_eq!(host.scan().inspect(41).unwrap().evidence, None);
}

/// Scenario: a socket without a visible process, on which somebody listens.
/// Guarantee: it is not called stale.
#[test]
fn sockets_that_are_listened_on_are_not_stale() {
    let host = Host::new();
    let _live = host.socket(&host.path("tmp"), 50, 1);
    assert_eq!(host.scan().list().unwrap().stale, []);
    let nowhere = Scan::host().with_proc_root(host.path("nowhere"));
    assert!(matches!(nowhere.list(), Err(Error::Proc { .. })));
}
