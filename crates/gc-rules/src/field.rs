//! All fields that a rule can use.
//!
//! One table ([`ALL`]) has each field's name, type, unit, description and accessor, for the check of rule files, the
//! reference page and the evaluation. `gc.*` has the names of the ndjson `gc` record; durations exist twice, as `*_ns`
//! (integer nanoseconds) and as `*_ms` (milliseconds, a double).

mod command_name;
mod facts;
mod gc;
mod kind;
mod process;
mod service;
mod trends;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::LazyLock;

use clr_gc::event::{CondemnReasons1, PauseMode, SuspendReason};
use clr_gc::gc::{Collection, Missing, Suspension};

use super::time::Moment;
use super::value::{Type, Value};

pub use command_name::CommandName;
pub use facts::{
    AFFECTED_RULE, ContainerFacts, EXPECTED, Exit, FIRING, FRESH_HEAP_LIMIT, FactValue, HEAP_LIMIT, HostFacts,
    LAST_DEATH, MemoryFacts, OF_VERSION, Open, ProcessFacts, RequestFacts, STALE_HEAP_LIMIT, ServiceFacts, StreamFacts,
    UNSEEN_LIMIT, WatcherFacts,
};
pub use gc::STOPPED_PARTS;
pub(crate) use kind::Kind;
pub(crate) use process::limits;
pub use trends::{Limits, MemoryTrend, MemoryTrends};

/// What a field belongs to: where it can be used, and when it is sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Root {
    /// `gc.*`: the current collection. In conditions of rules `on: gc`, and in windows, sampled at each collection.
    Gc,
    /// `suspension.*`: a suspension without a collection. Only in windows, sampled at each one.
    Suspension,
    /// `process.*`, `settings.*`, `container.*`: what is known of the process. Everywhere; in windows sampled at each
    /// tick.
    Process,
    /// `stream.*`, `open.*`: health of the event stream, and what is in progress. Everywhere; in windows sampled at
    /// each tick.
    Stream,
    /// `service.*`: a service on this host, over the ends of its processes. In rules `on: service`; in windows sampled
    /// at each tick.
    Service,
    /// `watcher.*`: gcwatch itself. In rules `on: watcher`; in windows sampled at each tick.
    Watcher,
}

pub struct Field {
    /// `gc.pause_ms`.
    pub name: &'static str,
    /// What it belongs to.
    pub root: Root,
    /// The type of its value.
    pub kind: Type,
    /// Its unit, empty if it has none: `ns`, `ms`, `bytes`, `bytes/s`, `s`, `percent`, `ratio`.
    pub unit: &'static str,
    /// Description, with the conditions under which it is unknown; one or two sentences.
    pub description: &'static str,
    /// The values of a string, if they are a closed set: a comparison with another one is an error.
    pub words: &'static [&'static str],
    read: for<'a> fn(&Scope<'a>) -> Option<Value<'a>>,
}

impl fmt::Debug for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Two fields are one when their names are.
impl PartialEq for Field {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Field {}

impl Hash for Field {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl Field {
    /// Its value now; `None`: unknown.
    pub fn read<'a>(&self, scope: &Scope<'a>) -> Option<Value<'a>> {
        (self.read)(scope)
    }

    /// The field of that name.
    pub fn of(name: &str) -> Option<&'static Self> {
        ALL.iter().find(|field| field.name == name).copied()
    }

    /// The texts that it can have, or that can be among its texts; empty where they are not a closed set.
    pub fn texts(&self) -> Vec<&'static str> {
        let known = |name: fn(u32) -> Option<&'static str>| (0..64).filter_map(name).chain(["Unknown"]).collect();
        match self.name {
            "gc.condemned_reasons" => CondemnReasons1::NAMES.to_vec(),
            "gc.missing" => Missing::ALL.map(Missing::name).to_vec(),
            "gc.pause_mode" => known(|number| PauseMode(number).name()),
            "suspension.reason" => known(|number| SuspendReason(number).name()),
            _ => self.words.to_vec(),
        }
    }
}

/// All fields, in the order of the reference page.
pub static ALL: LazyLock<Vec<&'static Field>> = LazyLock::new(|| {
    let gc = gc::FIELDS
        .iter()
        .chain(gc::STOPPED_FIELDS)
        .chain(gc::MIN_FIELDS)
        .chain(gc::HEAP_FIELDS)
        .chain(gc::SUSPENSION_FIELDS);
    let of_process = process::FIELDS.iter().chain(process::STREAM_FIELDS);
    let others = service::SERVICE_FIELDS.iter().chain(service::WATCHER_FIELDS);
    gc.chain(of_process).chain(others).collect()
});

