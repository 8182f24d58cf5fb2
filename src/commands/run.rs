//! `gcwatch run`: the daemon.

mod end;

use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use std::thread::sleep;
use std::time::Duration;

use anyhow::Context as _;
use tokio::runtime::{Builder, Runtime};
use tracing::{error, info, warn};

use crate::commands::cli::RunArgs;
use crate::commands::run::end::{end_at_last, end_with_stdin};
use crate::daemon::logging::queue::LogQueue;
use crate::daemon::logging::{self, LogLevel};
use crate::daemon::own::RunParts;
use crate::daemon::{self, OptionsError, Reload, Services, Signals};
use base::clock::now_unix_ns;
use base::run_key::RunKey;
use config::file::{READ_TIMEOUT, Watch};
use config::flags::ConfigFlags;
use config::options::LogOptions;
use config::options::{Options, RuleSources};
use config::problem::Problems;
use config::rule_files;
use config::{self, Config, LoadedConfig, texts};
use delivery::otlp::signal::Signal;
use delivery::otlp::stats::Stats;
use rule_language::load;
use targets::descriptors::{self, Descriptors};
use targets::guard::Guard;
use targets::{FileReading, Readers, Rounds, own_identity};

/// Name of the thread that reads all streams, as shown by `top -H`.
const READING_THREAD: &str = "reading";

/// Maximum time for the last log lines to be read.
const LAST_LINES_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs the daemon until SIGTERM or SIGINT. Returns `false` if a part of the daemon failed. In that case, the failure
/// has been logged.
pub(crate) fn run(args: &RunArgs) -> anyhow::Result<bool> {
    let Some(loaded) = load(&args.config)? else {
        return Ok(true);
    };
    let executor = start(&mut Builder::new_current_thread())?;
    let rounds = Arc::new(Rounds::default());
    let resting = Arc::clone(&rounds);
    let reading = start(
        Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name(READING_THREAD)
            // After a wake-up from another thread during the rest, the thread continues without checking for readable
            // sockets. By default, tokio makes this check only after 61 tasks, which is too late with five such
            // wake-ups per second.
            .event_interval(4)
            .on_thread_park(move || sleep(resting.rest())),
    )?;
    let readers = Readers::new(reading.handle().clone(), rounds);
    end_at_last()?;
    if args.end_with_stdin {
        end_with_stdin()?;
    }
    let raised = descriptors::raise();
    let log = LogQueue::to_stderr().context("cannot log to standard error")?;
    let served = catch_unwind(AssertUnwindSafe(|| {
        executor.block_on(serve(&args.config, loaded, readers, log.clone(), raised))
    }));
    // A scan of /proc that hangs in a file system must not delay the shutdown.
    reading.shutdown_background();
    executor.shutdown_background();
    // The last lines report losses. A reader that does not read these lines delays the exit by at most
    // [`LAST_LINES_TIMEOUT`].
    let _not_read = log.flush(LAST_LINES_TIMEOUT);
    match served {
        Ok(done) => done,
        // The log already contains the panic and its location.
        Err(_panicked) => Ok(false),
    }
}

async fn serve(
    flags: &ConfigFlags,
    LoadedConfig {
        config,
        warnings,
        files,
    }: LoadedConfig,
    readers: Readers,
    log: LogQueue,
    raised: std::io::Result<()>,
) -> anyhow::Result<bool> {
    let signals = Signals::new()?;
    let options = options(&config);
    let services = Services::open(&options).await?;
    let level = logging::begin_queued(
        &config.log,
        &config.self_telemetry,
        log.clone(),
        services.exporter.clone(),
        services.own_resource(),
    )
    .context("cannot log")?;
    for warning in &warnings {
        warn!("{warning}");
    }
    services.log_notes();
    if let Err(error) = raised {
        warn!("cannot raise the limit of file descriptors: {error}");
    }
    let max_targets = options.targets.max_targets;
    if let Some((problem, remedy)) = Descriptors::for_targets(max_targets).problem(max_targets) {
        warn!("{problem}: {remedy}");
    }
    greet(&options, &services);
    let guard = Guard::start().context("cannot start a thread for the guard of sessions")?;
    let readers = readers.guarded(guard.clone());
    let alive = readers.alive();
    services.set_run_parts(RunParts { guard, log, alive });
    let reload = FileReload::new(flags.clone(), config, files, level);
    Ok(daemon::run(options, services, signals, reload, readers).await)
}

/// Approximate start time of this process. The value is the same at every reload, so that an unchanged configuration is
/// not a change.
static STARTED: LazyLock<u64> = LazyLock::new(now_unix_ns);

/// Returns the options of a configuration, with the identity of this process as the daemon's own resource.
pub(crate) fn options(config: &Config) -> Options {
    let own = &config.self_telemetry;
    let run = RunKey {
        pid: std::process::id(),
        start_time: *STARTED,
    };
    let mut own_resource = own_identity(&own.service_name, run);
    for given in texts(own.attributes.clone()) {
        own_resource.retain(|known| known.key != given.key);
        own_resource.push(given);
    }
    Options {
        own_resource,
        ..config.options.clone()
    }
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
    match (services.black_box_folder(), options.black_box.enabled) {
        (Some(folder), _) => info!("recording severe incidents in {}", folder.display()),
        (None, true) => info!("not recording severe incidents, because state.directory is not set"),
        (None, false) => info!("not recording severe incidents, because evidence.black_box.enabled is false"),
    }
}

