//! The definitions of what is exported: every metric and attribute with its unit, kind, description and source.
//!
//! Spans and series contain no names of their own: they refer to the entries here. The tables of `docs/telemetry.md`
//! are generated from them, and a test compares the telemetry of every recording with them.

pub mod anomaly;
pub mod container;
pub mod metric;
pub mod own;
pub mod profile;
pub mod resource;
pub mod settings;
pub mod span;

/// The type of an attribute's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueKind {
    /// A string.
    Text,
    /// A signed 64-bit integer.
    Int,
    /// A floating-point number.
    Double,
    /// True or false.
    Bool,
    /// Several strings.
    Texts,
}

impl ValueKind {
    /// As the semantic conventions write it: `string`, `int`, `double`, `boolean`, `string[]`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "string",
            Self::Int => "int",
            Self::Double => "double",
            Self::Bool => "boolean",
            Self::Texts => "string[]",
        }
    }
}

/// One attribute of a resource, a span or a metric's point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attribute {
    /// As exported: `gcwatch.gc.reason`.
    pub name: &'static str,
    /// Type of every value it has.
    pub kind: ValueKind,
    /// Meaning, with the unit where it has one; one or two sentences.
    pub description: &'static str,
    /// Where the fact comes from: event and field, file of `/proc`, or the semantic conventions.
    pub source: &'static str,
}

/// How stable a name is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stability {
    /// Stable in the semantic conventions of OpenTelemetry.
    Stable,
    /// In the semantic conventions, and may still change there.
    Development,
    /// gcwatch's own: the conventions have no name for it.
    Own,
}

impl Stability {
    /// `stable`, `development`, `gcwatch`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stable => "stable",
            Self::Development => "development",
            Self::Own => "gcwatch",
        }
    }
}

/// A row in a table of attributes of the documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Name, type, meaning and source.
    pub attribute: &'static Attribute,
    /// Stability of its name.
    pub stability: Stability,
}

/// Which kind of instrument a metric is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Instrument {
    /// A sum that only rises.
    Counter,
    /// A sum that rises and falls.
    UpDownCounter,
    /// The newest value.
    Gauge,
    /// A distribution.
    Histogram,
}

impl Instrument {
    /// As the semantic conventions write it: `Counter`, `UpDownCounter`, `Gauge`, `Histogram`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "Counter",
            Self::UpDownCounter => "UpDownCounter",
            Self::Gauge => "Gauge",
            Self::Histogram => "Histogram",
        }
    }
}

/// How the gauges of the processes of a service become one, with `metrics.aggregate: service`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GaugeRule {
    /// The sum over the processes.
    Sum,
    /// The highest value of a process.
    Max,
}

/// Name, unit, instrument and meaning of one metric.
#[derive(Debug, PartialEq, Eq)]
pub struct MetricDefinition {
    /// As exported over OTLP: `dotnet.gc.pause.time`.
    pub name: &'static str,
    /// Its unit in UCUM: `s`, `By`, `1`, `{collection}`.
    pub unit: &'static str,
    /// Decides between sum, gauge and histogram in OTLP, and the type in `/metrics`.
    pub instrument: Instrument,
    /// Meaning, in one or two sentences; the HELP text of `/metrics`.
    pub description: &'static str,
    /// Attributes that identify its points. A point omits those that are unknown.
    pub attributes: &'static [&'static Attribute],
    /// Where the fact comes from: event and field.
    pub source: &'static str,
    /// Stability of the name.
    pub stability: Stability,
}

impl MetricDefinition {
    /// Whether the runtime's own meter of .NET 9 and later may export a metric of this name too.
    pub fn is_of_the_runtime(&self) -> bool {
        self.stability == Stability::Stable
    }
}

/// Defines attributes and the list of them.
macro_rules! attributes {
    ($($(#[$meta:meta])* $entry:ident $name:literal $kind:ident $stability:ident $description:literal from $source:literal)+) => {
        $(
            #[doc = concat!("`", $name, "`: ", $description)]
            $(#[$meta])*
            pub static $entry: $crate::definition::Attribute = $crate::definition::Attribute {
                name: $name,
                kind: $crate::definition::ValueKind::$kind,
                description: $description,
                source: $source,
            };
        )+

        /// All attributes of this table, in the order of the documentation.
        pub static ALL: &[$crate::definition::Row] = &[
            $($crate::definition::Row {
                attribute: &$entry,
                stability: $crate::definition::Stability::$stability,
            },)+
        ];
    };
}
pub(crate) use attributes;

/// Defines metrics and the list of them.
macro_rules! metrics {
    ($list:ident $($entry:ident $name:literal $unit:literal $instrument:ident [$($attribute:ident),*] $stability:ident $description:literal from $source:literal)+) => {
        $(
            #[doc = concat!("`", $name, "`: ", $description)]
            pub static $entry: $crate::definition::MetricDefinition =
                $crate::definition::MetricDefinition {
                    name: $name,
                    unit: $unit,
                    instrument: $crate::definition::Instrument::$instrument,
                    description: $description,
                    attributes: &[$(&$attribute),*],
                    source: $source,
                    stability: $crate::definition::Stability::$stability,
                };
        )+

        /// All metrics of this table, in the order of export.
        pub static $list: &[&$crate::definition::MetricDefinition] = &[$(&$entry),+];
    };
}
pub(crate) use metrics;
