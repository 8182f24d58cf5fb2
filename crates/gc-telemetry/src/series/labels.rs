//! Labels that identify a point of a metric.

use std::fmt;

use clr_gc::event::{GcReason, GcType, SuspendReason};
use clr_gc::gc::{AllocatedUnknown, Cause, FIGURES, Figure, HeapGeneration};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;

use crate::definition::{metric, span};
use crate::names::type_name;
use crate::options::{GenerationKey, MetricOptions};
use crate::spans::NotExported;
use crate::value::key_value;

/// Attribute of a point as a number, so that counting a collection does not allocate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Label {
    Generation(HeapGeneration),
    Type(GcType),
    Reason(GcReason),
    Stop(SuspendReason),
    NotExported(NotExported),
    AllocatedUnknown(AllocatedUnknown),
    Figure(Figure),
    Cause(Cause),
    /// Index of a class of requests.
    Route(u8),
    /// Label of the point that aggregates all measurements over the limit of series.
    Overflow,
}

/// Attributes of a point, at most three, packed into one ordered number, because each collection looks up the points of
/// a dozen metrics. From the highest bit, each label has [`BITS`] bits for kind and value; 0 means no label.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Labels(u128);

const BITS: u32 = 40;

impl Labels {
    pub(super) const NONE: Self = Self(0);

    pub(super) const OVERFLOW: Self = Self((Label::OVERFLOW as u128) << 32 << (2 * BITS));

    /// Creates labels from at most three values; unknown values are omitted.
    pub(super) fn new<const N: usize>(labels: [Option<Label>; N]) -> Self {
        const { assert!(N <= 3) }
        let mut all = 0;
        for place in 0..3 {
            let label = labels.get(place).copied().flatten();
            all = all << BITS | u128::from(label.map_or(0, Label::packed));
        }
        Self(all)
    }

    fn labels(self) -> impl Iterator<Item = Label> {
        let packed = move |place: u32| self.0 >> (place * BITS) & ((1 << BITS) - 1);
        (0..3).rev().filter_map(move |place| Label::unpacked(packed(place)))
    }

    pub(super) fn attributes(self, options: &MetricOptions) -> Vec<KeyValue> {
        self.labels().filter_map(|label| label.attribute(options)).collect()
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.labels()).finish()
    }
}

impl Label {
    const GENERATION: u8 = 1;
    const TYPE: u8 = 2;
    const REASON: u8 = 3;
    const STOP: u8 = 4;
    const NOT_EXPORTED: u8 = 5;
    const OVERFLOW: u8 = 6;
    const ROUTE: u8 = 7;
    const ALLOCATED_UNKNOWN: u8 = 8;
    const FIGURE: u8 = 9;
    const CAUSE: u8 = 10;

    fn packed(self) -> u64 {
        let (which, value) = match self {
            Self::Generation(generation) => (Self::GENERATION, generation as u32),
            Self::Type(gc_type) => (Self::TYPE, gc_type.0),
            Self::Reason(reason) => (Self::REASON, reason.0),
            Self::Stop(reason) => (Self::STOP, reason.0),
            Self::NotExported(NotExported::NotSelected) => (Self::NOT_EXPORTED, 0),
            Self::NotExported(NotExported::OverRate) => (Self::NOT_EXPORTED, 1),
            Self::AllocatedUnknown(why) => (Self::ALLOCATED_UNKNOWN, why as u32),
            Self::Figure(figure) => (Self::FIGURE, figure as u32),
            Self::Cause(cause) => (Self::CAUSE, cause as u32),
            Self::Overflow => (Self::OVERFLOW, 0),
            Self::Route(place) => (Self::ROUTE, u32::from(place)),
        };
        u64::from(which) << 32 | u64::from(value)
    }

