//! `gcwatch man`: writes the manual pages, one per command.

use anyhow::Context as _;
use clap::CommandFactory as _;

use crate::commands::cli::{Cli, ManArgs};

pub(crate) fn run(args: &ManArgs) -> anyhow::Result<bool> {
    // Omit the commit from the version, so that a page is the same in each build of a version.
    let command = Cli::command()
        .version(env!("CARGO_PKG_VERSION"))
        .disable_help_subcommand(true);
    clap_mangen::generate_to(command, &args.folder)
        .with_context(|| format!("cannot write manual pages into {}", args.folder.display()))?;
    Ok(true)
}
