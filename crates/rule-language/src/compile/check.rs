//! Checks types and names of a tree, and converts it to an expression.

use base::time::Moment;
use regex::RegexBuilder;
use rule_engine::expression::{Arithmetic, Comparison, Double, Expression, Node, Pattern, TextTest};
use rule_engine::field::{ALL, Field, ProcessFacts, Root, Scope, StreamFacts};
use rule_engine::value::{Type, Value};
use strict_yaml::check::{did_you_mean, nearest};

use super::syntax::{Call, Shape, Tree};
use super::unit::Unit;
use super::{CompiledExpression, MAX_DEPTH, MAX_NODES, Macro, Mistake, Names, RequiredType, attribute, place};
use crate::document::LISTS_REMOVED;

/// Maximum size of a compiled pattern, in bytes. `\w` alone takes some thousand bytes.
const PATTERN_BYTES: usize = 1 << 20;

/// Names of all functions, as they are written in expressions.
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

/// Name of the map of resource attributes.
const ATTRIBUTES: &str = "process.attributes";

/// Name of the map with the number of processes of a service on which a rule fires, by rule id.
const FIRING: &str = "service.firing";

const ONLY_ATTRIBUTES: &str =
    "only attributes are named in brackets, and by a string in quotes: `process.attributes['k8s.namespace.name']`";

