//! The commands on rules: `rules check`, `list`, `show`, `test`, `schema`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::value::FormatArgs;

/// `gcwatch rules`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  gcwatch rules list\n  gcwatch rules show time.stopped\n  gcwatch rules check mine.yaml && gcwatch rules test mine.test.yaml"
)]
pub struct RulesArgs {
    /// What to do with rules.
    #[command(subcommand)]
    pub command: RulesCommand,
}

/// What to do with rules.
#[derive(Debug, Subcommand)]
pub enum RulesCommand {
    /// Check rule files: every error with file, line and column
    Check(RulesCheckArgs),
    /// List rules
    List(RulesListArgs),
    /// Print one rule: what it finds, its condition, its tests, and what to do
    Show(RulesShowArgs),
    /// Print all shipped rules as a page in Markdown
    Catalogue,
    /// Run rule tests against scripted events or recordings
    Test(RulesTestArgs),
    /// Print the JSON schema of rule files, for editors
    Schema(RulesSchemaArgs),
}

/// `gcwatch rules check`
#[derive(Debug, Args)]
#[command(
    after_help = "Files are read in the given order; a later file may override rules of earlier ones.\n\
    Exit codes: 0 valid, 1 errors, 2 wrong usage."
)]
pub struct RulesCheckArgs {
    /// Files, directories (*.yaml and *.yml, not *.test.yaml), or - for standard input [default: the shipped rules]
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Read the shipped rules before the files, as the daemon does
    #[arg(long)]
    pub with_shipped: bool,
    /// Treat warnings as errors
    #[arg(long)]
    pub lint_fatal: bool,
    /// The output format.
    #[command(flatten)]
    pub format: FormatArgs,
}

/// `gcwatch rules list`
#[derive(Debug, Args)]
pub struct RulesListArgs {
    /// Files, directories, or - for standard input [default: the shipped rules]
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Read the shipped rules before the files, as the daemon does
    #[arg(long)]
    pub with_shipped: bool,
    /// The output format.
    #[command(flatten)]
    pub format: FormatArgs,
}

/// `gcwatch rules show`
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 found, 1 no such rule or invalid files, 2 wrong usage.")]
pub struct RulesShowArgs {
    /// The id of the rule
    #[arg(value_name = "ID")]
    pub id: String,
    /// Files, directories, or - for standard input [default: the shipped rules]
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Read the shipped rules before the files, as the daemon does
    #[arg(long)]
    pub with_shipped: bool,
    /// The output format.
    #[command(flatten)]
    pub format: FormatArgs,
}

/// `gcwatch rules test`
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 all tests passed, 1 a test failed or could not be run, 2 wrong usage.")]
pub struct RulesTestArgs {
    /// Test files, or directories with *.test.yaml files
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// The output format.
    #[command(flatten)]
    pub format: FormatArgs,
}

/// `gcwatch rules schema`
#[derive(Debug, Args)]
pub struct RulesSchemaArgs {
    /// The schema of test files instead
    #[arg(long)]
    pub tests: bool,
}
