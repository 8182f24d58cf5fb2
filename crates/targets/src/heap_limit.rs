//! Determines from outside whether the memory of a process is at the limit of its heap. The first session could end
//! such a process (see `attempt`).
//!
//! The limit is the first of these settings: `GCHeapHardLimit` in the environment (`DOTNET_`, `COMPlus_`; hexadecimal);
//! `System.GC.HeapHardLimit` in the `runtimeconfig.json`; either name with `Percent`, as a share of the container's
//! memory limit, or of the machine's memory without such a limit; three quarters of the container's memory limit, which
//! is the default of .NET. Sources: `gcconfig.h` and `gc.cpp` (`compute_hard_limit`) of the runtime. Limits of single
//! object heaps (such as `GCHeapHardLimitSOH`) are not compared.
//!
//! NativeAOT supports neither `COMPlus_` nor the file, whose settings the compiler puts into the program. Before
//! version 11, it ignores numbers that start with `0x`, so no limit is in force (observed on 9.0.22: 745 MB with
//! `DOTNET_GCHeapHardLimit=0x6000000`, 89 with `6000000`). Version 11 accepts both forms.
//!
//! The result is an estimate. Values reported by the runtime (`settings`) replace it: see `run::Run::heap_limit`.
//!
//! The limit is compared with the lower of two figures, each of which is at least the memory that the collector has
//! committed and used. The first is the anonymous memory of the process, which includes all other memory of the
//! process. The second is the writable part of the range that the collector reserved. The range is larger than the
//! limit, and parts of it are made writable when they are needed. On .NET 10, the tables of the collector are outside
//! the range (observed: 119 MiB with a limit of 96, and 98 MiB of anonymous memory).
//!
//! If a value is unknown, gcwatch attaches to the process.
//!
//! Rules also compare a heap with this limit, for every version of the runtime ([`MemoryReader`]).

mod memory;
mod read;

pub use memory::{MemoryReader, MemoryReading};
pub use read::at_limit;

use serde_json::Value;

/// Minimum share of the limit, in percent, at which the first session waits.
const FULL_PERCENT: u64 = 95;
/// Default limit of .NET in a container, as a share of the container's limit, and its minimum.
const DEFAULT_PERCENT: u64 = 75;
const MIN_DEFAULT: u64 = 20 << 20;

/// The limit of a heap.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Limit {
    bytes: u64,
    /// Name of the setting, for display.
    source: String,
}

/// The settings that a runtime supports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum SettingSyntax {
    /// Both prefixes of variables, numbers with and without `0x`, and the file.
    #[default]
    CoreClr,
    /// One prefix, and no file.
    NativeAot {
        /// Whether numbers with `0x` are accepted.
        hex_prefix: bool,
    },
}

/// First version of NativeAOT that accepts numbers with `0x`.
const NATIVE_AOT_TAKES_0X_SINCE: u32 = 11;

impl SettingSyntax {
    /// Returns the support of a program whose runtime has this major version. Unknown programs are assumed to support
    /// all settings.
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

/// The texts from which the limit is determined.
struct Sources<'a> {
    takes: SettingSyntax,
    variable: &'a dyn Fn(&str) -> Option<String>,
    /// Content of the `runtimeconfig.json`.
    runtime_config: Option<Value>,
}

/// The settings in a process's environment and `runtimeconfig.json`. They do not change while the process runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct ConfiguredLimits {
    /// Whether the `runtimeconfig.json` was read. NativeAOT programs and single-file programs do not have this file.
    has_file: bool,
    /// Whether single object heaps have limits.
    single_heaps: bool,
    /// `GCHeapHardLimit`, and the name of the setting.
    bytes: Option<(u64, String)>,
    /// `GCHeapHardLimitPercent`, and the name of the setting.
    percent: Option<(u64, String)>,
}

impl ConfiguredLimits {
    /// Returns whether the whole configuration was read and the limit is a share of the container's limit.
    fn follows_container(&self) -> bool {
        self.has_file && !self.single_heaps && self.bytes.is_none()
    }

    /// Returns the limit for a container's memory limit and the machine's memory.
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

    /// Returns a setting that is not zero, with its name.
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
            // The host passes numbers on as text. Text is parsed like a variable.
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

/// Returns whether the used part of the limit makes the first session wait.
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

/// The remedy.
pub const REMEDY: &str = "gcwatch retries every minute; raise the limit, or start gcwatch before the process; \
    targets.attach_at_heap_limit attaches anyway";

/// Reason as a single word, for records.
pub const REASON: &str = "at-heap-limit";

/// Returns the writable bytes of the range that the collector reserved, according to `maps`. The range is anonymous
/// memory without gaps that is at least as large as the limit; the one with most writable bytes counts. Returns `None`
/// if there is no such range.
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

/// Returns the start and the end of a line's mapping, and whether it is writable. Returns `None` if the mapping has a
/// file or a name.
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
    /// Guarantee: the settings apply in the order of the runtime; variables are hexadecimal, and numbers in the file
    /// are decimal; without a container limit, no default applies.
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

    /// Scenario: the variable is set with `0x`, without it and with the old prefix, and a file is next to the program,
    /// for NativeAOT 10, 11 and an unknown version.
    /// Guarantee: before version 11, a number with `0x` sets no limit, and the container's share applies; the old
    /// prefix and the file set no limit in any version.
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

    /// Scenario: the maps of a process contain the collector's range, in parts with all kinds of rights, among files,
    /// stacks and small ranges; the range ends at a gap.
    /// Guarantee: only writable parts of the large range count; without such a range, the result is unknown.
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

    /// Scenario: shares are just below and at the threshold; a sentence is written for a heap at its limit.
    /// Guarantee: 95 % is full, and the sentence contains both figures and the origin of the limit.
    #[test]
    fn memory_is_compared_with_limit() {
        assert!(is_full(95, 100) && !is_full(94, 100));
        let text = sentence("its heap", 94 << 20, 96 << 20, "DOTNET_GCHeapHardLimit");
        assert!(text.contains("94 of 96 MiB, DOTNET_GCHeapHardLimit"), "{text}");
    }
}
