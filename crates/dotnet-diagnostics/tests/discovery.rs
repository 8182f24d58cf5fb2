//! Tests of discovery with a synthetic `/proc`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a failed step is a failed test"
)]

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use dotnet_diagnostics::discovery::{Evidence, Reason, Scan, SocketName};
use dotnet_diagnostics::{Endpoint, Error};

const CORECLR: &str =
    "7f00-7f01 r-xp 00000000 08:01 9  /usr/share/dotnet/shared/Microsoft.NETCore.App/8.0.1/libcoreclr.so\n";
/// Start time of the synthetic processes: one minute after boot, in clock ticks. The synthetic uptime is one hour.
const STARTED: u64 = 6000;

/// A synthetic host: `/proc`, and a directory for sockets.
struct Host {
    directory: tempfile::TempDir,
}

/// A synthetic process. By default, a program without .NET in the namespaces of the test.
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
        // The synthetic processes run as a different user.
        std::fs::set_permissions(host.path("tmp"), Permissions::from_mode(0o777)).unwrap();
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

    /// Returns a process whose TMPDIR is the host's directory for sockets.
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

    /// Returns a process that has mapped the runtime library.
    fn dotnet(&self, pid: u32) -> Entry {
        Entry {
            maps: CORECLR,
            ..self.entry(pid)
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
        let error = Endpoint::for_process(&process).unwrap_err();
        let obstacle = process.obstacle.unwrap();
        assert_eq!(error.obstacle(), obstacle);
        obstacle.reason
    }
}

