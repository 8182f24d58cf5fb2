//! Literals: their ends in a text, and their values.

use super::syntax::Shape;

/// The start of a string literal.
#[derive(Debug, Clone, Copy)]
struct Quote {
    /// `b'...'`
    bytes: bool,
    /// `r'...'`: a backslash is an ordinary character.
    raw: bool,
    marks: &'static str,
    /// Start of the content.
    begin: usize,
}

impl Quote {
    fn parse(text: &str) -> Option<Self> {
        let (bytes, rest) = text.strip_prefix(['b', 'B']).map_or((false, text), |rest| (true, rest));
        let (raw, rest) = rest.strip_prefix(['r', 'R']).map_or((false, rest), |rest| (true, rest));
        let marks = ["\"\"\"", "'''", "\"", "'"]
            .into_iter()
            .find(|marks| rest.starts_with(*marks))?;
        Some(Self {
            bytes,
            raw,
            marks,
            begin: usize::from(bytes) + usize::from(raw) + marks.len(),
        })
    }
}

/// Returns the length of the string literal at the start of a text, and whether it is a bytes literal. Returns `None`
/// if no string literal starts here.
pub(super) fn quoted(text: &str) -> Option<Result<(usize, bool), String>> {
    let quote = Quote::parse(text)?;
    Some(end(text, quote).map(|end| (end, quote.bytes)))
}

fn end(text: &str, quote: Quote) -> Result<usize, String> {
    let mut at = quote.begin;
    while let Some(rest) = text.get(at..) {
        if rest.starts_with(quote.marks) {
            return Ok(at + quote.marks.len());
        }
        let mut letters = rest.chars();
        match letters.next() {
            None => break,
            Some('\n' | '\r') if quote.marks.len() == 1 => break,
            Some('\\') if !quote.raw => at += 1 + escape(letters.as_str())?.1,
            Some(letter) => at += letter.len_utf8(),
        }
    }
    Err(format!(
        "the string that starts here is not closed: {} is missing",
        quote.marks
    ))
}

/// Returns the value of a string literal found by [`quoted`].
pub(super) fn text(word: &str) -> Box<str> {
    let content = Quote::parse(word).and_then(|quote| {
        let content = word.get(quote.begin..)?.strip_suffix(quote.marks)?;
        Some((content, quote.raw))
    });
    let Some((content, raw)) = content else {
        return word.into();
    };
    let content = content.replace("\r\n", "\n").replace('\r', "\n");
    if raw {
        return content.into();
    }
    let mut value = String::with_capacity(content.len());
    let mut rest = content.as_str();
    while let Some((plain, escaped)) = rest.split_once('\\') {
        value.push_str(plain);
        let (letter, length) = escape(escaped).unwrap_or(('\\', 0));
        value.push(letter);
        rest = escaped.get(length..).unwrap_or("");
    }
    value.push_str(rest);
    value.into()
}

/// Returns the character of an escape sequence, and the number of bytes after its backslash.
fn escape(text: &str) -> Result<(char, usize), String> {
    let coded = |from: usize, digits: usize, radix: u32| {
        let code = text.get(from..from + digits)?;
        let code = code.chars().try_fold(0_u32, |code, digit| {
            Some((code << radix.ilog2()) | digit.to_digit(radix)?)
        })?;
        Some((char::from_u32(code)?, from + digits))
    };
    let first = text.chars().next();
    let meaning = match first {
        Some('a') => Some(('\u{7}', 1)),
        Some('b') => Some(('\u{8}', 1)),
        Some('f') => Some(('\u{c}', 1)),
        Some('n') => Some(('\n', 1)),
        Some('r') => Some(('\r', 1)),
        Some('t') => Some(('\t', 1)),
        Some('v') => Some(('\u{b}', 1)),
        Some(mark @ ('"' | '\'' | '\\' | '?' | '`')) => Some((mark, 1)),
        Some('x' | 'X') => coded(1, 2, 16),
        Some('u') => coded(1, 4, 16),
        Some('U') => coded(1, 8, 16),
        Some('0'..='3') => coded(0, 3, 8),
        _ => None,
    };
    meaning.ok_or_else(|| {
        let letter = first.map_or(String::new(), |letter| letter.escape_debug().to_string());
        format!("`\\{letter}` is not a valid escape in this string; write `\\\\`, or put r before the quotes")
    })
}

/// Returns the length of the number at the start, in bytes.
pub(super) fn number_length(bytes: &[u8]) -> usize {
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

/// Returns the value of a number. If `negative`, the preceding minus is part of the number, because -2^63 would be too
/// large without its sign.
///
/// # Errors
///
/// Returns an error if the number is too large or unsigned.
pub(super) fn number(word: &str, negative: bool) -> Result<Shape, String> {
    let sign = if negative { "-" } else { "" };
    let (digits, radix) = word.strip_prefix("0x").map_or((word, 10), |digits| (digits, 16));
    let too_large = || format!("`{word}` does not fit into 64 bits");
    if let Some(digits) = digits.strip_suffix(['u', 'U']) {
        return Err(u64::from_str_radix(digits, radix).map_or_else(
            |_| too_large(),
            |number| format!("rules have no unsigned numbers; write `{number}`"),
        ));
    }
    if radix == 10 && digits.contains(['.', 'e', 'E']) {
        return match format!("{sign}{digits}").parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Shape::Double(number)),
            _ => Err(format!("`{word}` is too large for a double")),
        };
    }
    match i64::from_str_radix(&format!("{sign}{digits}"), radix) {
        Ok(number) => Ok(Shape::Int(number)),
        Err(_) => Err(too_large()),
    }
}
