//! `gcwatch run`: the daemon.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use anyhow::Context as _;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use tokio::runtime::{Builder, Runtime};
use tracing::{error, info, warn};

use crate::commands::cli::RunArgs;
use crate::config::file::Watch;
use crate::config::flags::ConfigFlags;
use crate::config::options::LogOptions;
use crate::config::{self, Config, Loaded};
use crate::daemon::logging::{self, LogLevel};
use crate::daemon::{self, Options, Refused, Reload, Services, Signals};
use crate::pipeline::{Clock, PipelineSettings};
use crate::process::RunKey;
use crate::targets::{Readers, Rounds, own_identity};
use delivery::clock::now_unix_ns;
use delivery::otlp::signal::Signal;
use delivery::otlp::stats::Stats;
use gc_telemetry::value::key_value;

/// Runs the command until SIGTERM or SIGINT.
///
/// # Errors
///
/// When the configuration is invalid, or the daemon cannot start.
pub fn run(args: &RunArgs) -> anyhow::Result<bool> {
    let Some(loaded) = load(&args.config)? else {
        return Ok(true);
    };
    let executor = start(&mut Builder::new_current_thread())?;
    let rounds = Arc::new(Rounds::default());
    let resting = Arc::clone(&rounds);
    let reading = start(
        Builder::new_multi_thread()
            .worker_threads(1)
            .on_thread_park(move || sleep(resting.rest())),
    )?;
    let readers = Readers::new(reading.handle().clone(), rounds);
    let done = executor.block_on(serve(&args.config, loaded, readers));
    // A scan of /proc that hangs in a file system must not delay the shutdown.
    reading.shutdown_background();
    executor.shutdown_background();
    done.map(|()| true)
}

async fn serve(
    flags: &ConfigFlags,
    Loaded {
        config,
        warnings,
        files,
    }: Loaded,
    readers: Readers,
) -> anyhow::Result<()> {
    let signals = Signals::new()?;
    let options = options(&config);
    let services = Services::open(&options).await?;
    let exported = (services.exporter.clone(), services.own_resource());
    let level = logging::begin(config.log(), config.self_telemetry(), Some(exported)).context("cannot log")?;
    for warning in &warnings {
        warn!("{warning}");
    }
    greet(&options, &services);
    let reload = FileReload::new(flags.clone(), config, files, level);
    daemon::run(options, services, signals, reload, readers).await;
    Ok(())
}

fn greet(options: &Options, services: &Services) {
    info!("gcwatch {}", env!("GCWATCH_VERSION"));
    match services.address() {
        Some(address) => info!("listening at http://{address}/ (metrics at /metrics)"),
        None => info!("the listener is disabled: no /metrics, no API"),
    }
    let otlp = &options.otlp;
    let signals = [
        ("traces", &otlp.traces),
        ("metrics", &otlp.metrics),
        ("logs", &otlp.logs),
    ];
    for (signal, receiver) in signals {
        match receiver {
            Some(receiver) => info!("exporting {signal} to {}", receiver.shown()),
            None => info!("not exporting {signal} over OTLP"),
        }
    }
    for (receiver, _) in services.notifier.stats() {
        info!("notifying {receiver} of alerts");
    }
}

/// Loads the configuration by the flags and reports its errors, one per line. `None`: the flags only requested to check
/// or print it, which is done.
///
/// # Errors
///
/// When it is invalid.
pub(crate) fn load(flags: &ConfigFlags) -> anyhow::Result<Option<Loaded>> {
    let mut stderr = std::io::stderr();
    let loaded = match config::load(flags) {
        Ok(loaded) => loaded,
        Err(problems) => {
            for problem in &problems.0 {
                writeln!(stderr, "{problem}")?;
            }
            let count = crate::report::units::plural(problems.0.len() as u64, "error");
            anyhow::bail!("the configuration has {count}");
        }
    };
    if flags.check_config || flags.print_config {
        for warning in &loaded.warnings {
            writeln!(stderr, "warning: {warning}")?;
        }
        if flags.print_config {
            std::io::stdout().write_all(loaded.config.print().as_bytes())?;
        } else {
            writeln!(stderr, "the configuration is valid")?;
        }
        return Ok(None);
    }
    Ok(Some(loaded))
}

/// Logs warnings and errors to standard error, for commands that report their own results.
///
/// # Errors
///
/// When logging was already set up.
pub(crate) fn log_lines(loaded: &Loaded) -> anyhow::Result<()> {
    let quiet = LogOptions {
        filter: "warn".to_owned(),
        format: loaded.config.log().format,
    };
    logging::begin(&quiet, loaded.config.self_telemetry(), None).context("cannot log")?;
    for warning in &loaded.warnings {
        warn!("{warning}");
    }
    Ok(())
}

