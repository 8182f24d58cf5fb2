//! Runs gcwatch with restricted privileges.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use serde_json::Value;
use test_support::program::{self, records_of, stderr};

/// Returns the path of the program, which every user can run, even if other users cannot access the build folder.
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
        // Other users cannot read the build folder, for example because it is in a home directory. The copy is not
        // deleted after the tests.
        let copy = std::env::temp_dir().join("gcwatch-under-test");
        let _former = std::fs::remove_file(&copy);
        std::fs::copy(&built, &copy).unwrap();
        copy
    })
}

/// Returns a command that runs gcwatch through wrapper programs. `before` contains the wrappers with their arguments
/// (`setpriv ...`). Each wrapper runs the next one, and the last wrapper runs gcwatch.
pub(crate) fn through(before: &[&str]) -> Command {
    let mut words = before.iter();
    let mut command = match words.next() {
        Some(first) => Command::new(first),
        None => return Command::new(binary()),
    };
    command.args(words).arg(binary());
    command
}

/// Runs `gcwatch doctor` through the wrappers `before`, and returns its records and its output. The lease folder does
/// not exist unless `args` contain one.
pub(crate) fn doctor(before: &[&str], args: &[&str]) -> (Vec<Value>, Output) {
    let mut command = through(before);
    command.arg("doctor").args(args).args(["--format", "json"]);
    if !args.contains(&"--lease-folder") {
        command.args(["--lease-folder", "/nonexistent/leases"]);
    }
    let output = command.stdin(Stdio::null()).output().unwrap();
    (records_of(&output), output)
}

/// Returns the diagnosis of one process by `gcwatch doctor`. Asserts that the exit code matches the diagnosis.
pub(crate) fn verdict(before: &[&str], pid: u32) -> Value {
    let (records, output) = doctor(before, &["--pid", &pid.to_string()]);
    let is_it = |record: &&Value| record["kind"] == "diagnosis" && record["pid"] == pid;
    let found = records.iter().find(is_it).cloned();
    let found = found.unwrap_or_else(|| panic!("{records:?} {}", stderr(&output)));
    assert_eq!(output.status.code(), Some(i32::from(found["ok"] == false)), "{found}");
    found
}

/// Returns the verdict, the detail and the remedy of a diagnosis as one line.
pub(crate) fn texts(verdict: &Value) -> String {
    let text = |key: &str| verdict[key].as_str().unwrap_or_default().to_owned();
    format!("{}: {} -> {}", text("verdict"), text("detail"), text("remedy"))
}

/// Wrapper that runs gcwatch as root with only the two required capabilities.
pub(crate) const LEAST_PRIVILEGES: &[&str] = &[
    "setpriv",
    "--bounding-set",
    "-all,+sys_ptrace,+dac_override",
    "--inh-caps",
    "-all",
    "--no-new-privs",
];
