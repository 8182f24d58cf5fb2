//! Parser of templates.

use base::quote::quoted;
use rule_engine::expression::Node;
use rule_engine::rule::{Form, Template, TemplatePart};
use rule_engine::value::Type;
use strict_yaml::check::did_you_mean;

use crate::compile::{CompiledExpression, Mistake, Unit, place};

/// Maximum number of values in a template.
const MAX_VALUES: usize = 50;
/// Maximum number of decimal places of the filter `round`.
const MAX_DIGITS: u8 = 9;

const FILTERS: [&str; 5] = ["round", "bytes", "percent", "ms", "s"];

pub(crate) type Compile<'a> = dyn FnMut(&str) -> Result<CompiledExpression, Vec<Mistake>> + 'a;

#[derive(Debug, Default)]
pub(crate) struct CompiledTemplate {
    pub(crate) template: Template,
    /// The expressions in the template.
    pub(crate) values: Vec<CompiledExpression>,
    pub(crate) mistakes: Vec<Mistake>,
    /// Constructs that are allowed but probably wrong.
    pub(crate) warnings: Vec<Mistake>,
    /// The open clause: its start, and the number of parts before it; `None` outside a clause.
    clause: Option<(usize, usize)>,
}

/// A function that returns whether a text is a valid expression.
pub(crate) type IsValue<'a> = dyn Fn(&str) -> bool + 'a;

/// Parses a template. A template with mistakes is incomplete.
pub(crate) fn parse(text: &str, compile: &mut Compile<'_>, is_value: &IsValue<'_>) -> CompiledTemplate {
    let mut filling = CompiledTemplate::default();
    let mut at = 0;
    let mut values = 0;
    while let Some((open, mark)) = next_mark(text, at) {
        filling.text(text, at, open, is_value);
        let begin = open + 2;
        if mark != "{{" {
            if let Err(message) = filling.clause(open, mark) {
                filling.mistake(text, open, message);
                return filling;
            }
            at = begin;
            continue;
        }
        let Some(hole) = Hole::find(text, begin) else {
            filling.mistake(text, open, "the `{{` here is not closed by `}}`".to_owned());
            return filling;
        };
        values += 1;
        if values > MAX_VALUES {
            filling.mistake(text, open, format!("a template can have at most {MAX_VALUES} values"));
            return filling;
        }
        filling.value(text, &hole, compile);
        at = hole.after;
    }
    filling.text(text, at, text.len(), is_value);
    if let Some((open, _)) = filling.clause {
        filling.mistake(text, open, "the `[[` here is not closed by `]]`".to_owned());
    }
    filling
}

/// Returns the next position at which a value or a clause starts or a clause ends, with the mark at this position;
/// `None` if no mark follows.
fn next_mark(text: &str, at: usize) -> Option<(usize, &'static str)> {
    let rest = text.get(at..)?;
    let marks = ["{{", "[[", "]]"].into_iter();
    marks.filter_map(|mark| Some((at + rest.find(mark)?, mark))).min()
}

/// The parts between `{{` and `}}`.
struct Hole {
    /// Start and end of the expression.
    expression: (usize, usize),
    /// Start and end of each filter.
    filters: Vec<(usize, usize)>,
    /// Position after `}}`.
    after: usize,
}

impl Hole {
    /// Finds the `}}` that ends a value whose content starts at `begin`, and skips quoted strings. Returns `None` if
    /// the end is missing.
    fn find(text: &str, begin: usize) -> Option<Self> {
        let mut parts = Vec::new();
        let mut from = begin;
        let mut quote = None;
        let bytes = text.as_bytes();
        let mut at = begin;
        while let Some(&byte) = bytes.get(at) {
            let next = bytes.get(at + 1);
            match (quote, byte) {
                (Some(_), b'\\') => at += 1,
                (Some(open), byte) if open == byte => quote = None,
                (Some(_), _) => {}
                (None, b'\'' | b'"') => quote = Some(byte),
                (None, b'|') if next == Some(&b'|') => at += 1,
                (None, b'|') => {
                    parts.push((from, at));
                    from = at + 1;
                }
                (None, b'}') if next == Some(&b'}') => {
                    parts.push((from, at));
                    let mut parts = parts.into_iter();
                    return Some(Self {
                        expression: parts.next()?,
                        filters: parts.collect(),
                        after: at + 2,
                    });
                }
                _ => {}
            }
            at += 1;
        }
        None
    }
}

