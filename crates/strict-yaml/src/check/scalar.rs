//! Checks a scalar against a rule.

use base::quote::quoted;
use serde_json::{Number, Value};

use super::nearest;
use crate::yaml::Scalar;

pub(super) fn one_of(scalar: &Scalar, words: &[(&str, Option<&str>)], secret: bool) -> Result<Value, String> {
    let text = scalar.text.as_str();
    if words.iter().any(|(word, _)| *word == text) {
        return Ok(Value::from(text));
    }
    let shown = shown(text, secret);
    Err(match nearest(text, words.iter().map(|(word, _)| *word)) {
        Some(near) => format!("{shown} is not one of {}; did you mean `{near}`?", list(words)),
        None => format!("{shown} is not one of {}", list(words)),
    })
}

pub(super) fn truth(scalar: &Scalar, secret: bool) -> Result<Value, String> {
    scalar.as_bool().map(Value::Bool).ok_or_else(|| {
        let shown = shown(&scalar.text, secret);
        if scalar.plain {
            format!("{shown} is neither true nor false")
        } else {
            format!("{shown} in quotes is a string; write true or false")
        }
    })
}

pub(super) fn integer(scalar: &Scalar, rule: &Value, secret: bool) -> Result<Value, String> {
    let shown = shown(&scalar.text, secret);
    let Some(number) = scalar.as_integer() else {
        return Err(format!("{shown} is not an integer"));
    };
    // The limits of the type apply unless the schema states limits.
    let (mut least, mut most) = match rule.get("format").and_then(Value::as_str) {
        Some("uint8") => (0, i128::from(u8::MAX)),
        Some("uint16") => (0, i128::from(u16::MAX)),
        Some("uint32") => (0, i128::from(u32::MAX)),
        Some("uint64" | "uint") => (0, i128::from(u64::MAX)),
        Some("int32") => (i128::from(i32::MIN), i128::from(i32::MAX)),
        _ => (i128::from(i64::MIN), i128::from(i64::MAX)),
    };
    let bound = |keyword: &str| rule.get(keyword).and_then(Value::as_number).and_then(Number::as_i128);
    least = bound("minimum").unwrap_or(least);
    most = bound("maximum").unwrap_or(most);
    if number < least {
        return Err(format!("{shown} is too small; at least {least}"));
    }
    if number > most {
        return Err(format!("{shown} is too large; at most {most}"));
    }
    let value = i64::try_from(number).map(Value::from);
    value
        .or_else(|_| u64::try_from(number).map(Value::from))
        .map_err(|_| format!("{shown} is too large"))
}

pub(super) fn number(scalar: &Scalar, rule: &Value, secret: bool) -> Result<Value, String> {
    let shown = shown(&scalar.text, secret);
    let Some(number) = scalar.as_number() else {
        return Err(format!("{shown} is not a number"));
    };
    let bound = |keyword: &str| rule.get(keyword).and_then(Value::as_f64);
    if let Some(least) = bound("minimum").filter(|least| number < *least) {
        return Err(format!("{shown} is too small; at least {least}"));
    }
    if let Some(most) = bound("maximum").filter(|most| number > *most) {
        return Err(format!("{shown} is too large; at most {most}"));
    }
    Ok(Value::from(number))
}

/// Returns the value in backquotes, or a placeholder if the value can be secret.
pub(super) fn shown(text: &str, secret: bool) -> String {
    if secret {
        "the value (not shown)".to_owned()
    } else {
        quoted(text)
    }
}

pub(super) fn list(words: &[(&str, Option<&str>)]) -> String {
    let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    words.join(", ")
}
