//! Determines, without a request to the runtime, whether the memory of a process is at the limit of its heap. The first
//! session can crash such a process (see `attempt`).
//!
//! The limit is the first of these settings:
//!
//! 1. `GCHeapHardLimit` in the environment (prefix `DOTNET_` or `COMPlus_`; hexadecimal)
//! 2. `System.GC.HeapHardLimit` in the `runtimeconfig.json`
//! 3. Either name with `Percent` appended, as a share of the container's memory limit, or of the machine's memory if
//!    the container has no limit
//! 4. Three quarters of the container's memory limit, but at least 20 MiB, which is the default of .NET
//!
//! Sources: `gcconfig.h` and `gc.cpp` (`compute_hard_limit`) of the runtime. If an individual object heap has its own
//! limit (such as `GCHeapHardLimitSOH`), the limit is unknown.
//!
//! NativeAOT supports neither `COMPlus_` nor the file: the compiler copies the settings of the file into the program.
//! Before version 11, NativeAOT ignores numbers that start with `0x`, so such a setting has no effect. Observed on
//! 9.0.22: a heap of 745 MB with `DOTNET_GCHeapHardLimit=0x6000000`, and of 89 MB with `6000000`. Version 11 accepts
//! both forms.
//!
//! The result is an estimate. A limit that the runtime reports (`settings`) replaces it: see `run::Run::heap_limit`.
//!
//! The limit is compared with the lower of two figures, each of which is at least the memory that the collector has
//! committed and used. The first figure is the anonymous memory of the process, which includes memory outside the
//! collector. The second figure is the writable part of the range that the collector reserved. The range is larger than
//! the limit, and the collector makes parts of it writable when it needs them. On .NET 10, the tables of the collector
//! are outside the range. Anonymous mappings that are adjacent to the range, such as the stacks of threads, count as
//! part of the range. Observed on .NET 10 with a limit of 96 MiB: 119 MiB are writable, including three stacks of
//! 8 MiB, and the process has 98 MiB of anonymous memory.
//!
//! If a value is unknown, gcwatch attaches without waiting.
//!
//! [`MemoryReader`] provides the same limit to rules, for every version of the runtime.

mod memory;
mod read;

pub use memory::{MemoryReader, MemoryReading};
pub use read::at_limit;

use serde_json::Value;

/// Minimum memory usage at which the first session waits, in percent of the limit.
const FULL_PERCENT: u64 = 95;
/// Default heap limit of .NET in a container, in percent of the container's memory limit.
const DEFAULT_PERCENT: u64 = 75;
/// Minimum of the default heap limit, in bytes.
const MIN_DEFAULT: u64 = 20 << 20;

/// The limit of a heap.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Limit {
    bytes: u64,
    /// Name of the setting, for display.
    source: String,
}

/// The forms of settings that a runtime accepts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum SettingSyntax {
    /// Variables with both prefixes, numbers with and without `0x`, and the file.
    #[default]
    CoreClr,
    /// Variables with the prefix `DOTNET`, and no file.
    NativeAot {
        /// Whether numbers with `0x` are accepted.
        hex_prefix: bool,
    },
}

/// First version of NativeAOT that accepts numbers with `0x`.
const NATIVE_AOT_TAKES_0X_SINCE: u32 = 11;

impl SettingSyntax {
    /// Returns the forms that the runtime of a program accepts. An unknown kind of runtime is treated as CoreCLR, and
    /// an unknown version of NativeAOT as version 11.
    fn for_runtime(native_aot: Option<bool>, major: Option<u32>) -> Self {
        match native_aot {
            Some(true) => Self::NativeAot {
                hex_prefix: major.is_none_or(|major| major >= NATIVE_AOT_TAKES_0X_SINCE),
            },
            Some(false) | None => Self::CoreClr,
        }
    }

    fn prefixes(self) -> &'static [&'static str] {
        match self {
            Self::CoreClr => &["DOTNET", "COMPlus"],
            Self::NativeAot { .. } => &["DOTNET"],
        }
    }

    fn number(self, text: &str) -> Option<u64> {
        let text = text.trim();
        let bare = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
        let digits = match (self, bare) {
            (Self::NativeAot { hex_prefix: false }, Some(_)) => return None,
            (_, bare) => bare.unwrap_or(text),
        };
        u64::from_str_radix(digits, 16).ok()
    }
}

