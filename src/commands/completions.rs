//! `gcwatch completions`: prints the completion script for a shell.

use std::io::Write as _;

use clap::CommandFactory as _;

use crate::commands::cli::{Cli, CompletionsArgs};

pub(crate) fn run(args: &CompletionsArgs) -> anyhow::Result<bool> {
    // Write the script in one piece: the generator panics if its writer fails, for example on a closed pipe.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "gcwatch", &mut script);
    let mut stdout = std::io::stdout();
    stdout.write_all(&script)?;
    stdout.flush()?;
    Ok(true)
}
