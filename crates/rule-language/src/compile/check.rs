//! Types and names of a tree, and what it becomes.

mod call;
mod name;
mod operator;

use gc_rules::expression::{Double, Expression, Node};
use gc_rules::field::{Field, NoWindows, ProcessFacts, Scope, StreamFacts};
use gc_rules::value::{Type, Value};

use super::measure::Measure;
use super::syntax::{Shape, Tree};
use super::{Compiled, MAX_DEPTH, MAX_NODES, Macro, Mistake, Names, Wanted, lint, place};

/// Checks a tree; `certain`: also whether it, or a part of it, is always or never true.
///
/// # Errors
///
/// Every mistake, by place.
pub(super) fn check<'a>(
    text: &'a str,
    tree: &'a Tree,
    names: &'a Names<'a>,
    wanted: Wanted,
    certain: bool,
) -> Result<Compiled, Vec<Mistake>> {
    let mut checker = Checker::new(text, names, certain);
    let part = match wanted {
        Wanted::Bool => checker.condition(tree),
        Wanted::Number => checker.number(tree),
        Wanted::Any => checker.check(tree),
    };
    if let Some(part) = &part
        && certain
        && wanted == Wanted::Bool
        && let Node::Bool(truth) = part.node
        && !part.reported
    {
        let what = if truth { "always" } else { "never" };
        checker.mistake(tree.at, format!("`{tree}` is {what} true, whatever is observed"));
    }
    match part {
        Some(part) if checker.mistakes.is_empty() => Ok(Compiled {
            measure: Measure::of(&part.node, names.measures),
            expression: Expression {
                kind: part.kind,
                node: part.node,
            },
            fields: checker.fields,
            windows: checker.windows,
            used: checker.used,
            warnings: sorted(checker.warnings),
        }),
        _ => Err(sorted(checker.mistakes)),
    }
}

/// By place, each once: a macro that is used twice has its mistakes twice.
fn sorted(mut mistakes: Vec<Mistake>) -> Vec<Mistake> {
    mistakes.sort_by_key(|mistake| (mistake.line, mistake.column));
    mistakes.dedup();
    mistakes
}

/// A part that was checked.
#[derive(Debug)]
struct Typed {
    node: Node,
    kind: Type,
    /// It was said already that it, or a part of it, is always or never true.
    reported: bool,
}

impl Typed {
    fn new(node: Node, kind: Type) -> Self {
        Self {
            node,
            kind,
            reported: false,
        }
    }
}

/// One check of one text.
struct Checker<'a> {
    names: &'a Names<'a>,
    fields: Vec<&'static Field>,
    windows: Vec<usize>,
    used: Vec<String>,
    text: &'a str,
    mistakes: Vec<Mistake>,
    warnings: Vec<Mistake>,
    /// The macros that the present part stands in, the outermost first.
    inside: Vec<(&'a str, &'a Macro)>,
    /// Where in the text the outermost macro is used.
    used_at: usize,
    depth: usize,
    nodes: usize,
    /// Whether conditions that are always or never true are reported.
    certain: bool,
}

impl<'a> Checker<'a> {
    fn new(text: &'a str, names: &'a Names<'a>, certain: bool) -> Self {
        Self {
            names,
            fields: Vec::new(),
            windows: Vec::new(),
            used: Vec::new(),
            text,
            mistakes: Vec::new(),
            warnings: Vec::new(),
            inside: Vec::new(),
            used_at: 0,
            depth: 0,
            nodes: 0,
            certain,
        }
    }

    fn mistake(&mut self, at: usize, message: String) {
        let mistake = self.located(at, message);
        self.mistakes.push(mistake);
    }

    fn warning(&mut self, at: usize, message: String) {
        let warning = self.located(at, message);
        self.warnings.push(warning);
    }

    /// In a macro the place is that of its use; where it is in the macro stands in the message.
    fn located(&self, at: usize, message: String) -> Mistake {
        match self.inside.last() {
            None => Mistake::at(self.text, at, message),
            Some((name, known)) => {
                let (line, column) = place(known.text(), at);
                let message = format!("in macro `{name}` ({line}:{column}): {message}");
                Mistake::at(self.text, self.used_at, message)
            }
        }
    }

    /// A mistake that leaves nothing to check on.
    fn refuse<T>(&mut self, at: usize, message: impl Into<String>) -> Option<T> {
        self.mistake(at, message.into());
        None
    }

