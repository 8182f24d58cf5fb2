//! Strings with values in them: `gen{{ gc.generation }} paused {{ gc.pause_ms | ms }}`.
//!
//! Between `{{` and `}}` is an expression and, after `|`, the filter for its value. Templates are checked when the file
//! is read; rendering never fails: unknown values are `<na>`. A clause in `[[` and `]]` is left out when a value in it
//! is unknown or an empty string: `No space[[, the limit is {{ settings.hard_limit | bytes }}]]`.

use std::fmt::Write as _;

use super::expression::Expression;
use super::field::Scope;
use super::rule::{Form, Template, TemplatePart};
use super::value::{Texts, Value};

mod number;

/// Maximum length of a summary or annotation, bytes.
pub const MOST_TEXT_BYTES: usize = 1024;
/// Maximum length of a label's value, bytes.
pub const MOST_LABEL_BYTES: usize = 256;

/// An unknown value.
pub const UNKNOWN: &str = "<na>";
/// A value whose evaluation failed, such as a division by zero.
const FAILED: &str = "<error>";
/// The end of a truncated string.
const CUT: char = '…';

impl Template {
    /// The string, at most [`MOST_TEXT_BYTES`]; for summaries and annotations.
    pub fn render(&self, scope: &Scope<'_>) -> String {
        self.render_within(scope, MOST_TEXT_BYTES)
    }

    /// The string, at most [`MOST_LABEL_BYTES`]; for labels.
    pub fn render_label(&self, scope: &Scope<'_>) -> String {
        self.render_within(scope, MOST_LABEL_BYTES)
    }

    /// The figure that it is about: its first value with a unit or decimal places, else its first window. How long
    /// the process was watched is none. `None`: it has none, or it is unknown.
    pub(crate) fn figure(&self, scope: &Scope<'_>) -> Option<f64> {
        let values = || {
            self.parts.iter().filter_map(|part| match part {
                TemplatePart::Value(expression, form) => Some((expression, *form)),
                // What may be left out is not what it is about.
                TemplatePart::Text(_) | TemplatePart::Clause(_) => None,
            })
        };
        let with_unit = values().find(|(expression, form)| *form != Form::Plain && expression.is_measured());
        let about = with_unit.or_else(|| values().find(|(expression, _)| expression.is_window()))?;
        about.0.number(scope)
    }

    /// The string, at most `most` bytes (at least those of `…`, which ends a truncated one). Control characters of
    /// values are escaped: names of processes are foreign.
    pub fn render_within(&self, scope: &Scope<'_>, most: usize) -> String {
        let mut out = String::new();
        for part in &self.parts {
            match part {
                TemplatePart::Text(text) => out.push_str(text),
                TemplatePart::Value(expression, form) => {
                    push_value(&mut out, expression, *form, scope, most);
                }
                TemplatePart::Clause(parts) => push_clause(&mut out, parts, scope, most),
            }
            if out.len() > most {
                cut(&mut out, most);
                break;
            }
        }
        out
    }
}

/// Appends a clause, or nothing when a value in it says nothing.
fn push_clause(out: &mut String, parts: &[TemplatePart], scope: &Scope<'_>, most: usize) {
    let before = out.len();
    for part in parts {
        let says = match part {
            TemplatePart::Text(text) => {
                out.push_str(text);
                true
            }
            TemplatePart::Value(expression, form) => push_value(out, expression, *form, scope, most),
            TemplatePart::Clause(_) => true,
        };
        if !says {
            out.truncate(before);
            return;
        }
    }
}

/// Truncates a string between characters, with `…` at its end.
fn cut(out: &mut String, most: usize) {
    let end = most.saturating_sub(CUT.len_utf8());
    let end = (0..=end).rev().find(|&end| out.is_char_boundary(end)).unwrap_or(0);
    out.truncate(end);
    out.push(CUT);
}

/// Appends a value. Returns whether it says something: it is known, and no empty string.
fn push_value(out: &mut String, expression: &Expression, form: Form, scope: &Scope<'_>, most: usize) -> bool {
    let before = out.len();
    match expression.evaluate(scope) {
        Err(_) => out.push_str(FAILED),
        Ok(None) => {
            out.push_str(UNKNOWN);
            return false;
        }
        Ok(Some(Value::Bool(boolean))) => out.push_str(if boolean { "true" } else { "false" }),
        Ok(Some(number @ (Value::Int(_) | Value::Double(_)))) => number::push(out, number, form),
        Ok(Some(Value::Text(text))) => push_foreign(out, text, most),
        Ok(Some(Value::Texts(texts))) => push_texts(out, texts, most),
    }
    out.len() > before
}

fn push_texts(out: &mut String, texts: Texts<'_>, most: usize) {
    let mut first = true;
    texts.for_each(|text| {
        if !first {
            out.push_str(", ");
        }
        first = false;
        push_foreign(out, text, most);
    });
}

/// A foreign string: escapes characters that a terminal, a log or a header would interpret, and stops at the limit.
fn push_foreign(out: &mut String, text: &str, most: usize) {
    for c in text.chars() {
        if out.len() > most {
            return;
        }
        if c.is_control() || is_invisible(c) {
            // Writing to a string cannot fail.
            let _ = write!(out, "{}", c.escape_unicode());
        } else {
            out.push(c);
        }
    }
}

/// Line separators and marks that change the direction of what follows.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
