//! Neither the contents of the state directory nor a hanging disk block gcwatch.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{CWD, Mode, mkfifoat};
use test_support::add_tests;
use test_support::daemon::Daemon;
use test_support::harness::Tests;

use crate::directories::{Hung, need_hung};
use crate::listener::get;
use crate::serving;

pub(crate) fn tests(tests: &mut Tests) {
    add_tests!(tests, || Ok(()); unexpected_files_in_state_directory_do_not_block);
    add_tests!(tests, need_hung; hung_state_directory_only_costs_persistence);
}

/// Starts a daemon that reads no process, with the given state directory.
fn with_state(directory: &Path) -> Daemon {
    serving::alone(&format!("state: {{directory: '{}'}}\n", directory.display()))
}

fn answers_and_ends(daemon: Daemon, what: &str) {
    let answer = get(daemon.address, "/livez", "localhost", Duration::from_secs(5));
    assert_eq!(answer.map(|(status, _)| status), Some(200), "{what}");
    daemon.end();
}

/// Scenario: the state directory has a FIFO without a peer, a link to a foreign file, a directory, or a file with
/// nonsense, in place of one of the files that gcwatch keeps there. This is repeated for each of these files.
/// Guarantee: gcwatch listens, answers and exits cleanly, and does not change the foreign file.
fn unexpected_files_in_state_directory_do_not_block() {
    let folder = tempfile::Builder::new().prefix("gcw").tempdir().unwrap();
    let foreign = folder.path().join("foreign");
    fs::write(&foreign, "mine").unwrap();
    for name in [
        "lock",
        "incidents.json",
        ".incidents.json.new",
        "bursts.json",
        "queue",
        "queue/traces",
        "queue/traces/position",
        "queue/traces/0000000000000000",
        "black-box",
        "history-1",
        "history-1/boot",
        "history-1/7-1.history",
        "black-box/20261123T114742Z-shop-7-died.partial",
    ] {
        for kind in ["fifo", "link", "directory", "nonsense"] {
            let state = folder.path().join(format!("{kind}-{}", name.replace('/', "-")));
            let path = state.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            match kind {
                "fifo" => mkfifoat(CWD, &path, Mode::from_raw_mode(0o600)).unwrap(),
                "link" => symlink(&foreign, &path).unwrap(),
                "directory" => fs::create_dir(&path).unwrap(),
                _ => fs::write(&path, [0xff; 5000]).unwrap(),
            }
            answers_and_ends(with_state(&state), &format!("{name} is a {kind}"));
            assert_eq!(fs::read_to_string(&foreign).unwrap(), "mine", "{name} is a {kind}");
        }
    }
}

/// Scenario: the state directory is on a file system that never answers.
/// Guarantee: gcwatch logs that the state directory does not respond, listens without persistent state, and exits
/// cleanly.
fn hung_state_directory_only_costs_persistence() {
    let hung = Hung::mount().unwrap();
    let daemon = with_state(&hung.folder.join("state"));
    for words in ["state is kept in memory only", "does not respond"] {
        assert!(daemon.said().contains(words), "{}", daemon.said());
    }
    answers_and_ends(daemon, "hung");
}
