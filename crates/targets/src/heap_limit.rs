//! Whether a process's memory stands at the limit of its heap, as far as that can be known from outside: then its first
//! session could end it (see `attempt`).
//!
//! The limit is, the first that is set: `GCHeapHardLimit` in the environment (`DOTNET_`, `COMPlus_`; hexadecimal),
//! `System.GC.HeapHardLimit` in its `runtimeconfig.json`; the same with `Percent`, of the container's memory limit or
//! else the machine's memory; three quarters of the container's memory limit, which is what .NET takes by itself.
//! Sources: `gcconfig.h` and `gc.cpp` (`compute_hard_limit`) of the runtime. Limits of single object heaps
//! (`GCHeapHardLimitSOH` and its like) are not compared.
//!
//! NativeAOT knows neither `COMPlus_` nor the file, whose settings its compiler put into the program. Until 10 a number
//! that begins with `0x` is none for it, and no limit is in force (seen on 9.0.22: 745 MB with
//! `DOTNET_GCHeapHardLimit=0x6000000`, 89 with `6000000`); 11 takes both.
//!
//! All of this is a guess, which the runtime's own word refutes where there is one (`settings`): see
//! `run::Run::heap_limit`.
//!
//! What is compared is the lesser of two figures that are never below what the collector has committed and used. The
//! process's anonymous memory, which has everything else of the process too. And what is writable of the range that the
//! collector reserved, which is larger than the limit: parts of it are made writable as they are needed; on .NET 10 its
//! tables lie beside it (seen: 119 MiB at a limit of 96, with 98 MiB of anonymous memory).
//!
//! What is unknown keeps no process from being attached to.
//!
//! The limit is also what rules compare a heap with, whatever its runtime's version ([`MemoryReader`]).

mod memory;
mod read;

pub use memory::{MemoryReader, MemoryReading};
pub use read::{CollectorSettings, at_limit, collector_settings};

use serde_json::Value;

/// From this share of the limit on, in percent, the first session waits.
const FULL_PERCENT: u64 = 95;
/// The limit that .NET takes by itself in a container, and its least value.
const DEFAULT_PERCENT: u64 = 75;
const LEAST_DEFAULT: u64 = 20 << 20;

/// The limit of a heap.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Limit {
    bytes: u64,
    /// What sets it, as people know it.
    source: String,
}

/// How a runtime takes its settings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Takes {
    /// Both prefixes of variables, numbers with `0x` and without, and the file.
    #[default]
    CoreClr,
    /// One prefix, and no file.
    NativeAot {
        /// Numbers with `0x`, too.
        hex_prefix: bool,
    },
}

/// The first version of NativeAOT that takes numbers with `0x`.
const NATIVE_AOT_TAKES_0X_SINCE: u32 = 11;

impl Takes {
    /// By the program and the first number of its runtime's version. Where that is not known, it may take them all.
    fn of(native_aot: Option<bool>, major: Option<u32>) -> Self {
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

/// What the limit is made of.
struct Sources<'a> {
    takes: Takes,
    variable: &'a dyn Fn(&str) -> Option<String>,
    /// The text of its `runtimeconfig.json`.
    runtime_config: Option<Value>,
}

/// What a process's environment and its `runtimeconfig.json` say. They stay as they are while it runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Configured {
    /// Whether its `runtimeconfig.json` was read. NativeAOT and single files have none.
    has_file: bool,
    /// Single object heaps have limits.
    single_heaps: bool,
    /// `GCHeapHardLimit`, and what sets it.
    bytes: Option<(u64, String)>,
    /// `GCHeapHardLimitPercent`, and what sets it.
    percent: Option<(u64, String)>,
}

impl Configured {
    /// Whether the whole configuration was read, and the limit is a share of the container's.
    fn follows_container(&self) -> bool {
        self.has_file && !self.single_heaps && self.bytes.is_none()
    }

    /// The limit, by the container's memory limit and the machine's memory.
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
        let bytes = part(container?, DEFAULT_PERCENT).max(LEAST_DEFAULT);
        let source = format!("{DEFAULT_PERCENT} % of its container's memory limit");
        Some(Limit { bytes, source })
    }
}

