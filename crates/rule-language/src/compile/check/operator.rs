//! Operators: which operands they take.

use gc_rules::expression::{Arithmetic, Comparison, Node};
use gc_rules::field::Root;
use gc_rules::value::Type;
use strict_yaml::check::nearest;

use super::name::{ATTRIBUTES, FIRING};
use super::{Checker, Typed, a};
use crate::compile::measure::{Measure, Unit};
use crate::compile::syntax::{Shape, Tree};
use crate::compile::{attribute, lint};

impl<'a> Checker<'a> {
    /// `a < b`
    pub(super) fn compare(&mut self, tree: &'a Tree, comparison: Comparison, sides: &'a (Tree, Tree)) -> Option<Typed> {
        let (a_part, b_part) = (self.check(&sides.0), self.check(&sides.1));
        let (a_part, b_part) = (a_part?, b_part?);
        let (a_kind, b_kind) = (a_part.kind, b_part.kind);
        let reported = a_part.reported || b_part.reported;
        if a_kind != b_kind && !(a_kind.is_number() && b_kind.is_number()) {
            let message = format!("`{tree}` compares {} with {}", a(a_kind), a(b_kind));
            return self.refuse(tree.at, message);
        }
        let equality = matches!(comparison, Comparison::Equal | Comparison::NotEqual);
        match a_kind {
            Type::Texts => {
                return self.refuse(
                    tree.at,
                    format!("`{tree}` compares lists; ask for a string in one: `'a' in b`"),
                );
            }
            Type::Bool if !equality => {
                let message = format!("`{tree}`: true and false have no order; write `==`, `!=`, `&&` or `!`");
                return self.refuse(tree.at, message);
            }
            _ => {}
        }
        let mut wrong = false;
        if equality {
            wrong |= self.check_word(&a_part.node, sides.1.at, &b_part.node);
            wrong |= self.check_word(&b_part.node, sides.0.at, &a_part.node);
        }
        let measures = [&a_part, &b_part].map(|part| self.measure(part));
        self.check_units(tree, sides, measures, "compare");
        self.warn_of_measure(tree, sides, equality, [&a_part.node, &b_part.node]);
        let node = Node::Compare(comparison, Box::new((a_part.node, b_part.node)));
        let part = self.folded(tree, node, Type::Bool)?;
        let part = Typed {
            reported: reported || wrong,
            ..part
        };
        Some(self.certain_leaf(tree, part))
    }

    fn measure(&self, part: &Typed) -> Measure {
        Measure::of(&part.node, self.names.measures)
    }

    /// Two numbers of different units are a mistake; one without a unit beside one with it is hardly meant.
    fn check_units(&mut self, tree: &Tree, sides: &(Tree, Tree), [a, b]: [Measure; 2], verb: &str) {
        if !self.certain || a.unit.fits(b.unit) {
            return;
        }
        let (first, second) = (&sides.0, &sides.1);
        let (of_first, of_second) = (a.unit.phrase(), b.unit.phrase());
        let has = |unit: &'static str| [a.unit, b.unit].contains(&Unit::Named(unit));
        let hint = match () {
            () if has("percent") && (has("ratio") || [a.unit, b.unit].contains(&Unit::Share)) => {
                "multiply the ratio by 100.0".to_owned()
            }
            () if has("ms") && has("ns") => "take the fields that end in _ms on both sides".to_owned(),
            () => format!("{verb} values of one unit"),
        };
        let is = |tree: &Tree, phrase: &str| format!("`{tree}` is {phrase}");
        let message = format!(
            "`{tree}`: {}, and {}; {hint}",
            is(first, &of_first),
            is(second, &of_second)
        );
        if [a.unit, b.unit].contains(&Unit::Count) {
            self.warning(tree.at, message);
        } else {
            self.mistake(tree.at, message);
        }
    }

    /// Comparisons with a constant that are allowed and hardly meant.
    fn warn_of_measure(&mut self, tree: &Tree, sides: &(Tree, Tree), equality: bool, nodes: [&Node; 2]) {
        let number = |node: &Node| match node {
            Node::Double(number) => Some(number.0),
            Node::Int(number) => Some(*number as f64),
            _ => None,
        };
        let (subject, node, constant) = match (number(nodes[0]), number(nodes[1])) {
            (None, Some(constant)) => (&sides.0, nodes[0], constant),
            (Some(constant), None) => (&sides.1, nodes[1], constant),
            _ => return,
        };
        let measured = matches!(node, Node::Field(field) if field.kind == Type::Double);
        if measured && equality && constant != 0.0 {
            let message =
                format!("`{tree}`: `{subject}` is measured and hardly ever exactly that; compare with `<` or `>`");
            self.warning(tree.at, message);
            return;
        }
        let measure = Measure::of(node, self.names.measures);
        let Some(why) = hardly_meant(measure, constant, matches!(node, Node::Window(_))) else {
            return;
        };
        self.warning(tree.at, format!("`{tree}`: `{subject}` is {why}"));
    }