impl CompiledTemplate {
    /// Starts a clause at `[[`, or ends the open clause at `]]`.
    fn clause(&mut self, open: usize, mark: &str) -> Result<(), String> {
        if mark == "[[" {
            if self.clause.is_some() {
                return Err("a clause cannot contain another clause".to_owned());
            }
            self.clause = Some((open, self.template.parts.len()));
            return Ok(());
        }
        // Outside a clause, `]]` is text, such as the end of nested lists.
        let Some((_, from)) = self.clause.take() else {
            self.template.parts.push(TemplatePart::Text("]]".into()));
            return Ok(());
        };
        let parts = self.template.parts.split_off(from.min(self.template.parts.len()));
        if !parts.iter().any(|part| matches!(part, TemplatePart::Value(..))) {
            return Err("the clause that ends here has no value that could be unknown".to_owned());
        }
        self.template.parts.push(TemplatePart::Clause(parts));
        Ok(())
    }

    fn text(&mut self, text: &str, from: usize, to: usize, is_value: &IsValue<'_>) {
        let literal = text.get(from..to).unwrap_or_default();
        if literal.is_empty() {
            return;
        }
        self.template.parts.push(TemplatePart::Text(literal.into()));
        for (at, message) in meant(literal, is_value) {
            self.warnings.push(Mistake::at(text, from + at, message));
        }
    }

    fn mistake(&mut self, text: &str, at: usize, message: String) {
        self.mistakes.push(Mistake::at(text, at, message));
    }

    fn value(&mut self, text: &str, hole: &Hole, compile: &mut Compile<'_>) {
        let (from, to) = trimmed(text, hole.expression);
        let inner = text.get(from..to).unwrap_or_default();
        if inner.is_empty() {
            self.mistake(text, from, "an expression is missing between `{{` and `}}`".to_owned());
            return;
        }
        let moved = |mistake: Mistake| moved(mistake, place(text, from));
        let compiled = match compile(inner) {
            Ok(compiled) => compiled,
            Err(mistakes) => {
                self.mistakes.extend(mistakes.into_iter().map(moved));
                return;
            }
        };
        let mut form = Form::Plain;
        for (index, filter) in hole.filters.iter().enumerate() {
            let (from, to) = trimmed(text, *filter);
            let word = text.get(from..to).unwrap_or_default();
            let read = if index > 0 {
                Err("only one filter is allowed".to_owned())
            } else {
                filter_of(word).and_then(|form| fits(form, word, inner, &compiled).map(|()| form))
            };
            match read {
                Ok(read) => form = read,
                Err(message) => self.mistake(text, from, message),
            }
        }
        self.template
            .parts
            .push(TemplatePart::Value(compiled.expression.clone(), form));
        self.values.push(compiled);
    }
}

fn trimmed(text: &str, (from, to): (usize, usize)) -> (usize, usize) {
    let part = text.get(from..to).unwrap_or_default();
    let begin = from + (part.len() - part.trim_start().len());
    (begin, begin + part.trim().len())
}

/// Converts the position of a mistake in a part to a position in the template.
fn moved(mistake: Mistake, (line, column): (usize, usize)) -> Mistake {
    Mistake {
        line: line + mistake.line.saturating_sub(1),
        column: if mistake.line <= 1 {
            column + mistake.column.saturating_sub(1)
        } else {
            mistake.column
        },
        ..mistake
    }
}

