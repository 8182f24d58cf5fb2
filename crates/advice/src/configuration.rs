//! The configuration of a service: all settings that stay the same while a process runs and that can affect its garbage
//! collections.

use serde::{Deserialize, Serialize};

/// Share of the memory limit of a container that .NET uses as the heap limit if no heap limit is configured.
pub const DEFAULT_HEAP_SHARE: f64 = 0.75;

/// The settings and limits of a process. A value is `None` if it is unknown or not configured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
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

/// A setting that differs between two configurations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
        assert!(before.differences(&before).is_empty());
        assert_eq!(before.major(), Some(10));
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