    fn unpacked(packed: u128) -> Option<Self> {
        let which = u8::try_from(packed >> 32).ok()?;
        let value = u32::try_from(packed & u128::from(u32::MAX)).ok()?;
        Some(match which {
            Self::GENERATION => {
                let mut all = HeapGeneration::ALL.into_iter();
                Self::Generation(all.find(|generation| *generation as u32 == value)?)
            }
            Self::TYPE => Self::Type(GcType(value)),
            Self::REASON => Self::Reason(GcReason(value)),
            Self::STOP => Self::Stop(SuspendReason(value)),
            Self::NOT_EXPORTED if value == 0 => Self::NotExported(NotExported::NotSelected),
            Self::NOT_EXPORTED => Self::NotExported(NotExported::OverRate),
            Self::ALLOCATED_UNKNOWN => {
                let mut all = AllocatedUnknown::ALL.into_iter();
                Self::AllocatedUnknown(all.find(|why| *why as u32 == value)?)
            }
            Self::FIGURE => {
                let mut all = FIGURES.into_iter().map(|(figure, _, _)| figure);
                Self::Figure(all.find(|figure| *figure as u32 == value)?)
            }
            Self::CAUSE => Self::Cause(*Cause::ALL.get(value as usize)?),
            Self::OVERFLOW => Self::Overflow,
            Self::ROUTE => Self::Route(u8::try_from(value).ok()?),
            _ => return None,
        })
    }
}

impl Label {
    /// Returns the attribute; `None` if the class of a request does not exist.
    fn attribute(self, options: &MetricOptions) -> Option<KeyValue> {
        let text = |text: &str| Value::StringValue(text.to_owned());
        let (attribute, value) = match self {
            Self::Generation(generation) => {
                let attribute = match options.generation_key {
                    GenerationKey::Conventions => &span::GENERATION,
                    GenerationKey::Runtime => &metric::RUNTIME_GENERATION,
                };
                (attribute, text(generation.name()))
            }
            Self::Type(gc_type) => (&span::TYPE, text(&type_name(gc_type))),
            Self::Reason(reason) => (&span::REASON, text(&reason.to_string())),
            Self::Stop(reason) => (&metric::STOP_REASON, text(&reason.to_string())),
            Self::NotExported(NotExported::NotSelected) => (&metric::UNEXPORTED, text("not_selected")),
            Self::NotExported(NotExported::OverRate) => (&metric::UNEXPORTED, text("over_rate")),
            Self::AllocatedUnknown(why) => (&metric::ALLOCATED_UNKNOWN_WHY, text(why.name())),
            Self::Figure(figure) => (&metric::FIGURE, text(figure.name())),
            Self::Cause(cause) => (&metric::CAUSE, text(cause.id())),
            Self::Overflow => (&metric::OVERFLOW, Value::BoolValue(true)),
            Self::Route(place) => (&metric::ROUTE, text(options.routes.name(place)?)),
        };
        Some(key_value(attribute.name, value))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn label() -> impl Strategy<Value = Label> {
        prop_oneof![
            prop::sample::select(HeapGeneration::ALL.to_vec()).prop_map(Label::Generation),
            any::<u32>().prop_map(|number| Label::Type(GcType(number))),
            any::<u32>().prop_map(|number| Label::Reason(GcReason(number))),
            any::<u32>().prop_map(|number| Label::Stop(SuspendReason(number))),
            prop::sample::select(vec![NotExported::NotSelected, NotExported::OverRate]).prop_map(Label::NotExported),
            prop::sample::select(AllocatedUnknown::ALL.to_vec()).prop_map(Label::AllocatedUnknown),
            prop::sample::select(Cause::ALL.to_vec()).prop_map(Label::Cause),
            prop::sample::select(FIGURES.to_vec()).prop_map(|(figure, _, _)| Label::Figure(figure)),
            Just(Label::Overflow),
        ]
    }

    proptest! {
        /// Scenario: the labels are arbitrary, including labels of damaged streams and unknown labels.
        /// Guarantee: unpacking returns the labels in the same order, so that two different lists of labels never share
        /// a point.
        #[test]
        fn packed_labels_are_restored(labels in prop::array::uniform3(prop::option::of(label()))) {
            let known: Vec<Label> = labels.iter().copied().flatten().collect();
            prop_assert_eq!(Labels::new(labels).labels().collect::<Vec<_>>(), known);
        }
    }

    /// Scenario: the labels are the overflow labels or empty.
    /// Guarantee: the constants equal the corresponding labels.
    #[test]
    fn constants_match_labels() {
        assert_eq!(Labels::OVERFLOW, Labels::new([Some(Label::Overflow)]));
        assert_eq!(Labels::NONE, Labels::new([]));
    }
}
