//! The commands on rules: `rules check`, `list`, `show`, `test`, `schema`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::value::FormatArgs;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  gcwatch rules list\n  gcwatch rules show time.stopped\n  gcwatch rules check mine.yaml && gcwatch rules test mine.test.yaml"
)]
pub(crate) struct RulesArgs {
    #[command(subcommand)]
    pub(crate) command: RulesCommand,
}

/// Subcommands of `gcwatch rules`.
#[derive(Debug, Subcommand)]
pub(crate) enum RulesCommand {
    /// Check rule files and report every error with file, line and column
    Check(RulesCheckArgs),
    /// List rules
    List(RulesListArgs),
    /// Print one rule: its symptom, condition, tests and remedy
    Show(RulesShowArgs),
    /// Print all shipped rules as a Markdown page
    Catalogue,
    /// Run rule tests against scripted events or recordings
    Test(RulesTestArgs),
    /// Print the JSON schema of rule files, for editors
    Schema(RulesSchemaArgs),
}

#[derive(Debug, Args)]
#[command(
    after_help = "Files are read in the given order; a later file can override rules of earlier files.\n\
    Exit codes: 0 valid, 1 errors, 2 wrong usage."
)]
pub(crate) struct RulesCheckArgs {
    /// Files, directories (*.yaml and *.yml, not *.test.yaml), or - for standard input [default: the shipped rules]
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Read the shipped rules before the files, as the daemon does
    #[arg(long)]
    pub(crate) with_shipped: bool,
    /// Treat warnings as errors
    #[arg(long)]
    pub(crate) lint_fatal: bool,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

/// Rules and their output format.
#[derive(Debug, Args)]
pub(crate) struct RulesListArgs {
    /// Files, directories, or - for standard input [default: the shipped rules]
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Read the shipped rules before the files, as the daemon does
    #[arg(long)]
    pub(crate) with_shipped: bool,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 found, 1 no such rule or invalid files, 2 wrong usage.")]
pub(crate) struct RulesShowArgs {
    /// Rule id
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) rules: RulesListArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 all tests passed, 1 a test failed or could not be run, 2 wrong usage.")]
pub(crate) struct RulesTestArgs {
    /// Test files, or directories with *.test.yaml files
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RulesSchemaArgs {
    /// Print the schema of test files instead
    #[arg(long)]
    pub(crate) tests: bool,
}
