//! The commands that use the whole configuration: `run`, `replay`, `demo`, `alerts`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::value::FormatArgs;
use config::flags::ConfigFlags;

/// `gcwatch run`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  sudo gcwatch run\n  sudo gcwatch run --endpoint http://collector:4317\n  gcwatch run --config gcwatch.yaml --check-config"
)]
pub struct RunArgs {
    /// What is configured.
    #[command(flatten)]
    pub config: ConfigFlags,
    /// End when standard input ends
    #[arg(long, hide = true)]
    pub end_with_stdin: bool,
}

/// `gcwatch replay`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  gcwatch replay --now --endpoint http://localhost:4317 app.nettrace")]
pub struct ReplayArgs {
    /// The recordings
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Shift timestamps as if it ended now (with --realtime: began now) [default: the recorded timestamps]
    #[arg(long)]
    pub now: bool,
    /// Play at recorded speed [default: as fast as the receivers accept it]
    #[arg(long)]
    pub realtime: bool,
    /// service.name of the processes [default: the name of the file]
    #[arg(long, value_name = "NAME")]
    pub service: Option<String>,
    /// What is configured.
    #[command(flatten)]
    pub config: ConfigFlags,
}

/// `gcwatch demo`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  gcwatch demo\n  gcwatch demo --rounds 5 --endpoint http://localhost:4317\n  gcwatch demo --listen 127.0.0.1:0        beside a running daemon"
)]
pub struct DemoArgs {
    /// How many times to play each recording [default: until Ctrl-C]
    #[arg(long, value_name = "N", value_parser = number)]
    pub rounds: Option<u32>,
    /// What is configured.
    #[command(flatten)]
    pub config: ConfigFlags,
}

/// `gcwatch alerts`
#[derive(Debug, Args)]
pub struct AlertsArgs {
    /// What to do with receivers of alerts.
    #[command(subcommand)]
    pub command: AlertsCommand,
}

/// What to do with receivers of alerts.
#[derive(Debug, Subcommand)]
pub enum AlertsCommand {
    /// Send a test incident and its end to every Alertmanager and webhook of the configuration, and print each answer
    Test(AlertsTestArgs),
}

/// `gcwatch alerts test`
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 every receiver accepted it, 1 one did not or there is none, 2 wrong usage.")]
pub struct AlertsTestArgs {
    /// The output format.
    #[command(flatten)]
    pub format: FormatArgs,
    /// What is configured.
    #[command(flatten)]
    pub config: ConfigFlags,
}

fn number(text: &str) -> Result<u32, &'static str> {
    text.parse().map_err(|_| "write a number, such as 5")
}