/// The environment and the file that can set the limit.
struct Sources<'a> {
    takes: SettingSyntax,
    variable: &'a dyn Fn(&str) -> Option<String>,
    /// Content of the `runtimeconfig.json`.
    runtime_config: Option<Value>,
}

/// Settings of the collector that no event reports, from the environment and `runtimeconfig.json`. A setting is `None`
/// if it is not configured, or if it is 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CollectorSettings {
    /// `GCgen0size`, in bytes. The runtime reads it from the environment only.
    pub gen0_size: Option<u64>,
    /// `GCConserveMemory`, 0 to 9.
    pub conserve_memory: Option<u64>,
}

/// The limits in the environment and the `runtimeconfig.json` of a process. The limits do not change while the process
/// runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct ConfiguredLimits {
    /// Whether the `runtimeconfig.json` was read. NativeAOT programs and single-file programs do not have this file.
    has_file: bool,
    /// Whether an individual object heap (SOH, LOH or POH) has its own limit.
    single_heaps: bool,
    /// Value of `GCHeapHardLimit` in bytes, and the name under which it is set.
    bytes: Option<(u64, String)>,
    /// Value of `GCHeapHardLimitPercent`, and the name under which it is set.
    percent: Option<(u64, String)>,
}

impl ConfiguredLimits {
    /// Returns whether the whole configuration was read and the limit is a share of the container's limit.
    fn follows_container(&self) -> bool {
        self.has_file && !self.single_heaps && self.bytes.is_none()
    }

    /// Returns the limit of the heap, or `None` if the heap has no limit or the limit is unknown. `container` is the
    /// memory limit of the container, and `machine` is the memory of the machine, both in bytes.
    fn limit(&self, container: Option<u64>, machine: Option<u64>) -> Option<Limit> {
        if self.single_heaps {
            return None;
        }
        if let Some((bytes, source)) = self.bytes.clone() {
            return Some(Limit { bytes, source });
        }
        if let Some((percent @ 1..=99, source)) = self.percent.clone() {
            let bytes = part(container.or(machine)?, percent);
            return Some(Limit { bytes, source });
        }
        let bytes = part(container?, DEFAULT_PERCENT).max(MIN_DEFAULT);
        let source = format!("{DEFAULT_PERCENT} % of its container's memory limit");
        Some(Limit { bytes, source })
    }
}

impl Sources<'_> {
    fn collector(&self) -> CollectorSettings {
        let gen0_size = self.takes.prefixes().iter().find_map(|prefix| {
            let text = (self.variable)(&format!("{prefix}_GCgen0size"))?;
            self.takes.number(&text).filter(|size| *size > 0)
        });
        CollectorSettings {
            gen0_size,
            conserve_memory: self.setting("ConserveMemory").map(|(value, _)| value),
        }
    }

    fn configured(&self) -> ConfiguredLimits {
        let of_single_heaps = ["SOH", "LOH", "POH", "SOHPercent", "LOHPercent", "POHPercent"];
        ConfiguredLimits {
            has_file: self.runtime_config.is_some(),
            single_heaps: of_single_heaps
                .iter()
                .any(|heap| self.setting(&format!("HeapHardLimit{heap}")).is_some()),
            bytes: self.setting("HeapHardLimit"),
            percent: self.setting("HeapHardLimitPercent"),
        }
    }

    /// Returns the value of a setting and the name under which it is set, or `None` if the value is missing, invalid or
    /// 0.
    fn setting(&self, name: &str) -> Option<(u64, String)> {
        let of_environment = self.takes.prefixes().iter().find_map(|prefix| {
            let variable = format!("{prefix}_GC{name}");
            let value = (self.variable)(&variable)?;
            Some((self.takes.number(&value)?, variable))
        });
        let of_file = || {
            if self.takes != SettingSyntax::CoreClr {
                return None;
            }
            let key = format!("System.GC.{name}");
            let properties = self
                .runtime_config
                .as_ref()?
                .pointer("/runtimeOptions/configProperties")?;
            let value = properties.get(&key)?;
            // The host passes every value to the runtime as text, so a string counts like a number. Unlike in
            // variables, numbers are decimal.
            let number = match value {
                Value::String(text) => text.trim().parse().ok()?,
                number => number.as_u64()?,
            };
            Some((number, key))
        };
        of_environment.or_else(of_file).filter(|(value, _)| *value > 0)
    }
}

