//! The words of an expression, and how many: bounds before anything is parsed.

use super::literal::{number_length, quoted};
use super::{MAX_TOKENS, Mistake};

/// What a word is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// `gc`
    Name,
    /// `true`, `in`: no name.
    Keyword,
    /// `5`, `0.5`
    Number,
    /// `'a'`
    Text,
    /// `b'a'`
    Bytes,
    /// `&&`, `(`
    Symbol,
}

/// A word and where it begins, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind,
    /// As it is written.
    pub(super) text: &'a str,
    /// Its first byte.
    pub(super) at: usize,
}

/// Longest first.
const SYMBOLS: [&str; 25] = [
    "&&", "||", "==", "!=", "<=", ">=", "(", ")", "[", "]", "{", "}", "<", ">", "!", "-", "+", "*", "/", "%", "?", ":",
    ".", ",", "`",
];

/// The words of a text.
///
/// # Errors
///
/// The first thing that is no word, or too many words.
pub(super) fn tokens(text: &str) -> Result<Vec<Token<'_>>, Mistake> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(rest) = text.get(at..) {
        let Some(first) = rest.chars().next() else { break };
        if matches!(first, ' ' | '\t' | '\r' | '\n' | '\u{c}') {
            at += 1;
            continue;
        }
        if rest.starts_with("//") {
            at += rest.find('\n').unwrap_or(rest.len());
            continue;
        }
        let (kind, length) = word(rest).map_err(|message| Mistake::at(text, at, message))?;
        if tokens.len() == MAX_TOKENS {
            let message = format!(
                "the expression is too long: more than {MAX_TOKENS} words and signs; move parts of it to macros"
            );
            return Err(Mistake::at(text, at, message));
        }
        tokens.push(Token {
            kind,
            text: rest.get(..length).unwrap_or(rest),
            at,
        });
        at += length;
    }
    Ok(tokens)
}

/// The word that a text begins with: what it is, and its bytes.
fn word(text: &str) -> Result<(Kind, usize), String> {
    let bytes = text.as_bytes();
    let byte = |index: usize| bytes.get(index).copied().unwrap_or(0);
    if let Some(quoted) = quoted(text) {
        return quoted.map(|(length, bytes)| (if bytes { Kind::Bytes } else { Kind::Text }, length));
    }
    if byte(0).is_ascii_digit() || (byte(0) == b'.' && byte(1).is_ascii_digit()) {
        return Ok((Kind::Number, number_length(bytes)));
    }
    if byte(0).is_ascii_alphabetic() || byte(0) == b'_' {
        let length = bytes
            .iter()
            .take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_')
            .count();
        let keyword = matches!(text.get(..length), Some("true" | "false" | "null" | "in"));
        return Ok((if keyword { Kind::Keyword } else { Kind::Name }, length));
    }
    match SYMBOLS.iter().find(|symbol| text.starts_with(**symbol)) {
        Some(&"`") => Err("unexpected ` here; strings are in quotes: 'Induced'".to_owned()),
        Some(symbol) => Ok((Kind::Symbol, symbol.len())),
        None => Err(stranger(text)),
    }
}

/// A sign that the language does not have.
fn stranger(text: &str) -> String {
    let first = text.chars().next().unwrap_or(' ');
    let hint = match first {
        '=' => "; `==` compares",
        '&' => "; `&&` is and",
        '|' => "; `||` is or",
        '\u{2018}' | '\u{2019}' | '\u{201c}' | '\u{201d}' => "; strings are in straight quotes: 'Induced'",
        '\u{2264}' => "; write `<=`",
        '\u{2265}' => "; write `>=`",
        '\u{2260}' => "; write `!=`",
        _ => "",
    };
    format!("unexpected `{}` here{hint}", first.escape_debug())
}
