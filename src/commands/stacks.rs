//! `gcwatch stacks`: shows the activity of every managed thread.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use crate::commands::burst::{Facts, gather};
use crate::commands::cli::{EvidenceFormat, StacksArgs};
use evidence::burst::Question;
use report::stacks as report;
use targets::thread_names::{self, FINALIZER};

/// Default duration of a burst, which gives some hundred samples per thread.
const TIME: Duration = Duration::from_millis(300);
/// The first record of the output.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename = "stacks")]
struct StacksRecord<'a> {
    #[serde(flatten)]
    facts: &'a Facts,
    samples: u64,
    threads: usize,
    finalizer: Option<u64>,
    without_sample: &'a Option<Vec<u64>>,
    without_place: u64,
}

/// Runs the command. Returns `false` if the result is incomplete, which was reported.
pub(crate) fn run(args: &StacksArgs) -> anyhow::Result<bool> {
    if !matches!(
        args.burst.format,
        None | Some(EvidenceFormat::Table | EvidenceFormat::Ndjson)
    ) {
        anyhow::bail!("stacks can only be written as a table or ndjson");
    }
    let mut names = BTreeMap::new();
    let gathered = gather(&args.subject, &args.burst, TIME, |asked| {
        if asked.process.visible {
            names = thread_names::names(asked.process.pid);
        }
        Ok(Question::Stacks)
    })?;
    let Some((gathered, mut output)) = gathered else {
        return Ok(true);
    };
    let mut stacks = gathered.burst.threads();
    let named = names.iter().find(|(_, name)| *name == FINALIZER);
    if let (None, Some((thread, _))) = (stacks.finalizer, named) {
        stacks.name_finalizer(*thread);
    }
    if output.format == EvidenceFormat::Ndjson {
        output.record(&StacksRecord {
            facts: &gathered.facts,
            samples: stacks.samples,
            threads: stacks.groups.iter().map(|group| group.threads.len()).sum(),
            finalizer: stacks.finalizer,
            without_sample: &stacks.without_sample,
            without_place: stacks.without_place,
        })?;
        output.records(&stacks.groups)?;
    } else {
        let facts = &gathered.facts.of_burst;
        report::write(output.text(), &stacks, &names, facts, args.burst.top, args.burst.stacks)?;
    }
    output.finish()?;
    Ok(gathered.is_whole)
}