/// Scenario: a host has a .NET process, other processes, a kernel thread, an exited process, and a process that
/// vanishes while it is read; next to the socket there are sockets with the same pid and other start times, and a
/// dsrouter socket.
/// Guarantee: exactly the .NET process is listed, with the socket of its start time. The sockets with other start times
/// are stale.
#[test]
fn socket_with_start_time_is_found() {
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
        ..host.dotnet(12)
    });
    host.add(&Entry {
        state: 'Z',
        ..host.dotnet(13)
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

/// Scenario: a process in a container has another pid and another root; its TMPDIR is the same path as on the host,
/// which contains another socket.
/// Guarantee: the socket is found by the inner pid inside the root, and the host's socket is ignored.
#[test]
fn socket_inside_container_is_found() {
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

/// Scenario: .NET processes have no socket: diagnostics are off, a socket of an earlier process remains, the file was
/// deleted, TMPDIR is too long, the process just started, or the cause is unknown; one program does not use .NET.
/// Guarantee: each process has the reason for its missing socket, and all processes except for the program without .NET
/// are listed.
#[test]
fn missing_socket_has_reason() {
    let host = Host::new();
    let tmp = host.path("tmp");
    let dotnet = |pid| host.dotnet(pid);
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
    let listed = host.scan().list().unwrap().processes;
    assert!(
        listed.iter().map(|process| process.pid).eq([30, 32, 33, 34, 35, 36]),
        "a process that cannot be attached to is listed: {listed:?}"
    );
    let library = host.scan().inspect(30).unwrap().evidence.unwrap();
    assert_eq!(library.version(), Some("8.0.1"));
}

/// Scenario: a process is in another time namespace and therefore sees a different start time.
/// Guarantee: the newest socket of the process is found. Connecting to this socket verifies the listener later.
#[test]
fn newest_socket_is_found_in_other_time_namespace() {
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

/// Scenario: a process listens on a socket that belongs to no visible process.
/// Guarantee: the socket is not reported as stale.
#[test]
fn socket_with_listener_is_not_stale() {
    let host = Host::new();
    let _live = host.socket(&host.path("tmp"), 50, 1);
    assert_eq!(host.scan().list().unwrap().stale, []);
    let nowhere = Scan::host().with_proc_root(host.path("nowhere"));
    assert!(matches!(nowhere.list(), Err(Error::Proc { .. })));
}

/// Scenario: .NET processes have no socket for a visible cause: the runtime is older than 3.0; the directory does not
/// exist, is a file, or belongs to another user; a link, a file, a FIFO or a directory is in place of the socket.
/// Guarantee: each process has its specific reason and a remedy, and the file in place of the socket is neither
/// followed nor opened.
#[test]
fn visible_cause_is_reported() {
    let host = Host::new();
    let tmp = host.path("tmp");
    let dotnet = |pid| host.dotnet(pid);
    let old = "7f00-7f01 r-xp 00000000 08:01 9  /usr/share/dotnet/shared/Microsoft.NETCore.App/2.1.30/libcoreclr.so\n";
    assert_eq!(
        host.reason(&Entry {
            maps: old,
            ..dotnet(60)
        }),
        Reason::TooOld
    );
    let in_directory = |pid, directory: &Path| Entry {
        environ: format!("TMPDIR={}\0", directory.display()),
        ..dotnet(pid)
    };
    let gone = host.path("gone");
    assert_eq!(host.reason(&in_directory(61, &gone)), Reason::UnwritableDirectory);
    std::fs::write(host.path("file"), b"").unwrap();
    assert_eq!(
        host.reason(&in_directory(62, &host.path("file"))),
        Reason::UnwritableDirectory
    );
    let others = host.path("others");
    std::fs::create_dir(&others).unwrap();
    std::fs::set_permissions(&others, Permissions::from_mode(0o755)).unwrap();
    // The synthetic process has uid 5. The directory belongs to the user of the test.
    assert_eq!(host.reason(&in_directory(63, &others)), Reason::UnwritableDirectory);

    let place = |pid| tmp.join(SocketName { pid, key: STARTED }.to_string());
    let elsewhere = host.path("elsewhere");
    let _listener = UnixListener::bind(&elsewhere).unwrap();
    symlink(&elsewhere, place(64)).unwrap();
    std::fs::write(place(65), b"").unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        place(66),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o666),
        0,
    )
    .unwrap();
    std::fs::create_dir(place(67)).unwrap();
    for pid in 64..=67 {
        assert_eq!(host.reason(&dotnet(pid)), Reason::NotASocket, "{pid}");
    }
    for pid in 60..=67 {
        let obstacle = host.scan().inspect(pid).unwrap().obstacle.unwrap();
        assert!(
            !obstacle.remedy.is_empty() && obstacle.sentence().contains(&obstacle.remedy),
            "{obstacle}"
        );
    }
}

/// Scenario: the environment of two processes cannot be read, and their TMPDIR is elsewhere; the kernel's table
/// contains the path of the first socket, which contains a blank; the second process does not listen.
/// Guarantee: the socket of the first process is found; the second process is listed with the searched locations and
/// the missing permission.
#[test]
fn socket_is_found_without_environment() {
    let host = Host::new();
    let elsewhere = host.path("else where");
    std::fs::create_dir(&elsewhere).unwrap();
    let _live = host.socket(&elsewhere, 70, STARTED);
    let path = elsewhere.join("dotnet-diagnostic-70-6000-socket");
    let line = format!("0: 00000002 00000000 00010000 0001 01    30 {}\n", path.display());
    let readable = Entry {
        net_unix: line.clone(),
        ..host.dotnet(70)
    };
    host.add(&readable);
    let blind = |pid: u32| std::fs::remove_file(host.path("proc").join(pid.to_string()).join("environ")).unwrap();
    blind(70);
    let process = host.scan().inspect(70).unwrap();
    assert_eq!(
        (process.socket.unwrap().host_path(), process.obstacle),
        (path.clone(), None)
    );

    // If there is no other evidence of .NET, a socket in the table counts as evidence.
    std::fs::write(host.path("proc/70/net/unix"), "").unwrap();
    std::fs::write(host.path("proc/70/maps"), "").unwrap();
    assert_eq!(host.scan().inspect(70).unwrap().evidence, None);
    std::fs::write(host.path("proc/70/net/unix"), line).unwrap();
    assert_eq!(host.scan().inspect(70).unwrap().socket.unwrap().host_path(), path);
    // Neither the environment nor the maps are readable, so .NET cannot be ruled out.
    std::fs::write(host.path("proc/70/net/unix"), "").unwrap();
    std::fs::remove_file(host.path("proc/70/maps")).unwrap();
    let unseen = host.scan().inspect(70).unwrap();
    assert_eq!(
        (unseen.evidence, unseen.obstacle.unwrap().reason),
        (None, Reason::Permission)
    );

    std::fs::write(
        host.path("proc/self/status"),
        "Uid:\t0\t0\t0\t0\nCapEff:\t0000000000080000\nCapBnd:\t0000000000080002\n",
    )
    .unwrap();
    host.add(&host.dotnet(71));
    blind(71);
    let obstacle = host.scan().inspect(71).unwrap().obstacle.unwrap();
    assert_eq!(obstacle.reason, Reason::Permission);
    assert!(
        obstacle.detail.contains("listening sockets") && obstacle.detail.contains("/tmp/"),
        "{obstacle}"
    );
    assert!(
        obstacle.remedy.contains("CAP_DAC_OVERRIDE") && !obstacle.remedy.contains("PTRACE"),
        "{obstacle}"
    );
}

/// Scenario: a directory configured by the operator contains sockets of three processes: a visible process whose own
/// directory has no socket, an invisible process, and a visible process whose own directory has a socket; another
/// runtime could not read its start time.
/// Guarantee: the first socket is assigned to its process. The second socket becomes an invisible process that is known
/// only by the name of the socket. The configured socket of the third process is not used. The socket of the other
/// runtime is found by its key 0.
#[test]
fn configured_socket_is_used() {
    let host = Host::new();
    let shared = host.path("shared");
    std::fs::create_dir(&shared).unwrap();
    let _first = host.socket(&shared, 80, STARTED);
    host.add(&host.entry(80));
    let _second = host.socket(&shared, 1, 777);
    let _third = (
        host.socket(&shared, 82, STARTED),
        host.socket(&host.path("tmp"), 82, STARTED),
    );
    host.add(&host.entry(82));
    let listing = host.scan().with_sockets([shared.as_path()]).list().unwrap();
    let listed: Vec<_> = listing
        .processes
        .iter()
        .map(|process| {
            (
                process.pid,
                process.start_time,
                process.visible,
                process.socket.as_ref().unwrap().host_path(),
            )
        })
        .collect();
    let at = |directory: &Path, pid, key| directory.join(SocketName { pid, key }.to_string());
    assert_eq!(
        listed,
        [
            (80, STARTED, true, at(&shared, 80, STARTED)),
            (82, STARTED, true, at(&host.path("tmp"), 82, STARTED)),
            (1, 777, false, at(&shared, 1, 777)),
        ]
    );
    let one = at(&shared, 1, 777);
    let scan = host.scan().with_sockets([one.as_path()]);
    assert!(scan.inspect_named(SocketName { pid: 1, key: 777 }).is_some());
    assert_eq!(scan.inspect_named(SocketName { pid: 80, key: STARTED }), None);

    host.add(&host.dotnet(83));
    let _without = host.socket(&host.path("tmp"), 83, 0);
    let process = host.scan().inspect(83).unwrap();
    assert_eq!(process.socket.unwrap().host_path(), at(&host.path("tmp"), 83, 0));
}

/// Scenario: gcwatch and a program in another container share a directory of sockets but no pid namespace; both have
/// pid 1 and started in the same hundredth of a second. Another process in gcwatch's `/proc` also has such a name.
/// Guarantee: the socket is assigned to the program, an invisible process, and not to gcwatch; the other process keeps
/// its socket.
#[test]
fn socket_with_our_own_name_is_of_another_process() {
    let host = Host::new();
    let shared = host.path("shared");
    std::fs::create_dir(&shared).unwrap();
    std::fs::remove_dir_all(host.path("proc/self")).unwrap();
    host.add(&host.entry(1));
    symlink("1", host.path("proc/self")).unwrap();
    let _programs = (host.socket(&shared, 1, STARTED), host.socket(&shared, 90, STARTED));
    host.add(&host.entry(90));
    let name = SocketName { pid: 1, key: STARTED };
    let at = shared.join(name.to_string());
    let scan = host.scan().with_sockets([shared.as_path()]);
    assert_eq!(scan.inspect(1).unwrap().socket, None);
    let named = scan.inspect_named(name).unwrap();
    assert_eq!((named.visible, named.socket.unwrap().host_path()), (false, at));
    let of_both = [(90, true), (1, false)];
    let listed = scan.list().unwrap().processes;
    let listed: Vec<_> = listed.iter().map(|process| (process.pid, process.visible)).collect();
    assert_eq!(listed, of_both);
    let named = scan.list_named();
    assert_eq!(named.iter().map(|process| process.pid).collect::<Vec<_>>(), [1]);
}

/// Scenario: the sockets of processes are in the directory that `XDG_RUNTIME_DIR` names with an absolute path, with a
/// relative path, or through a link; one process also has a socket in its `TMPDIR`.
/// Guarantee: the socket is found in the absolute directory, also through the link; `TMPDIR` comes first; a relative
/// directory is not searched, and the obstacle names the searched directories.
#[test]
fn runtime_directory_is_searched() {
    let host = Host::new();
    let runtime = host.path("runtime");
    std::fs::create_dir(&runtime).unwrap();
    symlink(&runtime, host.path("link")).unwrap();
    let _sockets: Vec<_> = (100..=103).map(|pid| host.socket(&runtime, pid, STARTED)).collect();
    let _first = host.socket(&host.path("tmp"), 102, STARTED);
    let with = |pid, directory: &Path| Entry {
        environ: format!(
            "TMPDIR={}\0XDG_RUNTIME_DIR={}\0",
            host.path("tmp").display(),
            directory.display()
        ),
        ..host.dotnet(pid)
    };
    let found = |entry: &Entry| {
        host.add(entry);
        let process = host.scan().inspect(entry.pid).unwrap();
        process.socket.map(|socket| socket.host_path())
    };
    let name = |pid| SocketName { pid, key: STARTED }.to_string();
    assert_eq!(found(&with(100, &runtime)), Some(runtime.join(name(100))));
    assert_eq!(
        found(&with(101, &host.path("link"))),
        Some(host.path("link").join(name(101)))
    );
    assert_eq!(found(&with(102, &runtime)), Some(host.path("tmp").join(name(102))));
    assert_eq!(found(&with(103, Path::new("runtime"))), None);
    let obstacle = host.scan().inspect(103).unwrap().obstacle.unwrap();
    assert!(obstacle.sentence().contains("and none in /run/user/5"), "{obstacle}");
}

/// Scenario: a process has its own root and an unreadable environment, and its socket is in `/run/user/UID` of this
/// root. Another process has a link in place of its socket.
/// Guarantee: the socket is found in this directory, and the link is not followed.
#[test]
fn users_directory_is_searched_in_the_root_of_the_process() {
    let host = Host::new();
    let root = host.path("root");
    let directory = root.join("run/user/5");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::create_dir(root.join("tmp")).unwrap();
    std::fs::set_permissions(root.join("tmp"), Permissions::from_mode(0o777)).unwrap();
    let _socket = host.socket(&directory, 1, STARTED);
    let entry = |pid: u32, ns_pid: u32| Entry {
        ns_pids: format!("{pid}\t{ns_pid}"),
        environ: String::new(),
        root: root.clone(),
        mount_namespace: "mnt:[2]",
        ..host.dotnet(pid)
    };
    host.add(&entry(110, 1));
    std::fs::remove_file(host.path("proc/110/environ")).unwrap();
    let process = host.scan().inspect(110).unwrap();
    let path = process.socket.unwrap().path().to_owned();
    assert_eq!(
        path,
        Path::new("/run/user/5").join(SocketName { pid: 1, key: STARTED }.to_string())
    );
    let outside = host.socket(&host.path("tmp"), 7, STARTED);
    let name = |pid| SocketName { pid, key: STARTED }.to_string();
    symlink(host.path("tmp").join(name(7)), directory.join(name(2))).unwrap();
    assert_eq!(host.reason(&entry(111, 2)), Reason::NoSocket);
    drop(outside);
}