fn part(whole: u64, percent: u64) -> u64 {
    u64::try_from(u128::from(whole) * u128::from(percent) / 100).unwrap_or(u64::MAX)
}

/// Returns whether the used memory is close enough to the limit that the first session waits.
fn is_full(used: u64, limit: u64) -> bool {
    used >= part(limit, FULL_PERCENT)
}

/// Returns the reason why the first session waits, with the used memory and the limit.
fn sentence(what: &str, used: u64, limit: u64, source: &str) -> String {
    let mb = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    format!(
        "not watched, because {what} is at its limit ({:.0} of {:.0} MiB, {source}): the first session of a process \
         without memory can end it",
        mb(used),
        mb(limit)
    )
}

/// Remedy for a process whose first session waits.
pub const REMEDY: &str = "gcwatch retries every minute; raise the limit, or start gcwatch before the process; \
    targets.attach_at_heap_limit attaches anyway";

/// Reason why the first session waits, as a single word for records.
pub const REASON: &str = "at-heap-limit";

/// Returns the number of writable bytes in the range that the collector reserved. `maps` is the content of the file
/// `maps` of the process. Any sequence of adjacent anonymous mappings that is at least as large as the limit can be the
/// range; the sequence with the most writable bytes counts. Returns `None` if there is no such sequence.
fn committed(maps: &str, limit: u64) -> Option<u64> {
    let (mut found, mut start, mut end, mut writable) = (None::<u64>, 0, 0, 0);
    for line in maps.lines() {
        let Some((from, to, is_writable)) = anonymous_range(line) else {
            (start, end, writable) = (0, 0, 0);
            continue;
        };
        if from != end || end == 0 {
            (start, writable) = (from, 0);
        }
        end = to;
        writable += if is_writable { to.saturating_sub(from) } else { 0 };
        if end.saturating_sub(start) >= limit {
            found = Some(found.unwrap_or(0).max(writable));
        }
    }
    found
}