    /// A macro in place of its name.
    fn expand(&mut self, at: usize, name: &'a str, known: &'a Macro) -> Option<Typed> {
        if self.inside.iter().any(|(outer, _)| *outer == name) {
            let way: Vec<&str> = self.inside.iter().map(|(outer, _)| *outer).chain([name]).collect();
            return self.refuse(at, format!("macro `{name}` uses itself: {}", way.join(" -> ")));
        }
        if self.inside.is_empty() {
            self.used_at = at;
        }
        self.inside.push((name, known));
        let part = self.check(&known.tree);
        self.inside.pop();
        part
    }

    /// Any part.
    fn check(&mut self, tree: &'a Tree) -> Option<Typed> {
        self.nodes += 1;
        if self.nodes > MAX_NODES || self.depth >= MAX_DEPTH {
            // Said once: after it no part is looked at.
            if self.nodes <= MAX_NODES + 1 {
                self.nodes = MAX_NODES + 1;
                self.mistake(
                    tree.at,
                    "the expression is too large once its macros are put in".to_owned(),
                );
            }
            return None;
        }
        self.depth += 1;
        let part = self.part(tree);
        self.depth -= 1;
        part
    }

    fn part(&mut self, tree: &'a Tree) -> Option<Typed> {
        let at = tree.at;
        match &tree.shape {
            Shape::Bool(truth) => Some(Typed::new(Node::Bool(*truth), Type::Bool)),
            Shape::Int(number) => Some(Typed::new(Node::Int(*number), Type::Int)),
            Shape::Double(number) => Some(Typed::new(Node::Double(Double(*number)), Type::Double)),
            Shape::Text(text) => Some(Typed::new(Node::Text(text.clone()), Type::Text)),
            Shape::Name(name) => self.name(at, name),
            Shape::List(list) => self.list(list),
            Shape::Not(operand) => {
                let part = self.condition(operand)?;
                let node = match part.node {
                    Node::Bool(truth) => Node::Bool(!truth),
                    Node::Not(inner) => *inner,
                    node => Node::Not(Box::new(node)),
                };
                Some(Typed { node, ..part })
            }
            Shape::Negate(operand) => {
                let part = self.number(operand)?;
                self.folded(tree, Node::Negate(Box::new(part.node)), part.kind)
            }
            Shape::And(parts) => self.row(tree, parts, true),
            Shape::Or(parts) => self.row(tree, parts, false),
            Shape::Compare(comparison, sides) => self.compare(tree, *comparison, sides),
            Shape::Compute(arithmetic, sides) => self.compute(tree, *arithmetic, sides),
            Shape::In(sides) => self.membership(tree, sides),
            Shape::If(parts) => self.choice(tree, parts),
            Shape::Index(sides) => self.attribute(at, sides),
            Shape::Call(call) => self.call(tree, call),
        }
    }

    /// A part that has to be true or false.
    fn condition(&mut self, tree: &'a Tree) -> Option<Typed> {
        let part = self.check(tree)?;
        let how = match part.kind {
            Type::Bool => return Some(part),
            Type::Int => format!("compare it, as in `{tree} > 1`"),
            Type::Double => format!("compare it, as in `{tree} > 1.0`"),
            Type::Text => format!("compare it, as in `{tree} == 'a'`"),
            Type::Texts => "ask for one of them, as in `'a' in b`".to_owned(),
        };
        self.refuse(
            tree.at,
            format!("`{tree}` is {}, not true or false; {how}", a(part.kind)),
        )
    }

    /// A part that has to be a number.
    fn number(&mut self, tree: &'a Tree) -> Option<Typed> {
        let part = self.check(tree)?;
        if part.kind.is_number() {
            return Some(part);
        }
        self.refuse(tree.at, format!("`{tree}` is {}, not a number", a(part.kind)))
    }

    /// A part that has to be a text.
    fn text(&mut self, tree: &'a Tree) -> Option<Typed> {
        let part = self.check(tree)?;
        if part.kind == Type::Text {
            return Some(part);
        }
        self.refuse(tree.at, format!("`{tree}` is {}, not a string", a(part.kind)))
    }

