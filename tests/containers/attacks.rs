//! Objects with which a container can replace its socket.

use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;

use tempfile::TempDir;

use test_support::add_tests;
use test_support::harness::Tests;

use crate::container::{Container, Recipe, containers, containers_with_assemblies};
use crate::gcwatch::{LEAST_PRIVILEGES, texts, verdict};

pub(crate) fn tests(tests: &mut Tests) {
    add_tests!(tests, containers_with_assemblies; planted_object_does_not_reach_host);
    add_tests!(
        tests, containers;
        replaced_directory_is_resolved_inside_container,
        socket_of_another_process_is_rejected,
    );
}

/// A folder on the host with a socket on which this test listens: the socket to which an attacker wants gcwatch to
/// connect.
struct Bait {
    folder: TempDir,
    listener: UnixListener,
}

impl Bait {
    fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("gcwatch-bait").tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let listener = Self::listen(&folder.path().join("socket"));
        Self { folder, listener }
    }

    fn listen(path: &Path) -> UnixListener {
        let listener = UnixListener::bind(path).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
        listener.set_nonblocking(true).unwrap();
        listener
    }

    /// Returns the number of connections. Panics if a connection has sent a byte.
    fn connections(&self) -> usize {
        let mut count = 0;
        loop {
            match self.listener.accept() {
                Ok((mut stream, _)) => {
                    count += 1;
                    let mut sent = Vec::new();
                    stream.read_to_end(&mut sent).unwrap();
                    assert!(sent.is_empty(), "gcwatch sends no byte to another listener");
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return count,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

fn victim(bait: &Bait) -> Container {
    let recipe = Recipe {
        shared: Some(bait.folder.path().to_path_buf()),
        ..Recipe::default()
    };
    recipe.start()
}

/// Scenario: a container replaces its socket by a link to a socket of the host (absolute, relative, or through
/// `/proc/PID/root`), a FIFO, a file, a device, a directory, or a link to itself.
/// Guarantee: the verdict states that the object is not a socket, and has a remedy; gcwatch does not connect to a
/// socket outside the container.
fn planted_object_does_not_reach_host() {
    let bait = Bait::new();
    let container = victim(&bait);
    // If a path led to the bait's folder, the socket with the container's own socket name would be used.
    let named = Bait::listen(&bait.folder.path().join(container.socket_name()));
    let outside = bait.folder.path().display();
    let own = std::process::id();
    let planted = [
        (format!("ln -s {outside}/socket $S"), "not-a-socket"),
        (format!("ln -s ../../../../../..{outside}/socket $S"), "not-a-socket"),
        (format!("ln -s /proc/1/root{outside}/socket $S"), "not-a-socket"),
        (format!("ln -s /proc/{own}/root{outside}/socket $S"), "not-a-socket"),
        ("mkfifo $S".to_owned(), "not-a-socket"),
        ("echo x >$S".to_owned(), "not-a-socket"),
        ("mknod $S c 1 3".to_owned(), "not-a-socket"),
        ("mkdir $S".to_owned(), "not-a-socket"),
        ("ln -s $S $S".to_owned(), "not-a-socket"),
    ];
    for (commands, reason) in planted {
        container.inside(&format!("rm -rf $S; {commands}"));
        let found = verdict(LEAST_PRIVILEGES, container.pid);
        assert_eq!(found["verdict"], reason, "{commands}: {}", texts(&found));
        assert!(found["remedy"].is_string(), "{found}");
    }
    assert_eq!(bait.connections(), 0);
    assert_eq!(named.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
}

/// Scenario: the TMPDIR of a running process is replaced by a link to a folder of the host, which contains a socket
/// with the name of the process's socket. The link is absolute, relative, through `/proc/1/root`, or a link to itself.
/// Guarantee: the link is resolved in the container's own root, where the target does not exist.
fn replaced_directory_is_resolved_inside_container() {
    let bait = Bait::new();
    let recipe = Recipe {
        tmpdir: Some("/tmp/own".to_owned()),
        prepare: "mkdir -m 1777 /tmp/own".to_owned(),
        ..Recipe::default()
    };
    let container = recipe.start();
    let named = Bait::listen(&bait.folder.path().join(container.socket_name()));
    let outside = bait.folder.path().display();
    for link in [
        format!("{outside}"),
        format!("/proc/1/root{outside}"),
        format!("../../..{outside}"),
        "own".to_owned(),
    ] {
        container.inside(&format!("rm -rf /tmp/own; ln -s {link} /tmp/own"));
        let found = verdict(LEAST_PRIVILEGES, container.pid);
        assert_eq!(found["ok"], false, "{link}: {}", texts(&found));
    }
    assert_eq!(named.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
}

/// Scenario: a container mounts a socket of the host over its own socket. Another process listens on the host's socket,
/// which belongs to another user.
/// Guarantee: gcwatch recognizes that another process listens, if it can see both processes, and also if it cannot see
/// the listener (pid 0); gcwatch sends no byte to the listener.
fn socket_of_another_process_is_rejected() {
    let bait = Bait::new();
    let container = victim(&bait);
    container.inside("mount --bind /mnt/shared/socket $S");
    let found = verdict(LEAST_PRIVILEGES, container.pid);
    assert_eq!(found["verdict"], "wrong-peer", "{}", texts(&found));
    assert!(
        found["detail"]
            .as_str()
            .unwrap()
            .contains(&std::process::id().to_string()),
        "{found}"
    );
    assert_eq!(bait.connections(), 1);

    // In the container's own pid namespace, outside processes have no pid. The binary is not in the container's mount
    // namespace, so copy it to the shared folder.
    let copy = bait.folder.path().join("gcwatch");
    std::fs::copy(test_support::program::path(), &copy).unwrap();
    let output = std::process::Command::new("nsenter")
        .args([
            "--mount",
            "--pid",
            "--target",
            &container.pid.to_string(),
            "/mnt/shared/gcwatch",
        ])
        .args(["doctor", "--pid", "1", "--format", "json"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let found = text.lines().last().unwrap();
    let found: serde_json::Value = serde_json::from_str(found).unwrap();
    assert_eq!(
        found["verdict"],
        "wrong-peer",
        "{text} {}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(
        found["detail"]
            .as_str()
            .unwrap()
            .contains("outside the pid namespace of this program"),
        "{found}"
    );
    bait.connections();
}