fn filter_of(word: &str) -> Result<Form, String> {
    let (name, argument) = match word.split_once('(') {
        Some((name, rest)) => (
            name.trim(),
            Some(rest.strip_suffix(')').ok_or("a `)` is missing after the filter")?),
        ),
        None => (word, None),
    };
    let there_are = || format!("use one of {}", FILTERS.join(", "));
    let form = match name {
        "round" => {
            let digits = argument.unwrap_or("0").trim().parse().ok();
            return digits
                .filter(|digits| *digits <= MAX_DIGITS)
                .map(Form::Round)
                .ok_or_else(|| format!("round requires a number of decimal places, 0 to {MAX_DIGITS}: round(1)"));
        }
        "bytes" => Form::Bytes,
        "percent" => Form::Percent,
        "ms" => Form::Milliseconds,
        "s" => Form::Seconds,
        "" => return Err(format!("a filter is missing after `|`; {}", there_are())),
        other => {
            let hint = did_you_mean(other, FILTERS).unwrap_or_else(there_are);
            return Err(format!("{} is not a filter; {hint}", quoted(other)));
        }
    };
    match argument {
        Some(_) => Err(format!("the filter {name} has no argument")),
        None => Ok(form),
    }
}

/// Returns warnings about literal text that was probably meant as a value, each with its position: `{ n }`, `${n}`, and
/// a `}}` without its start.
fn meant(literal: &str, is_value: &IsValue<'_>) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (open, _) in literal.match_indices('{') {
        let Some(inner) = literal.get(open + 1..).and_then(|rest| rest.split_once('}')) else {
            continue;
        };
        let inner = inner.0.trim();
        let value = inner.split('|').next().unwrap_or_default().trim();
        let shell = literal.get(..open).is_some_and(|before| before.ends_with('$'));
        let is_name = value.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && value.chars().all(|c| c.is_ascii_alphanumeric() || "._".contains(c));
        if is_name && (shell || is_value(value)) {
            let (at, sign) = if shell { (open - 1, "$") } else { (open, "") };
            found.push((
                at,
                format!("`{sign}{{{inner}}}` is text and is not replaced; a value is `{{{{ {inner} }}}}`"),
            ));
        }
    }
    if let Some(at) = literal.find("}}")
        && let Some(word) = literal
            .get(..at)
            .and_then(|before| before.split_whitespace().next_back())
        && is_value(word)
    {
        found.push((at, "`}}` closes no value: a value starts with `{{`".to_owned()));
    }
    found
}

/// Checks that the value is a number and, if its unit is known, that the filter is for this unit.
fn fits(form: Form, word: &str, text: &str, compiled: &CompiledExpression) -> Result<(), String> {
    let expression = &compiled.expression;
    if !expression.kind.is_number() {
        let article = if expression.kind == Type::Int { "an" } else { "a" };
        return Err(format!(
            "the filter {} is for numbers, and this is {article} {}",
            quoted(word),
            expression.kind.name()
        ));
    }
    let wanted = match form {
        Form::Plain | Form::Round(_) => return Ok(()),
        Form::Bytes => ["bytes", "bytes/s"].as_slice(),
        Form::Percent => &["ratio"],
        Form::Milliseconds => &["ms"],
        Form::Seconds => &["s"],
    };
    let of_window = matches!(expression.node, Node::Window(_));
    let own = match compiled.unit {
        Unit::Share => "ratio",
        // A slope is displayed as the change per hour.
        Unit::Named(name) => name.strip_suffix(" per hour").unwrap_or(name),
        Unit::Count if of_window => "",
        Unit::Count | Unit::Any | Unit::Unknown => return Ok(()),
    };
    if wanted.contains(&own) {
        return Ok(());
    }
    let hint = match (form, own) {
        (Form::Milliseconds, "ns") => "; use the field that ends in _ms",
        (Form::Percent, "percent") => "; it is already a percentage",
        _ => "",
    };
    let unit = wanted.first().copied().unwrap_or_default();
    let own = if own.is_empty() {
        "a count".to_owned()
    } else {
        format!("in {own}")
    };
    Err(format!(
        "{} is {own}, and the filter {} is for {unit}{hint}",
        quoted(text),
        quoted(word)
    ))
}
