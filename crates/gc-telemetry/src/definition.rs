//! Definitions of the exported telemetry: all metrics and attributes with unit, kind, description and source.
//!
//! Spans and series refer to the entries in this module and use no other names. The tables of `docs/telemetry.md` are
//! generated from the entries, and a test compares the telemetry of every recording with them.

pub mod anomaly;
pub mod change;
pub mod container;
pub mod metric;
pub mod own;
pub mod resource;
pub mod settings;
pub mod span;

/// Type of an attribute's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueKind {
    /// String.
    Text,
    /// Signed 64-bit integer.
    Int,
    /// Floating-point number.
    Double,
    /// Boolean.
    Bool,
    /// List of strings.
    Texts,
}

impl ValueKind {
    /// Returns the name in the semantic conventions: `string`, `int`, `double`, `boolean`, `string[]`.
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

/// Attribute of a resource, a span or a metric's point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attribute {
    /// Exported name: `gcwatch.gc.reason`.
    pub name: &'static str,
    /// Type of the attribute's values.
    pub kind: ValueKind,
    /// Meaning in one or two sentences, with the unit if the value has one.
    pub description: &'static str,
    /// Source of the value: event and field, file of `/proc`, or the semantic conventions.
    pub source: &'static str,
}

/// Stability of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stability {
    /// Stable name of the OpenTelemetry semantic conventions.
    Stable,
    /// Name of the semantic conventions that can change.
    Development,
    /// Name of gcwatch; the conventions have no name for the value.
    Own,
}

impl Stability {
    /// Returns `stable`, `development` or `gcwatch`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stable => "stable",
            Self::Development => "development",
            Self::Own => "gcwatch",
        }
    }
}

/// Row of an attribute table in the documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Attribute with name, type, meaning and source.
    pub attribute: &'static Attribute,
    /// Stability of the name.
    pub stability: Stability,
}

/// Instrument of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Instrument {
    /// Sum that only rises.
    Counter,
    /// Sum that rises and falls.
    UpDownCounter,
    /// Newest value.
    Gauge,
    /// Distribution.
    Histogram,
}

impl Instrument {
    /// Returns the name in the semantic conventions: `Counter`, `UpDownCounter`, `Gauge`, `Histogram`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "Counter",
            Self::UpDownCounter => "UpDownCounter",
            Self::Gauge => "Gauge",
            Self::Histogram => "Histogram",
        }
    }
}

/// The rule by which the gauges of the processes of a service become one gauge, with `metrics.aggregate: service`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GaugeRule {
    /// The sum over the processes.
    Sum,
    /// The highest value of a process.
    Max,
}

/// Name, unit, instrument and meaning of a metric.
#[derive(Debug, PartialEq, Eq)]
pub struct MetricDefinition {
    /// Name exported over OTLP: `dotnet.gc.pause.time`.
    pub name: &'static str,
    /// Unit in UCUM: `s`, `By`, `1`, `{collection}`.
    pub unit: &'static str,
    /// Instrument: selects sum, gauge or histogram in OTLP, and the type in `/metrics`.
    pub instrument: Instrument,
    /// Meaning in one or two sentences; the HELP text of `/metrics`.
    pub description: &'static str,
    /// Attributes that identify the metric's points. A point omits unknown attributes.
    pub attributes: &'static [&'static Attribute],
    /// Source of the value: event and field.
    pub source: &'static str,
    /// Stability of the name.
    pub stability: Stability,
}

impl MetricDefinition {
    /// Returns whether the runtime's meter (.NET 9 and later) can export a metric with the same name.
    pub fn is_of_the_runtime(&self) -> bool {
        self.stability == Stability::Stable
    }
}

/// Defines attributes and their list.
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

/// Defines metrics and their list.
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
