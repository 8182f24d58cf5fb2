//! Determines whether a process exports the metrics of its runtime itself.
//!
//! In .NET 9 and later, the runtime has a meter `System.Runtime`, whose `dotnet.gc.*` metrics have the same names as
//! the metrics of gcwatch. The metrics are exported if the process contains a subscriber, which is usually a library or
//! a profiler. The mapping of this library or profiler is reliable evidence. A program that subscribes with only the
//! SDK, or a single-file program with embedded libraries, is not detected. The environment of such a program is only a
//! hint.

use std::collections::HashMap;

use base::run_key::RunKey;

use super::facts::Facts;
use super::proc_file::{MAX_MAPS_BYTES, read_process_file};

/// File names of libraries that export the runtime's metrics.
const SIGNS: [&str; 2] = [
    "OpenTelemetry.Instrumentation.Runtime.dll",
    "OpenTelemetry.AutoInstrumentation.Native.so",
];

/// First major version of the runtime whose own meter has these names.
const FIRST_MAJOR: u32 = 9;

/// Environment variables that an OpenTelemetry SDK reads.
const HINTS: [&str; 3] = [
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    "OTEL_METRICS_EXPORTER",
];

/// Returns the mapped library that exports the runtime's metrics, or `None` if no such library is mapped.
fn sign(maps: &str) -> Option<&'static str> {
    let is_mapped = |name: &str| {
        let mut files = maps.lines().filter_map(|line| line.rsplit_once('/'));
        files.any(|(_, file)| file == name)
    };
    SIGNS.into_iter().find(|name| is_mapped(name))
}

/// Returns the evidence that a process exports its runtime's metrics itself, or `None` if no evidence is found or the
/// runtime is too old. `major` is the major version of the runtime.
///
/// Blocks the calling thread.
pub fn exports_runtime(pid: u32, major: Option<u32>) -> Option<&'static str> {
    // An unknown version can be a new version.
    if major.is_some_and(|major| major < FIRST_MAJOR) {
        return None;
    }
    sign(&read_process_file(pid, "maps", MAX_MAPS_BYTES)?)
}

/// Returns the environment variable that an OpenTelemetry SDK would read, or `None` if no such variable is set or the
/// runtime is too old. The variable can be inherited and without effect.
pub fn hint(facts: &Facts, major: Option<u32>) -> Option<&'static str> {
    let is_new = major.is_none_or(|major| major >= FIRST_MAJOR);
    HINTS
        .into_iter()
        .find(|name| is_new && facts.variable(name).is_some_and(|value| value != "none"))
}

/// Repeated examinations of many processes, with growing intervals, because libraries are usually loaded in the first
/// minutes.
#[derive(Debug, Default)]
pub struct Examinations(HashMap<RunKey, Examination>);

#[derive(Debug, Default)]
struct Examination {
    /// Number of rounds since the process was first seen.
    rounds: u32,
    sign: Option<&'static str>,
}

impl Examinations {
    /// Performs one round for a process and returns the evidence, which is kept once found. Returns `None` while no
    /// evidence is found.
    ///
    /// Blocks the calling thread.
    pub fn look(&mut self, key: RunKey, major: Option<u32>) -> Option<&'static str> {
        self.round(key, || exports_runtime(key.pid, major))
    }

    fn round(&mut self, key: RunKey, read: impl FnOnce() -> Option<&'static str>) -> Option<&'static str> {
        let look = self.0.entry(key).or_default();
        look.rounds = look.rounds.saturating_add(1);
        if look.sign.is_none() && look.rounds.is_power_of_two() {
            look.sign = read();
        }
        look.sign
    }

    /// Forgets all processes that are not in `keys`.
    pub fn keep(&mut self, keys: &[RunKey]) {
        self.0.retain(|key, _| keys.contains(key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: the maps of processes contain the library that exports the runtime's metrics, a profiler, only the
    /// SDK, a file with a similar name, or a deleted file.
    /// Guarantee: only the library and the profiler are evidence.
    #[test]
    fn exporting_libraries_are_evidence() {
        let maps = |file: &str| format!("7f00-7f01 r--p 0 08:01 1 {file}\n7f01-7f02 rw-p 0 00:00 0 \n");
        for name in SIGNS {
            assert_eq!(sign(&maps(&format!("/app/{name}"))), Some(name));
        }
        for other in [
            "/app/OpenTelemetry.dll",
            "/app/OpenTelemetry.Instrumentation.Runtime.dll.old",
            "/app/My.OpenTelemetry.Instrumentation.Runtime.dll",
            "",
        ] {
            assert_eq!(sign(&maps(other)), None, "{other}");
        }
    }

    /// Scenario: this process is examined as if its runtime had an old, a new or an unknown version.
    /// Guarantee: no evidence is found. Pid 0 has no maps, so the version of the old runtime is sufficient.
    #[test]
    fn old_runtime_does_not_export_metrics() {
        assert_eq!(exports_runtime(0, Some(8)), None);
        for major in [None, Some(9)] {
            assert_eq!(exports_runtime(std::process::id(), major), None);
        }
    }

    /// Scenario: two processes are examined in a thousand rounds; the library of the first is found at the fifth look.
    /// Guarantee: looks become rarer and stop after the library was found. A process that is not kept is forgotten.
    #[test]
    fn looks_become_rarer() {
        let key = RunKey { pid: 1, start_time: 2 };
        let mut looks = Examinations::default();
        let mut times = 0;
        for _ in 0..1000 {
            looks.round(key, || {
                times += 1;
                (times == 5).then_some(SIGNS[0])
            });
        }
        assert_eq!(times, 5);
        assert_eq!(looks.round(key, || None), Some(SIGNS[0]));
        let other = RunKey { pid: 2, start_time: 2 };
        let mut times = 0;
        for _ in 0..1000 {
            assert_eq!(
                looks.round(other, || {
                    times += 1;
                    None
                }),
                None
            );
        }
        assert_eq!(times, 10);
        looks.keep(&[other]);
        assert_eq!(looks.0.len(), 1);
    }
}