/// Parses a line of `maps`. Returns the start and the end of the mapping and whether the mapping is writable, or `None`
/// if the mapping has a file or a name.
fn anonymous_range(line: &str) -> Option<(u64, u64, bool)> {
    let mut fields = line.split_ascii_whitespace();
    let (from, to) = fields.next()?.split_once('-')?;
    let rights = fields.next()?;
    let is_anonymous = fields.nth(2) == Some("0") && fields.next().is_none();
    let number = |digits| u64::from_str_radix(digits, 16).ok();
    Some((number(from)?, number(to)?, rights.starts_with("rw"))).filter(|_| is_anonymous)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configured(takes: SettingSyntax, variables: &[(&str, &str)], config: &str) -> ConfiguredLimits {
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let sources = Sources {
            takes,
            variable: &variable,
            runtime_config: serde_json::from_str(config).ok(),
        };
        sources.configured()
    }

    /// Scenario: the limit is set in each possible way, in two ways at once, to zero and to invalid values.
    /// Guarantee: the settings have the same precedence as in the runtime. Variables are hexadecimal, and numbers in
    /// the file are decimal. Without a container limit, there is no default.
    #[test]
    fn settings_apply_in_order_of_runtime() {
        let config = |key: &str, value: &str| {
            format!(r#"{{"runtimeOptions": {{"configProperties": {{"System.GC.{key}": {value}}}}}}}"#)
        };
        let bytes = |variables: &[(&str, &str)], config: &str, container| {
            let limit = configured(SettingSyntax::CoreClr, variables, config).limit(container, Some(1000 << 20));
            limit.map(|limit| limit.bytes >> 20)
        };
        let mib = |n: u64| Some(n << 20);
        assert_eq!(bytes(&[("DOTNET_GCHeapHardLimit", "0x6000000")], "", None), Some(96));
        assert_eq!(bytes(&[("COMPlus_GCHeapHardLimit", "6000000")], "", None), Some(96));
        assert_eq!(bytes(&[], &config("HeapHardLimit", "104857600"), None), Some(100));
        assert_eq!(bytes(&[], &config("HeapHardLimit", "\"104857600\""), None), Some(100));
        let both = [("DOTNET_GCHeapHardLimit", "6000000")];
        assert_eq!(bytes(&both, &config("HeapHardLimit", "104857600"), mib(50)), Some(96));
        assert_eq!(
            bytes(&[("DOTNET_GCHeapHardLimitPercent", "1E")], "", mib(200)),
            Some(60)
        );
        assert_eq!(bytes(&[], &config("HeapHardLimitPercent", "10"), None), Some(100));
        assert_eq!(bytes(&[], "", mib(200)), Some(150));
        assert_eq!(bytes(&[], "", mib(10)), Some(20));
        assert_eq!(
            bytes(&[("DOTNET_GCHeapHardLimit", "0")], "not json", mib(200)),
            Some(150)
        );
        assert_eq!(bytes(&[("DOTNET_GCHeapHardLimit", "much")], "", None), None);
        assert_eq!(bytes(&[("DOTNET_GCHeapHardLimitLOH", "6000000")], "", mib(200)), None);
        let limit = configured(SettingSyntax::CoreClr, &both, "").limit(None, None).unwrap();
        assert_eq!(limit.source, "DOTNET_GCHeapHardLimit");
    }

    /// Scenario: the limit of a program on NativeAOT 10, 11 and an unknown version is set in a variable, with `0x`,
    /// without `0x` and with the prefix `COMPlus_`. The program has a `runtimeconfig.json` that also sets a limit.
    /// Guarantee: before version 11, a number with `0x` sets no limit, so the default share of the container's limit
    /// applies. In every version, `COMPlus_` and the file set no limit.
    #[test]
    fn native_aot_supports_fewer_settings() {
        let config = r#"{"runtimeOptions": {"configProperties": {"System.GC.HeapHardLimit": 104857600}}}"#;
        let mib = |major: Option<u32>, name: &str, value: &str| {
            let configured = configured(SettingSyntax::for_runtime(Some(true), major), &[(name, value)], config);
            let limit = configured.limit(Some(200 << 20), None);
            limit.map(|limit| limit.bytes >> 20)
        };
        let name = "DOTNET_GCHeapHardLimit";
        assert_eq!(mib(Some(10), name, "0x6000000"), Some(150));
        assert_eq!(mib(Some(10), name, "6000000"), Some(96));
        assert_eq!(mib(Some(11), name, "0x6000000"), Some(96));
        assert_eq!(mib(Some(11), name, "6000000"), Some(96));
        assert_eq!(mib(None, name, "0X6000000"), Some(96));
        assert_eq!(mib(Some(11), "COMPlus_GCHeapHardLimit", "6000000"), Some(150));
    }

    /// Scenario: the maps of a process contain the collector's range, which has writable and inaccessible parts and
    /// ends at a gap, and also files, a stack and small ranges.
    /// Guarantee: only the writable parts of the large range count. Without a range of the size of the limit, the
    /// result is unknown.
    #[test]
    fn committed_memory_is_found_in_maps() {
        let maps = "\
            1000-5000 rw-p 00000000 00:00 0\n\
            100000000-100400000 rw-p 00000000 00:00 0 \n\
            100400000-104000000 ---p 00000000 00:00 0 \n\
            104000000-104100000 rw-p 00000000 00:00 0 \n\
            104100000-110000000 ---p 00000000 00:00 0 \n\
            110001000-120000000 rw-p 00000000 00:00 0 \n\
            130000000-140000000 rw-p 00000000 08:01 77  /srv/data\n\
            7f00-7f01 rw-p 00000000 00:00 0  [stack]\n";
        let mib = |n: u64| n << 20;
        assert_eq!(committed(maps, mib(256)), Some(mib(5)));
        assert_eq!(committed(maps, mib(257)), None);
        assert_eq!(committed("nonsense\n", 1), None);
    }

    /// Scenario: the memory is just below and at 95 % of its limit; the reason is formatted for a heap at its limit.
    /// Guarantee: 95 % counts as full; the reason contains the used memory, the limit and the name of the setting.
    #[test]
    fn memory_is_compared_with_limit() {
        assert!(is_full(95, 100) && !is_full(94, 100));
        let text = sentence("its heap", 94 << 20, 96 << 20, "DOTNET_GCHeapHardLimit");
        assert!(text.contains("94 of 96 MiB, DOTNET_GCHeapHardLimit"), "{text}");
    }
}
