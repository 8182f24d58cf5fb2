//! Functions: those that rules have, and what is said of others.

use gc_rules::expression::{Node, Pattern, TextTest};
use gc_rules::value::Type;
use regex::RegexBuilder;
use strict_yaml::check::nearest;

use super::{Checker, Typed, a};
use crate::compile::syntax::{Call, Shape, Tree};

/// Most bytes that a pattern may take when it is compiled: `\w` alone takes some thousand.
const PATTERN_BYTES: usize = 1 << 20;

/// All functions, as they are written.
const FUNCTIONS: [&str; 8] = [
    "has",
    "size",
    "double",
    "int",
    "contains",
    "startsWith",
    "endsWith",
    "matches",
];

impl<'a> Checker<'a> {
    /// A call.
    pub(super) fn call(&mut self, tree: &'a Tree, call: &'a Call) -> Option<Typed> {
        let arguments = call.arguments.as_slice();
        match (&*call.name, call.receiver.as_deref(), arguments) {
            ("has", None, [argument]) => self.has(tree, argument),
            ("size", None, [argument]) | ("size", Some(argument), []) => self.size(tree, argument),
            ("double", None, [argument]) => {
                let part = self.number(argument)?;
                match part.kind {
                    Type::Double => Some(part),
                    _ => self.folded(tree, Node::ToDouble(Box::new(part.node)), Type::Double),
                }
            }
            ("int", None, [argument]) => {
                let part = self.number(argument)?;
                match part.kind {
                    Type::Int => Some(part),
                    _ => self.folded(tree, Node::ToInt(Box::new(part.node)), Type::Int),
                }
            }
            ("matches", Some(receiver), [pattern]) => self.matches(tree, receiver, pattern),
            ("contains" | "startsWith" | "endsWith", Some(receiver), [argument]) => {
                self.text_test(tree, &call.name, receiver, argument)
            }
            _ => {
                let message = refusal(call);
                self.refuse(tree.at, message)
            }
        }
    }

    /// `has(gc.trigger)`
    fn has(&mut self, tree: &'a Tree, argument: &'a Tree) -> Option<Typed> {
        let known = match &argument.shape {
            Shape::Name(name) => !self.names.macros.contains_key(&**name) && !self.names.lists.contains_key(&**name),
            Shape::Index(_) => true,
            _ => false,
        };
        if !known {
            let message = format!("`{tree}`: `has` asks of a field, an attribute or a window whether it is known");
            return self.refuse(tree.at, message);
        }
        let part = self.check(argument)?;
        Some(Typed::new(Node::Has(Box::new(part.node)), Type::Bool))
    }

    /// `size(a)`
    fn size(&mut self, tree: &'a Tree, argument: &'a Tree) -> Option<Typed> {
        let part = self.check(argument)?;
        if !matches!(part.kind, Type::Text | Type::Texts) {
            let message = format!(
                "`{tree}`: only strings and lists have a size; `{argument}` is {}",
                a(part.kind)
            );
            return self.refuse(tree.at, message);
        }
        self.folded(tree, Node::Size(Box::new(part.node)), Type::Int)
    }

    /// `a.contains(b)` and its like.
    fn text_test(&mut self, tree: &'a Tree, name: &str, receiver: &'a Tree, argument: &'a Tree) -> Option<Typed> {
        let whole = self.check(receiver);
        let part = self.text(argument);
        let whole = self.receiver(tree, receiver, whole?)?;
        let part = Box::new(part?.node);
        let test = match name {
            "contains" => TextTest::Contains(part),
            "startsWith" => TextTest::StartsWith(part),
            _ => TextTest::EndsWith(part),
        };
        self.test(tree, whole, test)
    }

    /// `a.matches('...')`
    fn matches(&mut self, tree: &'a Tree, receiver: &'a Tree, pattern: &'a Tree) -> Option<Typed> {
        let whole = self.check(receiver);
        let Shape::Text(text) = &pattern.shape else {
            return self.refuse(
                pattern.at,
                "a pattern has to stand in quotes: it is compiled when the file is read",
            );
        };
        let regex = RegexBuilder::new(text)
            .size_limit(PATTERN_BYTES)
            .dfa_size_limit(PATTERN_BYTES)
            .nest_limit(32)
            .build();
        let whole = self.receiver(tree, receiver, whole?)?;
        match regex {
            Ok(regex) => self.test(tree, whole, TextTest::Matches(Box::new(Pattern(regex)))),
            Err(error) => {
                let error = error.to_string();
                let last = error.lines().last().unwrap_or("").trim_start_matches("error: ");
                self.refuse(pattern.at, format!("{pattern} is no pattern: {last}"))
            }
        }
    }

    fn receiver(&mut self, tree: &Tree, receiver: &Tree, part: Typed) -> Option<Node> {
        match part.kind {
            Type::Text => Some(part.node),
            Type::Texts => self.refuse(
                tree.at,
                format!("`{tree}`: `{receiver}` is a list; write `'a' in {receiver}`"),
            ),
            kind => self.refuse(tree.at, format!("`{tree}`: `{receiver}` is {}, not a string", a(kind))),
        }
    }

    fn test(&mut self, tree: &Tree, whole: Node, test: TextTest) -> Option<Typed> {
        let part = self.folded(tree, Node::Test(Box::new(whole), test), Type::Bool)?;
        Some(self.certain_leaf(tree, part))
    }
}

/// What is said of a call that rules do not have.
fn refusal(call: &Call) -> String {
    let name = &*call.name;
    match name {
        "has" => "`has` is written `has(gc.trigger)`".to_owned(),
        "size" | "double" | "int" => format!("`{name}` is written `{name}(a)`: it takes one value"),
        "contains" | "startsWith" | "endsWith" | "matches" => {
            format!("`{name}` is written `a.{name}('b')`: it looks for one string in another")
        }
        "all" | "exists" | "exists_one" | "existsOne" | "map" | "filter" => {
            format!("rules do not go through lists (`{name}`): write `'a' in b`, or a window for several collections")
        }
        "duration" => {
            let number = match call.arguments.as_slice() {
                [argument] => match &argument.shape {
                    Shape::Text(text) => milliseconds(text),
                    _ => None,
                },
                _ => None,
            };
            let number = number.unwrap_or_else(|| "1000.0".to_owned());
            format!("durations are numbers; beside a field in ms write `{number}`")
        }
        "timestamp" | "now" => "rules have no points in time; a window says how far back it reaches".to_owned(),
        "string" | "bool" | "uint" | "bytes" | "dyn" | "type" => {
            format!("rules do not convert with `{name}`; `double(a)` and `int(a)` convert numbers")
        }
        _ => match nearest(name, FUNCTIONS) {
            Some(near) => format!("unknown function `{name}`; did you mean `{near}`?"),
            None => format!("unknown function `{name}`; there are {}", FUNCTIONS.join(", ")),
        },
    }
}

/// `1.5s` as `1500.0`.
fn milliseconds(text: &str) -> Option<String> {
    const UNITS: [(&str, f64); 4] = [("ms", 1.0), ("s", 1e3), ("m", 6e4), ("h", 3.6e6)];
    UNITS.iter().find_map(|(unit, factor)| {
        let number: f64 = text.strip_suffix(unit)?.parse().ok()?;
        let number = number * factor;
        number.is_finite().then(|| format!("{number:?}"))
    })
}
