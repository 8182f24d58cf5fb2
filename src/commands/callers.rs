//! `gcwatch callers`: finds the code that triggers collections in a process.

use std::time::Duration;

use clr_evidence::burst::Weight;
use clr_evidence::flame::Unit;
use serde::Serialize;

use crate::commands::burst::{Facts, gather};
use crate::commands::cli::{CallersArgs, EvidenceFormat};
use evidence::burst::Question;
use report::callers as report;

/// Default duration of a burst.
const TIME: Duration = Duration::from_secs(10);

/// The first record of the output.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename = "callers")]
struct CallersRecord<'a> {
    #[serde(flatten)]
    facts: &'a Facts,
    triggers: u64,
    collections: u64,
    stopped_ns: Option<i64>,
    /// Number of suspensions without a request. The runtime does not report their cause (`GC.RefreshMemoryLimit`).
    unasked_stops: u64,
    unasked_stopped_ns: Option<i64>,
}

/// Runs the command. Returns `false` if the result is incomplete; the reason was reported.
pub(crate) fn run(args: &CallersArgs) -> anyhow::Result<bool> {
    if args.burst.format == Some(EvidenceFormat::Pprof) {
        anyhow::bail!("callers cannot be written as a pprof profile; use folded or svg");
    }
    let gathered = gather(&args.subject, &args.burst, TIME, |_| Ok(Question::Callers))?;
    let Some((gathered, mut output)) = gathered else {
        return Ok(true);
    };
    let callers = gathered.burst.callers();
    match output.format {
        EvidenceFormat::Ndjson => {
            output.record(&CallersRecord {
                facts: &gathered.facts,
                triggers: callers.triggers,
                collections: callers.collections,
                stopped_ns: callers.stopped_ns,
                unasked_stops: callers.unasked_stops,
                unasked_stopped_ns: callers.unasked_stopped_ns,
            })?;
            output.records(&callers.callers)?;
        }
        EvidenceFormat::Folded | EvidenceFormat::Svg => {
            let of = (Weight::Stopped, Unit::Nanoseconds);
            gathered.write_stacks(&mut output, of, "Time stopped by callers of the collector")?;
        }
        EvidenceFormat::Table | EvidenceFormat::Pprof => {
            let facts = &gathered.facts.of_burst;
            report::write(output.text(), &callers, facts, args.burst.top, args.burst.stacks)?;
        }
    }
    output.finish()?;
    Ok(gathered.is_whole)
}
