//! `gcwatch advise`: the memory that a process needs, and settings with their price.

mod live;

use base::clock::now_unix_ns;
use base::time::rfc3339;
use clr_gc::stream::Scope;
use gc_advice::advice::{Subject, Terms, advise};
use gc_advice::basis::SizingBasis;
use gc_advice::configuration::{Configuration, StreamFacts};
use gc_advice::observation::{Observation, Surroundings};
use gc_advice::proof::{ADMITTED, HitRates};
use gc_advice::sizing::size;
use recording::source::Source;
use recording::{ProcessHistory, Recording};
use targets::settings::adapts;

use crate::commands::analyze::{complain, opened};
use crate::commands::cli::{AdviseArgs, Format};
use crate::commands::executor;
use crate::commands::output::{Output, say};
use report::advice as report;

/// Facts about a live process that its event stream does not contain.
#[derive(Debug, Default)]
struct Outside {
    /// Name of the process; `None` for a recording.
    name: Option<String>,
    /// Whether the recording of the process could not be saved. The failure has been reported on stderr.
    is_incomplete: bool,
    surroundings: Surroundings,
    configuration: Configuration,
}

/// Runs the command. Returns `false` if the recording could not be opened, read to its end, or saved. These failures
/// have been reported on stderr.
pub(crate) fn run(args: &AdviseArgs) -> anyhow::Result<bool> {
    let number = args.source.as_ref().and_then(|source| source.to_str()?.parse().ok());
    let (mut source, outside) = match (args.pid.or(number), &args.source) {
        (Some(0), _) => anyhow::bail!("pid 0 is not a valid process"),
        (Some(pid), _) => executor()?.block_on(live::observe(pid, args))?,
        (None, Some(file)) => match opened(Source::open(file)) {
            Some(source) => (source, Outside::default()),
            None => return Ok(false),
        },
        (None, None) => anyhow::bail!("pass a PID or a recording"),
    };
    let mut has_samples = false;
    let recording = Recording::read(&mut source, Scope::Collections, |observed| {
        has_samples |= adapts(observed)
    });
    let fine = complain(&recording);
    let mut output = Output::stdout(args.format);
    for (place, (subject, history)) in recording.processes.iter().enumerate() {
        if place > 0 && output.format == Format::Table {
            writeln!(output.text())?;
        }
        let name = outside.name.clone().or_else(|| recording.program.name(subject.pid));
        let mut observation = Observation::from_collections(
            &history.collections,
            &history.suspensions,
            recording.observed_ns,
            recording.stream.lost_events,
        );
        observation.surroundings = outside.surroundings;
        let configuration = configuration(&recording, history, &observation, has_samples, &outside, args);
        let limits: Vec<u64> = args.at.iter().map(|size| size.0).collect();
        let basis = SizingBasis::from_observation(&observation);
        let sized = size((name.as_deref(), subject.pid), &configuration, &basis, &limits);
        let of = Subject {
            process: name.as_deref(),
            pid: subject.pid,
            configuration: &configuration,
            observation: &observation,
        };
        let terms = Terms {
            made_at: &rfc3339(now_unix_ns()).unwrap_or_default(),
            proofs: ADMITTED,
            rates: &HitRates::default(),
            unproven: args.unproven,
        };
        let records = advise(&of, &terms);
        match output.format {
            Format::Table => {
                report::write_sizing(output.text(), &sized)?;
                report::write(output.text(), &records)?;
            }
            Format::Ndjson => {
                output.record(&sized)?;
                output.records(&records)?;
            }
        }
    }
    if recording.processes.is_empty() && recording.error.is_none() {
        say(format_args!("{} has no process", recording.stream.file));
    }
    output.finish()?;
    Ok(fine && !outside.is_incomplete)
}

/// Combines the settings in the stream, the facts about the live process, and the arguments. The arguments take
/// precedence for the number of CPUs and the memory limit. The stream takes precedence for all other settings.
fn configuration(
    recording: &Recording,
    history: &ProcessHistory,
    observation: &Observation,
    has_samples: bool,
    outside: &Outside,
    args: &AdviseArgs,
) -> Configuration {
    let settings = &recording.program.settings;
    let mut found = outside.configuration.clone();
    found.runtime = recording.stream.runtime.clone().or(found.runtime);
    found.server = settings.server.or(found.server);
    found.concurrent = settings.concurrent.or(found.concurrent);
    found.gen0_size = settings.gen0_min_budget.or(found.gen0_size);
    found.large_object_threshold = settings.loh_threshold.or(found.large_object_threshold);
    found.cpus = args.cpus.or(found.cpus);
    found.memory_limit = args.limit.map(|limit| limit.0).or(found.memory_limit);
    found.heap_limit = settings.hard_limit.or(found.heap_limit);
    found.complete(StreamFacts {
        heaps: observation.heaps,
        collections: history.collections.len() as u64,
        shows_adaptation: has_samples || observation.adaptive == Some(true),
        // The event with the heap limit also reports whether the heap uses large pages.
        has_settings: settings.large_pages.is_some(),
    });
    found
}
