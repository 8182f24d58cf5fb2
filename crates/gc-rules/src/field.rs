//! The vocabulary: every name that a rule may use.
//!
//! One table ([`ALL`]) says each field's name, type, unit, meaning and how it is read. The check of rule files, the reference page and the
//! evaluation all use it. `gc.*` has the names of the ndjson `gc` record; a duration is there twice, as `*_ns` (whole nanoseconds) and as
//! `*_ms` (milliseconds, a double).

mod gc;
mod process;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::LazyLock;

use clr_gc::gc::{Collection, Suspension};

use super::value::{Type, Value};

pub use process::{ContainerFacts, FactValue, Open, ProcessFacts, StreamFacts};

/// What a field belongs to: where it may be used, and when it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Root {
    /// `gc.*`: the collection that was just told. In conditions of rules `on: gc`, in windows, sampled at each collection.
    Gc,
    /// `suspension.*`: a stop in which no collection ran. In windows only, sampled at each.
    Suspension,
    /// `process.*`, `settings.*`, `container.*`: what is known of the process. Everywhere; in windows sampled at each tick.
    Process,
    /// `stream.*`, `open.*`: how well the process is read, and what is under way. Everywhere; in windows sampled at each tick.
    Stream,
}

/// One name.
pub struct Field {
    /// `gc.pause_ms`.
    pub name: &'static str,
    /// What it belongs to.
    pub root: Root,
    /// The type of its value.
    pub kind: Type,
    /// Its unit, empty where it has none: `ns`, `ms`, `bytes`, `bytes/s`, `s`, `percent`, `ratio`.
    pub unit: &'static str,
    /// What it says, and when it is unknown; one or two sentences.
    pub description: &'static str,
    /// The values that a text can have, where they are a closed set: a comparison with another one is a mistake.
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
}

/// All fields, in the order of the reference page.
pub static ALL: LazyLock<Vec<&'static Field>> = LazyLock::new(|| {
    let gc = gc::FIELDS.iter().chain(gc::HEAP_FIELDS).chain(gc::SUSPENSION_FIELDS);
    gc.chain(process::FIELDS).chain(process::STREAM_FIELDS).collect()
});

/// A collection, and what only the one before it makes known.
#[derive(Debug, Clone, Copy)]
pub struct GcFacts<'a> {
    /// The collection.
    pub collection: &'a Collection,
    /// Nanoseconds from the last restart before it to its SuspendEEBegin; `None` for the first one, after a loss, and where an edge is
    /// missing.
    pub since_last_ns: Option<i64>,
    /// Foreground collections that ran while it was under way, for a background collection; else `None`.
    pub foreground_within: Option<u32>,
}

/// What an expression is evaluated on.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    /// The collection that was just told.
    pub gc: Option<GcFacts<'a>>,
    /// The stop without a collection that was just told.
    pub suspension: Option<&'a Suspension>,
    /// What is known of the process.
    pub process: &'a ProcessFacts,
    /// How well it is read.
    pub stream: &'a StreamFacts,
    /// The windows of the rule set.
    pub windows: &'a dyn WindowValues,
    /// The time of what is observed, Unix nanoseconds.
    pub now_unix_ns: u64,
}

/// Where the values of windows come from.
pub trait WindowValues: fmt::Debug {
    /// The value of the window at that place in the rule set; `None`: it is unknown, most often for want of samples.
    fn value(&self, place: usize) -> Option<f64>;
}

/// There is no window.
#[derive(Debug, Clone, Copy)]
pub struct NoWindows;

impl WindowValues for NoWindows {
    fn value(&self, _place: usize) -> Option<f64> {
        None
    }
}

/// By place; those behind the last are unknown.
impl<const N: usize> WindowValues for [Option<f64>; N] {
    fn value(&self, place: usize) -> Option<f64> {
        self.get(place).copied().flatten()
    }
}

impl Scope<'_> {
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
    /// Guarantee: no name is there twice, each says what it is in a sentence, and a duration in milliseconds has its nanoseconds.
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
}
