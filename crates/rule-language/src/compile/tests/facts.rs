//! Facts about a process, for this crate and for the crate `cel`.

use std::collections::HashMap;

use base::time::Moment;
use cel::Context;
use proptest::prelude::*;
use proptest::{option, sample};
use rule_engine::field::{FactValue, ProcessFacts, Scope, StreamFacts};

/// Facts about a process; `None` if unknown.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    pid: Option<u32>,
    major: Option<u32>,
    lag_ns: Option<u64>,
    /// Values in the order of [`ATTRIBUTES`].
    attributes: Vec<Option<FactValue>>,
    windows: [Option<f64>; 2],
}

/// The fields that are attributes: root and name of the field, and the attribute.
const ATTRIBUTES: [(&str, &str, &str); 10] = [
    ("process", "user", "process.owner"),
    ("process", "service", "service.name"),
    ("attributes", "x", "x"),
    ("settings", "server", "gcwatch.gc.settings.server"),
    ("settings", "concurrent", "gcwatch.gc.settings.concurrent"),
    ("settings", "large_pages", "gcwatch.gc.settings.large_pages"),
    (
        "settings",
        "dynamic_adaptation",
        "gcwatch.gc.settings.dynamic_adaptation",
    ),
    ("settings", "hard_limit", "gcwatch.gc.settings.hard_limit"),
    ("container", "memory_limit", "gcwatch.container.memory.limit"),
    ("container", "cpu_limit", "gcwatch.container.cpu.limit"),
];

const TEXTS: [&str; 4] = ["", "a", "ab", "b\u{e9}"];

pub(super) fn facts() -> impl Strategy<Value = Facts> {
    let text = || option::of(sample::select(TEXTS.to_vec()).prop_map(|text| FactValue::Text(text.into())));
    let truth = || option::of(any::<bool>().prop_map(FactValue::Bool));
    let small = || option::of((0..10u8).prop_map(|number| f64::from(number) / 2.0));
    let hard_limit = prop_oneof![-3..6i64, Just(i64::MAX), Just(i64::MIN)];
    let int = |number: BoxedStrategy<i64>| option::of(number.prop_map(FactValue::Int));
    let attributes = (
        [text(), text(), text()],
        [truth(), truth(), truth(), truth()],
        [int(hard_limit.boxed()), int((0..6i64).boxed())],
        small().prop_map(|number| [number.map(FactValue::Double)]),
    );
    let attributes = attributes.prop_map(|(texts, truths, ints, doubles)| {
        let all = texts.into_iter().chain(truths).chain(ints).chain(doubles);
        all.collect()
    });
    let lag_ns = option::of((0..10u64).prop_map(|half| half * 500_000_000));
    let numbers = (option::of(0..4u32), option::of(0..12u32), lag_ns);
    (numbers, attributes, [small(), small()]).prop_map(|((pid, major, lag_ns), attributes, windows)| Facts {
        pid,
        major,
        lag_ns,
        attributes,
        windows,
    })
}

impl Facts {
    /// Returns the known fields that are attributes.
    fn known(&self) -> impl Iterator<Item = (&'static (&'static str, &'static str, &'static str), &FactValue)> {
        let all = ATTRIBUTES.iter().zip(&self.attributes);
        all.filter_map(|(attribute, value)| Some((attribute, value.as_ref()?)))
    }

    /// Returns a boolean setting.
    pub(super) fn setting(&self, name: &str) -> Option<bool> {
        let (_, value) = self.known().find(|((_, known, _), _)| *known == name)?;
        Some(*value == FactValue::Bool(true))
    }

    /// Returns whether an integer has more bits than a double can represent.
    pub(super) fn is_huge(&self) -> bool {
        let mut known = self.known();
        known.any(|(_, value)| matches!(value, FactValue::Int(number) if number.unsigned_abs() > 1 << 53))
    }

    /// Calls `each` with a scope that contains the facts.
    pub(super) fn evaluate<T>(&self, each: impl FnOnce(&Scope<'_>) -> T) -> T {
        let resource = self.known().map(|((.., name), value)| ((*name).into(), value.clone()));
        let runtime = self.major.map(|major| format!("{major}.0.1"));
        let process = ProcessFacts::new(self.pid, None, runtime.as_deref(), resource);
        let stream = StreamFacts {
            lag_ns: self.lag_ns,
            ..StreamFacts::default()
        };
        each(&Scope {
            windows: &self.windows,
            ..Scope::new(&process, &stream, Moment::FIRST)
        })
    }

    /// Returns the facts as a context for the crate `cel`, without unknown values.
    pub(super) fn context(&self) -> Context<'static, 'static> {
        let below = |root: &str| -> HashMap<String, cel::Value> {
            let own = self.known().filter(|((of, ..), _)| *of == root);
            let value = |value: &FactValue| match value {
                FactValue::Text(text) => cel::Value::from(&**text),
                FactValue::Int(number) => cel::Value::Int(*number),
                FactValue::Double(number) => cel::Value::Float(*number),
                FactValue::Bool(truth) => cel::Value::Bool(*truth),
            };
            own.map(|((_, name, _), known)| ((*name).to_owned(), value(known)))
                .collect()
        };
        let int = |number: u32| cel::Value::Int(number.into());
        let mut process = below("process");
        process.insert("attributes".to_owned(), below("attributes").into());
        process.extend(self.pid.map(|pid| ("pid".to_owned(), int(pid))));
        process.extend(self.major.map(|major| ("runtime_major".to_owned(), int(major))));
        let lag_s = self.lag_ns.map(|ns| cel::Value::Float(ns as f64 / 1e9));
        let stream: HashMap<String, cel::Value> = lag_s.map(|lag| ("lag_s".to_owned(), lag)).into_iter().collect();
        let mut context = Context::default();
        for (root, entries) in [
            ("process", process),
            ("settings", below("settings")),
            ("container", below("container")),
            ("stream", stream),
        ] {
            context.add_variable_from_value(root, entries);
        }
        for (name, value) in [("pause_share", self.windows[0]), ("collections", self.windows[1])] {
            if let Some(value) = value {
                context.add_variable_from_value(name, cel::Value::Float(value));
            }
        }
        context
    }
}