impl Sources<'_> {
    fn configured(&self) -> Configured {
        let of_single_heaps = ["SOH", "LOH", "POH", "SOHPercent", "LOHPercent", "POHPercent"];
        Configured {
            has_file: self.runtime_config.is_some(),
            single_heaps: of_single_heaps
                .iter()
                .any(|heap| self.setting(&format!("HeapHardLimit{heap}")).is_some()),
            bytes: self.setting("HeapHardLimit"),
            percent: self.setting("HeapHardLimitPercent"),
        }
    }

    /// A setting that is not zero, and what sets it.
    fn setting(&self, name: &str) -> Option<(u64, String)> {
        let of_environment = self.takes.prefixes().iter().find_map(|prefix| {
            let variable = format!("{prefix}_GC{name}");
            let value = (self.variable)(&variable)?;
            Some((self.takes.number(&value)?, variable))
        });
        let of_file = || {
            if self.takes != Takes::CoreClr {
                return None;
            }
            let key = format!("System.GC.{name}");
            let properties = self
                .runtime_config
                .as_ref()?
                .pointer("/runtimeOptions/configProperties")?;
            let value = properties.get(&key)?;
            // The host passes numbers on as text; text is read like a variable's.
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

/// Whether so much of the limit is in use that the first session waits.
fn is_full(used: u64, limit: u64) -> bool {
    used >= part(limit, FULL_PERCENT)
}

/// Why the first session waits, by what is used of which limit.
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
    targets.attach_at_heap_limit attaches all the same";

/// The reason, in one word.
pub const REASON: &str = "at-heap-limit";

/// What is writable of the range that the collector reserved, by the process's `maps`: the largest among ranges of
/// anonymous memory without gaps that are at least as large as the limit. `None`: there is no such range.
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

/// Where a line's mapping begins and ends, and whether it is writable. `None`: it is of a file, or has a name.
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

    fn configured(takes: Takes, variables: &[(&str, &str)], config: &str) -> Configured {
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

    /// Scenario: each way to set the limit, two at once, zeros and nonsense.
    /// Guarantee: the runtime's own order; variables are hexadecimal, the file's numbers decimal; without a limit of
    /// the container there is none by default.
    #[test]
    fn the_limit_is_the_runtimes() {
        let config = |key: &str, value: &str| {
            format!(r#"{{"runtimeOptions": {{"configProperties": {{"System.GC.{key}": {value}}}}}}}"#)
        };
        let bytes = |variables: &[(&str, &str)], config: &str, container| {
            let limit = configured(Takes::CoreClr, variables, config).limit(container, Some(1000 << 20));
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
        let limit = configured(Takes::CoreClr, &both, "").limit(None, None).unwrap();
        assert_eq!(limit.source, "DOTNET_GCHeapHardLimit");
    }

    /// Scenario: the variable with `0x` and without, with the old prefix, and a file beside the program; of NativeAOT 10,
    /// 11 and of an unknown version.
    /// Guarantee: until 10 a number with `0x` sets nothing and the container's part counts; the old prefix and the file
    /// set nothing on any.
    #[test]
    fn native_aot_takes_less() {
        let config = r#"{"runtimeOptions": {"configProperties": {"System.GC.HeapHardLimit": 104857600}}}"#;
        let mib = |major: Option<u32>, name: &str, value: &str| {
            let configured = configured(Takes::of(Some(true), major), &[(name, value)], config);
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

    /// Scenario: a process's maps with the collector's range, in parts of all rights, among files, stacks and small
    /// ranges; the range ends at a gap.
    /// Guarantee: only what is writable of the large range counts; without one it is unknown.
    #[test]
    fn what_the_collector_committed_is_found() {
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

    /// Scenario: shares around the bound, and the sentence of a heap at its limit.
    /// Guarantee: 95 % is full, and the sentence has both figures and where the limit comes from.
    #[test]
    fn memory_is_compared_with_the_limit() {
        assert!(is_full(95, 100) && !is_full(94, 100));
        let text = sentence("its heap", 94 << 20, 96 << 20, "DOTNET_GCHeapHardLimit");
        assert!(text.contains("94 of 96 MiB, DOTNET_GCHeapHardLimit"), "{text}");
    }
}
