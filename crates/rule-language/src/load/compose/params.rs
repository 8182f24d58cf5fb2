//! The parameters of a rule: one expression for each name.
//!
//! A parameter with one value is that constant, so conditions with it are checked as if it stood there. With other
//! values for some processes it is a choice by their `select`, of which unknown is false.

use std::collections::BTreeMap;
use std::sync::Arc;

use gc_rules::expression::{Double, Expression, Node};
use gc_rules::field::Root;
use gc_rules::rule::Param;
use gc_rules::value::Type;
use strict_yaml::check::nearest;
use strict_yaml::quote::quoted;
use strict_yaml::yaml::{Position, Scalar};

use super::RuleBuilder;
use crate::compile::Wanted;
use crate::document::is_name;
use crate::load::draft::Draft;
use crate::load::partial_rule::PartialRule;
use crate::load::report::Placed;
use crate::load::text::{entries, entry, items, scalar};

/// Values by name, each with its place.
type Values<'d> = BTreeMap<&'d str, (Placed<'d>, Position, &'d Scalar)>;

/// Values for some processes.
struct Special<'d> {
    select: Expression,
    text: &'d str,
    values: Values<'d>,
}

impl RuleBuilder<'_, '_> {
    /// Reads the parameters of a rule, for its expressions.
    pub(super) fn params_of(&mut self, draft: &Draft<'_>, partial: &mut PartialRule<'_>) -> Vec<Param> {
        let mut own: Values<'_> = BTreeMap::new();
        for layer in draft.layers("params") {
            own.extend(values(*layer));
        }
        let faults: Vec<_> = own
            .iter()
            .filter_map(|(name, (placed, at, _))| Some((placed.file, *at, self.name_fault(placed.file, name)?)))
            .collect();
        for (file, at, fault) in faults {
            self.report.error(file, at, format!("{}: params: {fault}", draft.id));
        }
        let special = self.special(draft, partial, &own);
        let mut params = Vec::new();
        for (name, (placed, at, scalar)) in &own {
            let others = special
                .iter()
                .filter_map(|special| Some((special, special.values.get(name)?)));
            let mut kind = constant(scalar).0;
            for (_, (other, other_at, scalar)) in others.clone() {
                match (kind, constant(scalar).0) {
                    (before, other) if before == other => {}
                    (before, other) if before.is_number() && other.is_number() => kind = Type::Double,
                    (before, now) => {
                        let message = format!(
                            "{}: params_for: `{name}` is of type {}, and of type {} here",
                            draft.id,
                            before.name(),
                            now.name()
                        );
                        self.report.error(other.file, *other_at, message);
                    }
                }
            }
            let node = others
                .clone()
                .rev()
                .fold(value(scalar, kind), |otherwise, (special, (.., scalar))| {
                    let select = special.select.node.clone();
                    let known = Node::Has(Box::new(select.clone()));
                    let applies = Node::And([known, select].into());
                    Node::If(Box::new((applies, value(scalar, kind), otherwise)))
                });
            let shown = |scalar: &Scalar| -> Arc<str> { scalar.text.trim().into() };
            params.push(Param {
                name: (*name).into(),
                value: shown(scalar),
                others: others
                    .map(|(special, (.., scalar))| (special.text.trim().into(), shown(scalar)))
                    .collect(),
            });
            partial.params.insert((*name).to_owned(), Expression { kind, node });
            partial.params_at.insert((*name).to_owned(), (placed.file, *at));
        }
        params
    }

    fn name_fault(&self, file: usize, name: &str) -> Option<String> {
        let words = self.words.get(file);
        match is_name(name) {
            Err(message) => Some(message),
            Ok(()) if words.is_some_and(|words| words.places.contains_key(name)) => {
                Some(format!("the file has a macro or list `{name}`"))
            }
            Ok(()) => None,
        }
    }

    /// The entries of `params_for`, those that take precedence first.
    fn special<'d>(&mut self, draft: &Draft<'d>, partial: &mut PartialRule<'_>, own: &Values<'_>) -> Vec<Special<'d>> {
        let mut all = Vec::new();
        for layer in draft.layers("params_for").iter().rev() {
            for item in items(layer.node) {
                let (Some(select), Some(params)) = (entry(item, "select"), entry(item, "params")) else {
                    continue;
                };
                let placed = |node| Placed { node, ..*layer };
                let values: Values<'d> = values(placed(&params.value)).collect();
                for (name, (_, at, _)) in values.iter().filter(|(name, _)| !own.contains_key(*name)) {
                    let near = nearest(name, own.keys().copied());
                    let hint = near.map_or_else(
                        || "set its value for all other processes under `params`".to_owned(),
                        |near| format!("did you mean `{near}`?"),
                    );
                    let message = format!(
                        "{}: params_for: the rule has no parameter {}; {hint}",
                        draft.id,
                        quoted(name)
                    );
                    self.report.error(layer.file, *at, message);
                }
                let text = scalar(&select.value).map_or("", |scalar| &scalar.text);
                let of = placed(&select.value);
                if let Some(compiled) =
                    self.expression(of, partial, "params_for.select", &[Root::Process], Wanted::Bool)
                {
                    all.push(Special {
                        select: compiled.expression,
                        text,
                        values,
                    });
                }
            }
        }
        all
    }
}

fn values<'d>(placed: Placed<'d>) -> impl Iterator<Item = (&'d str, (Placed<'d>, Position, &'d Scalar))> {
    entries(placed.node).iter().filter_map(move |entry| {
        let node = &entry.value;
        let value = (Placed { node, ..placed }, entry.at, scalar(node)?);
        Some((entry.key.as_str(), value))
    })
}

/// The value of an unquoted number or boolean; else it is a string.
fn constant(scalar: &Scalar) -> (Type, Node) {
    let text = scalar.text.trim();
    let number = || text.parse::<f64>().ok().filter(|number| number.is_finite());
    let digit = text.contains(|c: char| c.is_ascii_digit());
    match text {
        _ if !scalar.plain => {}
        "true" | "false" => return (Type::Bool, Node::Bool(text == "true")),
        _ => {
            if let Ok(number) = text.parse() {
                return (Type::Int, Node::Int(number));
            }
            if let Some(number) = number().filter(|_| digit) {
                return (Type::Double, Node::Double(Double(number)));
            }
        }
    }
    (Type::Text, Node::Text(text.into()))
}

/// The same; an integer as a double where that is the parameter's type.
fn value(scalar: &Scalar, kind: Type) -> Node {
    match constant(scalar).1 {
        Node::Int(number) if kind == Type::Double => Node::Double(Double(number as f64)),
        node => node,
    }
}
