//! The configuration of a service: all settings that stay the same while a process runs and that can affect its garbage
//! collections.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Share of the memory limit of a container that .NET uses as the heap limit if no heap limit is configured.
pub const DEFAULT_HEAP_SHARE: f64 = 0.75;

/// The settings and limits of a process. A value is `None` if it is unknown or not configured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Configuration {
    /// Image or version of the program, for example `shop:1`.
    pub version: Option<String>,
    /// Version of the runtime, for example `10.0.14`.
    pub runtime: Option<String>,
    /// Whether the process uses server GC.
    pub server: Option<bool>,
    /// Whether generation 2 can be collected in the background.
    pub concurrent: Option<bool>,
    /// Whether the number of heaps adapts (DATAS).
    pub adaptive: Option<bool>,
    /// Number of heaps.
    pub heaps: Option<u32>,
    /// Configured budget of generation 0 (`GCgen0size`), in bytes.
    pub gen0_size: Option<u64>,
    /// Configured `GCConserveMemory`, 0 to 9.
    pub conserve_memory: Option<u64>,
    /// Configured minimum size of a large object, in bytes.
    pub large_object_threshold: Option<u64>,
    /// Maximum bytes that the heap can commit.
    pub heap_limit: Option<u64>,
    /// Whether the heap limit is known. If it is known and `heap_limit` is `None`, the heap has no limit.
    pub heap_limit_known: bool,
    /// Memory limit of the container, in bytes.
    pub memory_limit: Option<u64>,
    /// Number of CPUs that the process may use.
    pub cpus: Option<f64>,
}

impl Difference {
    /// Returns the difference as text, such as `memory limit 512 MiB -> 1024 MiB`.
    pub fn text(&self) -> String {
        let is_bytes = ["limit", "size", "threshold"]
            .iter()
            .any(|end| self.name.ends_with(end));
        let shown = |value: &str| match value.parse::<f64>() {
            Ok(bytes) if is_bytes => format!("{:.0} MiB", bytes / f64::from(1 << 20)),
            _ => value.to_owned(),
        };
        let name = self.name.replace('_', " ");
        format!("{name} {} -> {}", shown(&self.before), shown(&self.after))
    }
}

/// Facts from the event stream of a process from which settings follow that the runtime does not report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StreamFacts {
    /// Number of heaps, from the collections.
    pub heaps: Option<u32>,
    /// Number of collections observed.
    pub collections: u64,
    /// Whether an event shows that the number of heaps adapts.
    pub shows_adaptation: bool,
    /// Whether the runtime has reported its settings. If the settings contain no heap limit, the heap has no limit.
    pub has_settings: bool,
}

/// Minimum default heap limit of .NET in a container.
const MIN_HEAP_LIMIT: f64 = (20 << 20) as f64;
/// First major version of .NET whose server GC adapts the number of heaps by default.
const ADAPTS_SINCE: u32 = 9;
/// Number of collections after which a process with an adapting number of heaps has reported a sample.
const SHOWS_ADAPTATION: u64 = 10;

/// A setting that differs between two configurations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// Name of the setting.
    pub name: String,
    /// Value before the change.
    pub before: String,
    /// Value after the change.
    pub after: String,
}

impl Configuration {
    /// Returns the major version of the runtime, or `None` if unknown.
    pub fn major(&self) -> Option<u32> {
        self.runtime.as_deref()?.split('.').next()?.parse().ok()
    }

    /// Adds the settings that follow from the event stream and from the limit of the container. Known settings do not
    /// change, except for the number of heaps.
    pub fn complete(&mut self, stream: StreamFacts) {
        self.heaps = stream.heaps;
        let major = self.major();
        // A stream of .NET 8 or earlier has no settings, so the number of heaps indicates the collector. One heap then
        // means workstation GC, unless the number of heaps adapts.
        let by_heaps = stream.heaps.and_then(|heaps| match heaps {
            2.. => Some(true),
            1 if stream.shows_adaptation => Some(true),
            1 if major.is_some_and(|major| major < ADAPTS_SINCE) => Some(false),
            _ => None,
        });
        self.server = self.server.or(by_heaps);
        self.adaptive = match self.server {
            Some(true) if stream.shows_adaptation => Some(true),
            Some(true) if stream.collections >= SHOWS_ADAPTATION => Some(false),
            Some(true) => self.adaptive,
            Some(false) => Some(false),
            None => None,
        };
        let of_container = self
            .memory_limit
            .map(|limit| (limit as f64 * DEFAULT_HEAP_SHARE).max(MIN_HEAP_LIMIT) as u64);
        self.heap_limit = self.heap_limit.or(of_container);
        self.heap_limit_known |= stream.has_settings || self.heap_limit.is_some();
    }

    /// Adds the settings of `other` that are unknown here.
    pub fn fill_unknown(&mut self, other: &Self) {
        self.version = self.version.take().or_else(|| other.version.clone());
        self.runtime = self.runtime.take().or_else(|| other.runtime.clone());
        self.server = self.server.or(other.server);
        self.concurrent = self.concurrent.or(other.concurrent);
        self.adaptive = self.adaptive.or(other.adaptive);
        self.heaps = self.heaps.or(other.heaps);
        self.heap_limit_known |= other.heap_limit_known;
        self.cpus = self.cpus.or(other.cpus);
    }

