//! A harness for tests that need what a machine may not have: runtimes, root, programs of others.
//!
//! The harness of the standard library cannot ignore a test at run time: one that could not do its work would say `ok`.
//! Here each test names what it needs; where that is not there, `cargo test` says `ignored` and the reason. A test
//! binary with it has `harness = false`, and each of its modules a function `tests` that lists its tests; the compiler
//! names those that no list has.

use std::fs::{self, File};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use libtest_mimic::{Arguments, Completion, Trial};
use rustix::fs::{FlockOperation, flock};

/// Why a test cannot run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Missing {
    /// It is ignored: this machine cannot have it, or it was asked for.
    Ignored(String),
    /// It fails: every machine can have it.
    Failed(String),
}

/// Whether what a test needs is there.
pub type Need = Result<(), Missing>;

/// Leaves a test out by this name in `GCWATCH_SKIP_LIVE`.
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
    /// Adds a test. `path` is its path with the crate's name; what it needs is asked just before it runs.
    pub fn add(
        &mut self,
        path: impl AsRef<str>,
        needs: impl FnOnce() -> Need + Send + 'static,
        test: impl Fn() + Send + 'static,
    ) {
        let host = Arc::clone(&self.host);
        self.add_trial(path.as_ref(), needs, move |name| host.run(name, test));
    }

    /// Adds a test that runs while no other does, of this binary or of another: it has a limit on what the host gives.
    pub fn add_alone(
        &mut self,
        path: impl AsRef<str>,
        needs: impl FnOnce() -> Need + Send + 'static,
        test: impl Fn() + Send + 'static,
    ) {
        self.add_trial(path.as_ref(), needs, move |_| {
            let _alone = alone();
            test();
        });
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

    /// Runs those that the arguments name, so many at once unless they say otherwise.
    pub fn run(self, at_once: usize) -> ExitCode {
        let mut arguments = Arguments::from_args();
        arguments.test_threads.get_or_insert(at_once);
        libtest_mimic::run(&arguments, self.trials).exit_code()
    }
}

/// How many tests may run a second time: where more fail, the host is not the reason.
const SECOND_RUNS: usize = 12;

/// The host, which tests share, those of other binaries included: side by side, or one alone.
#[derive(Default)]
struct Host {
    second_runs: AtomicUsize,
}

/// A lock that binaries share, for as long as this file is open.
fn locked(name: &str, how: FlockOperation) -> File {
    let folder = crate::repository("target");
    fs::create_dir_all(&folder).unwrap();
    let file = File::create(folder.join(name)).unwrap();
    flock(&file, how).unwrap();
    file
}

/// A place beside other tests. Who waits to be alone holds the gate, and nobody overtakes it.
fn beside() -> File {
    let _gate = locked("tests.gate", FlockOperation::LockExclusive);
    locked("tests.room", FlockOperation::LockShared)
}

/// No other test runs.
fn alone() -> [File; 2] {
    ["tests.gate", "tests.room"].map(|name| locked(name, FlockOperation::LockExclusive))
}

impl Host {
    /// Runs a test beside others. A live test needs CPU in time, and others take it: one that fails runs once more,
    /// alone, and that run decides. Both are in the output.
    #[allow(clippy::print_stdout, reason = "whoever reads the output looks at such tests")]
    fn run(&self, name: &str, test: impl Fn()) {
        let shared = beside();
        let Err(failure) = catch_unwind(AssertUnwindSafe(&test)) else {
            return;
        };
        drop(shared);
        if self.second_runs.fetch_add(1, Ordering::Relaxed) >= SECOND_RUNS {
            resume_unwind(failure);
        }
        let _alone = alone();
        println!("{name}: failed beside other tests, runs again alone");
        test();
        println!("{name}: passed alone");
    }
}

/// Adds functions of this module that need the same: `add_tests!(tests, need; one, other)`.
#[macro_export]
macro_rules! add_tests {
    ($tests:expr, $needs:expr; $($test:ident),+ $(,)?) => {
        $($tests.add(concat!(module_path!(), "::", stringify!($test)), $needs, $test);)+
    };
}

/// Adds functions of this module for each of some runtimes, which they take: `add_tests_on!(tests, RUNTIMES; one,
/// other)`.
#[macro_export]
macro_rules! add_tests_on {
    ($tests:expr, $runtimes:expr; $($test:ident),+ $(,)?) => {
        $(for runtime in $runtimes {
            let path = format!(concat!(module_path!(), "::", stringify!($test), "::{}"), runtime.name);
            $tests.add(path, move || runtime.need(), move || $test(runtime));
        })+
    };
}
