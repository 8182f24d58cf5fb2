//! Values that several commands take: output formats, processes, durations, severities.

use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};

use base::units::HumanDuration;
use gc_rules::rule::Severity;

/// How results are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Tables for reading
    Table,
    /// One JSON object per line; names do not change
    #[value(alias = "json")]
    Ndjson,
}

/// The output format.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct FormatArgs {
    /// Output format [default: table on a terminal, otherwise ndjson]
    #[arg(long, value_enum)]
    pub(crate) format: Option<Format>,
}

/// A process, as PID or --pid PID.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct PidArgs {
    /// The process
    #[arg(value_name = "PID", value_parser = clap::value_parser!(u32).range(1..), required_unless_present = "named")]
    plain: Option<u32>,
    /// The process
    #[arg(
        long = "pid", id = "named", value_name = "PID", conflicts_with = "plain",
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    named: Option<u32>,
}

impl PidArgs {
    /// The pid. One of the two is given, or clap refuses the command; 0 is no process.
    pub(crate) fn pid(&self) -> u32 {
        self.named.or(self.plain).unwrap_or(0)
    }
}

/// Durations as in the configuration: `1.5s`, `250ms`, `2m`, `1h30m`; here a bare number is seconds.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let bare = text.trim().bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') && !text.trim().is_empty();
    let seconds = bare.then(|| format!("{}s", text.trim()));
    let duration: HumanDuration = seconds.as_deref().unwrap_or(text).parse()?;
    Ok(duration.0)
}

pub(super) fn severity() -> impl TypedValueParser<Value = Severity> {
    PossibleValuesParser::new(Severity::ALL.iter().map(|severity| severity.name()))
        .try_map(|word| word.parse::<Severity>())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: times as people write them, and words.
    /// Guarantee: they are taken, or refused with an example.
    #[test]
    fn times_are_read() {
        assert_eq!(duration("1.5"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert!(duration("-3s").is_err() && duration("soon").is_err_and(|error| error.to_string().contains("500ms")));
    }
}
