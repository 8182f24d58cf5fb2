//! What is known of a process, for this crate and for the crate `cel`.

use std::collections::HashMap;

use cel::Context;
use gc_rules::field::{FactValue, ProcessFacts, Scope, StreamFacts};
use proptest::prelude::*;
use proptest::{option, sample};

/// What is known of a process; `None` is not.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    pid: Option<u32>,
    major: Option<u32>,
    user: Option<&'static str>,
    service: Option<&'static str>,
    attribute: Option<&'static str>,
    pub(super) server: Option<bool>,
    pub(super) concurrent: Option<bool>,
    pub(super) large_pages: Option<bool>,
    pub(super) adaptation: Option<bool>,
    hard_limit: Option<i64>,
    memory_limit: Option<i64>,
    cpu_limit: Option<f64>,
    lag_ns: Option<u64>,
    windows: [Option<f64>; 2],
}

const TEXTS: [&str; 4] = ["", "a", "ab", "b\u{e9}"];

pub(super) fn facts() -> impl Strategy<Value = Facts> {
    let text = || option::of(sample::select(TEXTS.to_vec()));
    let truth = || option::of(any::<bool>());
    let small = || option::of((0..10u8).prop_map(|number| f64::from(number) / 2.0));
    let whole = prop_oneof![-3..6i64, Just(i64::MAX), Just(i64::MIN)];
    let texts = (text(), text(), text());
    let truths = (truth(), truth(), truth(), truth());
    let numbers = (
        option::of(0..4u32),
        option::of(0..12u32),
        option::of(whole),
        option::of(0..6i64),
    );
    let doubles = (
        small(),
        option::of((0..10u64).prop_map(|half| half * 500_000_000)),
        small(),
        small(),
    );
    (texts, truths, numbers, doubles).prop_map(|(texts, truths, numbers, doubles)| Facts {
        pid: numbers.0,
        major: numbers.1,
        user: texts.0,
        service: texts.1,
        attribute: texts.2,
        server: truths.0,
        concurrent: truths.1,
        large_pages: truths.2,
        adaptation: truths.3,
        hard_limit: numbers.2,
        memory_limit: numbers.3,
        cpu_limit: doubles.0,
        lag_ns: doubles.1,
        windows: [doubles.2, doubles.3],
    })
}

impl Facts {
    /// An integer of it has more bits than a double.
    pub(super) fn is_huge(&self) -> bool {
        let known = [self.hard_limit, self.memory_limit].into_iter().flatten();
        known.map(i64::unsigned_abs).any(|number| number > 1 << 53)
    }

    /// What `each` makes of it.
    pub(super) fn evaluate<T>(&self, each: impl FnOnce(&Scope<'_>) -> T) -> T {
        let text = |text: &str| FactValue::Text(text.into());
        let attributes = [
            ("process.owner", self.user.map(text)),
            ("service.name", self.service.map(text)),
            ("x", self.attribute.map(text)),
            ("gcwatch.gc.settings.server", self.server.map(FactValue::Bool)),
            ("gcwatch.gc.settings.concurrent", self.concurrent.map(FactValue::Bool)),
            ("gcwatch.gc.settings.large_pages", self.large_pages.map(FactValue::Bool)),
            (
                "gcwatch.gc.settings.dynamic_adaptation",
                self.adaptation.map(FactValue::Bool),
            ),
            ("gcwatch.gc.settings.hard_limit", self.hard_limit.map(FactValue::Int)),
            ("gcwatch.container.memory.limit", self.memory_limit.map(FactValue::Int)),
            ("gcwatch.container.cpu.limit", self.cpu_limit.map(FactValue::Double)),
        ];
        let resource = attributes
            .into_iter()
            .filter_map(|(key, value)| Some((key.into(), value?)));
        let runtime = self.major.map(|major| format!("{major}.0.1"));
        let process = ProcessFacts::new(self.pid, None, runtime.as_deref(), resource);
        let stream = StreamFacts {
            lag_ns: self.lag_ns,
            ..StreamFacts::default()
        };
        each(&Scope {
            gc: None,
            suspension: None,
            process: &process,
            stream: &stream,
            windows: &self.windows,
            now: gc_rules::time::Moment::FIRST,
        })
    }

    /// The same for the crate `cel`: what is not known is not there.
    pub(super) fn context(&self) -> Context<'static, 'static> {
        type Map = HashMap<String, cel::Value>;
        let map = |entries: Vec<(&str, Option<cel::Value>)>| -> Map {
            entries
                .into_iter()
                .filter_map(|(key, value)| Some((key.to_owned(), value?)))
                .collect()
        };
        let (int, text) = (
            |number: i64| cel::Value::Int(number),
            |text: &str| cel::Value::from(text),
        );
        let attributes = map(vec![("x", self.attribute.map(text))]);
        let process = vec![
            ("pid", self.pid.map(|pid| int(pid.into()))),
            ("runtime_major", self.major.map(|major| int(major.into()))),
            ("user", self.user.map(text)),
            ("service", self.service.map(text)),
            ("attributes", Some(attributes.into())),
        ];
        let settings = vec![
            ("server", self.server.map(cel::Value::Bool)),
            ("concurrent", self.concurrent.map(cel::Value::Bool)),
            ("large_pages", self.large_pages.map(cel::Value::Bool)),
            ("dynamic_adaptation", self.adaptation.map(cel::Value::Bool)),
            ("hard_limit", self.hard_limit.map(int)),
        ];
        let container = vec![
            ("memory_limit", self.memory_limit.map(int)),
            ("cpu_limit", self.cpu_limit.map(cel::Value::Float)),
        ];
        let stream = vec![("lag_s", self.lag_ns.map(|ns| cel::Value::Float(ns as f64 / 1e9)))];
        let mut context = Context::default();
        for (root, entries) in [
            ("process", process),
            ("settings", settings),
            ("container", container),
            ("stream", stream),
        ] {
            context.add_variable_from_value(root, map(entries));
        }
        for (name, value) in [("pause_share", self.windows[0]), ("collections", self.windows[1])] {
            if let Some(value) = value {
                context.add_variable_from_value(name, cel::Value::Float(value));
            }
        }
        context
    }
}
