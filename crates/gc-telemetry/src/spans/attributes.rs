//! Attributes of spans and links, written directly into the encoded message.

use crate::definition::Attribute;
use crate::wire::Wire;

/// Numbers of the fields of `KeyValue`, `AnyValue` and `ArrayValue` in `opentelemetry/proto/common/v1/common.proto`.
mod field {
    pub(super) const KEY: u32 = 1;
    pub(super) const VALUE: u32 = 2;
    pub(super) const TEXT: u32 = 1;
    pub(super) const BOOL: u32 = 2;
    pub(super) const INT: u32 = 3;
    pub(super) const DOUBLE: u32 = 4;
    pub(super) const ARRAY: u32 = 5;
    pub(super) const VALUES: u32 = 1;
}

/// Attributes of the message that is written. Unknown values are omitted.
#[derive(Debug)]
pub(super) struct Attributes<'a> {
    wire: &'a mut Wire,
    /// Number of the message's field for attributes.
    field: u32,
}

impl<'a> Attributes<'a> {
    pub(super) fn new(wire: &'a mut Wire, field: u32) -> Self {
        Self { wire, field }
    }

    pub(super) fn text(&mut self, attribute: &Attribute, value: Option<impl AsRef<str>>) -> &mut Self {
        if let Some(text) = value {
            self.add(attribute, |wire| wire.bytes(field::TEXT, text.as_ref()));
        }
        self
    }

    /// Adds an integer; a number that does not fit becomes `i64::MAX`.
    pub(super) fn int(&mut self, attribute: &Attribute, value: Option<impl Into<u64>>) -> &mut Self {
        if let Some(number) = value {
            let most = i64::MAX.unsigned_abs();
            self.add(attribute, |wire| wire.number(field::INT, number.into().min(most)));
        }
        self
    }

    pub(super) fn bool(&mut self, attribute: &Attribute, value: Option<bool>) -> &mut Self {
        if let Some(is) = value {
            self.add(attribute, |wire| wire.number(field::BOOL, is.into()));
        }
        self
    }

    /// Adds nanoseconds as seconds.
    pub(super) fn seconds(&mut self, attribute: &Attribute, ns: Option<i64>) -> &mut Self {
        if let Some(ns) = ns {
            self.add(attribute, |wire| wire.double(field::DOUBLE, ns as f64 / 1e9));
        }
        self
    }

    /// Adds a percentage as a share, 0 to 1.
    pub(super) fn ratio(&mut self, attribute: &Attribute, percent: Option<u32>) -> &mut Self {
        if let Some(percent) = percent {
            self.add(attribute, |wire| wire.double(field::DOUBLE, f64::from(percent) / 100.0));
        }
        self
    }

    /// Adds a list; an empty list is omitted.
    pub(super) fn texts(&mut self, attribute: &Attribute, values: impl Iterator<Item = &'static str>) -> &mut Self {
        let mut values = values.peekable();
        if values.peek().is_some() {
            self.add(attribute, |wire| {
                wire.message(field::ARRAY, |wire| {
                    for text in values {
                        wire.message(field::VALUES, |wire| wire.bytes(field::TEXT, text));
                    }
                });
            });
        }
        self
    }

    fn add(&mut self, attribute: &Attribute, value: impl FnOnce(&mut Wire)) {
        self.wire.message(self.field, |wire| {
            wire.bytes(field::KEY, attribute.name);
            wire.message(field::VALUE, value);
        });
    }
}