/// The options of the daemon by a configuration.
pub(crate) fn options(config: &Config) -> Options {
    let texts = |attributes: &[(String, String)]| -> Vec<KeyValue> {
        attributes
            .iter()
            .map(|(key, value)| key_value(key, Value::StringValue(value.clone())))
            .collect()
    };
    let own = config.self_telemetry();
    let run = RunKey {
        pid: std::process::id(),
        start_time: now_unix_ns(),
    };
    let mut own_resource = own_identity(&own.service_name, run);
    for given in texts(&own.attributes) {
        own_resource.retain(|known| known.key != given.key);
        own_resource.push(given);
    }
    Options {
        targets: config.targets().clone(),
        pipeline: PipelineSettings {
            spans: config.spans().clone(),
            metrics: config.metrics().clone(),
            max_runs: config.targets().max_targets,
            clock: Clock::Live,
            resource: texts(config.resource()),
            ..PipelineSettings::default()
        },
        otlp: config.otlp().clone(),
        rules: config.rules().clone(),
        alerts: config.alerts().clone(),
        kubernetes: config.kubernetes().clone(),
        listen: config.listen(),
        own_resource,
        export_own_metrics: own.metrics,
    }
}

/// Items that were not delivered, one sentence per signal; `true`: this is an error.
pub(crate) fn troubles(stats: &Stats) -> Vec<(bool, String)> {
    let mut troubles = Vec::new();
    for signal in Signal::ALL {
        let stats = stats.of(signal);
        let (rejected, dropped) = (stats.rejected, stats.dropped.total());
        if rejected + dropped == 0 {
            continue;
        }
        let items = signal.items();
        let why = stats
            .last_error
            .as_ref()
            .map_or("no error was reported", |error| error.text.as_str());
        let text = if stats.unsupported {
            let signal = signal.name();
            format!("{dropped} {items} were not sent: the receiver does not support {signal}")
        } else if rejected > 0 {
            format!("{rejected} {items} were rejected, {dropped} were not sent: {why}")
        } else {
            format!("{dropped} {items} were not sent: {why}")
        };
        // Jaeger and Tempo only support traces, which is not an error.
        troubles.push((!stats.unsupported, text));
    }
    troubles
}

/// The executor of commands that replay recordings.
///
/// # Errors
///
/// When a thread cannot be started.
pub(crate) fn executor() -> anyhow::Result<Runtime> {
    start(Builder::new_multi_thread().worker_threads(1))
}

/// Files of processes are read on blocking threads. Few of them are kept, because each one takes memory.
fn start(builder: &mut Builder) -> anyhow::Result<Runtime> {
    builder
        .max_blocking_threads(16)
        .thread_keep_alive(Duration::from_millis(500))
        .enable_all()
        .build()
        .context("cannot start")
}

/// Reloads the configuration file and the files that it refers to.
struct FileReload {
    flags: ConfigFlags,
    config: Config,
    files: Vec<PathBuf>,
    watch: Option<Watch>,
    level: LogLevel,
}

impl FileReload {
    fn new(flags: ConfigFlags, config: Config, files: Vec<PathBuf>, level: LogLevel) -> Self {
        let watch = watch(&files);
        Self {
            flags,
            config,
            files,
            watch,
            level,
        }
    }
}

fn watch(files: &[PathBuf]) -> Option<Watch> {
    if files.is_empty() {
        return None;
    }
    let watch = Watch::new(files.to_vec());
    if let Some(error) = watch.degraded() {
        warn!("polling the configuration files, because the system does not report their changes: {error}");
    }
    Some(watch)
}

impl Reload for FileReload {
    async fn changed(&mut self) {
        match self.watch.as_mut() {
            Some(watch) => watch.changed().await,
            None => std::future::pending().await,
        }
    }

    fn load(&mut self) -> Result<Options, Refused> {
        match config::load(&self.flags) {
            Ok(Loaded {
                config,
                warnings,
                files,
            }) => {
                for warning in &warnings {
                    warn!("{warning}");
                }
                for key in self.config.changes(&config).restart {
                    warn!("{key} changed: restart gcwatch to apply it");
                }
                if files != self.files {
                    self.watch = watch(&files);
                    self.files = files;
                }
                if config.log().filter != self.config.log().filter {
                    self.level.set_filter(&config.log().filter);
                    info!("log.level is now {}", config.log().filter);
                }
                let options = options(&config);
                self.config = config;
                Ok(options)
            }
            Err(problems) => {
                for problem in &problems.0 {
                    error!("{problem}");
                }
                Err(Refused)
            }
        }
    }
}