    /// Whether a string is one that a field never has; that is a mistake.
    fn check_word(&mut self, field: &Node, at: usize, text: &Node) -> bool {
        let (Node::Field(field), Node::Text(text)) = (field, text) else {
            return false;
        };
        let known = field.texts();
        if known.is_empty() || known.contains(&&**text) {
            return false;
        }
        let verb = if field.kind == Type::Texts { "has" } else { "is" };
        let hint = match nearest(text, known.iter().copied()) {
            Some(near) => format!("did you mean '{near}'?"),
            None => format!("it {verb} one of {}", listed(&known)),
        };
        self.mistake(at, format!("`{}` never {verb} '{text}'; {hint}", field.name));
        true
    }

    /// `a + b`
    pub(super) fn compute(&mut self, tree: &'a Tree, arithmetic: Arithmetic, sides: &'a (Tree, Tree)) -> Option<Typed> {
        let (first, second) = (self.number(&sides.0), self.number(&sides.1));
        let (first, second) = (first?, second?);
        let kind = first.kind;
        if kind != second.kind {
            let int = if kind == Type::Int { &sides.0 } else { &sides.1 };
            let how = match int.shape {
                Shape::Int(number) => format!("`{number}.0`"),
                _ => format!("`double({int})`"),
            };
            let message = format!("`{tree}` mixes {} and {}; write {how}", kind.name(), second.kind.name());
            return self.refuse(tree.at, message);
        }
        if arithmetic == Arithmetic::Remainder && kind == Type::Double {
            return self.refuse(tree.at, format!("`{tree}`: `%` is for integers only; write `int(...)`"));
        }
        let by_zero =
            matches!(second.node, Node::Int(0)) || matches!(second.node, Node::Double(number) if number.0 == 0.0);
        if by_zero && matches!(arithmetic, Arithmetic::Divide | Arithmetic::Remainder) {
            return self.refuse(tree.at, format!("`{tree}` divides by zero"));
        }
        if matches!(arithmetic, Arithmetic::Add | Arithmetic::Subtract) {
            let measures = [&first, &second].map(|part| self.measure(part));
            self.check_units(tree, sides, measures, "add and subtract");
        }
        self.folded(
            tree,
            Node::Compute(arithmetic, Box::new((first.node, second.node))),
            kind,
        )
    }

    /// `a ? b : c`
    pub(super) fn choice(&mut self, tree: &'a Tree, parts: &'a (Tree, Tree, Tree)) -> Option<Typed> {
        let condition = self.condition(&parts.0);
        let (this, that) = (self.check(&parts.1), self.check(&parts.2));
        let (condition, this, that) = (condition?, this?, that?);
        if this.kind != that.kind {
            let message = format!(
                "`{tree}` is {} or {}; both have to be of one type",
                a(this.kind),
                a(that.kind)
            );
            return self.refuse(tree.at, message);
        }
        let (kind, reported) = (this.kind, condition.reported || this.reported || that.reported);
        let node = match condition.node {
            Node::Bool(true) => this.node,
            Node::Bool(false) => that.node,
            node => Node::If(Box::new((node, this.node, that.node))),
        };
        Some(Typed { node, kind, reported })
    }

    /// `process.attributes['name']`, `service.firing['rule']`
    pub(super) fn attribute(&mut self, at: usize, sides: &'a (Tree, Tree)) -> Option<Typed> {
        let (Shape::Name(name), Shape::Text(key)) = (&sides.0.shape, &sides.1.shape) else {
            return self.refuse(at, ONLY_ATTRIBUTES);
        };
        if **name == *FIRING {
            self.root(at, FIRING, Root::Service);
            return Some(Typed::new(Node::Firing(key.clone()), Type::Int));
        }
        if **name != *ATTRIBUTES {
            return self.refuse(at, ONLY_ATTRIBUTES);
        }
        self.root(at, ATTRIBUTES, Root::Process);
        if let Some(doubt) = attribute::doubt(key).filter(|_| self.certain) {
            self.warning(sides.1.at, doubt);
        }
        Some(Typed::new(Node::Attribute(key.clone()), Type::Text))
    }

    /// `['a', 'b']`
    pub(super) fn list(&mut self, trees: &'a [Tree]) -> Option<Typed> {
        let mut texts = Some(Vec::new());
        for tree in trees {
            match &tree.shape {
                Shape::Text(text) => {
                    if let Some(texts) = &mut texts {
                        texts.push(text.clone());
                    }
                }
                _ => {
                    self.mistake(tree.at, format!("a list holds strings in quotes; `{tree}` is none"));
                    texts = None;
                }
            }
        }
        Some(Typed::new(Node::Texts(texts?.into()), Type::Texts))
    }

