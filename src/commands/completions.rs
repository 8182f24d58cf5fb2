//! `gcwatch completions`: the script that completes gcwatch's arguments in a shell.

use clap::CommandFactory as _;

use crate::commands::cli::{Cli, CompletionsArgs};

/// Runs the command.
///
/// # Errors
///
/// Never.
pub fn run(args: &CompletionsArgs) -> anyhow::Result<bool> {
    clap_complete::generate(args.shell, &mut Cli::command(), "gcwatch", &mut std::io::stdout());
    Ok(true)
}
