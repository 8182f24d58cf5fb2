//! What the points of a metric are told apart by.

use clr_gc::event::{GcReason, GcType, SuspendReason};
use clr_gc::gc::HeapGeneration;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;

use crate::telemetry::definition::{metric, span};
use crate::telemetry::names::type_name;
use crate::telemetry::options::GenerationKey;
use crate::telemetry::spans::LeftOut;
use crate::telemetry::value::key_value;

/// One attribute of a point. They are numbers: a collection is counted without an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Label {
    Generation(HeapGeneration),
    Type(GcType),
    Reason(GcReason),
    Stop(SuspendReason),
    Untold(LeftOut),
    /// The point of all that is over the limit of series.
    Overflow,
}

/// The attributes of a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Labels([Option<Label>; 3]);

impl Labels {
    pub(super) const NONE: Self = Self([None; 3]);

    pub(super) const OVERFLOW: Self = Self([Some(Label::Overflow), None, None]);

    /// At most three; one that is not known is left out.
    pub(super) fn of<const N: usize>(labels: [Option<Label>; N]) -> Self {
        const { assert!(N <= 3) }
        let mut all = [None; 3];
        for (place, label) in all.iter_mut().zip(labels) {
            *place = label;
        }
        Self(all)
    }

    pub(super) fn attributes(self, generation_key: GenerationKey) -> Vec<KeyValue> {
        let attribute = |label: Label| label.attribute(generation_key);
        self.0.into_iter().flatten().map(attribute).collect()
    }
}

impl Label {
    fn attribute(self, generation_key: GenerationKey) -> KeyValue {
        let text = |text: &str| Value::StringValue(text.to_owned());
        let (attribute, value) = match self {
            Self::Generation(generation) => {
                let attribute = match generation_key {
                    GenerationKey::Conventions => &span::GENERATION,
                    GenerationKey::Runtime => &metric::RUNTIME_GENERATION,
                };
                (attribute, text(generation.name()))
            }
            Self::Type(gc_type) => (&span::TYPE, text(&type_name(gc_type))),
            Self::Reason(reason) => (&span::REASON, text(&reason.to_string())),
            Self::Stop(reason) => (&metric::STOP_REASON, text(&reason.to_string())),
            Self::Untold(LeftOut::NotSelected) => (&metric::UNTOLD, text("not_selected")),
            Self::Untold(LeftOut::OverRate) => (&metric::UNTOLD, text("over_rate")),
            Self::Overflow => (&metric::OVERFLOW, Value::BoolValue(true)),
        };
        key_value(attribute.name, value)
    }
}
