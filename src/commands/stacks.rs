//! `gcwatch stacks`: what every managed thread is doing.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use crate::commands::burst::{Asked, Facts, Gathered, Output, Subject, executor, from_file};
use crate::commands::cli::{EvidenceFormat, StacksArgs};
use evidence::burst::Question;
use report::stacks as report;
use targets::thread_names::{FINALIZER, names};

/// How long it watches unless asked otherwise: some hundred samples of each thread.
const TIME: Duration = Duration::from_millis(300);
/// The first record.
#[derive(Debug, Serialize)]
struct StacksRecord<'a> {
    kind: &'static str,
    #[serde(flatten)]
    facts: Facts,
    samples: u64,
    threads: usize,
    finalizer: Option<u64>,
    without_sample: &'a Option<Vec<u64>>,
    without_place: u64,
}

/// Runs the command. `false`: not all of it could be done, which was reported.
///
/// # Errors
///
/// When the process cannot be attached to, or the output cannot be written.
pub fn run(args: &StacksArgs) -> anyhow::Result<bool> {
    let subject = Subject::of(&args.subject)?;
    if !matches!(
        args.burst.format,
        None | Some(EvidenceFormat::Table | EvidenceFormat::Ndjson)
    ) {
        anyhow::bail!("what threads do is a table or ndjson");
    }
    let output = Output::open(&args.burst)?;
    let mut of_threads = BTreeMap::new();
    let gathered = match subject {
        Subject::Recording(file) => Some(from_file(file)?),
        Subject::Process(pid) => executor()?.block_on(async {
            let asked = Asked::find(pid).await?;
            if asked.process.visible {
                of_threads = names(pid);
            }
            asked.burst(&args.burst, Question::Stacks, TIME).await
        })?,
    };
    match gathered {
        Some(gathered) => write(&gathered, &of_threads, output, args),
        None => Ok(true),
    }
}

fn write(
    gathered: &Gathered,
    names: &BTreeMap<u64, String>,
    mut output: Output,
    args: &StacksArgs,
) -> anyhow::Result<bool> {
    let mut stacks = gathered.burst.threads();
    let named = names.iter().find(|(_, name)| *name == FINALIZER);
    if let (None, Some((thread, _))) = (stacks.finalizer, named) {
        stacks.name_finalizer(*thread);
    }
    if output.format == EvidenceFormat::Ndjson {
        output.record(&StacksRecord {
            kind: "stacks",
            facts: gathered.facts(),
            samples: stacks.samples,
            threads: stacks.groups.iter().map(|group| group.threads.len()).sum(),
            finalizer: stacks.finalizer,
            without_sample: &stacks.without_sample,
            without_place: stacks.without_place,
        })?;
        for group in &stacks.groups {
            output.record(group)?;
        }
    } else {
        let facts = gathered.burst.facts();
        report::write(output.text(), &stacks, names, &facts, args.burst.top, args.burst.stacks)?;
    }
    output.finish()?;
    Ok(gathered.is_whole)
}