    /// `a in b`
    pub(super) fn membership(&mut self, tree: &'a Tree, sides: &'a (Tree, Tree)) -> Option<Typed> {
        if let Shape::Name(name) = &sides.1.shape
            && **name == *ATTRIBUTES
        {
            let message = format!("write `has({ATTRIBUTES}[{}])`", sides.0);
            return self.refuse(tree.at, message);
        }
        let number = |tree: &Tree| matches!(tree.shape, Shape::Int(_) | Shape::Double(_) | Shape::Negate(_));
        if let Shape::List(list) = &sides.1.shape {
            if list.is_empty() {
                return self.refuse(sides.1.at, format!("`{tree}` is never true: nothing is in the list"));
            }
            if list.iter().all(number) {
                return self.among_numbers(tree, &sides.0, list);
            }
        }
        let (one, many) = (self.check(&sides.0), self.check(&sides.1));
        let (one, many) = (one?, many?);
        if many.kind != Type::Texts {
            let message = format!(
                "`{}` is {}, not a list; strings are compared with `==` and `.contains()`",
                sides.1,
                a(many.kind)
            );
            return self.refuse(sides.1.at, message);
        }
        if one.kind != Type::Text {
            let message = format!("`{tree}`: a list holds strings, and `{}` is {}", sides.0, a(one.kind));
            return self.refuse(tree.at, message);
        }
        let mut wrong = self.check_word(&many.node, sides.0.at, &one.node);
        if let Node::Texts(texts) = &many.node {
            for (index, text) in texts.iter().enumerate() {
                let at = match &sides.1.shape {
                    Shape::List(list) => list.get(index).map_or(sides.1.at, |element| element.at),
                    _ => sides.1.at,
                };
                wrong |= self.check_word(&one.node, at, &Node::Text(text.clone()));
            }
        }
        let part = self.folded(tree, Node::In(Box::new((one.node, many.node))), Type::Bool)?;
        Some(self.certain_leaf(
            tree,
            Typed {
                reported: wrong,
                ..part
            },
        ))
    }

    /// `gc.generation in [0, 1]`: the same as `gc.generation == 0 || gc.generation == 1`.
    fn among_numbers(&mut self, tree: &'a Tree, one: &'a Tree, list: &'a [Tree]) -> Option<Typed> {
        let part = self.number(one)?;
        if !matches!(part.node, Node::Field(_) | Node::Window(_)) {
            return self.refuse(
                one.at,
                format!("`{tree}`: only a field or a window can be looked for among numbers"),
            );
        }
        let mut nodes = Vec::with_capacity(list.len());
        for element in list {
            let number = self.number(element)?;
            let node = Node::Compare(Comparison::Equal, Box::new((part.node.clone(), number.node)));
            if self.certain && lint::certain(&node, self.names.measures) == Some(false) {
                let why = lint::reason(&node, self.names.measures)
                    .map_or_else(String::new, |(_, range)| format!(": it is {range}"));
                return self.refuse(element.at, format!("`{one}` is never `{element}`{why}"));
            }
            nodes.push(node);
        }
        let node = match nodes.len() {
            1 => nodes.pop()?,
            _ => Node::Or(nodes.into()),
        };
        Some(self.certain_leaf(tree, Typed::new(node, Type::Bool)))
    }
}

/// What a number is that hardly is meant to be compared with that constant.
fn hardly_meant(measure: Measure, constant: f64, is_window: bool) -> Option<String> {
    let below = |most: f64| constant > 0.0 && constant < most;
    Some(match measure.unit {
        Unit::Share if constant > 1.0 => "a share, 0 to 1; 5 percent is 0.05".to_owned(),
        Unit::Named("percent") if below(1.0) => "a percentage, 0 to 100; 90 percent is 90".to_owned(),
        Unit::Named("bytes") if below(1024.0) => "in bytes; 100 MB is 100000000".to_owned(),
        Unit::Named("ns") if below(1e4) => "in ns; 200 ms is 200000000".to_owned(),
        Unit::Named("ms") if constant >= 1e7 => "in ms; 1 s is 1000".to_owned(),
        Unit::Count if is_window && below(1.0) => {
            "a count, 0, 1, 2 and so on; a share of the samples is `fn: ratio`".to_owned()
        }
        _ => return None,
    })
}

/// The first of many words, and how many more there are.
fn listed(words: &[&str]) -> String {
    const SHOWN: usize = 12;
    let shown: Vec<&str> = words.iter().take(SHOWN).copied().collect();
    match words.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

const ONLY_ATTRIBUTES: &str =
    "only attributes are named in brackets, and by a string in quotes: `process.attributes['k8s.namespace.name']`";
