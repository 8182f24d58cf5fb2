//! `gcwatch demo`: replays recordings as if their processes were running here now.

use std::io::{Cursor, IsTerminal as _};
use std::time::Duration;

use clr_gc::gc::{Collection, Outcome};
use clr_gc::stream::ProcessKey;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::commands::burst::Signals;
use crate::commands::cli::{DemoArgs, Format, FormatArgs};
use crate::commands::output::{Output, say};
use crate::commands::run::troubles;
use crate::commands::top;
use crate::daemon::{Services, TICK};
use crate::pipeline::replay::{Player, ReplayFeeds, ReplayIdentity, complete_at};
use crate::pipeline::{Clock, Pipeline};
use base::clock::now_unix_ns;
use base::time::TimeBase;
use config::options::Options;
use gc_telemetry::definition::resource::RECORDED;
use gc_telemetry::value::key_value;
use recording::source::Source;
use report::collections;
use report::table::HEADING;
use targets::host::clocks;
use targets::host::now;
use web::options::WebOptions;

/// Maximum interval between metrics. This interval is shorter than the daemon's default, because a demonstration is
/// watched for less than a minute.
const METRICS_INTERVAL: Duration = Duration::from_secs(5);

/// Maximum number of rows per second, so that users can read the rows.
const ROWS_PER_SECOND: u32 = 8;

/// Width of the service column.
const SERVICE_WIDTH: usize = 15;

/// One process of the demonstration, with its recording.
struct Role {
    service: &'static str,
    what: &'static str,
    recording: &'static [u8],
    /// Whether the heap that is left at the end of a round is added to all later rounds.
    leaks: bool,
}

/// Number of rounds after which a leaking process ends and another one starts: six minutes. The rules find the leak
/// within this time.
const ROUNDS_OF_A_LEAK: u32 = 60;

/// Recordings of real processes, from tests/recordings.
const ROLES: [Role; 6] = [
    Role {
        service: "demo-web",
        what: "ASP.NET service under load, .NET 8, workstation GC with background collections",
        recording: include_bytes!("../../tests/recordings/svc8-workstation.nettrace.gz"),
        leaks: false,
    },
    Role {
        service: "demo-near-limit",
        what: ".NET 10 just below its heap limit: continuous compacting collections",
        recording: include_bytes!("../../tests/recordings/net10b-nearlimit.nettrace.gz"),
        leaks: false,
    },
    Role {
        service: "demo-server-gc",
        what: ".NET 10, server GC with DATAS, many allocating threads",
        recording: include_bytes!("../../tests/recordings/net10-threads-server-datas.nettrace.gz"),
        leaks: false,
    },
    Role {
        service: "demo-uploads",
        what: ".NET 10 at its heap limit: no space for large objects",
        recording: include_bytes!("../../tests/recordings/net10-lohoos.nettrace.gz"),
        leaks: false,
    },
    Role {
        service: "demo-batch",
        what: ".NET 10, a batch job: continuously busy, without a reason for an alert",
        recording: include_bytes!("../../tests/recordings/rules/net10-batch.nettrace.gz"),
        leaks: false,
    },
    Role {
        service: "demo-leak",
        what: ".NET 10, a leak: the heap grows until the process ends; the rules find it within four minutes",
        recording: include_bytes!("../../tests/recordings/rules/net10-leak.nettrace.gz"),
        leaks: true,
    },
];

/// Runs the command until Ctrl-C or for the given number of rounds. Shows `gcwatch top` on a terminal with an open
/// listener and without a number of rounds, and prints lines otherwise.
pub(crate) fn run(args: &DemoArgs) -> anyhow::Result<bool> {
    let Some(loaded) = super::run::load(&args.config)? else {
        return Ok(true);
    };
    let mut options = super::run::options(&loaded.config);
    // With a login or TLS, this command would need credentials for its own listener.
    let is_open = options.listen.is_some() && options.web == WebOptions::default();
    let on_terminal = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    let is_top = is_open && on_terminal && args.rounds.is_none();
    if is_top {
        // Write the warnings now, because log lines would overwrite the screen of `gcwatch top`.
        loaded.warnings.iter().for_each(say);
    } else {
        super::run::log_lines(&loaded)?;
    }
    super::replay::without_notifications(&mut options);
    if !loaded.config.names_otlp() {
        // Export only if the configuration names a receiver, not to the default address.
        let otlp = &mut options.otlp;
        (otlp.traces, otlp.metrics, otlp.logs) = (None, None, None);
    }
    options.pipeline.clock = Clock::Live;
    options.pipeline.metrics.interval = options.pipeline.metrics.interval.min(METRICS_INTERVAL);
    super::run::executor()?.block_on(demo(options, args.rounds, is_top))
}

