//! `gcwatch completions`: the script that completes gcwatch's arguments in a shell.

use std::io::Write as _;

use clap::CommandFactory as _;

use crate::commands::cli::{Cli, CompletionsArgs};

pub(crate) fn run(args: &CompletionsArgs) -> anyhow::Result<bool> {
    // Written at once: the generator panics where its writer fails, as a closed pipe does.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "gcwatch", &mut script);
    let mut stdout = std::io::stdout();
    stdout.write_all(&script)?;
    stdout.flush()?;
    Ok(true)
}
