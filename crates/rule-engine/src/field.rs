//! All fields that a rule can use.
//!
//! The table [`ALL`] contains each field's name, type, unit, description and accessor. The check of rule files, the
//! reference page and the evaluation use it. `gc.*` fields have the names of the ndjson `gc` record. Each duration in
//! milliseconds (`*_ms`, a double) also exists in nanoseconds (`*_ns`, an integer).

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

use base::time::Moment;
use clr_gc::event::{CondemnReasons1, PauseMode, SuspendReason};
use clr_gc::gc::{Collection, Missing, Suspension};

use super::value::{Type, Value};

pub use command_name::CommandName;
pub use facts::{
    AFFECTED_RULE, ContainerFacts, EXPECTED, Exit, FIRING, FRESH_HEAP_LIMIT, FactValue, HEAP_LIMIT, HostFacts,
    LAST_DEATH, MemoryFacts, OF_VERSION, OperationStarts, ProcessFacts, RequestFacts, STALE_HEAP_LIMIT, ServiceFacts,
    StreamFacts, UNSEEN_LIMIT, WatcherFacts,
};
pub use gc::STOPPED_PARTS;
pub(crate) use kind::Kind;
pub(crate) use process::limits;
pub use trends::{Limits, MemoryTrend, MemoryTrends};

/// The origin of a field, which determines the contexts in which the field can be used, and the times at which it is
/// sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Root {
    /// `gc.*`: the current collection. Usable in conditions of rules `on: gc` and in windows; sampled at each
    /// collection.
    Gc,
    /// `suspension.*`: a suspension without a collection. Usable only in windows; sampled at each such suspension.
    Suspension,
    /// `process.*`, `settings.*`, `container.*`: facts about the process. Usable everywhere; in windows, sampled at
    /// each tick.
    Process,
    /// `stream.*`, `open.*`: health of the event stream, and operations in progress. Usable everywhere; in windows,
    /// sampled at each tick.
    Stream,
    /// `service.*`: a service on this host, across restarts of its processes. Usable in rules `on: service`; in
    /// windows, sampled at each tick.
    Service,
    /// `watcher.*`: gcwatch itself. Usable in rules `on: watcher`; in windows, sampled at each tick.
    Watcher,
}

pub struct Field {
    /// Name of the field: `gc.pause_ms`.
    pub name: &'static str,
    /// Origin of the field.
    pub root: Root,
    /// Type of the value.
    pub kind: Type,
    /// Unit, empty for values without a unit: `ns`, `ms`, `bytes`, `bytes/s`, `s`, `percent`, `ratio`.
    pub unit: &'static str,
    /// Description in one or two sentences, including the conditions under which the value is unknown.
    pub description: &'static str,
    /// Possible values of a string if they are a closed set. A comparison with another value is an error.
    pub words: &'static [&'static str],
    read: for<'a> fn(&Scope<'a>) -> Option<Value<'a>>,
}

impl fmt::Debug for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Fields are equal if their names are equal.
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
    /// Returns the current value, or `None` if it is unknown.
    pub fn read<'a>(&self, scope: &Scope<'a>) -> Option<Value<'a>> {
        (self.read)(scope)
    }

    /// Returns the field with this name, or `None` if there is no such field.
    pub fn find(name: &str) -> Option<&'static Self> {
        ALL.iter().find(|field| field.name == name).copied()
    }

    /// Returns the possible texts of the field or of its list elements. The list is empty if the texts are not a closed
    /// set.
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

/// All fields in the order of the reference page.
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

/// A collection, and values that follow from earlier collections.
#[derive(Debug, Clone, Copy)]
pub struct GcFacts<'a> {
    pub collection: &'a Collection,
    /// Nanoseconds from the last restart before the collection to its SuspendEEBegin; `None` for the first collection,
    /// after a loss of events, and if an edge is missing.
    pub since_last_ns: Option<i64>,
    /// Number of foreground collections during a background collection; `None` for other collections.
    pub foreground_within: Option<u32>,
}

/// Input of the evaluation of an expression.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    /// The current collection.
    pub gc: Option<GcFacts<'a>>,
    /// The current suspension without a collection.
    pub suspension: Option<&'a Suspension>,
    /// Facts about the process.
    pub process: &'a ProcessFacts,
    /// Facts about its event stream.
    pub stream: &'a StreamFacts,
    /// Windows of the rule set.
    pub windows: &'a dyn WindowValues,
    /// Current time.
    pub now: Moment,
}

/// The source of window values.
pub trait WindowValues: fmt::Debug {
    /// Returns the value of the window at index `place` in the rule set, or `None` if it is unknown, usually because
    /// there are too few samples.
    fn value(&self, place: usize) -> Option<f64>;
}

#[derive(Debug, Clone, Copy)]
pub struct NoWindows;

impl WindowValues for NoWindows {
    fn value(&self, _place: usize) -> Option<f64> {
        None
    }
}

/// Windows by index. Windows beyond the array are unknown.
impl<const N: usize> WindowValues for [Option<f64>; N] {
    fn value(&self, place: usize) -> Option<f64> {
        self.get(place).copied().flatten()
    }
}

impl<'a> Scope<'a> {
    /// Creates a scope of a process and its stream, without a collection or windows.
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

    /// Returns the number of processes of the service on which a rule fires, or `None` if the scope has no service.
    pub fn firing(&self, rule: &str) -> Option<i64> {
        self.stream.service?;
        let mut attributes = self.process.attributes();
        let counted = attributes.find(|(name, _)| name.strip_prefix(FIRING) == Some(rule));
        match counted {
            Some((_, FactValue::Int(count))) => Some(*count),
            _ => Some(0),
        }
    }

    /// Returns the value of a window, or `None` if it is unknown.
    pub fn window(&self, place: usize) -> Option<f64> {
        self.windows.value(place)
    }
}

/// Defines the fields of one root.
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

    /// Scenario: the table contains all fields.
    /// Guarantee: names are unique, each field has a description, and each duration in milliseconds also exists in
    /// nanoseconds.
    #[test]
    fn field_table_is_consistent() {
        let names: HashSet<&str> = ALL.iter().map(|field| field.name).collect();
        assert_eq!(names.len(), ALL.len());
        for field in ALL.iter() {
            assert!(field.description.ends_with('.'), "{}", field.name);
            if let Some(stem) = field.name.strip_suffix("_ms") {
                assert!(names.contains(format!("{stem}_ns").as_str()), "{}", field.name);
            }
        }
        assert_eq!(Field::find("gc.pause_ms").map(|field| field.kind), Some(Type::Double));
        assert!(Field::find("gc.nope").is_none());
    }

    /// Scenario: the possible texts of `gc.pause_mode` are listed.
    /// Guarantee: the texts are the names of the modes in records, and `Unknown`.
    #[test]
    fn pause_modes_have_names_of_records() {
        let modes = Field::find("gc.pause_mode").unwrap().texts();
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
