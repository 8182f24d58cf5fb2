//! Texts with values in them: `gen{{ gc.generation }} paused {{ gc.pause_ms | ms }}`.
//!
//! Between `{{` and `}}` stands an expression and, after `|`, how its value is written. All of it is checked when the file is read; to
//! write a text never fails: what is unknown is `<na>`.

use std::fmt::Write as _;

use super::expression::Expression;
use super::field::Scope;
use super::rule::{Form, Part, Template};
use super::value::{Texts, Value};

mod number;
mod parse;

pub(crate) use parse::{Filling, parse};

/// Longest summary or annotation, bytes.
pub const MOST_TEXT_BYTES: usize = 1024;
/// Longest value of a label, bytes.
pub const MOST_LABEL_BYTES: usize = 256;

/// Stands for a value that is unknown.
pub const UNKNOWN: &str = "<na>";
/// Stands for a value that cannot be computed, such as one divided by zero.
const FAILED: &str = "<error>";
/// Ends a text that was cut.
const CUT: char = '…';

impl Template {
    /// The text, at most [`MOST_TEXT_BYTES`]; for summaries and annotations.
    pub fn render(&self, scope: &Scope<'_>) -> String {
        self.render_within(scope, MOST_TEXT_BYTES)
    }

    /// The text, at most [`MOST_LABEL_BYTES`]; for labels.
    pub fn render_label(&self, scope: &Scope<'_>) -> String {
        self.render_within(scope, MOST_LABEL_BYTES)
    }

    /// The text, at most `most` bytes (at least those of `…`, by which a longer one ends). Control characters of values are written as
    /// escapes: names of processes are foreign.
    pub fn render_within(&self, scope: &Scope<'_>, most: usize) -> String {
        let mut out = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Value(expression, form) => push_value(&mut out, expression, *form, scope, most),
            }
            if out.len() > most {
                cut(&mut out, most);
                break;
            }
        }
        out
    }
}

/// Cuts a text that is too long between characters, so that it ends in `…`.
fn cut(out: &mut String, most: usize) {
    let end = most.saturating_sub(CUT.len_utf8());
    let end = (0..=end).rev().find(|&end| out.is_char_boundary(end)).unwrap_or(0);
    out.truncate(end);
    out.push(CUT);
}

fn push_value(out: &mut String, expression: &Expression, form: Form, scope: &Scope<'_>, most: usize) {
    match expression.evaluate(scope) {
        Err(_) => out.push_str(FAILED),
        Ok(None) => out.push_str(UNKNOWN),
        Ok(Some(Value::Bool(truth))) => out.push_str(if truth { "true" } else { "false" }),
        Ok(Some(Value::Int(number))) => number::push(out, number::Number::Whole(number), form),
        Ok(Some(Value::Double(number))) => number::push(out, number::Number::Broken(number), form),
        Ok(Some(Value::Text(text))) => push_foreign(out, text, most),
        Ok(Some(Value::Texts(texts))) => push_texts(out, texts, most),
    }
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

/// A text from outside: no character that a terminal, a log or a header would obey, and no more of it than fits.
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
