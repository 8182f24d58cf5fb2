//! A harness for tests that need what a machine may not have: runtimes, root, programs of others.
//!
//! The harness of the standard library cannot ignore a test at run time: one that could not do its work would say `ok`.
//! Here each test names what it needs; where that is not there, `cargo test` says `ignored` and the reason. A test
//! binary with it has `harness = false`, and each of its modules a function `tests` that lists its tests; the compiler
//! names those that no list has.

use std::process::ExitCode;

use libtest_mimic::{Arguments, Completion, Trial};

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
pub struct Tests(Vec<Trial>);

impl Tests {
    /// Adds a test. `path` is its path with the crate's name; what it needs is asked just before it runs.
    pub fn add(
        &mut self,
        path: impl AsRef<str>,
        needs: impl FnOnce() -> Need + Send + 'static,
        test: impl FnOnce() + Send + 'static,
    ) {
        let path = path.as_ref();
        let name = path.split_once("::").map_or(path, |(_, name)| name);
        let run = move || match needs() {
            Ok(()) => {
                test();
                Ok(Completion::Completed)
            }
            Err(Missing::Ignored(reason)) => Ok(Completion::ignored_with(reason)),
            Err(Missing::Failed(reason)) => Err(reason.into()),
        };
        self.0.push(Trial::ignorable_test(name, run));
    }

    /// Runs those that the arguments name, so many at once unless they say otherwise.
    pub fn run(self, at_once: usize) -> ExitCode {
        let mut arguments = Arguments::from_args();
        arguments.test_threads.get_or_insert(at_once);
        libtest_mimic::run(&arguments, self.0).exit_code()
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
