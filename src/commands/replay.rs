//! `gcwatch replay`: sends recordings through the daemon's pipeline and exporters.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use clr_gc::stream::Scope;
use tokio::time::Instant;

use crate::commands::cli::ReplayArgs;
use crate::commands::output::say;
use crate::commands::run::troubles;
use crate::daemon::Services;
use crate::pipeline::Clock;
use crate::pipeline::replay::{Player, ReplayFeeds, ReplayIdentity, complete_at};
use base::clock::now_unix_ns;
use base::time::TimeBase;
use config::options::Options;
use delivery::otlp::Exporter;
use delivery::otlp::signal::Signal;
use recording::Recording;
use recording::source::Source;
use report::units::plural;

/// Number of outcomes between two checks of the queues.
const QUEUE_CHECK_PERIOD: u64 = 64;

/// Maximum wait for the queues during a replay. If a receiver is down for longer, queued items are dropped.
const WAIT_FOR_QUEUES: Duration = Duration::from_secs(60);

/// Runs the command. Returns `false` if some data could not be read or sent, which was reported.
pub(crate) fn run(args: &ReplayArgs) -> anyhow::Result<bool> {
    let Some(loaded) = super::run::load(&args.config)? else {
        return Ok(true);
    };
    let mut options = super::run::options(&loaded.config);
    super::run::log_lines(&loaded)?;
    options.pipeline.clock = Clock::Recorded;
    options.export_own_metrics = false;
    without_notifications(&mut options);
    // A daemon on this host can use the same address.
    if args.config.listen.is_none() {
        options.listen = None;
    }
    super::run::executor()?.block_on(replay(options, args))
}

/// Disables notifications and the queue on disk. Alerts of recordings are exported only over OTLP and written to
/// standard output.
pub(crate) fn without_notifications(options: &mut Options) {
    // A daemon on this host can use the directory.
    options.state_directory = None;
    options.alerts.alertmanagers.clear();
    options.alerts.webhooks.clear();
}

async fn replay(options: Options, args: &ReplayArgs) -> anyhow::Result<bool> {
    let otlp = &options.otlp;
    let exported = otlp.traces.is_some() || otlp.metrics.is_some() || (otlp.logs.is_some() && options.alerts.log);
    anyhow::ensure!(
        exported || options.listen.is_some() || options.alerts.stdout,
        "nowhere to replay to: no signal is exported, and --listen is not set"
    );
    let services = Services::open(&options).await?;
    services.set_ready(true);
    let mut fine = true;
    for file in &args.files {
        match one(&services, &options, args, file).await {
            Ok(()) => {}
            Err(error) => {
                say(format_args!("{error:#}"));
                fine = false;
            }
        }
    }
    let counts = services.pipeline.counts();
    if counts.over_rate > 0 {
        say(format_args!(
            "{} not exported as spans: more than {} per second of one process (spans.max_per_second)",
            plural(counts.over_rate, "collection"),
            options.pipeline.spans.max_per_second
        ));
    }
    let exporter = services.exporter.clone();
    // A slow or unavailable receiver gets more time than at the daemon's shutdown, because there is no other work left.
    exporter.flush(WAIT_FOR_QUEUES).await;
    services.close().await;
    say(format_args!(
        "replayed {} as {}",
        plural(counts.collections, "collection"),
        plural(counts.spans, "span")
    ));
    for (failed, trouble) in troubles(&exporter.stats()) {
        say(trouble);
        fine &= !failed;
    }
    Ok(fine)
}

async fn one(services: &Services, options: &Options, args: &ReplayArgs, file: &Path) -> anyhow::Result<()> {
    let mut player = Player::open(file)?;
    let Some(header) = player.begin()? else {
        anyhow::bail!("{} is cut short before its header: it has no events", file.display());
    };
    let recorded = header
        .unix_ns_of_offset(0)
        .context("the stream does not contain the time of its recording")?;
    let base = TimeBase::at(match (args.now, args.realtime) {
        (false, _) => recorded,
        (true, true) => now_unix_ns().into(),
        // Shift the recording so that it ends now.
        (true, false) => i128::from(now_unix_ns()) - i128::from(length_ns(file)?),
    });
    let cast = ReplayIdentity {
        service: service(file, args),
        attributes: Vec::new(),
        base,
        start_time: base.moment(0).ns(),
    };
    let mut stage = ReplayFeeds::new(services.pipeline.clone(), cast);
    let interval = i64::try_from(options.pipeline.metrics.interval.as_nanos()).unwrap_or(i64::MAX);
    let mut next_metrics: Option<i64> = None;
    let begun = Instant::now();
    let mut observed: u64 = 0;
    let ended = loop {
        let (key, outcome) = match player.next_outcome() {
            Ok(Some(next)) => next,
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        };
        if let Some(at) = complete_at(&outcome) {
            if args.realtime {
                tokio::time::sleep_until(begun + Duration::from_nanos(u64::try_from(at).unwrap_or(0))).await;
            }
            if next_metrics.is_some_and(|next| at >= next) {
                stage.progress(player.progress());
                services.pipeline.export_metrics(base.moment(at).ns());
                next_metrics = None;
            }
            next_metrics = next_metrics.or(Some(at.saturating_add(interval)));
        }
        stage.observe(key, outcome)?;
        observed += 1;
        if observed.is_multiple_of(QUEUE_CHECK_PERIOD) {
            wait_for_queues(&services.exporter, options).await;
        }
    };
    stage.progress(player.progress());
    stage.end();
    if let Some(cut) = player.cut() {
        say(cut);
    }
    ended.map_err(Into::into)
}

/// Waits while the queues are half full, so that no item is dropped because the file is read faster than the items are
/// sent.
async fn wait_for_queues(exporter: &Exporter, options: &Options) {
    let stats = exporter.stats();
    let limits = options.otlp.limits;
    let half_full = Signal::ALL.iter().map(|signal| stats.get(*signal)).any(|stats| {
        stats.queued as usize > limits.queue_items / 2 || stats.queued_bytes as usize > limits.queue_bytes / 2
    });
    if half_full {
        exporter.flush(WAIT_FOR_QUEUES).await;
    }
}

/// Returns the `service.name`: the argument, or the file name without its suffixes.
fn service(file: &Path, args: &ReplayArgs) -> String {
    if let Some(service) = &args.service {
        return service.clone();
    }
    let name = file.file_name().map(|name| name.to_string_lossy().into_owned());
    let name = name
        .filter(|name| name != "-")
        .unwrap_or_else(|| "recording".to_owned());
    name.split(".nettrace").next().unwrap_or(&name).to_owned()
}

/// Returns the time from the sync point to the last event. Reads the file once.
fn length_ns(file: &Path) -> anyhow::Result<i64> {
    anyhow::ensure!(
        file != Path::new("-"),
        "the end of standard input is unknown in advance; pass a file, or use --realtime"
    );
    let recording = Recording::read(&mut Source::open(file)?, Scope::Collections, |_| {});
    Ok(recording.observed_ns)
}
