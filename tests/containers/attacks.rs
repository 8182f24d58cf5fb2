//! What a container may put in the place of its socket.

use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;

use tempfile::TempDir;

use test_support::add_tests;
use test_support::harness::Tests;

use crate::container::{Container, Recipe, containers, containers_with_assemblies};
use crate::gcwatch::{LEAST, texts, verdict};

pub(crate) fn tests(tests: &mut Tests) {
    add_tests!(tests, containers_with_assemblies; nothing_planted_leads_out);
    add_tests!(tests, containers; a_replaced_directory_stays_inside, the_listener_has_to_be_the_process);
}

/// A folder of the host with a socket on which this test listens: what an attacker wants gcwatch to speak with.
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

    /// How many connections came; not one of them may have brought a byte.
    fn connections(&self) -> usize {
        let mut count = 0;
        loop {
            match self.listener.accept() {
                Ok((mut stream, _)) => {
                    count += 1;
                    let mut sent = Vec::new();
                    stream.read_to_end(&mut sent).unwrap();
                    assert!(sent.is_empty(), "gcwatch spoke with somebody else");
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

/// Scenario: in the place of its socket a container puts a link to a socket of the host by each way out, a FIFO, a
/// file, a device, a directory, or a link to itself.
/// Guarantee: the verdict comes at once and says that it is no socket, and nobody outside was connected to.
fn nothing_planted_leads_out() {
    let bait = Bait::new();
    let container = victim(&bait);
    // What stands in the bait's folder under the socket's own name would be taken, if a way led there.
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
        let found = verdict(LEAST, container.pid);
        assert_eq!(found["verdict"], reason, "{commands}: {}", texts(&found));
        assert!(found["remedy"].is_string(), "{found}");
    }
    assert_eq!(bait.connections(), 0);
    assert_eq!(named.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
}

/// Scenario: a process's TMPDIR is, once it runs, replaced by a link to a folder of the host in which a socket with
/// exactly its name stands, by an absolute path and by `/proc/1/root`.
/// Guarantee: the link is followed in the container's own root, where there is no such thing.
fn a_replaced_directory_stays_inside() {
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
        let found = verdict(LEAST, container.pid);
        assert_eq!(found["ok"], false, "{link}: {}", texts(&found));
    }
    assert_eq!(named.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
}

/// Scenario: over its socket a container mounts one of the host on which another process listens, owned by another
/// user.
/// Guarantee: the listener is known for another process, by whoever sees both, and also where it cannot be seen (pid
/// 0); it gets no byte.
fn the_listener_has_to_be_the_process() {
    let bait = Bait::new();
    let container = victim(&bait);
    container.inside("mount --bind /mnt/shared/socket $S");
    let found = verdict(LEAST, container.pid);
    assert_eq!(found["verdict"], "wrong-peer", "{}", texts(&found));
    assert!(
        found["detail"]
            .as_str()
            .unwrap()
            .contains(&std::process::id().to_string()),
        "{found}"
    );
    assert_eq!(bait.connections(), 1);

    // In the container's own pid namespace nothing outside has a pid. Its mount namespace does not have the binary: it
    // is shown there.
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
