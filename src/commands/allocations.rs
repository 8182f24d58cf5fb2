//! `gcwatch allocations`: finds the code that allocates in a process or a recording.

use std::io::Write as _;
use std::time::Duration;

use base::clock::now_unix_ns;
use clr_evidence::allocations::{Amount, Method};
use clr_evidence::burst::Weight;
use clr_evidence::flame::Unit;
use clr_evidence::pprof;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;

use crate::commands::burst::{BurstData, BurstTarget, Facts, gather};
use crate::commands::cli::{AllocationsArgs, AllocationsCommand, EvidenceFormat};
use crate::commands::output::{Output, say};
use evidence::burst::{MAX_PINNED_FOR_VERBOSE, Question, SAMPLES_SINCE, StoppedBy};
use report::allocations as report;

/// Default duration of a burst.
const TIME: Duration = Duration::from_secs(5);

/// The first record of the output.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename = "allocations")]
struct AllocationsRecord<'a> {
    #[serde(flatten)]
    facts: &'a Facts,
    method: Method,
    /// Totals: `samples`, `estimate`, `low`, `high`.
    #[serde(flatten)]
    total: Amount,
    /// Number of samples whose type or stack did not fit into the tables.
    without_place: u64,
}

/// Runs the command. Returns `false` if the result is incomplete. In that case, the reason has been reported on stderr.
pub(crate) fn run(args: &AllocationsArgs) -> anyhow::Result<bool> {
    if let Some(AllocationsCommand::Diff { .. }) = args.command {
        anyhow::bail!(
            "`gcwatch allocations diff` was removed: compare two outputs of `--format pprof` with `go tool pprof \
             -diff_base BEFORE AFTER`, or two recordings with `gcwatch diff`"
        );
    }
    let gathered = gather(&args.subject, &args.burst, TIME, |asked| question(args, asked))?;
    let Some((gathered, output)) = gathered else {
        return Ok(true);
    };
    // For a process that allocates little, no samples are a valid answer. A recording without samples has the wrong
    // events.
    if gathered.facts.pid.is_none() && gathered.burst.allocations().total.samples == 0 {
        say(format_args!(
            "{} has no allocation events; record them with `gcwatch record --profile gc-verbose`, or keep a burst with \
             `gcwatch allocations PID --keep FILE`",
            gathered.facts.name
        ));
        return Ok(false);
    }
    if gathered.facts.stopped_by == StoppedBy::PinnedObjects {
        say(format_args!(
            "{} has more than {MAX_PINNED_FOR_VERBOSE} pinned objects, each of which is an event of every collection \
             during the burst: the burst was stopped; --force continues anyway",
            gathered.facts.name
        ));
    }
    let is_refused = gathered.facts.stopped_by == StoppedBy::PinnedObjects;
    Ok(write(&gathered, output, args)? && !is_refused)
}

/// Returns the question that determines the session to request from the runtime.
fn question(args: &AllocationsArgs, asked: &BurstTarget) -> anyhow::Result<Question> {
    if asked.major().is_some_and(|major| major >= SAMPLES_SINCE) {
        return Ok(Question::Allocations);
    }
    if !args.tick {
        let version = asked
            .runtime
            .as_deref()
            .map_or(String::new(), |version| format!(" (.NET {version})"));
        anyhow::bail!(
            "process {}{version} cannot sample allocations: this requires .NET {SAMPLES_SINCE} or later. --tick opens \
             a Verbose session instead: it costs an allocating process 10-15 % during the burst, every pinned object \
             is an event of every collection, and its estimates are biased",
            asked.process.pid
        );
    }
    Ok(Question::Ticks {
        any_pins: args.burst.force,
    })
}

fn write(gathered: &BurstData, mut output: Output<EvidenceFormat>, args: &AllocationsArgs) -> anyhow::Result<bool> {
    let burst = &gathered.burst;
    let allocations = burst.allocations();
    match output.format {
        EvidenceFormat::Ndjson => {
            output.record(&AllocationsRecord {
                facts: &gathered.facts,
                method: allocations.method,
                total: allocations.total,
                without_place: allocations.without_place,
            })?;
            output.records(&allocations.types)?;
            output.records(&allocations.sites)?;
        }
        EvidenceFormat::Folded | EvidenceFormat::Svg => {
            gathered.write_stacks(&mut output, (Weight::Allocated, Unit::Bytes), "Bytes allocated")?;
        }
        EvidenceFormat::Pprof => {
            let facts = &gathered.facts.of_burst;
            let time = facts.window.length().unwrap_or(0);
            // The time of a recording is unknown here.
            let began = gathered.facts.pid.map(|_| now_unix_ns().saturating_sub(time));
            let began = began.and_then(|began| i64::try_from(began).ok());
            let profile = pprof::encode(&burst.stacked(), facts, began, allocations.method == Method::Tick);
            let mut packed = GzEncoder::new(output.raw(), Compression::default());
            packed.write_all(&profile)?;
            packed.finish()?;
        }
        EvidenceFormat::Table => {
            report::write(
                output.text(),
                &allocations,
                &gathered.facts.of_burst,
                args.burst.top,
                args.burst.stacks,
            )?;
        }
    }
    output.finish()?;
    Ok(gathered.is_whole)
}
