//! The exceptions of a rule: conditions and times of day in which it does not fire.

use jiff::Timestamp;

use super::{Composer, Rough};
use crate::compile::Wanted;
use crate::document::{ExceptionKeys, Moment};
use crate::expression::{Expression, Node};
use crate::field::Root;
use crate::load::draft::Draft;
use crate::load::file::typed;
use crate::load::report::Placed;
use crate::load::text::{entry, items, scalar};
use crate::rule::{Clock, EVERY_DAY, Exception};
use crate::value::Type;
use strict_yaml::path::KeyPath;

impl Composer<'_, '_> {
    pub(super) fn exceptions(&mut self, draft: &Draft<'_>, rough: &mut Rough<'_>, roots: &[Root]) -> Vec<Exception> {
        let path = KeyPath::of("rules").index(0).key("exceptions").index(0);
        let mut exceptions = Vec::new();
        for layer in draft.layers("exceptions") {
            for item in items(layer.node) {
                let name = entry(item, "name").and_then(|name| scalar(&name.value));
                let name = name.map_or("", |name| name.text.trim());
                let key = if name.is_empty() {
                    "exceptions".to_owned()
                } else {
                    format!("exceptions.{name}")
                };
                // Invalid keys are reported by the check.
                let keys: ExceptionKeys = typed(item, &path).unwrap_or_default();
                let clock = clock(&keys);
                let always = || {
                    Some(Expression {
                        kind: Type::Bool,
                        node: Node::Bool(true),
                    })
                };
                let condition = match entry(item, "when") {
                    Some(when) => {
                        let node = &when.value;
                        let compiled = self.expression(Placed { node, ..*layer }, rough, &key, roots, Wanted::Bool);
                        compiled.map(|compiled| compiled.expression)
                    }
                    None if clock.is_some() => always(),
                    None => {
                        let message = format!("{}: {key}: set `when`, `between` or `days`", rough.id);
                        self.report.error(layer.file, item.at, message);
                        None
                    }
                };
                if let Some(zone) = entry(item, "zone").filter(|_| clock.is_none()) {
                    let message = format!(
                        "{}: {key}: `zone` is that of `between` and `days`; set one of them",
                        rough.id
                    );
                    self.report.error(layer.file, zone.at, message);
                }
                let Some(condition) = condition else { continue };
                if let Some(Moment(until)) = keys.until {
                    let message = format!("{}: {key}: until: it expired on {}; remove it", rough.id, day(until));
                    let at = entry(item, "until").map_or(item.at, |until| until.value.at);
                    self.expiries.push((until, self.report.at(layer.file, at, message)));
                }
                exceptions.push(Exception {
                    name: name.into(),
                    when: condition,
                    clock,
                    until_unix_ns: keys.until.map(|until| until.0),
                });
            }
        }
        exceptions
    }
}

/// The time of day of an exception; `None`: any.
fn clock(keys: &ExceptionKeys) -> Option<Clock> {
    if keys.between.is_none() && keys.days.is_empty() {
        return None;
    }
    let days = keys.days.iter().fold(0, |days, day| days | day.bit());
    Some(Clock {
        days: if days == 0 { EVERY_DAY } else { days },
        from: keys.between.map_or(0, |between| between.from),
        to: keys.between.map_or(86_400, |between| between.to),
        offset: keys.zone.map_or(0, |zone| zone.0),
    })
}

/// The last day of an exception, in UTC.
fn day(until_unix_ns: u64) -> String {
    let last = Timestamp::from_nanosecond(i128::from(until_unix_ns) - 1);
    last.map_or_else(|_| String::new(), |last| last.strftime("%Y-%m-%d").to_string())
}
