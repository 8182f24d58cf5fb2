//! Whether a process exports the metrics of its runtime itself.
//!
//! From .NET 9 on the runtime has a meter `System.Runtime`, whose `dotnet.gc.*` metrics have the names that gcwatch's
//! export has. What subscribes to it is a library or a profiler, which is mapped into the process: that is seen for
//! sure. A program may subscribe with the SDK alone, or be one file with its libraries in it: that is not seen, and its
//! environment is only a hint.

use std::collections::HashMap;

use base::run_key::RunKey;

use super::facts::Facts;
use super::proc_file::{MAX_MAPS_BYTES, of_process};

/// File names of what exports the runtime's metrics.
const SIGNS: [&str; 2] = [
    "OpenTelemetry.Instrumentation.Runtime.dll",
    "OpenTelemetry.AutoInstrumentation.Native.so",
];

/// The major version of the first runtime whose own meter has these names.
const FIRST_MAJOR: u32 = 9;

/// Variables that an SDK of OpenTelemetry reads.
const HINTS: [&str; 3] = [
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    "OTEL_METRICS_EXPORTER",
];

/// What of a process's maps shows that it exports its runtime's metrics itself; `None`: nothing does.
fn sign(maps: &str) -> Option<&'static str> {
    let is_mapped = |name: &str| {
        let mut files = maps.lines().filter_map(|line| line.rsplit_once('/'));
        files.any(|(_, file)| file == name)
    };
    SIGNS.into_iter().find(|name| is_mapped(name))
}

/// What shows that a process exports its runtime's metrics itself, whose runtime has that version; blocking. `None`:
/// nothing does.
pub fn exports_runtime(pid: u32, major: Option<u32>) -> Option<&'static str> {
    // An unknown version may be a new one.
    if major.is_some_and(|major| major < FIRST_MAJOR) {
        return None;
    }
    sign(&of_process(pid, "maps", MAX_MAPS_BYTES)?)
}

/// The variable of its environment that an SDK of OpenTelemetry would read. It may be inherited, and say nothing.
pub fn hint(facts: &Facts, major: Option<u32>) -> Option<&'static str> {
    let is_new = major.is_none_or(|major| major >= FIRST_MAJOR);
    HINTS
        .into_iter()
        .find(|name| is_new && facts.variable(name).is_some_and(|value| value != "none"))
}

/// Looks at many processes, again and again, each less and less often: libraries are loaded in the first minutes.
#[derive(Debug, Default)]
pub struct Looks(HashMap<RunKey, Look>);

#[derive(Debug, Default)]
struct Look {
    /// How often it could have been looked at.
    rounds: u32,
    sign: Option<&'static str>,
}

impl Looks {
    /// One round of a process; blocking. What was seen once stays.
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

    /// Forgets all processes but these.
    pub fn keep(&mut self, keys: &[RunKey]) {
        self.0.retain(|key, _| keys.contains(key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: maps of a process with the library that exports the runtime's metrics, with a profiler, with the SDK
    /// alone, with a file that is named like it and one that was deleted.
    /// Guarantee: only the library and the profiler are signs.
    #[test]
    fn libraries_are_signs() {
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

    /// Scenario: this process as if its runtime were an old one, a new one, or of an unknown version.
    /// Guarantee: nothing is seen of it; an old runtime's maps are not even read (the pid 0 has none).
    #[test]
    fn an_old_runtime_has_no_such_names() {
        assert_eq!(exports_runtime(0, Some(8)), None);
        for major in [None, Some(9)] {
            assert_eq!(exports_runtime(std::process::id(), major), None);
        }
    }

    /// Scenario: a thousand rounds of a process whose library is seen at the fifth look, and of another one.
    /// Guarantee: it is looked at less and less often, never again once it was seen, and forgotten with the process.
    #[test]
    fn looks_become_rare() {
        let key = RunKey { pid: 1, start_time: 2 };
        let mut looks = Looks::default();
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