async fn demo(options: Options, rounds: Option<u32>, is_top: bool) -> anyhow::Result<bool> {
    let is_exported = options.otlp.traces.is_some();
    let services = Services::open(&options).await?;
    services.set_ready(true);
    match services.address() {
        Some(address) if is_top => {
            tokio::select! {
                shown = top::show(format!("http://{address}")) => shown?,
                played = play(&services, &options, None, |_, _| Ok(())) => played?,
            }
        }
        _ => {
            where_to_look(&options, &services);
            let mut table = Table::new();
            play(&services, &options, rounds, |service, collection| {
                table.row(service, collection)
            })
            .await?;
        }
    }
    let counts = services.pipeline.counts();
    let exporter = services.exporter.clone();
    // Without a receiver, all items are dropped, which is acceptable in a demonstration.
    services.close().await;
    let collections = counts.collections;
    say(if is_exported {
        format!("exported {collections} collections as {} spans", counts.spans)
    } else {
        format!("played {collections} collections; --endpoint URL sends them to a receiver")
    });
    for (_, trouble) in troubles(&exporter.stats()) {
        say(format_args!("OTLP: {trouble}"));
    }
    Ok(true)
}

/// Plays all recordings until a signal or for `rounds` rounds. `row` receives the collections that can be shown.
async fn play(
    services: &Services,
    options: &Options,
    rounds: Option<u32>,
    mut row: impl FnMut(&'static str, &Collection) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let (seen, mut rows) = mpsc::channel::<(&'static str, Collection)>(64);
    let mut actors = JoinSet::new();
    for role in &ROLES {
        actors.spawn(act(role, services.pipeline.clone(), seen.clone(), rounds));
    }
    drop(seen);
    let mut signals = Signals::new()?;
    let mut metrics = tokio::time::interval_at(
        Instant::now() + options.pipeline.metrics.interval,
        options.pipeline.metrics.interval,
    );
    let mut ticks = tokio::time::interval(TICK);
    loop {
        tokio::select! {
            next = rows.recv() => match next {
                Some((service, collection)) => row(service, &collection)?,
                None => return Ok(()),
            },
            _ = metrics.tick() => services.export_metrics(now_unix_ns()),
            _ = ticks.tick() => services.pipeline.tick(clocks(), Duration::ZERO),
            () = signals.stop() => return Ok(()),
        }
    }
}

fn where_to_look(options: &Options, services: &Services) {
    say("replaying recordings of six .NET processes in a loop, as if they ran now; press Ctrl-C to stop");
    for role in &ROLES {
        say(format_args!("  {:16} {}", role.service, role.what));
    }
    if let Some(address) = services.address() {
        say(format_args!("  the processes         http://{address}/"));
        say(format_args!("  Prometheus metrics    http://{address}/metrics"));
        say(format_args!(
            "  last collections      http://{address}/api/v1/gcs?limit=3"
        ));
    }
    for (name, receiver) in [("traces", &options.otlp.traces), ("metrics", &options.otlp.metrics)] {
        if let Some(receiver) = receiver {
            say(format_args!("  {name:8} over OTLP to {}", receiver.shown()));
        }
    }
}