/// A collection, and what follows from the ones before it.
#[derive(Debug, Clone, Copy)]
pub struct GcFacts<'a> {
    pub collection: &'a Collection,
    /// Nanoseconds from the last restart before it to its SuspendEEBegin; `None` for the first one, after a loss, and
    /// if an edge is missing.
    pub since_last_ns: Option<i64>,
    /// Foreground collections during it, for a background collection; else `None`.
    pub foreground_within: Option<u32>,
}

/// The data that an expression is evaluated on.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    /// The current collection.
    pub gc: Option<GcFacts<'a>>,
    /// The current suspension without a collection.
    pub suspension: Option<&'a Suspension>,
    /// What is known of the process.
    pub process: &'a ProcessFacts,
    /// Health of its event stream.
    pub stream: &'a StreamFacts,
    /// The windows of the rule set.
    pub windows: &'a dyn WindowValues,
    /// The time.
    pub now: Moment,
}

/// The source of window values.
pub trait WindowValues: fmt::Debug {
    /// The value of the window at that place in the rule set; `None`: unknown, most often because there are too few
    /// samples.
    fn value(&self, place: usize) -> Option<f64>;
}

#[derive(Debug, Clone, Copy)]
pub struct NoWindows;

impl WindowValues for NoWindows {
    fn value(&self, _place: usize) -> Option<f64> {
        None
    }
}

/// By place; those after the last are unknown.
impl<const N: usize> WindowValues for [Option<f64>; N] {
    fn value(&self, place: usize) -> Option<f64> {
        self.get(place).copied().flatten()
    }
}

impl<'a> Scope<'a> {
    /// Of a process and its stream alone: no collection, no windows.
    pub fn new(process: &'a ProcessFacts, stream: &'a StreamFacts, now: Moment) -> Self {
        Self {
            gc: None,
            suspension: None,
            process,
            stream,
            windows: &NoWindows,
            now,
        }
    }

    /// On how many processes of the service a rule fires; `None`: here is no service.
    pub fn firing(&self, rule: &str) -> Option<i64> {
        self.stream.service?;
        let mut attributes = self.process.attributes();
        let counted = attributes.find(|(name, _)| name.strip_prefix(FIRING) == Some(rule));
        match counted {
            Some((_, FactValue::Int(count))) => Some(*count),
            _ => Some(0),
        }
    }

    /// The value of a window; `None`: it is unknown.
    pub fn window(&self, place: usize) -> Option<f64> {
        self.windows.value(place)
    }
}

/// Defines fields of one root.
macro_rules! fields {
    ($list:ident $root:ident $($name:literal $kind:ident $unit:literal $([$($word:literal),* $(,)?])? $description:literal = $read:expr;)+) => {
        pub(super) static $list: &[$crate::field::Field] = &[
            $($crate::field::Field {
                name: $name,
                root: $crate::field::Root::$root,
                kind: $crate::value::Type::$kind,
                unit: $unit,
                description: $description,
                words: &[$($($word),*)?],
                read: $read,
            },)+
        ];
    };
}
use fields;

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Scenario: the whole table.
    /// Guarantee: names are unique, each field has a description, and each duration in milliseconds exists in
    /// nanoseconds.
    #[test]
    fn the_table_is_sound() {
        let names: HashSet<&str> = ALL.iter().map(|field| field.name).collect();
        assert_eq!(names.len(), ALL.len());
        for field in ALL.iter() {
            assert!(field.description.ends_with('.'), "{}", field.name);
            if let Some(stem) = field.name.strip_suffix("_ms") {
                assert!(names.contains(format!("{stem}_ns").as_str()), "{}", field.name);
            }
        }
        assert_eq!(Field::of("gc.pause_ms").map(|field| field.kind), Some(Type::Double));
        assert!(Field::of("gc.nope").is_none());
    }

    /// Scenario: the modes that a collection may have.
    /// Guarantee: the check knows them by the names that they have in records, and that of others.
    #[test]
    fn modes_have_their_names() {
        let modes = Field::of("gc.pause_mode").unwrap().texts();
        assert_eq!(
            modes,
            [
                "Batch",
                "Interactive",
                "LowLatency",
                "SustainedLowLatency",
                "NoGC",
                "Unknown"
            ]
        );
    }
}