    /// A node whose operands may all be constants: then its value. Else as it is.
    fn folded(&mut self, tree: &Tree, node: Node, kind: Type) -> Option<Typed> {
        if !lint::has_constant_operands(&node) {
            return Some(Typed::new(node, kind));
        }
        let (process, stream) = (ProcessFacts::default(), StreamFacts::default());
        let scope = Scope {
            gc: None,
            suspension: None,
            process: &process,
            stream: &stream,
            windows: &NoWindows,
            now: gc_rules::time::Moment::FIRST,
        };
        let constant = match node.evaluate(&scope) {
            Ok(Some(Value::Bool(truth))) => Node::Bool(truth),
            Ok(Some(Value::Int(number))) => Node::Int(number),
            Ok(Some(Value::Double(number))) => Node::Double(Double(number)),
            Ok(Some(Value::Text(_) | Value::Texts(_))) => return Some(Typed::new(node, kind)),
            Ok(None) => return self.refuse(tree.at, format!("`{tree}` is no number")),
            Err(error) => return self.refuse(tree.at, format!("`{tree}`: {error}")),
        };
        Some(Typed::new(constant, kind))
    }

    /// `a && b && c` (`all`), `a || b || c`.
    fn row(&mut self, tree: &'a Tree, trees: &'a [Tree], all: bool) -> Option<Typed> {
        let parts: Vec<Option<Typed>> = trees.iter().map(|tree| self.condition(tree)).collect();
        let parts: Vec<Typed> = parts.into_iter().collect::<Option<_>>()?;
        let mut reported = parts.iter().any(|part| part.reported);
        if !reported {
            reported = self.certain_row(tree, trees, &parts, all);
        }
        let mut nodes = Vec::new();
        for part in parts {
            match part.node {
                // `true && a`, `false || a`: a.
                Node::Bool(truth) if truth == all => {}
                Node::Bool(truth) => {
                    let node = Node::Bool(truth);
                    return Some(Typed {
                        reported,
                        ..Typed::new(node, Type::Bool)
                    });
                }
                Node::And(inner) if all => nodes.extend(inner),
                Node::Or(inner) if !all => nodes.extend(inner),
                node => nodes.push(node),
            }
        }
        let node = match nodes.len() {
            0 => Node::Bool(all),
            1 => nodes.pop()?,
            _ if all => Node::And(nodes.into()),
            _ => Node::Or(nodes.into()),
        };
        Some(Typed {
            node,
            kind: Type::Bool,
            reported,
        })
    }

    /// Says of a row that it is always or never true, and because of which of its parts.
    fn certain_row(&mut self, tree: &Tree, trees: &[Tree], parts: &[Typed], all: bool) -> bool {
        let node = |parts: &[&Typed]| {
            let nodes = parts.iter().map(|part| part.node.clone()).collect();
            if all { Node::And(nodes) } else { Node::Or(nodes) }
        };
        if !self.certain {
            return false;
        }
        let every: Vec<&Typed> = parts.iter().collect();
        if every.iter().any(|part| matches!(part.node, Node::Bool(_)))
            || lint::certain(&node(&every), self.names.measures) != Some(!all)
        {
            return false;
        }
        for (index, (tree, part)) in trees.iter().zip(parts).enumerate() {
            for (other_tree, other) in trees.iter().zip(parts).take(index) {
                if lint::certain(&node(&[other, part]), self.names.measures) == Some(!all) {
                    let message = if all {
                        format!("`{tree}` is never true together with `{other_tree}`")
                    } else {
                        format!("`{other_tree} || {tree}` is always true")
                    };
                    self.mistake(tree.at, message);
                    return true;
                }
            }
        }
        let what = if all { "never" } else { "always" };
        self.mistake(tree.at, format!("`{tree}` is {what} true"));
        true
    }

    /// A comparison, membership or test that nothing stands in but itself: said where it is always or never true.
    fn certain_leaf(&mut self, tree: &Tree, part: Typed) -> Typed {
        if !self.certain || part.reported || matches!(part.node, Node::Bool(_)) {
            return part;
        }
        let Some(truth) = lint::certain(&part.node, self.names.measures) else {
            return part;
        };
        let what = if truth { "always" } else { "never" };
        let why = match (lint::reason(&part.node, self.names.measures), &tree.shape) {
            (Some((is_left, range)), Shape::Compare(_, sides)) => {
                let subject = if is_left { &sides.0 } else { &sides.1 };
                format!(": `{subject}` is {range}")
            }
            (Some((_, range)), _) => format!(": it is {range}"),
            (None, _) => String::new(),
        };
        self.mistake(tree.at, format!("`{tree}` is {what} true{why}"));
        Typed { reported: true, ..part }
    }
}

/// `an int`
fn a(kind: Type) -> &'static str {
    match kind {
        Type::Bool => "true or false",
        Type::Int => "an int",
        Type::Double => "a double",
        Type::Text => "a string",
        Type::Texts => "a list of strings",
    }
}
