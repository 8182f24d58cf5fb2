//! Operators: which operands they take.

use super::check::{Checker, Part, a};
use super::lint;
use super::name::{ATTRIBUTES, words};
use super::syntax::{Shape, Tree};
use crate::expression::{Arithmetic, Comparison, Node};
use crate::field::Root;
use crate::value::Type;
use strict_yaml::check::nearest;

impl<'a> Checker<'a> {
    /// `a < b`
    pub(super) fn compare(&mut self, tree: &'a Tree, comparison: Comparison, sides: &'a (Tree, Tree)) -> Option<Part> {
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
        self.warn_of_measure(tree, equality, &a_part.node, &b_part.node);
        let node = Node::Compare(comparison, Box::new((a_part.node, b_part.node)));
        let part = self.folded(tree, node, Type::Bool)?;
        let part = Part {
            reported: reported || wrong,
            ..part
        };
        Some(self.certain_leaf(tree, part))
    }

    /// Comparisons that are allowed and hardly meant.
    fn warn_of_measure(&mut self, tree: &Tree, equality: bool, a: &Node, b: &Node) {
        let (field, constant) = match (a, b) {
            (Node::Field(field), Node::Double(constant)) | (Node::Double(constant), Node::Field(field)) => {
                (field, constant.0)
            }
            (Node::Field(field), Node::Int(constant)) | (Node::Int(constant), Node::Field(field)) => {
                (field, *constant as f64)
            }
            _ => return,
        };
        if field.kind == Type::Double && equality && constant != 0.0 {
            let message = format!(
                "`{tree}`: `{}` is measured and hardly ever exactly that; compare with `<` or `>`",
                field.name
            );
            self.warning(tree.at, message);
        } else if field.unit == "ratio" && constant > 1.0 {
            let message = format!("`{tree}`: `{}` is a share, 0 to 1; 5 percent is 0.05", field.name);
            self.warning(tree.at, message);
        }
    }

    /// Whether a string is one that a field never has; that is a mistake.
    fn check_word(&mut self, field: &Node, at: usize, text: &Node) -> bool {
        let (Node::Field(field), Node::Text(text)) = (field, text) else {
            return false;
        };
        let known = words(field);
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
    pub(super) fn compute(&mut self, tree: &'a Tree, arithmetic: Arithmetic, sides: &'a (Tree, Tree)) -> Option<Part> {
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
        let by_zero = matches!(second.node, Node::Int(0));
        if by_zero && matches!(arithmetic, Arithmetic::Divide | Arithmetic::Remainder) {
            return self.refuse(tree.at, format!("`{tree}` divides by zero"));
        }
        self.folded(
            tree,
            Node::Compute(arithmetic, Box::new((first.node, second.node))),
            kind,
        )
    }

    /// `a ? b : c`
    pub(super) fn choice(&mut self, tree: &'a Tree, parts: &'a (Tree, Tree, Tree)) -> Option<Part> {
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
        Some(Part { node, kind, reported })
    }

    /// `process.attributes['name']`
    pub(super) fn attribute(&mut self, at: usize, sides: &'a (Tree, Tree)) -> Option<Part> {
        let (Shape::Name(name), Shape::Text(key)) = (&sides.0.shape, &sides.1.shape) else {
            return self.refuse(at, ONLY_ATTRIBUTES);
        };
        if **name != *ATTRIBUTES {
            return self.refuse(at, ONLY_ATTRIBUTES);
        }
        self.root(at, ATTRIBUTES, Root::Process);
        Some(Part::new(Node::Attribute(key.clone()), Type::Text))
    }

    /// `['a', 'b']`
    pub(super) fn list(&mut self, trees: &'a [Tree]) -> Option<Part> {
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
        Some(Part::new(Node::Texts(texts?.into()), Type::Texts))
    }

    /// `a in b`
    pub(super) fn membership(&mut self, tree: &'a Tree, sides: &'a (Tree, Tree)) -> Option<Part> {
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
            Part {
                reported: wrong,
                ..part
            },
        ))
    }

    /// `gc.generation in [0, 1]`: the same as `gc.generation == 0 || gc.generation == 1`.
    fn among_numbers(&mut self, tree: &'a Tree, one: &'a Tree, list: &'a [Tree]) -> Option<Part> {
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
            if self.certain && lint::certain(&node) == Some(false) {
                let why = lint::reason(&node).map_or_else(String::new, |(_, range)| format!(": it is {range}"));
                return self.refuse(element.at, format!("`{one}` is never `{element}`{why}"));
            }
            nodes.push(node);
        }
        let node = match nodes.len() {
            1 => nodes.pop()?,
            _ => Node::Or(nodes.into()),
        };
        Some(self.certain_leaf(tree, Part::new(node, Type::Bool)))
    }
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