/// Replays one recording in a loop. The numbers of its collections continue to rise.
async fn act(
    role: &'static Role,
    pipeline: Pipeline,
    seen: mpsc::Sender<(&'static str, Collection)>,
    rounds: Option<u32>,
) {
    let begin = |life: u32| {
        let cast = ReplayIdentity {
            service: role.service.to_owned(),
            attributes: vec![key_value(RECORDED.name, Value::BoolValue(true))],
            base: TimeBase::at(now().ns().into()),
            start_time: life.into(),
        };
        ReplayFeeds::new(pipeline.clone(), cast)
    };
    let mut stage = begin(0);
    let mut offset: u32 = 0;
    let mut kept: u64 = 0;
    for round in 0..rounds.unwrap_or(u32::MAX) {
        let begun = Instant::now();
        if role.leaks && round > 0 && round % ROUNDS_OF_A_LEAK == 0 {
            std::mem::replace(&mut stage, begin(round / ROUNDS_OF_A_LEAK)).end();
            (offset, kept) = (0, 0);
        }
        stage.set_base(TimeBase::at(now().ns().into()));
        let Ok(source) = Source::from_reader(role.service.to_owned(), Box::new(Cursor::new(role.recording))) else {
            return;
        };
        let mut player = Player::new(source);
        let mut highest = 0;
        let (mut first, mut last) = (None, None);
        // Reading cannot fail, because tests read these recordings to the end.
        while let Ok(Some((key, mut outcome))) = player.next_outcome() {
            if let Some(at) = complete_at(&outcome) {
                let after = Duration::from_nanos(u64::try_from(at).unwrap_or(0));
                tokio::time::sleep_until(begun + after).await;
            }
            if let Outcome::Collection(collection) = &mut outcome {
                highest = highest.max(collection.number);
                renumber(collection, offset);
                if role.leaks
                    && let Some(bytes) = collection.heap_after()
                {
                    first = first.or(Some(bytes));
                    last = Some(bytes);
                    keep(collection, kept);
                }
                // A slow terminal skips rows; the pipeline receives every collection.
                let _skipped_when_full = seen.try_send((role.service, (**collection).clone()));
            }
            let key = ProcessKey {
                pid: key.pid,
                clr_instance: key.clr_instance,
            };
            if stage.observe(key, outcome).is_err() {
                return;
            }
        }
        offset = offset.wrapping_add(highest);
        kept += last.unwrap_or(0).saturating_sub(first.unwrap_or(0));
    }
    stage.end();
}

/// Adds the bytes left by earlier rounds to generation 2.
fn keep(collection: &mut Collection, bytes: u64) {
    let is_full = collection.generation == Some(2);
    let old = &mut collection.heap[2];
    let committed = &mut collection.committed;
    let of_full = [&mut old.promoted, &mut old.survived].into_iter().filter(|_| is_full);
    let all = [
        &mut old.before,
        &mut old.after,
        &mut committed.before,
        &mut committed.after,
    ];
    for size in all.into_iter().chain(of_full).flatten() {
        *size = size.saturating_add(bytes);
    }
}

fn renumber(collection: &mut Collection, offset: u32) {
    collection.number = collection.number.wrapping_add(offset);
    for number in collection.pauses.iter_mut().flat_map(|pause| &mut pause.shared_with) {
        *number = number.wrapping_add(offset);
    }
}

/// The table on standard output, limited to [`ROWS_PER_SECOND`].
struct Table {
    begun: bool,
    second: Instant,
    rows: u32,
}

impl Table {
    fn new() -> Self {
        Self {
            begun: false,
            second: Instant::now(),
            rows: 0,
        }
    }

    fn row(&mut self, service: &str, collection: &Collection) -> anyhow::Result<()> {
        if self.second.elapsed() >= Duration::from_secs(1) {
            self.second = Instant::now();
            self.rows = 0;
        }
        if self.rows == ROWS_PER_SECOND {
            return Ok(());
        }
        self.rows += 1;
        let mut output = Output::stdout(FormatArgs {
            format: Some(Format::Table),
        });
        if !std::mem::replace(&mut self.begun, true) {
            write!(output.text(), "{HEADING}{:SERVICE_WIDTH$}{HEADING:#}  ", "service")?;
            collections::headings(output.text())?;
        }
        write!(output.text(), "{service:SERVICE_WIDTH$}  ")?;
        collections::rows(output.text(), [collection])?;
        output.finish()?;
        Ok(())
    }
}
