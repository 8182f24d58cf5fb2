//! Protobuf encoder that writes directly into bytes.
//!
//! The spans of a collection have some eighty attributes. As messages of `opentelemetry-proto`, each attribute has two
//! strings and a box that are allocated only for one encoding: these allocations were half the cost of the export of a
//! collection. This module writes spans field by field in the order of the field numbers, which is also the order of
//! `prost`.

/// Layout of a field's value: the low bits of its tag.
#[derive(Clone, Copy)]
enum Layout {
    Varint = 0,
    Fixed64 = 1,
    Delimited = 2,
    Fixed32 = 5,
}

/// Message that is written. Fields belong to the innermost open message.
#[derive(Debug, Default)]
pub(crate) struct Wire(Vec<u8>);

impl Wire {
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self(Vec::with_capacity(bytes))
    }

    pub(crate) fn into_bytes(self) -> Box<[u8]> {
        self.0.into_boxed_slice()
    }

    /// Writes a string or bytes.
    pub(crate) fn bytes(&mut self, field: u32, value: impl AsRef<[u8]>) {
        let value = value.as_ref();
        self.tag(field, Layout::Delimited);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
    }

    /// Writes a string or bytes; the empty default is not written.
    pub(crate) fn bytes_unless_empty(&mut self, field: u32, value: impl AsRef<[u8]>) {
        if !value.as_ref().is_empty() {
            self.bytes(field, value);
        }
    }

    /// Writes a number of type `uint64`, `uint32`, `int64` (as two's complement), `bool` or an enumeration.
    pub(crate) fn number(&mut self, field: u32, value: u64) {
        self.tag(field, Layout::Varint);
        self.varint(value);
    }

    pub(crate) fn fixed32(&mut self, field: u32, value: u32) {
        self.tag(field, Layout::Fixed32);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// Writes eight bytes; the default 0 is not written.
    pub(crate) fn fixed64_unless_zero(&mut self, field: u32, value: u64) {
        if value != 0 {
            self.tag(field, Layout::Fixed64);
            self.0.extend_from_slice(&value.to_le_bytes());
        }
    }

    pub(crate) fn double(&mut self, field: u32, value: f64) {
        self.tag(field, Layout::Fixed64);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// Writes a nested message; `content` writes its fields.
    pub(crate) fn message(&mut self, field: u32, content: impl FnOnce(&mut Self)) {
        self.tag(field, Layout::Delimited);
        let place = self.0.len();
        // Most lengths have one byte. For a longer length, the content is moved.
        self.0.push(0);
        content(self);
        let length = (self.0.len() - place - 1) as u64;
        match (u8::try_from(length), self.0.get_mut(place)) {
            (Ok(short), Some(byte)) if short < 0x80 => *byte = short,
            _ => {
                let mut long = Self::default();
                long.varint(length);
                self.0.splice(place..=place, long.0);
            }
        }
    }

    fn tag(&mut self, field: u32, layout: Layout) {
        self.varint(u64::from(field << 3 | layout as u32));
    }

    #[inline]
    fn varint(&mut self, mut rest: u64) {
        while rest > 0x7f {
            self.0.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        self.0.push(rest as u8);
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::common::v1::any_value::Value;
    use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
    use opentelemetry_proto::tonic::trace::v1::Span;
    use proptest::prelude::*;
    use prost::Message;

    use super::*;

    proptest! {
        /// Scenario: a span has arbitrary ids, texts, times and numbers, and an attribute with a key whose length has
        /// up to three bytes.
        /// Guarantee: the bytes equal the bytes of the generated types.
        #[test]
        fn bytes_match_generated_types(
            id in proptest::collection::vec(any::<u8>(), 0..20),
            key in prop_oneof!["[a-z]{0,40}", "[a-z]{100,200}", "[a-z]{16300,16500}"],
            name in ".{0,20}",
            at in prop_oneof![Just(0), any::<u64>()],
            flags in 1u32..,
            int in any::<i64>(),
            double in any::<f64>(),
        ) {
            let values = [Value::IntValue(int), Value::DoubleValue(double), Value::StringValue(name.clone()), Value::BoolValue(true)];
            let span = Span {
                trace_id: id.clone(),
                name: name.clone(),
                start_time_unix_nano: at,
                flags,
                attributes: values.map(|value| KeyValue {
                    key: key.clone(),
                    value: Some(AnyValue { value: Some(value) }),
                    ..KeyValue::default()
                }).to_vec(),
                ..Span::default()
            };
            let mut wire = Wire::default();
            wire.bytes_unless_empty(1, &id);
            wire.bytes_unless_empty(5, &name);
            wire.fixed64_unless_zero(7, at);
            for place in 0..4 {
                wire.message(9, |wire| {
                    wire.bytes_unless_empty(1, &key);
                    wire.message(2, |wire| match place {
                        0 => wire.number(3, int as u64),
                        1 => wire.double(4, double),
                        2 => wire.bytes(1, &name),
                        _ => wire.number(2, 1),
                    });
                });
            }
            wire.fixed32(16, flags);
            prop_assert_eq!(&*wire.into_bytes(), span.encode_to_vec());
        }
    }
}
