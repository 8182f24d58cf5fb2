//! Templates: texts with values, such as `gen{{ gc.generation }} paused {{ gc.pause_ms | ms }}`.
//!
//! `{{` and `}}` enclose an expression and, after `|`, the filter for its value. Templates are checked when the file is
//! read. Rendering never fails: unknown values are `<na>`. A clause in `[[` and `]]` is omitted if one of its values is
//! unknown or an empty string: `No space[[, the limit is {{ settings.hard_limit | bytes }}]]`.

use std::fmt::Write as _;

use super::expression::Expression;
use super::field::Scope;
use super::rule::{Form, Template, TemplatePart};
use super::value::{Texts, Value};

mod number;

/// Maximum length of a summary or annotation, in bytes.
pub const MAX_TEXT_BYTES: usize = 1024;
/// Maximum length of the value of a label, in bytes.
pub const MAX_LABEL_BYTES: usize = 256;

/// Text of an unknown value.
pub const UNKNOWN: &str = "<na>";
/// Text of a value whose evaluation failed, such as a division by zero.
const FAILED: &str = "<error>";
/// Last character of a truncated string.
const CUT: char = '…';

impl Template {
    /// Renders a summary or annotation of at most [`MAX_TEXT_BYTES`].
    pub fn render(&self, scope: &Scope<'_>) -> String {
        self.render_within(scope, MAX_TEXT_BYTES)
    }

    /// Renders a label of at most [`MAX_LABEL_BYTES`].
    pub fn render_label(&self, scope: &Scope<'_>) -> String {
        self.render_within(scope, MAX_LABEL_BYTES)
    }

    /// Returns the main figure of the text: its first value with a unit or decimal places, or its first window. The
    /// duration of observation does not count. Returns `None` if there is no such value, or if it is unknown.
    pub(crate) fn figure(&self, scope: &Scope<'_>) -> Option<f64> {
        let values = || {
            self.parts.iter().filter_map(|part| match part {
                TemplatePart::Value(expression, form) => Some((expression, *form)),
                // A clause that can be omitted is not the subject of the text.
                TemplatePart::Text(_) | TemplatePart::Clause(_) => None,
            })
        };
        let with_unit = values().find(|(expression, form)| *form != Form::Plain && expression.is_measured());
        let about = with_unit.or_else(|| values().find(|(expression, _)| expression.is_window()))?;
        about.0.number(scope)
    }

    /// Renders at most `most` bytes (at least the bytes of `…`, which ends a truncated text). Control characters of
    /// values are escaped because values such as process names come from other programs.
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

/// Appends a clause, or nothing if one of its values is unknown or empty.
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

/// Truncates a string between characters, and appends `…`.
fn cut(out: &mut String, most: usize) {
    let end = most.saturating_sub(CUT.len_utf8());
    let end = (0..=end).rev().find(|&end| out.is_char_boundary(end)).unwrap_or(0);
    out.truncate(end);
    out.push(CUT);
}

/// Appends a value. Returns whether the value is known and not an empty string.
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

/// Appends a string from another program. Escapes characters that a terminal, a log or a header would interpret, and
/// stops at the limit.
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

/// Returns whether a character separates lines or paragraphs, or changes the direction of the following text.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
