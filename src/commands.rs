//! The commands: each reads its input and writes with [`report`] and [`api`].
//!
//! Each command has a `run` function. `Ok(false)` means that the result is incomplete, which the command has reported.
//! [`main`] reports errors.

mod advise;
mod alerts;
mod allocations;
mod analyze;
mod burst;
mod callers;
mod cli;
mod completions;
mod demo;
mod diff;
mod doctor;
mod events;
mod heap;
mod incidents;
mod listener;
mod look;
mod man;
mod mcp;
mod output;
mod ps;
mod record;
mod replay;
mod rules;
mod run;
mod stacks;
mod top;

use std::process::ExitCode;

use anyhow::Context as _;
use evidence::black_box::page as recording_page;
use evidence::heap::{child as heap_child, files as heap_files};
use targets::guard;
use tokio::runtime::{Builder, Runtime};

use self::cli::{Cli, Command};
use self::output::say;

/// Runs the command that the arguments of this process select. Exit codes: 0 success, 1 failure, 2 invalid usage (by
/// clap).
pub fn main() -> ExitCode {
    // Check for child processes first, because they need no other part of the program.
    if guard::child::is_asked_for() {
        return guard::child::main();
    }
    if heap_child::is_asked_for() {
        return heap_child::main();
    }
    if heap_files::is_asked_for() {
        return heap_files::main();
    }
    if let Some(name) = recording_page::is_asked_for() {
        return analyze::page::render_standard_input(&name);
    }
    let cli = Cli::read(std::env::args_os()).unwrap_or_else(|error| error.exit());
    anstream::ColorChoice::from(cli.color).write_global();
    let done = match &cli.command {
        Command::Run(args) => run::run(args),
        Command::Ps(args) => ps::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Record(args) => record::run(args),
        Command::Events(args) => events::run(args),
        Command::Analyze(args) => analyze::run(args),
        Command::Diff(args) => diff::run(args),
        Command::Replay(args) => replay::run(args),
        Command::Demo(args) => demo::run(args),
        Command::Top(args) => top::run(args),
        Command::Incidents(args) => incidents::run(args),
        Command::Rules(args) => rules::run(args),
        Command::Alerts(args) => alerts::run(args),
        Command::Callers(args) => callers::run(args),
        Command::Allocations(args) => allocations::run(args),
        Command::Stacks(args) => stacks::run(args),
        Command::Heap(args) => heap::run(args),
        Command::Advise(args) => advise::run(args),
        Command::Mcp(args) => mcp::run(args),
        Command::Completions(args) => completions::run(args),
        Command::Man(args) => man::run(args),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        // The reader closed the pipe: `gcwatch events F | head` is not a failure.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            say(sentence(&error));
            ExitCode::FAILURE
        }
    }
}

/// Formats an error with its causes, each only once: many error texts already contain their cause.
fn sentence(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let io = cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        let json = cause
            .downcast_ref::<serde_json::Error>()
            .and_then(serde_json::Error::io_error_kind);
        io.or(json) == Some(std::io::ErrorKind::BrokenPipe)
    })
}

/// Creates an executor on the current thread.
fn executor() -> anyhow::Result<Runtime> {
    Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start")
}