    /// Returns the settings with their values, in a fixed order.
    fn values(&self) -> [(&'static str, Option<String>); 12] {
        let bytes = |value: Option<u64>| value.map(|value| value.to_string());
        let flag = |value: Option<bool>| value.map(|value| value.to_string());
        [
            ("version", self.version.clone()),
            ("runtime", self.runtime.clone()),
            ("server", flag(self.server)),
            ("concurrent", flag(self.concurrent)),
            ("adaptive", flag(self.adaptive)),
            // The number of heaps of an adaptive process changes at run time.
            (
                "heaps",
                self.heaps
                    .filter(|_| self.adaptive != Some(true))
                    .map(|heaps| heaps.to_string()),
            ),
            ("gen0_size", bytes(self.gen0_size)),
            ("conserve_memory", bytes(self.conserve_memory)),
            ("large_object_threshold", bytes(self.large_object_threshold)),
            ("heap_limit", bytes(self.heap_limit)),
            ("memory_limit", bytes(self.memory_limit)),
            ("cpus", self.cpus.map(|cpus| cpus.to_string())),
        ]
    }

    /// Returns the settings that differ between this configuration and the later configuration `after`. If a value is
    /// `None` on one side, the setting counts as different only if it is unset by default.
    pub fn differences(&self, after: &Self) -> Vec<Difference> {
        const UNSET_BY_DEFAULT: [&str; 5] = [
            "gen0_size",
            "conserve_memory",
            "large_object_threshold",
            "heap_limit",
            "memory_limit",
        ];
        let pairs = self.values().into_iter().zip(after.values());
        pairs
            .filter_map(|((name, before), (_, after))| {
                if before == after || ((before.is_none() || after.is_none()) && !UNSET_BY_DEFAULT.contains(&name)) {
                    return None;
                }
                let shown = |value: Option<String>| value.unwrap_or_else(|| "not set".to_owned());
                Some(Difference {
                    name: name.to_owned(),
                    before: shown(before),
                    after: shown(after),
                })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: two configurations differ in the version and in a limit that is set only after the change; the number
    /// of CPUs is known on one side only.
    /// Guarantee: the version and the limit are differences; an unknown number of CPUs is not.
    #[test]
    fn unknown_setting_is_not_a_difference() {
        let before = Configuration {
            version: Some("shop:1".to_owned()),
            runtime: Some("10.0.14".to_owned()),
            ..Configuration::default()
        };
        let after = Configuration {
            version: Some("shop:2".to_owned()),
            memory_limit: Some(512 << 20),
            cpus: Some(2.0),
            ..before.clone()
        };
        let names: Vec<String> = before.differences(&after).into_iter().map(|one| one.name).collect();
        assert_eq!(names, ["version", "memory_limit"]);
        let texts: Vec<String> = before.differences(&after).iter().map(Difference::text).collect();
        assert_eq!(texts, ["version shop:1 -> shop:2", "memory limit not set -> 512 MiB"]);
        assert!(before.differences(&before).is_empty());
        assert_eq!(before.major(), Some(10));
    }

    /// Scenario: a server process has two heaps and few collections; a process of .NET 8 has one heap; a process runs in
    /// a container and does not report its settings; a profile with an unknown version gets a configuration with one.
    /// Guarantee: two heaps mean server GC, and the adaptation stays unknown; one heap of .NET 8 means workstation GC;
    /// the heap limit is three quarters of the limit of the container; the unknown version is filled in.
    #[test]
    fn settings_follow_from_the_stream() {
        let complete = |runtime: &str, memory_limit, heaps, collections| {
            let mut found = Configuration {
                runtime: Some(runtime.to_owned()),
                memory_limit,
                ..Configuration::default()
            };
            found.complete(StreamFacts {
                heaps: Some(heaps),
                collections,
                ..StreamFacts::default()
            });
            found
        };
        let server = complete("10.0.1", None, 2, 3);
        assert_eq!((server.server, server.adaptive), (Some(true), None));
        assert_eq!(complete("10.0.1", None, 2, 10).adaptive, Some(false));
        let old = complete("8.0.1", Some(400 << 20), 1, 10);
        assert_eq!((old.server, old.heap_limit), (Some(false), Some(300 << 20)));
        assert!(old.heap_limit_known && !server.heap_limit_known);
        let mut filled = server.clone();
        filled.fill_unknown(&Configuration {
            version: Some("2".to_owned()),
            runtime: Some("9".to_owned()),
            ..Configuration::default()
        });
        assert_eq!(
            (filled.version.as_deref(), filled.runtime.as_deref()),
            (Some("2"), Some("10.0.1"))
        );
    }

    /// Scenario: the number of heaps changes with DATAS and without DATAS.
    /// Guarantee: the change is a difference only without DATAS.
    #[test]
    fn adaptive_heap_count_is_not_a_difference() {
        let with = |heaps, adaptive| Configuration {
            heaps: Some(heaps),
            adaptive: Some(adaptive),
            ..Configuration::default()
        };
        assert!(with(1, true).differences(&with(2, true)).is_empty());
        assert_eq!(with(1, false).differences(&with(2, false)).len(), 1);
    }
}
