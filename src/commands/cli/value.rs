//! Arguments that several commands share: output formats, processes, durations, severities.

use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};

use base::units::HumanDuration;
use rule_engine::rule::Severity;

/// Output formats for results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Human-readable tables
    Table,
    /// One JSON object per line with stable field names
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
    /// Process id
    #[arg(value_name = "PID", value_parser = clap::value_parser!(u32).range(1..), required_unless_present = "named")]
    plain: Option<u32>,
    /// Process id
    #[arg(
        long = "pid", id = "named", value_name = "PID", conflicts_with = "plain",
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    named: Option<u32>,
}

impl PidArgs {
    /// Returns the pid. Clap refuses a command without one of the two arguments; pid 0 is not a process.
    pub(crate) fn pid(&self) -> u32 {
        self.named.or(self.plain).unwrap_or(0)
    }
}

/// Parses durations as in the configuration: `1.5s`, `250ms`, `2m`, `1h30m`. Here a bare number means seconds.
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

    /// Scenario: the arguments are durations in the usual notations, and words.
    /// Guarantee: durations are accepted; words are refused with an example.
    #[test]
    fn durations_are_parsed() {
        assert_eq!(duration("1.5"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert!(duration("-3s").is_err() && duration("soon").is_err_and(|error| error.to_string().contains("500ms")));
    }
}
