//! The command-line flags that set configuration keys.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};

use delivery::otlp::signal::Signal;

use super::problem::{Origin, Setting};
use super::schema::schema;
use strict_yaml::check;
use strict_yaml::path::KeyPath;
use strict_yaml::yaml::{Kind, Node, Position};

/// Flags of the configuration, which override the environment and the file.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Configuration")]
pub struct ConfigFlags {
    /// Configuration file [default: $GCWATCH_CONFIG, otherwise none]
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Check the configuration, print all errors, and exit
    #[arg(long, conflicts_with = "print_config")]
    pub check_config: bool,
    /// Print the configuration with the origin of each value, without secrets, and exit
    #[arg(long)]
    pub print_config: bool,
    /// OTLP endpoint for all signals [default: http://localhost:4317, with HTTP http://localhost:4318]
    #[arg(long, value_name = "URL")]
    pub endpoint: Option<String>,
    /// OTLP protocol for all signals [default: grpc]
    #[arg(long, value_parser = words("otlp.protocol"), value_name = "PROTOCOL")]
    pub protocol: Option<String>,
    /// Do not send spans
    #[arg(long)]
    pub no_traces: bool,
    /// Do not send metrics
    #[arg(long)]
    pub no_metrics: bool,
    /// Do not send log records
    #[arg(long)]
    pub no_logs: bool,
    /// Address and port for /metrics and the API, or none [default: 127.0.0.1:9464]
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,
    /// Log level: off, error, warn, info, debug or trace; per module: info,gcwatch::targets=debug [default: info]
    #[arg(long, value_name = "LEVEL")]
    pub log_level: Option<String>,
    /// Log format [default: text]
    #[arg(long, value_parser = words("log.format"), value_name = "FORMAT")]
    pub log_format: Option<String>,
    /// Directory of the leases by which several gcwatch instances share the processes [default: /run/gcwatch]
    #[arg(long, value_name = "FOLDER")]
    pub lease_folder: Option<String>,
    /// Directory of diagnostics sockets, or one socket, in addition to those found through /proc (repeatable)
    #[arg(long, value_name = "PATH")]
    pub sockets: Vec<String>,
}

/// The flags and the configuration keys that they set. The generated reference page lists these flags, too.
pub(crate) const FLAGS: [(&str, &str); 10] = [
    ("--endpoint", "otlp.endpoint"),
    ("--protocol", "otlp.protocol"),
    ("--no-traces", "otlp.traces.enabled"),
    ("--no-metrics", "otlp.metrics.enabled"),
    ("--no-logs", "otlp.logs.enabled"),
    ("--listen", "listen"),
    ("--log-level", "log.level"),
    ("--log-format", "log.format"),
    ("--lease-folder", "targets.lease_folder"),
    ("--sockets", "targets.sockets"),
];

/// Returns the settings that the given flags make.
pub(crate) fn settings(flags: &ConfigFlags) -> Vec<Setting> {
    let mut settings = Vec::new();
    let given = [
        flags.endpoint.clone(),
        flags.protocol.clone(),
        flags.no_traces.then(|| "false".to_owned()),
        flags.no_metrics.then(|| "false".to_owned()),
        flags.no_logs.then(|| "false".to_owned()),
        flags.listen.clone(),
        flags.log_level.clone(),
        flags.log_format.clone(),
        flags.lease_folder.clone(),
    ];
    let given = given.map(|text| text.map(|text| Node::plain(Position::START, text)));
    let given = given.into_iter().chain([list(&flags.sockets)]);
    for ((flag, path), value) in FLAGS.into_iter().zip(given) {
        let Some(value) = value else { continue };
        let setting = |path: &str, value| Setting {
            origin: Origin::Flag(flag),
            path: KeyPath::from_dotted(path),
            value,
        };
        // A flag for all signals overrides the keys of individual signals in the file and the environment.
        if let Some(key) = path.strip_prefix("otlp.").filter(|key| !key.contains('.')) {
            settings.extend(Signal::ALL.map(|signal| setting(&format!("otlp.{signal}.{key}"), None)));
        }
        settings.push(setting(path, Some(value)));
    }
    settings
}

/// Returns the values of a repeatable flag as a list, or `None` if the flag was not given.
fn list(texts: &[String]) -> Option<Node> {
    let items = texts.iter().map(|text| Node::text(Position::START, text));
    let items: Vec<Node> = items.collect();
    (!items.is_empty()).then_some(Node {
        at: Position::START,
        kind: Kind::Sequence(items),
    })
}

/// Returns a parser that accepts the allowed words of a key and shows their descriptions in the help.
fn words(path: &str) -> PossibleValuesParser {
    let words = schema()
        .at(&KeyPath::from_dotted(path))
        .map(|(rule, _)| check::words(rule));
    let value = |(word, description): (&'static str, Option<&'static str>)| {
        PossibleValue::new(word).help(description.unwrap_or_default().trim_end_matches('.'))
    };
    PossibleValuesParser::new(words.unwrap_or_default().into_iter().map(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        flags: ConfigFlags,
    }

    /// Scenario: each flag of the table is passed as the only argument.
    /// Guarantee: the flag sets exactly one key, its key in the table.
    #[test]
    fn flag_sets_its_key() {
        for (flag, path) in FLAGS {
            let value = match flag {
                "--protocol" => Some("http/json"),
                "--log-format" => Some("json"),
                flag if flag.starts_with("--no-") => None,
                _ => Some("x"),
            };
            let args = ["gcwatch", flag].into_iter().chain(value);
            let settings = settings(&Command::parse_from(args).flags);
            let set: Vec<&Setting> = settings.iter().filter(|setting| setting.value.is_some()).collect();
            assert_eq!(set.len(), 1, "{flag}");
            assert_eq!(set[0].origin, Origin::Flag(flag));
            assert_eq!(set[0].path.to_string(), path);
        }
    }
}
