//! Minute samples of a run for the profile of its service, and the configuration to which they belong.

use base::time::Moment;
use gc_advice::configuration::{Configuration, StreamFacts};
use gc_advice::profile::sampler::{Figures, Input as Sampled, Sampler};
use gc_telemetry::definition::settings as row;
use gc_telemetry::value::{flag, value};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use processes::RunState;
use processes::service::version;

use super::Run;
use crate::identity::SaidLimit;
use crate::input::{ConfiguredCollector, ProcessReading};
use crate::output::Output;
use crate::settings::Clock;

/// Minute samples of a run.
#[derive(Debug, Default)]
pub(super) struct RunProfile {
    sampler: Sampler,
    /// Whether the sampler counts the run as attached.
    is_attached: bool,
    /// Facts about the process from its last complete reading; `None` before.
    outside: Option<Outside>,
}

/// Facts about a process from its files and its container, as of the last reading that succeeded.
#[derive(Debug, Clone, Copy, Default)]
struct Outside {
    collector: ConfiguredCollector,
    allowed_cpus: Option<u32>,
    memory_limit: Option<u64>,
    cpu_limit: Option<f64>,
}

/// First major version of the runtime that reports its settings.
const REPORTS_SETTINGS_SINCE: u32 = 9;
/// Time after the first attach for which the configuration waits for the settings of the runtime.
const SETTINGS_NS: u64 = 180_000_000_000;
/// Default minimum size of a large object, in bytes.
const DEFAULT_LOH_THRESHOLD: u64 = 85_000;

/// Returns a setting in bytes that the runtime reports, or `None` if it does not report the setting.
fn bytes(attributes: &[KeyValue], name: &str) -> Option<u64> {
    match value(attributes, name) {
        Some(Value::IntValue(bytes)) => u64::try_from(*bytes).ok(),
        _ => None,
    }
}

/// Returns the time of an input that is not an event.
fn sampled_at(run: &Run, now: Moment) -> Moment {
    match run.clock {
        Clock::Live => now,
        Clock::Recorded => run
            .session
            .newest
            .max(run.session.first_attach.unwrap_or(Moment::FIRST)),
    }
}

/// Passes an input to the sampler, and outputs the minute that has ended, with its configuration.
pub(super) fn sample(run: &mut Run, at: Moment, input: Sampled<'_>, outputs: &mut Vec<Output>) {
    if let Some(minute) = run.profile.sampler.step(at, input) {
        outputs.push(match configuration(run, at) {
            Some(configuration) => Output::Minute(Box::new((configuration, minute))),
            None => Output::MinuteWithoutConfiguration,
        });
    }
}

/// Passes an input that is not an event to the sampler.
pub(super) fn sample_now(run: &mut Run, now: Moment, input: Sampled<'_>, outputs: &mut Vec<Output>) {
    sample(run, sampled_at(run, now), input, outputs);
}

/// Returns whether the runtime is expected to report its settings soon.
fn awaits_settings(run: &Run, at: Moment) -> bool {
    let reports = run.identity.major().is_none_or(|major| major >= REPORTS_SETTINGS_SINCE);
    let is_young = run
        .session
        .first_attach
        .is_none_or(|attached| at.since(attached) < SETTINGS_NS);
    let is_missing = run.identity.said_limit() == SaidLimit::Nothing;
    is_missing && reports && is_young && run.identity.who().native_aot != Some(true)
}

/// Passes the state of the session and the end of a second to the sampler. A minute in which gcwatch is behind is
/// damaged, because its events count in a later minute.
pub(super) fn sample_state(run: &mut Run, now: Moment, is_tick: bool, outputs: &mut Vec<Output>) {
    let at = sampled_at(run, now);
    let is_attached = run.session.state == RunState::Attached;
    if is_attached != run.profile.is_attached {
        run.profile.is_attached = is_attached;
        sample(run, at, Sampled::Attached(is_attached), outputs);
    }
    if is_tick && run.clock == Clock::Live {
        let input = if run.session.is_behind() {
            Sampled::Damage
        } else {
            Sampled::Tick
        };
        sample(run, at, input, outputs);
    }
}

/// Passes a reading of the process to the sampler. A reading without figures changes nothing.
pub(super) fn sample_reading(run: &mut Run, reading: &ProcessReading, now: Moment, outputs: &mut Vec<Output>) {
    if reading.figures.is_none() {
        return;
    }
    let group = run.group_figures();
    let collector = reading
        .collector
        .or(run.profile.outside.map(|outside| outside.collector));
    run.profile.outside = collector.map(|collector| Outside {
        collector,
        allowed_cpus: reading.allowed_cpus,
        memory_limit: group.memory_limit,
        cpu_limit: group.cpu_limit,
    });
    let ledger = run.ledger.newest();
    let figures = Figures {
        started: run.started,
        resident: reading.memory.resident,
        native: ledger.as_ref().and_then(|ledger| ledger.native),
        committed_unused: ledger.as_ref().and_then(|ledger| ledger.committed_unused),
        container_peak: run.ledger.peak.filter(|_| group.memory.usage.is_some()),
        cpu_ns: reading.cpu_ns,
    };
    sample_now(run, now, Sampled::Figures(figures), outputs);
}

/// Returns the configuration of the process, or `None` while its container, its files and the settings of its
/// runtime have not been read. The container and the files of a recorded process are unknown.
fn configuration(run: &Run, at: Moment) -> Option<Configuration> {
    let outside = match run.clock {
        Clock::Live if awaits_settings(run, at) => return None,
        Clock::Live => run.profile.outside?,
        Clock::Recorded => Outside::default(),
    };
    let attributes = &run.identity.resource().attributes;
    let figures = &run.history.figures;
    let allowed = outside.allowed_cpus.map(f64::from);
    let mut found = Configuration {
        version: version(attributes).map(|version| version.to_string()),
        runtime: run.identity.who().runtime.clone(),
        server: flag(attributes, row::SERVER.name),
        concurrent: flag(attributes, row::CONCURRENT.name),
        gen0_size: bytes(attributes, row::GEN0_MIN_BUDGET.name).or(outside.collector.gen0_size),
        conserve_memory: outside.collector.conserve_memory,
        // Every settings event has a threshold, and no event means that the threshold is unknown.
        large_object_threshold: bytes(attributes, row::LOH_THRESHOLD.name)
            .filter(|threshold| *threshold != DEFAULT_LOH_THRESHOLD),
        heap_limit: run.heap_limit(),
        memory_limit: outside.memory_limit,
        cpus: match (outside.cpu_limit, allowed) {
            (Some(limit), Some(allowed)) => Some(limit.min(allowed)),
            (limit, allowed) => limit.or(allowed),
        },
        ..Configuration::default()
    };
    found.complete(StreamFacts {
        heaps: figures.heap_count,
        collections: run.history.collections,
        shows_adaptation: flag(attributes, row::DYNAMIC_ADAPTATION.name) == Some(true),
        has_settings: run.identity.said_limit() != SaidLimit::Nothing,
    });
    // The number of heaps of a process whose adaptation is unknown can still change.
    found.heaps = found.heaps.filter(|_| found.adaptive == Some(false));
    Some(found)
}
