//! The exceptions of a rule: conditions under which it does not fire.

use gc_rules::field::Root;
use gc_rules::rule::Exception;
use jiff::Timestamp;
use strict_yaml::path::KeyPath;

use super::RuleBuilder;
use crate::compile::Wanted;
use crate::document::{ExceptionKeys, Moment};
use crate::load::draft::Draft;
use crate::load::file::typed;
use crate::load::partial_rule::PartialRule;
use crate::load::report::Placed;
use crate::load::text::{entry, items, scalar};

impl RuleBuilder<'_, '_> {
    pub(super) fn exceptions(
        &mut self,
        draft: &Draft<'_>,
        partial: &mut PartialRule<'_>,
        roots: &[Root],
    ) -> Vec<Exception> {
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
                // That it is missing is reported by the check.
                let Some(when) = entry(item, "when") else { continue };
                let node = &when.value;
                let compiled = self.expression(Placed { node, ..*layer }, partial, &key, roots, Wanted::Bool);
                let Some(condition) = compiled else { continue };
                if let Some(Moment(until)) = keys.until {
                    let message = format!("{}: {key}: until: it expired on {}; remove it", partial.id, day(until));
                    let at = entry(item, "until").map_or(item.at, |until| until.value.at);
                    self.expiries.push((until, self.report.at(layer.file, at, message)));
                }
                exceptions.push(Exception {
                    name: name.into(),
                    when: condition.expression,
                    until_unix_ns: keys.until.map(|until| until.0),
                });
            }
        }
        exceptions
    }
}

/// The last day of an exception, in UTC.
fn day(until_unix_ns: u64) -> String {
    let last = Timestamp::from_nanosecond(i128::from(until_unix_ns) - 1);
    last.map_or_else(|_| String::new(), |last| last.strftime("%Y-%m-%d").to_string())
}
