//! `gcwatch run` as the attacks have it: it exports nothing, neither of processes nor about itself.

use std::path::Path;
use std::process::Command;

use test_support::daemon::{self, ANY, Daemon, marked};

/// The command. `more` is YAML beside what keeps it to processes with the mark.
pub(crate) fn command(folder: &Path, mark: &str, listen: &str, more: &str) -> Command {
    let config = format!("{}self_telemetry: {{enabled: false}}\n{more}", marked(mark));
    daemon::command(Command::new(env!("CARGO_BIN_EXE_gcwatch")), folder, listen, &config)
}

/// Starts it on a free port of loopback, and waits until it listens.
pub(crate) fn start(mark: &str, more: &str) -> Daemon {
    start_at(ANY, mark, more)
}

pub(crate) fn start_at(listen: &str, mark: &str, more: &str) -> Daemon {
    let folder = tempfile::Builder::new().prefix("gcw").tempdir().unwrap();
    Daemon::start(command(folder.path(), mark, listen, more)).in_folder(folder)
}
