//! A harness for tests with requirements that some machines do not meet: runtimes, root, third-party programs.
//!
//! The harness of the standard library cannot ignore a test at run time: a test that could not do its work would report
//! `ok`. Here, each test declares its requirements. If a requirement is not met, `cargo test` prints `ignored` and the
//! reason. A requirement that every machine can meet makes the test fail instead. A test binary with this harness has
//! `harness = false`. Each of its modules has a function that lists the module's tests. The compiler warns about
//! functions that are missing from the lists.

use std::fs::{self, File};
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use libtest_mimic::{Arguments, Completion, Trial};
use rustix::fs::{FlockOperation, flock};

/// The reason why a test cannot run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Missing {
    /// The test is ignored, because this machine cannot meet the requirement or the user skipped it.
    Ignored(String),
    /// The test fails, because every machine can meet the requirement.
    Failed(String),
}

/// The outcome of the check of a test's requirements: an error if a requirement is not met.
pub type Need = Result<(), Missing>;

/// Returns an error if `GCWATCH_SKIP_LIVE` contains this name or `all`.
pub fn unless_skipped(name: &str) -> Need {
    if crate::is_skipped(name) {
        return Err(Missing::Ignored(format!("{name} is in GCWATCH_SKIP_LIVE")));
    }
    Ok(())
}

/// The tests of a binary.
#[derive(Default)]
pub struct Tests {
    trials: Vec<Trial>,
    host: Arc<Host>,
}

impl Tests {
    /// Adds a test that runs next to other tests. `path` is the path of its function, including the crate's name.
    /// `needs` is called just before the test runs.
    pub fn add(
        &mut self,
        path: impl AsRef<str>,
        needs: impl FnOnce() -> Need + Send + 'static,
        test: impl Fn() + Send + 'static,
    ) {
        let host = Arc::clone(&self.host);
        let full = path.as_ref().to_owned();
        self.add_trial(path.as_ref(), needs, move |name| host.run(name, &full, beside, test));
    }

    /// Adds a test that runs while no other test of this or another binary runs, because it depends on the resources of
    /// the host.
    pub fn add_alone(
        &mut self,
        path: impl AsRef<str>,
        needs: impl FnOnce() -> Need + Send + 'static,
        test: impl Fn() + Send + 'static,
    ) {
        let host = Arc::clone(&self.host);
        let full = path.as_ref().to_owned();
        self.add_trial(path.as_ref(), needs, move |name| host.run(name, &full, alone, test));
    }

    fn add_trial(
        &mut self,
        path: &str,
        needs: impl FnOnce() -> Need + Send + 'static,
        test: impl FnOnce(&str) + Send + 'static,
    ) {
        let name = path.split_once("::").map_or(path, |(_, name)| name).to_owned();
        let label = name.clone();
        let run = move || match needs() {
            Ok(()) => {
                test(&label);
                Ok(Completion::Completed)
            }
            Err(Missing::Ignored(reason)) => Ok(Completion::ignored_with(reason)),
            Err(Missing::Failed(reason)) => Err(reason.into()),
        };
        self.trials.push(Trial::ignorable_test(name, run));
    }

    /// Runs the tests that the arguments select, with at most `at_once` tests in parallel unless an argument sets
    /// another number.
    pub fn run(self, at_once: usize) -> ExitCode {
        let mut arguments = Arguments::from_args();
        arguments.test_threads.get_or_insert(at_once);
        libtest_mimic::run(&arguments, self.trials).exit_code()
    }
}

/// Maximum number of tests of a binary that run a second time: if more tests fail, the load of the host is not the
/// reason.
const SECOND_RUNS: usize = 12;

/// The host that the tests of all binaries share. A test runs next to other tests or exclusively.
#[derive(Default)]
struct Host {
    second_runs: AtomicUsize,
}

/// Locks a file that all test binaries share. The lock is held until the returned file is dropped.
fn locked(name: &str, how: FlockOperation) -> File {
    let folder = crate::repository("target");
    fs::create_dir_all(&folder).unwrap();
    let file = File::create(folder.join(name)).unwrap();
    flock(&file, how).unwrap();
    file
}

/// Waits until no test runs exclusively, and takes a shared lock. A test that waits for exclusive use holds the gate,
/// so that no other test overtakes the waiting test.
fn beside() -> File {
    let _gate = locked("tests.gate", FlockOperation::LockExclusive);
    locked("tests.room", FlockOperation::LockShared)
}

/// Waits until no other test runs, and takes an exclusive lock.
fn alone() -> [File; 2] {
    ["tests.gate", "tests.room"].map(|name| locked(name, FlockOperation::LockExclusive))
}

impl Host {
    /// Runs a test while it holds the locks that `lock` takes. A test that fails runs once more, exclusively, because a
    /// live test needs CPU time that other tests and builds use. The second run decides. Both runs are in the output,
    /// and [`record_rerun`] records the second run.
    #[allow(clippy::print_stdout, reason = "readers of the output should see such tests")]
    fn run<L>(&self, name: &str, path: &str, lock: impl FnOnce() -> L, test: impl Fn()) {
        let locks = lock();
        let Err(failure) = catch_unwind(AssertUnwindSafe(&test)) else {
            return;
        };
        drop(locks);
        if self.second_runs.fetch_add(1, Ordering::Relaxed) >= SECOND_RUNS {
            resume_unwind(failure);
        }
        let _alone = alone();
        println!("{name}: failed; running it again without other tests");
        let second = catch_unwind(AssertUnwindSafe(&test));
        record_rerun(&rerun_file(), path, second.is_ok());
        if let Err(failure) = second {
            resume_unwind(failure);
        }
        println!("{name}: passed without other tests");
    }
}

/// Returns the file for the records of reruns: `GCWATCH_RERUNS`, or `target/reruns.tsv` if the variable is unset.
fn rerun_file() -> PathBuf {
    let named = std::env::var_os("GCWATCH_RERUNS");
    named.map_or_else(|| crate::repository("target/reruns.tsv"), PathBuf::from)
}

/// Appends the outcome of a rerun to a file. Creates the folder of the file: `target` is missing in a new clone if
/// `CARGO_TARGET_DIR` names a different folder. `tests/reruns/history.py` counts the reruns of nightly runs.
fn record_rerun(file: &Path, path: &str, passed: bool) {
    let outcome = if passed { "passed" } else { "failed" };
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).unwrap();
    }
    let mut file = File::options().create(true).append(true).open(file).unwrap();
    file.write_all(format!("{outcome}\t{path}\n").as_bytes()).unwrap();
}

/// Adds functions of this module as tests with the same requirements: `add_tests!(tests, need; one, other)`.
#[macro_export]
macro_rules! add_tests {
    ($tests:expr, $needs:expr; $($test:ident),+ $(,)?) => {
        $($tests.add(concat!(module_path!(), "::", stringify!($test)), $needs, $test);)+
    };
}

/// Adds functions of this module as tests, once for each of the given runtimes. Each function takes the runtime as its
/// argument: `add_tests_on!(tests, RUNTIMES; one, other)`.
#[macro_export]
macro_rules! add_tests_on {
    ($tests:expr, $runtimes:expr; $($test:ident),+ $(,)?) => {
        $(for runtime in $runtimes {
            let path = format!(concat!(module_path!(), "::", stringify!($test), "::{}"), runtime.name);
            $tests.add(path, move || runtime.need(), move || $test(runtime));
        })+
    };
}