/// Checks a tree. If `doubts`, also checks units and names of attributes.
///
/// # Errors
///
/// Returns all mistakes, sorted by position.
pub(super) fn check<'a>(
    text: &'a str,
    tree: &'a Tree,
    names: &'a Names<'a>,
    wanted: RequiredType,
    doubts: bool,
) -> Result<CompiledExpression, Vec<Mistake>> {
    let mut checker = Checker {
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
        doubts,
    };
    let part = match wanted {
        RequiredType::Bool => checker.condition(tree),
        RequiredType::Number => checker.number(tree),
        RequiredType::Any => checker.check(tree),
    };
    match part {
        Some(part) if checker.mistakes.is_empty() => Ok(CompiledExpression {
            unit: Unit::for_node(&part.node, names.units),
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

/// Sorts mistakes by position and removes duplicates: a macro that is used twice reports its mistakes twice.
fn sorted(mut mistakes: Vec<Mistake>) -> Vec<Mistake> {
    mistakes.sort_by_key(|mistake| (mistake.line, mistake.column));
    mistakes.dedup();
    mistakes
}

/// A checked part of a tree.
#[derive(Debug)]
struct TypedNode {
    node: Node,
    kind: Type,
}

impl TypedNode {
    fn new(node: Node, kind: Type) -> Self {
        Self { node, kind }
    }
}

/// State of the check of one text.
struct Checker<'a> {
    names: &'a Names<'a>,
    fields: Vec<&'static Field>,
    windows: Vec<usize>,
    used: Vec<String>,
    text: &'a str,
    mistakes: Vec<Mistake>,
    warnings: Vec<Mistake>,
    /// The macros that contain the current part, the outermost first.
    inside: Vec<(&'a str, &'a Macro)>,
    /// Position in the text at which the outermost macro is used.
    used_at: usize,
    depth: usize,
    nodes: usize,
    /// Whether units and names of attributes are checked.
    doubts: bool,
}

impl<'a> Checker<'a> {
    fn mistake(&mut self, at: usize, message: String) {
        let mistake = self.located(at, message);
        self.mistakes.push(mistake);
    }

    fn warning(&mut self, at: usize, message: String) {
        let warning = self.located(at, message);
        self.warnings.push(warning);
    }

    /// Creates a mistake. Inside a macro, its position is the use of the macro, and the message contains the position
    /// in the macro.
    fn located(&self, at: usize, message: String) -> Mistake {
        match self.inside.last() {
            None => Mistake::at(self.text, at, message),
            Some((name, known)) => {
                let (line, column) = place(&known.text, at);
                let message = format!("in macro `{name}` ({line}:{column}): {message}");
                Mistake::at(self.text, self.used_at, message)
            }
        }
    }

    /// Reports a mistake after which the part cannot be checked further, and returns `None`.
    fn refuse<T>(&mut self, at: usize, message: impl Into<String>) -> Option<T> {
        self.mistake(at, message.into());
        None
    }

    /// Checks the tree of a macro at its use. A macro that uses itself is refused.
    fn expand(&mut self, at: usize, name: &'a str, known: &'a Macro) -> Option<TypedNode> {
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

    fn check(&mut self, tree: &'a Tree) -> Option<TypedNode> {
        self.nodes += 1;
        if self.nodes > MAX_NODES || self.depth >= MAX_DEPTH {
            // Reported once. Afterwards, no part is checked.
            if self.nodes <= MAX_NODES + 1 {
                self.nodes = MAX_NODES + 1;
                self.mistake(tree.at, "the expression is too large after macro expansion".to_owned());
            }
            return None;
        }
        self.depth += 1;
        let part = self.part(tree);
        self.depth -= 1;
        part
    }

    fn part(&mut self, tree: &'a Tree) -> Option<TypedNode> {
        let at = tree.at;
        match &tree.shape {
            Shape::Bool(truth) => Some(TypedNode::new(Node::Bool(*truth), Type::Bool)),
            Shape::Int(number) => Some(TypedNode::new(Node::Int(*number), Type::Int)),
            Shape::Double(number) => Some(TypedNode::new(Node::Double(Double(*number)), Type::Double)),
            Shape::Text(text) => Some(TypedNode::new(Node::Text(text.clone()), Type::Text)),
            Shape::Name(name) => self.name(at, name),
            Shape::List(list) => self.list(list),
            Shape::Not(operand) => {
                let part = self.condition(operand)?;
                let node = match part.node {
                    Node::Bool(truth) => Node::Bool(!truth),
                    Node::Not(inner) => *inner,
                    node => Node::Not(Box::new(node)),
                };
                Some(TypedNode { node, ..part })
            }
            Shape::Negate(operand) => {
                let part = self.number(operand)?;
                self.folded(tree, Node::Negate(Box::new(part.node)), part.kind)
            }
            Shape::And(parts) => self.row(parts, true),
            Shape::Or(parts) => self.row(parts, false),
            Shape::Compare(comparison, sides) => self.compare(tree, *comparison, sides),
            Shape::Compute(arithmetic, sides) => self.compute(tree, *arithmetic, sides),
            Shape::In(sides) => self.membership(tree, sides),
            Shape::If(parts) => self.choice(tree, parts),
            Shape::Index(sides) => self.attribute(at, sides),
            Shape::Call(call) => self.call(tree, call),
        }
    }

    /// Checks a part that must be a boolean.
    fn condition(&mut self, tree: &'a Tree) -> Option<TypedNode> {
        let part = self.check(tree)?;
        let how = match part.kind {
            Type::Bool => return Some(part),
            Type::Int => format!("compare it, as in `{tree} > 1`"),
            Type::Double => format!("compare it, as in `{tree} > 1.0`"),
            Type::Text => format!("compare it, as in `{tree} == 'a'`"),
            Type::Texts => "test for one of them, as in `'a' in b`".to_owned(),
        };
        self.refuse(
            tree.at,
            format!("`{tree}` is {}, not true or false; {how}", a(part.kind)),
        )
    }

    /// Checks a part that must be a number.
    fn number(&mut self, tree: &'a Tree) -> Option<TypedNode> {
        let part = self.check(tree)?;
        if part.kind.is_number() {
            return Some(part);
        }
        self.refuse(tree.at, format!("`{tree}` is {}, not a number", a(part.kind)))
    }

    /// Checks a part that must be a text.
    fn text(&mut self, tree: &'a Tree) -> Option<TypedNode> {
        let part = self.check(tree)?;
        if part.kind == Type::Text {
            return Some(part);
        }
        self.refuse(tree.at, format!("`{tree}` is {}, not a string", a(part.kind)))
    }

    /// Evaluates a node if all operands are constants, or returns the node unchanged. Reports a mistake if the
    /// constants have no result, such as an overflow.
    fn folded(&mut self, tree: &Tree, node: Node, kind: Type) -> Option<TypedNode> {
        if !has_constant_operands(&node) {
            return Some(TypedNode::new(node, kind));
        }
        let (process, stream) = (ProcessFacts::default(), StreamFacts::default());
        let constant = match node.evaluate(&Scope::new(&process, &stream, Moment::FIRST)) {
            Ok(Some(Value::Bool(truth))) => Node::Bool(truth),
            Ok(Some(Value::Int(number))) => Node::Int(number),
            Ok(Some(Value::Double(number))) => Node::Double(Double(number)),
            Ok(Some(Value::Text(_) | Value::Texts(_))) => return Some(TypedNode::new(node, kind)),
            Ok(None) => return self.refuse(tree.at, format!("`{tree}` is not a number")),
            Err(error) => return self.refuse(tree.at, format!("`{tree}`: {error}")),
        };
        Some(TypedNode::new(constant, kind))
    }

    /// Checks `a && b && c` (`all`), or `a || b || c`.
    fn row(&mut self, trees: &'a [Tree], all: bool) -> Option<TypedNode> {
        let parts: Vec<Option<TypedNode>> = trees.iter().map(|tree| self.condition(tree)).collect();
        let parts: Vec<TypedNode> = parts.into_iter().collect::<Option<_>>()?;
        let mut nodes = Vec::new();
        for part in parts {
            match part.node {
                // `true && a` and `false || a` are equivalent to `a`.
                Node::Bool(truth) if truth == all => {}
                Node::Bool(truth) => return Some(TypedNode::new(Node::Bool(truth), Type::Bool)),
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
        Some(TypedNode::new(node, Type::Bool))
    }

    // Names: their meaning, and messages about unknown names.

    /// Checks a name as an operand.
    fn name(&mut self, at: usize, name: &'a str) -> Option<TypedNode> {
        let (names, plain) = (self.names, TypedNode::new);
        if let Some(place) = names.windows.get(name) {
            if !self.windows.contains(place) {
                self.windows.push(*place);
            }
            return Some(plain(Node::Window(*place), Type::Double));
        }
        if let Some((name, known)) = names.macros.get_key_value(name) {
            self.used(name);
            return self.expand(at, name, known);
        }
        if names.lists.contains(name) {
            let message = format!("`{name}` is one of `lists`, which was removed: {LISTS_REMOVED}");
            let is_removed = true;
            self.mistakes.push(Mistake {
                is_removed,
                ..self.located(at, message)
            });
            return None;
        }
        if let Some((name, value)) = names.params.get_key_value(name) {
            self.used(name);
            return Some(plain(value.node.clone(), value.kind));
        }
        if let Some(field) = Field::find(name) {
            self.root(at, field.name, field.root);
            if !self.fields.contains(&field) {
                self.fields.push(field);
            }
            return Some(plain(Node::Field(field), field.kind));
        }
        let message = self.unknown(name);
        self.refuse(at, message)
    }

    fn used(&mut self, name: &str) {
        if !self.used.iter().any(|used| used == name) {
            self.used.push(name.to_owned());
        }
    }

    /// Reports a field whose root is not available in this context. The check continues.
    fn root(&mut self, at: usize, name: &str, root: Root) {
        if self.names.roots.contains(&root) {
            return;
        }
        let here: Vec<&str> = self
            .names
            .roots
            .iter()
            .flat_map(|root| prefixes(*root))
            .copied()
            .collect();
        let here = here.join(", ");
        let of_many = here.contains("service.*") || here.contains("watcher.*");
        let message = match root {
            Root::Gc | Root::Suspension | Root::Stream if of_many => format!(
                "`{name}` belongs to one process, but this rule is not about a process (here: {here}); count the processes on \
                 which a rule fires: `service.firing['time.stopped']`"
            ),
            Root::Gc => format!(
                "`{name}` belongs to one collection, and none is available here (here: {here}); use a window over it, or a rule `on: gc`"
            ),
            Root::Suspension => format!(
                "`{name}` belongs to a stop without a collection and can be used only in windows (here: {here}); use a window over it"
            ),
            Root::Service => {
                format!(
                    "`{name}` belongs to a service, and none is available here (here: {here}); use a rule `on: service`"
                )
            }
            Root::Watcher => {
                format!("`{name}` belongs to gcwatch itself (here: {here}); use a rule `on: watcher`")
            }
            Root::Process | Root::Stream => {
                format!("`{name}` is not available here (here: {here}); put it into the rule's condition")
            }
        };
        self.mistake(at, message);
    }

    /// Returns the message about an unknown name.
    fn unknown(&self, name: &str) -> String {
        if name == ATTRIBUTES {
            return "the name of the attribute is missing: `process.attributes['k8s.namespace.name']`".to_owned();
        }
        if name == FIRING {
            return "the id of the rule is missing: `service.firing['time.stopped']`".to_owned();
        }
        if let Some(key) = name.strip_prefix(ATTRIBUTES).and_then(|rest| rest.strip_prefix('.')) {
            return format!("attributes are named in brackets: `{ATTRIBUTES}['{key}']`");
        }
        let fields = || ALL.iter().map(|field| field.name);
        let below: Vec<&str> = fields()
            .filter(|field| field.strip_prefix(name).is_some_and(|rest| rest.starts_with('.')))
            .take(4)
            .collect();
        if let [first, rest @ ..] = below.as_slice() {
            let more = rest
                .iter()
                .take(2)
                .map(|field| format!(", `{field}`"))
                .collect::<String>();
            let dots = if rest.len() > 2 { ", ..." } else { "" };
            return format!("`{name}` is a group of fields: `{first}`{more}{dots}");
        }
        let root = name.split('.').next().unwrap_or(name);
        if name.contains('.') && self.own().any(|own| own == root) {
            return format!("`{root}` has no fields; use it without a dot");
        }
        let tail = format!(".{name}");
        let allowed = |field: &&&'static Field| self.names.roots.contains(&field.root);
        let by_tail = ALL
            .iter()
            .filter(allowed)
            .map(|field| field.name)
            .find(|field| field.ends_with(&tail));
        let near = nearest(name, fields().chain(self.own()));
        match near.or(by_tail) {
            Some(near) => format!("unknown name `{name}`; did you mean `{near}`?"),
            None if name.contains('.') => format!("unknown field `{name}`"),
            None => format!(
                "unknown name `{name}`: no window, parameter or macro has this name, and fields have a dot (`gc.pause_ms`)"
            ),
        }
    }

    /// Returns the known names that are not fields.
    fn own(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let names = self.names;
        let own = names
            .windows
            .keys()
            .chain(names.macros.keys())
            .chain(names.params.keys());
        own.map(String::as_str)
    }

    // Operators and their operands.

    /// Checks `a < b`.
    fn compare(&mut self, tree: &'a Tree, comparison: Comparison, sides: &'a (Tree, Tree)) -> Option<TypedNode> {
        let (a_part, b_part) = (self.check(&sides.0), self.check(&sides.1));
        let (a_part, b_part) = (a_part?, b_part?);
        let (a_kind, b_kind) = (a_part.kind, b_part.kind);
        if a_kind != b_kind && !(a_kind.is_number() && b_kind.is_number()) {
            let message = format!("`{tree}` compares {} with {}", a(a_kind), a(b_kind));
            return self.refuse(tree.at, message);
        }
        let equality = matches!(comparison, Comparison::Equal | Comparison::NotEqual);
        match a_kind {
            Type::Texts => {
                return self.refuse(
                    tree.at,
                    format!("`{tree}` compares lists; test for a string in a list: `'a' in b`"),
                );
            }
            Type::Bool if !equality => {
                let message = format!("`{tree}`: true and false have no order; write `==`, `!=`, `&&` or `!`");
                return self.refuse(tree.at, message);
            }
            _ => {}
        }
        if equality {
            self.check_word(&a_part.node, sides.1.at, &b_part.node);
            self.check_word(&b_part.node, sides.0.at, &a_part.node);
        }
        let units = [&a_part, &b_part].map(|part| self.unit(part));
        self.check_units(tree, sides, units, "compare");
        self.warn_of_constant(tree, sides, equality, [&a_part.node, &b_part.node]);
        let node = Node::Compare(comparison, Box::new((a_part.node, b_part.node)));
        self.folded(tree, node, Type::Bool)
    }

    fn unit(&self, part: &TypedNode) -> Unit {
        Unit::for_node(&part.node, self.names.units)
    }

    /// Reports two numbers of different units as a mistake. If one of the numbers has no unit, reports only a warning.
    fn check_units(&mut self, tree: &Tree, sides: &(Tree, Tree), [a, b]: [Unit; 2], verb: &str) {
        if !self.doubts || a.fits(b) {
            return;
        }
        let (first, second) = (&sides.0, &sides.1);
        let (of_first, of_second) = (a.phrase(), b.phrase());
        let has = |unit: &'static str| [a, b].contains(&Unit::Named(unit));
        let hint = match () {
            () if has("percent") && (has("ratio") || [a, b].contains(&Unit::Share)) => {
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
        if [a, b].contains(&Unit::Count) {
            self.warning(tree.at, message);
        } else {
            self.mistake(tree.at, message);
        }
    }

    /// Warns about comparisons with a constant that are allowed but probably wrong.
    fn warn_of_constant(&mut self, tree: &Tree, sides: &(Tree, Tree), equality: bool, nodes: [&Node; 2]) {
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
                format!("`{tree}`: `{subject}` is measured and is hardly ever exactly equal; compare with `<` or `>`");
            self.warning(tree.at, message);
            return;
        }
        let unit = Unit::for_node(node, self.names.units);
        let Some(why) = hardly_meant(unit, constant, matches!(node, Node::Window(_))) else {
            return;
        };
        self.warning(tree.at, format!("`{tree}`: `{subject}` is {why}"));
    }

    /// Reports a string that is never a value of the field.
    fn check_word(&mut self, field: &Node, at: usize, text: &Node) {
        let (Node::Field(field), Node::Text(text)) = (field, text) else {
            return;
        };
        let known = field.texts();
        if known.is_empty() || known.contains(&&**text) {
            return;
        }
        let verb = if field.kind == Type::Texts { "has" } else { "is" };
        let hint = match nearest(text, known.iter().copied()) {
            Some(near) => format!("did you mean '{near}'?"),
            None => format!("it {verb} one of {}", listed(&known)),
        };
        self.mistake(at, format!("`{}` never {verb} '{text}'; {hint}", field.name));
    }

    /// Checks `a + b`.
    fn compute(&mut self, tree: &'a Tree, arithmetic: Arithmetic, sides: &'a (Tree, Tree)) -> Option<TypedNode> {
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
            let units = [&first, &second].map(|part| self.unit(part));
            self.check_units(tree, sides, units, "add and subtract");
        }
        self.folded(
            tree,
            Node::Compute(arithmetic, Box::new((first.node, second.node))),
            kind,
        )
    }

    /// Checks `a ? b : c`.
    fn choice(&mut self, tree: &'a Tree, parts: &'a (Tree, Tree, Tree)) -> Option<TypedNode> {
        let condition = self.condition(&parts.0);
        let (this, that) = (self.check(&parts.1), self.check(&parts.2));
        let (condition, this, that) = (condition?, this?, that?);
        if this.kind != that.kind {
            let message = format!(
                "`{tree}` is {} or {}; both must have the same type",
                a(this.kind),
                a(that.kind)
            );
            return self.refuse(tree.at, message);
        }
        let kind = this.kind;
        let node = match condition.node {
            Node::Bool(true) => this.node,
            Node::Bool(false) => that.node,
            node => Node::If(Box::new((node, this.node, that.node))),
        };
        Some(TypedNode::new(node, kind))
    }

    /// Checks `process.attributes['name']` or `service.firing['rule']`.
    fn attribute(&mut self, at: usize, sides: &'a (Tree, Tree)) -> Option<TypedNode> {
        let (Shape::Name(name), Shape::Text(key)) = (&sides.0.shape, &sides.1.shape) else {
            return self.refuse(at, ONLY_ATTRIBUTES);
        };
        if **name == *FIRING {
            self.root(at, FIRING, Root::Service);
            return Some(TypedNode::new(Node::Firing(key.clone()), Type::Int));
        }
        if **name != *ATTRIBUTES {
            return self.refuse(at, ONLY_ATTRIBUTES);
        }
        self.root(at, ATTRIBUTES, Root::Process);
        if let Some(doubt) = attribute::doubt(key).filter(|_| self.doubts) {
            self.warning(sides.1.at, doubt);
        }
        Some(TypedNode::new(Node::Attribute(key.clone()), Type::Text))
    }

    /// Checks `['a', 'b']`.
    fn list(&mut self, trees: &'a [Tree]) -> Option<TypedNode> {
        let mut texts = Some(Vec::new());
        for tree in trees {
            match &tree.shape {
                Shape::Text(text) => {
                    if let Some(texts) = &mut texts {
                        texts.push(text.clone());
                    }
                }
                _ => {
                    self.mistake(
                        tree.at,
                        format!("a list contains strings in quotes; `{tree}` is not a string"),
                    );
                    texts = None;
                }
            }
        }
        Some(TypedNode::new(Node::Texts(texts?.into()), Type::Texts))
    }

    /// Checks `a in b`.
    fn membership(&mut self, tree: &'a Tree, sides: &'a (Tree, Tree)) -> Option<TypedNode> {
        if let Shape::Name(name) = &sides.1.shape
            && **name == *ATTRIBUTES
        {
            let message = format!("write `has({ATTRIBUTES}[{}])`", sides.0);
            return self.refuse(tree.at, message);
        }
        let number = |tree: &Tree| matches!(tree.shape, Shape::Int(_) | Shape::Double(_) | Shape::Negate(_));
        if let Shape::List(list) = &sides.1.shape {
            if list.is_empty() {
                return self.refuse(sides.1.at, format!("`{tree}` is never true: the list is empty"));
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
        self.check_word(&many.node, sides.0.at, &one.node);
        if let Node::Texts(texts) = &many.node {
            for (index, text) in texts.iter().enumerate() {
                let at = match &sides.1.shape {
                    Shape::List(list) => list.get(index).map_or(sides.1.at, |element| element.at),
                    _ => sides.1.at,
                };
                self.check_word(&one.node, at, &Node::Text(text.clone()));
            }
        }
        self.folded(tree, Node::In(Box::new((one.node, many.node))), Type::Bool)
    }

    /// Checks `gc.generation in [0, 1]`, which is equivalent to `gc.generation == 0 || gc.generation == 1`.
    fn among_numbers(&mut self, tree: &'a Tree, one: &'a Tree, list: &'a [Tree]) -> Option<TypedNode> {
        let part = self.number(one)?;
        if !matches!(part.node, Node::Field(_) | Node::Window(_)) {
            return self.refuse(
                one.at,
                format!("`{tree}`: only a field or a window can be tested against a list of numbers"),
            );
        }
        let mut nodes = Vec::with_capacity(list.len());
        for element in list {
            let number = self.number(element)?;
            nodes.push(Node::Compare(
                Comparison::Equal,
                Box::new((part.node.clone(), number.node)),
            ));
        }
        let node = match nodes.len() {
            1 => nodes.pop()?,
            _ => Node::Or(nodes.into()),
        };
        Some(TypedNode::new(node, Type::Bool))
    }

    // Functions of rules, and messages about other functions.

    fn call(&mut self, tree: &'a Tree, call: &'a Call) -> Option<TypedNode> {
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

    /// Checks `has(gc.trigger)`.
    fn has(&mut self, tree: &'a Tree, argument: &'a Tree) -> Option<TypedNode> {
        let known = match &argument.shape {
            Shape::Name(name) => !self.names.macros.contains_key(&**name),
            Shape::Index(_) => true,
            _ => false,
        };
        if !known {
            let message = format!("`{tree}`: `has` tests whether a field, an attribute or a window is known");
            return self.refuse(tree.at, message);
        }
        let part = self.check(argument)?;
        Some(TypedNode::new(Node::Has(Box::new(part.node)), Type::Bool))
    }

    /// Checks `size(a)`.
    fn size(&mut self, tree: &'a Tree, argument: &'a Tree) -> Option<TypedNode> {
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

    /// Checks `a.contains(b)` and similar tests.
    fn text_test(&mut self, tree: &'a Tree, name: &str, receiver: &'a Tree, argument: &'a Tree) -> Option<TypedNode> {
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

    /// Checks `a.matches('...')`.
    fn matches(&mut self, tree: &'a Tree, receiver: &'a Tree, pattern: &'a Tree) -> Option<TypedNode> {
        let whole = self.check(receiver);
        let Shape::Text(text) = &pattern.shape else {
            return self.refuse(
                pattern.at,
                "a pattern must be in quotes because it is compiled when the file is read",
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
                self.refuse(pattern.at, format!("{pattern} is not a valid pattern: {last}"))
            }
        }
    }

    fn receiver(&mut self, tree: &Tree, receiver: &Tree, part: TypedNode) -> Option<Node> {
        match part.kind {
            Type::Text => Some(part.node),
            Type::Texts => self.refuse(
                tree.at,
                format!("`{tree}`: `{receiver}` is a list; write `'a' in {receiver}`"),
            ),
            kind => self.refuse(tree.at, format!("`{tree}`: `{receiver}` is {}, not a string", a(kind))),
        }
    }

    fn test(&mut self, tree: &Tree, whole: Node, test: TextTest) -> Option<TypedNode> {
        self.folded(tree, Node::Test(Box::new(whole), test), Type::Bool)
    }
}

/// Returns whether all operands of the node are constants. The operands are already folded, so their own operands need
/// no check.
fn has_constant_operands(node: &Node) -> bool {
    let is_constant = |node: &Node| {
        matches!(
            node,
            Node::Bool(_) | Node::Int(_) | Node::Double(_) | Node::Text(_) | Node::Texts(_)
        )
    };
    match node {
        Node::Not(a) | Node::Negate(a) | Node::Size(a) | Node::ToDouble(a) | Node::ToInt(a) => is_constant(a),
        Node::Compare(_, sides) | Node::Compute(_, sides) | Node::In(sides) => {
            is_constant(&sides.0) && is_constant(&sides.1)
        }
        Node::Test(a, test) => is_constant(a) && test.part().is_none_or(is_constant),
        _ => false,
    }
}

/// Returns a type with its article: `an int`.
fn a(kind: Type) -> &'static str {
    match kind {
        Type::Bool => "true or false",
        Type::Int => "an int",
        Type::Double => "a double",
        Type::Text => "a string",
        Type::Texts => "a list of strings",
    }
}

/// Returns the names of a root in rule files.
fn prefixes(root: Root) -> &'static [&'static str] {
    match root {
        Root::Gc => &["gc.*"],
        Root::Suspension => &["suspension.*"],
        Root::Process => &["process.*", "settings.*", "container.*"],
        Root::Stream => &["stream.*", "open.*"],
        Root::Service => &["service.*"],
        Root::Watcher => &["watcher.*"],
    }
}

/// Returns a description of a number with this unit if a comparison with `constant` is probably wrong, or `None` if the
/// comparison is plausible.
fn hardly_meant(unit: Unit, constant: f64, is_window: bool) -> Option<String> {
    let below = |most: f64| constant > 0.0 && constant < most;
    Some(match unit {
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

/// Returns the first words of a list, and the number of the remaining words.
fn listed(words: &[&str]) -> String {
    const MAX_WORDS: usize = 12;
    let shown: Vec<&str> = words.iter().take(MAX_WORDS).copied().collect();
    match words.len().saturating_sub(MAX_WORDS) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Returns the message about an unsupported call.
fn refusal(call: &Call) -> String {
    let name = &*call.name;
    match name {
        "has" => "`has` is written `has(gc.trigger)`".to_owned(),
        "size" | "double" | "int" => format!("`{name}` is written `{name}(a)`: it takes one value"),
        "contains" | "startsWith" | "endsWith" | "matches" => {
            format!("`{name}` is written `a.{name}('b')`: it searches for one string in another")
        }
        "all" | "exists" | "exists_one" | "existsOne" | "map" | "filter" => {
            format!("rules cannot iterate over lists (`{name}`): write `'a' in b`, or a window for several collections")
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
            format!("durations are numbers; compare a field in ms with `{number}`")
        }
        "timestamp" | "now" => {
            "rules have no timestamps; the length of a window states how far back it reaches".to_owned()
        }
        "string" | "bool" | "uint" | "bytes" | "dyn" | "type" => {
            format!("rules do not convert with `{name}`; `double(a)` and `int(a)` convert numbers")
        }
        _ => {
            let hint = did_you_mean(name, FUNCTIONS);
            let hint = hint.unwrap_or_else(|| format!("use one of {}", FUNCTIONS.join(", ")));
            format!("unknown function `{name}`; {hint}")
        }
    }
}

/// Converts `1.5s` to `1500.0`. Returns `None` if the text is not a number with a known unit.
fn milliseconds(text: &str) -> Option<String> {
    const UNITS: [(&str, f64); 4] = [("ms", 1.0), ("s", 1e3), ("m", 6e4), ("h", 3.6e6)];
    UNITS.iter().find_map(|(unit, factor)| {
        let number: f64 = text.strip_suffix(unit)?.parse().ok()?;
        let number = number * factor;
        number.is_finite().then(|| format!("{number:?}"))
    })
}