/// Loads the configuration according to the flags and reports its errors, one per line. Returns `None` if the flags
/// only request to check or print the configuration. In that case, this function has done so.
pub(crate) fn load(flags: &ConfigFlags) -> anyhow::Result<Option<LoadedConfig>> {
    let mut stderr = std::io::stderr();
    let loaded = match config::load(flags) {
        Ok(loaded) => loaded,
        Err(problems) => {
            for problem in &problems.0 {
                writeln!(stderr, "{problem}")?;
            }
            let count = report::units::plural(problems.0.len() as u64, "error");
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
            let rules = check_rules(&loaded.config.options.rules, &mut stderr)?;
            writeln!(stderr, "the configuration is valid, with {rules}")?;
        }
        return Ok(None);
    }
    Ok(Some(loaded))
}

/// Checks the rule files as the daemon loads them, and counts the rules that would be in force. Errors are written to
/// `out`.
fn check_rules(sources: &RuleSources, out: &mut dyn std::io::Write) -> anyhow::Result<String> {
    let mut files = if sources.shipped { load::shipped() } else { Vec::new() };
    let mut problems = Vec::new();
    for path in &sources.paths {
        // The file can be meant for another machine, on which the daemon will run.
        if !path.exists() {
            writeln!(
                out,
                "warning: {} does not exist here; its rules are not checked",
                path.display()
            )?;
            continue;
        }
        match rule_files::read_any(path) {
            Ok(read) => files.extend(read),
            Err(unread) => problems.extend(unread),
        }
    }
    let loaded = load::load(&files);
    let invalid = loaded
        .as_ref()
        .map_or_else(|problems| problems, |loaded| &loaded.left_out);
    let problems: Vec<_> = problems.iter().chain(invalid).collect();
    for problem in &problems {
        writeln!(out, "{problem}")?;
    }
    let loaded = match loaded {
        Ok(loaded) if problems.is_empty() => loaded,
        _ => {
            let count = report::units::plural(problems.len() as u64, "error");
            anyhow::bail!("the configuration is valid, but its rule files have {count}");
        }
    };
    for warning in &loaded.warnings {
        writeln!(out, "warning: {warning}")?;
    }
    let rules = loaded.rules.rules.iter().filter(|rule| rule.enabled).count();
    Ok(report::units::plural(rules as u64, "rule"))
}

/// Starts to log warnings and errors to standard error, for commands that report their own results. Logs the warnings
/// of the configuration.
pub(crate) fn log_lines(loaded: &LoadedConfig) -> anyhow::Result<()> {
    let quiet = LogOptions {
        filter: "warn".to_owned(),
        format: loaded.config.log.format,
        incidents: true,
    };
    logging::begin(&quiet, &loaded.config.self_telemetry).context("cannot log")?;
    for warning in &loaded.warnings {
        warn!("{warning}");
    }
    Ok(())
}

/// Returns one sentence per signal with items that were not delivered, and whether the sentence reports an error.
pub(crate) fn troubles(stats: &Stats) -> Vec<(bool, String)> {
    let mut troubles = Vec::new();
    for signal in Signal::ALL {
        let stats = stats.get(signal);
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
        // Jaeger and Tempo support only traces, which is not an error.
        troubles.push((!stats.unsupported, text));
    }
    troubles
}

/// Starts the executor of commands that replay recordings.
pub(crate) fn executor() -> anyhow::Result<Runtime> {
    start(Builder::new_multi_thread().worker_threads(1))
}

/// Maximum number of blocking threads. If a name server does not answer, a lookup of a receiver blocks one thread for
/// up to 30 s.
const BLOCKING_THREADS: usize = 64;

/// Starts an executor. The blocking threads of the executor read the files of processes. Idle blocking threads exit
/// soon, because each thread takes memory.
fn start(builder: &mut Builder) -> anyhow::Result<Runtime> {
    builder
        .max_blocking_threads(BLOCKING_THREADS)
        .thread_keep_alive(Duration::from_millis(500))
        .enable_all()
        .build()
        .context("cannot start")
}

/// Reloads the configuration file and the files that the configuration refers to.
struct FileReload {
    flags: ConfigFlags,
    config: Config,
    files: Vec<PathBuf>,
    watch: Option<Watch>,
    level: LogLevel,
    reading: FileReading,
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
            reading: FileReading::default(),
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

    async fn load(&mut self) -> Result<Options, OptionsError> {
        let (flags, watched) = (self.flags.clone(), self.files.clone());
        let read = self.reading.within(READ_TIMEOUT, move || {
            let loaded = config::load(&flags)?;
            let watch = (loaded.files != watched).then(|| watch(&loaded.files));
            Ok((loaded, watch))
        });
        let loaded: Result<_, Problems> = match read.await {
            Ok(loaded) => loaded,
            Err(not_read) => {
                error!("the configuration: {not_read}");
                return Err(OptionsError);
            }
        };
        match loaded {
            Ok((loaded, watch)) => {
                let LoadedConfig {
                    config,
                    warnings,
                    files,
                } = loaded;
                for warning in &warnings {
                    warn!("{warning}");
                }
                for key in self.config.restart(&config) {
                    warn!("{key} changed: restart gcwatch to apply it");
                }
                if let Some(watch) = watch {
                    self.watch = watch;
                    self.files = files;
                }
                if config.log != self.config.log {
                    self.level.set_filter(&config.log);
                    info!("log.level is now {}", config.log.filter);
                }
                let options = options(&config);
                self.config = config;
                Ok(options)
            }
            Err(problems) => {
                for problem in &problems.0 {
                    error!("{problem}");
                }
                Err(OptionsError)
            }
        }
    }
}
