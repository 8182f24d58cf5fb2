//! Splits an expression into tokens and checks the limits before parsing.

use super::literal::{number_length, quoted};
use super::{MAX_TOKENS, Mistake};

/// The kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// `gc`
    Name,
    /// `true`, `in`: not a name.
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

/// A token and its start, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind,
    /// Text as written.
    pub(super) text: &'a str,
    /// First byte.
    pub(super) at: usize,
}

/// All symbols; a symbol precedes its prefixes.
const SYMBOLS: [&str; 25] = [
    "&&", "||", "==", "!=", "<=", ">=", "(", ")", "[", "]", "{", "}", "<", ">", "!", "-", "+", "*", "/", "%", "?", ":",
    ".", ",", "`",
];

/// Splits a text into tokens.
///
/// # Errors
///
/// Returns the first invalid token, or an error if there are too many tokens.
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
            let message =
                format!("the expression is too long: more than {MAX_TOKENS} tokens; move parts of it to macros");
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

/// Returns the kind and length of the token at the start of a text.
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

/// Returns the message about a symbol that the language does not have.
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
