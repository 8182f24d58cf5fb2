//! The words of an expression, and how many: bounds before anything is parsed.

use super::{MAX_TOKENS, Mistake};

/// What a word is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// `gc`, `true`, `in`
    Name,
    /// `5`, `0.5`
    Number,
    /// `'a'`
    Text,
    /// `&&`, `(`
    Symbol,
}

/// A word and where it begins, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token<'a> {
    /// What it is.
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
    if let Some(quote) = quote(text) {
        return quoted(text, quote).map(|length| (Kind::Text, length));
    }
    if byte(0).is_ascii_digit() || (byte(0) == b'.' && byte(1).is_ascii_digit()) {
        return Ok((Kind::Number, number(bytes)));
    }
    if byte(0).is_ascii_alphabetic() || byte(0) == b'_' {
        let length = bytes
            .iter()
            .take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_')
            .count();
        return Ok((Kind::Name, length));
    }
    match SYMBOLS.iter().find(|symbol| text.starts_with(**symbol)) {
        Some(&"`") => Err("unexpected ` here; texts stand in quotes: 'Induced'".to_owned()),
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
        '\u{2018}' | '\u{2019}' | '\u{201c}' | '\u{201d}' => "; texts stand in straight quotes: 'Induced'",
        '\u{2264}' => "; write `<=`",
        '\u{2265}' => "; write `>=`",
        '\u{2260}' => "; write `!=`",
        _ => "",
    };
    format!("unexpected `{}` here{hint}", first.escape_debug())
}

/// How a text in quotes begins: the length of what is before the quotes, the quotes, whether backslashes are letters in it.
fn quote(text: &str) -> Option<(usize, &'static str, bool)> {
    let mut raw = false;
    let mut start = 0;
    for byte in text.bytes().take(2) {
        match byte {
            b'r' | b'R' => raw = true,
            b'b' | b'B' => {}
            _ => break,
        }
        start += 1;
    }
    let rest = text.get(start..)?;
    let quotes = ["\"\"\"", "'''", "\"", "'"]
        .into_iter()
        .find(|quotes| rest.starts_with(*quotes))?;
    Some((start, quotes, raw))
}

fn quoted(text: &str, (start, quotes, raw): (usize, &'static str, bool)) -> Result<usize, String> {
    let begin = start + quotes.len();
    let mut at = begin;
    while let Some(rest) = text.get(at..) {
        if rest.starts_with(quotes) {
            return Ok(at + quotes.len());
        }
        let mut letters = rest.chars();
        match letters.next() {
            None => break,
            Some('\n' | '\r') if quotes.len() == 1 => break,
            Some('\\') if !raw => at += 1 + escape(letters.as_str())?,
            Some(letter) => at += letter.len_utf8(),
        }
    }
    Err(format!("the text that begins here has no end: {quotes} is missing"))
}

/// Bytes of what follows a backslash.
fn escape(text: &str) -> Result<usize, String> {
    let digits = |from: usize, count: usize, radix: u32| {
        let all = text.get(from..from + count)?;
        all.chars().all(|digit| digit.is_digit(radix)).then_some(from + count)
    };
    let length = match text.bytes().next() {
        Some(b'a' | b'b' | b'f' | b'n' | b'r' | b't' | b'v' | b'"' | b'\'' | b'\\' | b'?' | b'`') => Some(1),
        Some(b'x' | b'X') => digits(1, 2, 16),
        Some(b'u') => digits(1, 4, 16),
        Some(b'U') => digits(1, 8, 16),
        Some(b'0'..=b'3') => digits(0, 3, 8),
        _ => None,
    };
    length.ok_or_else(|| {
        let letter = text
            .chars()
            .next()
            .map_or(String::new(), |letter| letter.escape_debug().to_string());
        format!("`\\{letter}` means nothing in this text; write `\\\\`, or put r before the quotes")
    })
}

/// Bytes of the number at the beginning.
fn number(bytes: &[u8]) -> usize {
    let digits = |from: usize| bytes.iter().skip(from).take_while(|byte| byte.is_ascii_digit()).count();
    let byte = |index: usize| bytes.get(index).copied().unwrap_or(0);
    let mut at = digits(0);
    if at == 1 && byte(0) == b'0' && byte(1) == b'x' && byte(2).is_ascii_hexdigit() {
        at = 2 + bytes.iter().skip(2).take_while(|byte| byte.is_ascii_hexdigit()).count();
        return at + usize::from(matches!(byte(at), b'u' | b'U'));
    }
    if matches!(byte(at), b'u' | b'U') {
        return at + 1;
    }
    if byte(at) == b'.' && byte(at + 1).is_ascii_digit() {
        at += 1 + digits(at + 1);
    }
    if matches!(byte(at), b'e' | b'E') {
        let sign = usize::from(matches!(byte(at + 1), b'+' | b'-'));
        let exponent = digits(at + 1 + sign);
        if exponent > 0 {
            at += 1 + sign + exponent;
        }
    }
    at
}
