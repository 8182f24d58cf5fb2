//! The definitions of what is exported: every metric and attribute with its unit, kind, description and source.

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

/// One attribute of a resource, a span or a metric's point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attribute {
    /// Its name, `dotnet.gc.reason`.
    pub name: &'static str,
    /// The type of its value.
    pub kind: ValueKind,
    /// What it says, with the unit where it has one; one sentence.
    pub description: &'static str,
    /// Where the fact comes from: event and field, file of `/proc`, or the semantic conventions.
    pub source: &'static str,
}
