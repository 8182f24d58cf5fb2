//! `gcwatch callers`: who makes a process collect.

use std::time::Duration;

use clr_evidence::burst::Weight;
use clr_evidence::callers::Callers;
use clr_evidence::{flame, folded};
use serde::Serialize;

use crate::commands::burst::{Asked, Facts, Gathered, Output, Subject, executor, from_file};
use crate::commands::cli::{CallersArgs, EvidenceFormat};
use evidence::burst::Question;
use report::callers as report;

/// How long it watches unless asked otherwise.
const TIME: Duration = Duration::from_secs(10);

/// The first record.
#[derive(Debug, Serialize)]
struct CallersRecord {
    kind: &'static str,
    #[serde(flatten)]
    facts: Facts,
    triggers: u64,
    collections: u64,
    stopped_ns: Option<i64>,
    /// Stops that no request led to: the runtime does not say whose (`GC.RefreshMemoryLimit`).
    unasked_stops: u64,
    unasked_stopped_ns: Option<i64>,
}

/// Runs the command. `false`: not all of it could be done, which was reported.
///
/// # Errors
///
/// When the process cannot be attached to, or the output cannot be written.
pub fn run(args: &CallersArgs) -> anyhow::Result<bool> {
    let subject = Subject::of(&args.subject)?;
    if args.burst.format == Some(EvidenceFormat::Pprof) {
        anyhow::bail!("callers have no pprof profile; use folded or svg");
    }
    let output = Output::open(&args.burst)?;
    let gathered = match subject {
        Subject::Recording(file) => Some(from_file(file)?),
        Subject::Process(pid) => executor()?.block_on(async {
            let asked = Asked::find(pid).await?;
            asked.burst(&args.burst, Question::Callers, TIME).await
        })?,
    };
    match gathered {
        Some(gathered) => write(&gathered, output, args),
        None => Ok(true),
    }
}

fn write(gathered: &Gathered, mut output: Output, args: &CallersArgs) -> anyhow::Result<bool> {
    let callers = gathered.burst.callers();
    match output.format {
        EvidenceFormat::Ndjson => {
            output.record(&first(gathered, &callers))?;
            for caller in &callers.callers {
                output.record(caller)?;
            }
        }
        EvidenceFormat::Folded => {
            folded::write(output.text(), &gathered.burst.weighted_stacks(Weight::Stopped))?;
        }
        EvidenceFormat::Svg => {
            let title = format!("Time stopped by callers of the collector: {}", gathered.name);
            let stacks = gathered.burst.weighted_stacks(Weight::Stopped);
            let svg = flame::svg(&title, &stacks, flame::Unit::Nanoseconds, &gathered.burst.framework());
            output.text().write_all(svg.as_bytes())?;
        }
        EvidenceFormat::Table | EvidenceFormat::Pprof => {
            let facts = gathered.burst.facts();
            report::write(output.text(), &callers, &facts, args.burst.top, args.burst.stacks)?;
        }
    }
    output.finish()?;
    Ok(gathered.is_whole)
}

fn first(gathered: &Gathered, callers: &Callers) -> CallersRecord {
    CallersRecord {
        kind: "callers",
        facts: gathered.facts(),
        triggers: callers.triggers,
        collections: callers.collections,
        stopped_ns: callers.stopped_ns,
        unasked_stops: callers.unasked_stops,
        unasked_stopped_ns: callers.unasked_stopped_ns,
    }
}
