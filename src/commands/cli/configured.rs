//! The commands that use the whole configuration: `run`, `replay`, `demo`, `alerts`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::value::FormatArgs;
use config::flags::ConfigFlags;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  sudo gcwatch run\n  sudo gcwatch run --endpoint http://collector:4317\n  gcwatch run --config gcwatch.yaml --check-config"
)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) config: ConfigFlags,
    /// Exit when standard input ends
    #[arg(long, hide = true)]
    pub(crate) end_with_stdin: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  gcwatch replay --now --endpoint http://localhost:4317 app.nettrace")]
pub(crate) struct ReplayArgs {
    /// Recordings
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Shift timestamps so that the recording ends now (with --realtime: starts now) [default: the recorded timestamps]
    #[arg(long)]
    pub(crate) now: bool,
    /// Play at the recorded speed [default: as fast as the receivers accept it]
    #[arg(long)]
    pub(crate) realtime: bool,
    /// service.name of the processes [default: the file name]
    #[arg(long, value_name = "NAME")]
    pub(crate) service: Option<String>,
    #[command(flatten)]
    pub(crate) config: ConfigFlags,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  gcwatch demo\n  gcwatch demo --rounds 5 --endpoint http://localhost:4317\n  gcwatch demo --listen 127.0.0.1:0        alongside a running daemon"
)]
pub(crate) struct DemoArgs {
    /// Number of times to play each recording [default: until Ctrl-C]
    #[arg(long, value_name = "N", value_parser = number)]
    pub(crate) rounds: Option<u32>,
    #[command(flatten)]
    pub(crate) config: ConfigFlags,
}

#[derive(Debug, Args)]
pub(crate) struct AlertsArgs {
    #[command(subcommand)]
    pub(crate) command: AlertsCommand,
}

/// Subcommands of `gcwatch alerts`.
#[derive(Debug, Subcommand)]
pub(crate) enum AlertsCommand {
    /// Send a test incident and its end to every configured Alertmanager and webhook, and print each answer
    Test(AlertsTestArgs),
}

#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 every receiver accepted it, 1 a receiver did not or no receiver is configured, 2 wrong usage."
)]
pub(crate) struct AlertsTestArgs {
    #[command(flatten)]
    pub(crate) format: FormatArgs,
    #[command(flatten)]
    pub(crate) config: ConfigFlags,
}

fn number(text: &str) -> Result<u32, &'static str> {
    text.parse().map_err(|_| "write a number, such as 5")
}
