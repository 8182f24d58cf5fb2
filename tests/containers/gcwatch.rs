//! gcwatch with restricted rights.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use serde_json::Value;
use test_support::program::{self, records_of, stderr};

/// Returns the path of a binary that every user may run, regardless of the build folder.
pub(crate) fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        let built = program::path();
        let others_may = Command::new("setpriv")
            .args(["--reuid", "1", "--regid", "1", "--clear-groups"])
            .arg(&built)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        if others_may.is_ok_and(|status| status.success()) {
            return built;
        }
        // The copy is kept. It is needed if the build folder is in a home directory that other users cannot read.
        let copy = std::env::temp_dir().join("gcwatch-under-test");
        let _former = std::fs::remove_file(&copy);
        std::fs::copy(&built, &copy).unwrap();
        copy
    })
}

/// Returns gcwatch as run by other programs with their arguments (`setpriv ...`), each of which runs the next.
pub(crate) fn through(before: &[&str]) -> Command {
    let mut words = before.iter();
    let mut command = match words.next() {
        Some(first) => Command::new(first),
        None => return Command::new(binary()),
    };
    command.args(words).arg(binary());
    command
}

/// Returns the output of `doctor`, run by other programs.
pub(crate) fn doctor(before: &[&str], args: &[&str]) -> (Vec<Value>, Output) {
    let mut command = through(before);
    command.arg("doctor").args(args).args(["--format", "json"]);
    if !args.contains(&"--lease-folder") {
        command.args(["--lease-folder", "/nonexistent/leases"]);
    }
    let output = command.stdin(Stdio::null()).output().unwrap();
    (records_of(&output), output)
}

/// Returns the verdict on one process.
pub(crate) fn verdict(before: &[&str], pid: u32) -> Value {
    let (records, output) = doctor(before, &["--pid", &pid.to_string()]);
    let is_it = |record: &&Value| record["kind"] == "diagnosis" && record["pid"] == pid;
    let found = records.iter().find(is_it).cloned();
    let found = found.unwrap_or_else(|| panic!("{records:?} {}", stderr(&output)));
    assert_eq!(output.status.code(), Some(i32::from(found["ok"] == false)), "{found}");
    found
}

/// Returns the human-readable texts of a verdict.
pub(crate) fn texts(verdict: &Value) -> String {
    let text = |key: &str| verdict[key].as_str().unwrap_or_default().to_owned();
    format!("{}: {} -> {}", text("verdict"), text("detail"), text("remedy"))
}

/// Root with only the two required capabilities.
pub(crate) const LEAST_PRIVILEGES: &[&str] = &[
    "setpriv",
    "--bounding-set",
    "-all,+sys_ptrace,+dac_override",
    "--inh-caps",
    "-all",
    "--no-new-privs",
];
