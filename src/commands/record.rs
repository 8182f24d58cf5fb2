//! `gcwatch record`: records a live process to a nettrace file.

mod output;
mod profile;
mod progress;
mod recorder;

use std::pin::pin;
use std::time::Duration;

use clr_gc::event::RUNDOWN_PROVIDER;
use dotnet_diagnostics::discovery::Scan;
use dotnet_diagnostics::message::{Command, Provider, Rundown, SessionConfig};
use dotnet_diagnostics::{Client, Endpoint, Session};

use crate::commands::burst::{Signals, guarded};
use crate::commands::cli::{Profile, RecordArgs};
use crate::commands::executor;
use crate::commands::look::major;
use crate::commands::output::say;
use crate::commands::ps;
use crate::commands::record::output::Output;
use crate::commands::record::profile::{INFORMATIONAL, KEYWORD_GC};
use crate::commands::record::progress::Progress;
use crate::commands::record::recorder::{IncompleteReason, Recorder};

/// Timeout for the end of a session that is no longer needed.
pub(super) const END_TIMEOUT: Duration = Duration::from_secs(3);

/// Runs the command. Returns `false` if the recording could not be written completely. In that case, the reason has
/// been reported on stderr.
pub(crate) fn run(args: &RecordArgs) -> anyhow::Result<bool> {
    executor()?.block_on(record(args))
}

async fn record(args: &RecordArgs) -> anyhow::Result<bool> {
    let process = Scan::host().inspect(args.process.pid())?;
    let client = guarded(Client::new(Endpoint::for_process(&process)?));
    let info = client.probe().await?;
    let runtime_version = info.as_ref().and_then(|info| info.runtime_version.as_deref());
    let buffer_mb = args.buffer_mb.unwrap_or_else(|| args.profile.buffer_mb(process.pid));
    let config = session(args.profile, buffer_mb, runtime_version);
    let name = ps::name(process.clone(), info.clone()).await.unwrap_or(process.name);
    let mut signals = Signals::new()?;
    let mut output = tokio::select! {
        output = Output::open(&args.output, args.force, args.allow_fifo) => output?,
        () = signals.stop() => anyhow::bail!("stopped before {} had a reader", args.output.display()),
    };
    let session = match begin(&client, &config, &mut signals).await {
        Ok(session) => session,
        Err(error) => {
            output.discard();
            return Err(error);
        }
    };
    let version = runtime_version
        .map(|version| format!(", .NET {version}"))
        .unwrap_or_default();
    let command = Command::CollectTracing(session.version());
    say(format_args!(
        "recording process {} ({name}{version}) with {command}; press Ctrl-C to stop",
        args.process.pid(),
    ));
    let mut recorder = Recorder {
        session,
        output: &mut output,
        progress: Progress::new(),
        stopping: false,
    };
    let ended = recorder.run(args.duration, &mut signals).await;
    let in_order = ended.is_ok();
    recorder.end(&client, &mut signals, in_order).await;
    let Recorder { progress, stopping, .. } = recorder;
    if let Err(problem) = ended {
        if progress.bytes == 0 {
            output.discard();
        } else {
            say(format_args!("{} contains what was received before", output.name));
        }
        return match problem {
            IncompleteReason::Output(problem) => {
                say(problem);
                Ok(false)
            }
            IncompleteReason::Session(error) => Err(error),
        };
    }
    if progress.bytes == 0 {
        output.discard();
        anyhow::bail!("the session ended without data; nothing was recorded");
    }
    let name = output.complete()?;
    say(progress.summary(&name, stopping));
    Ok(true)
}

/// Returns the session of a profile.
pub(super) fn session(profile: Profile, buffer_mb: u32, runtime_version: Option<&str>) -> SessionConfig {
    let mut config = SessionConfig {
        buffer_mb,
        providers: profile.providers(),
        ..SessionConfig::default()
    };
    // Since .NET 9, a session selects its rundown.
    if runtime_version.and_then(major).is_some_and(|major| major >= 9) {
        // This rundown contains only two small events with the collector settings. Older runtimes would send all
        // methods.
        config.rundown = Rundown::Keyword(KEYWORD_GC);
        config
            .providers
            .push(Provider::new(RUNDOWN_PROVIDER, KEYWORD_GC, INFORMATIONAL));
    }
    config
}

/// Starts the session. After a signal, waits up to [`END_TIMEOUT`] for the start, so that the session does not stay
/// open in the process, and returns an error.
pub(super) async fn begin(client: &Client, config: &SessionConfig, signals: &mut Signals) -> anyhow::Result<Session> {
    let mut beginning = pin!(client.collect_tracing(config));
    tokio::select! {
        begun = &mut beginning => return Ok(begun?),
        () = signals.stop() => {}
    }
    if let Ok(Ok(mut session)) = tokio::time::timeout(END_TIMEOUT, beginning).await {
        let _late = tokio::time::timeout(END_TIMEOUT, session.drain(|_| ())).await;
    }
    anyhow::bail!("stopped before the session started; nothing was recorded")
}
