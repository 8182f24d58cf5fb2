//! A method's own name, without its type: lambdas, local functions, arguments, explicit implementations.

use super::MAX_DEPTH;
use super::compiler_generated::{bracketed, lambda};
use super::type_syntax::{Type, angle, keyword, parse};

/// A method's own name, taken apart.
pub(super) struct Own {
    pub(super) base: String,
    pub(super) suffix: Option<String>,
}

impl Own {
    pub(super) fn of(name: &str) -> Self {
        Self::nested(name, 0)
    }

    fn nested(name: &str, depth: u32) -> Self {
        if depth < MAX_DEPTH
            && let Some((inner, rest)) = bracketed(name)
            && !inner.is_empty()
        {
            let suffix = if let Some(number) = rest.strip_prefix("b__") {
                Some(lambda(number))
            } else if let Some(local) = rest.strip_prefix("g__") {
                let local = local.split('|').next().unwrap_or(local);
                Some(format!("local function {local}"))
            } else if matches!(rest, "" | "$") {
                // `<Main>$` of top-level statements, the `<Main>` that waits for an asynchronous one, `<Clone>$`.
                None
            } else {
                return Self {
                    base: name.to_owned(),
                    suffix: None,
                };
            };
            let inner = Self::nested(inner, depth + 1);
            return Self {
                base: inner.base,
                suffix: suffix.or(inner.suffix),
            };
        }
        if let Some(number) = name.strip_prefix("_Lambda$__") {
            return Self {
                base: String::new(),
                suffix: Some(lambda(&number.replace('-', "_"))),
            };
        }
        // The arguments of a generic method.
        let plain = name.split_once('[').map(|(plain, _)| plain);
        // A bracket within <> is of an array, in the name of an explicit implementation.
        let is_outside = |plain: &&str| plain.matches('<').count() == plain.matches('>').count();
        let base = match plain.filter(is_outside) {
            Some(plain) if !plain.is_empty() => match parse(name) {
                Some(parsed) => format!(
                    "{plain}{}",
                    angle(&parsed.arguments.iter().map(Type::short).collect::<Vec<_>>())
                ),
                None => name.to_owned(),
            },
            _ => name.to_owned(),
        };
        Self {
            base: explicit(&base),
            suffix: None,
        }
    }
}

/// `System.Collections.IEnumerable.GetEnumerator` of an explicit implementation: namespaces are left out.
fn explicit(name: &str) -> String {
    if name.starts_with('.') {
        return name.to_owned();
    }
    let mut depth = 0_u32;
    let last_dot = name.bytes().enumerate().filter(|(_, byte)| {
        match byte {
            b'<' => depth += 1,
            b'>' => depth = depth.saturating_sub(1),
            _ => {}
        }
        *byte == b'.' && depth == 0
    });
    let last_dot = last_dot.last().map(|(at, _)| at);
    match last_dot.and_then(|at| name.split_at_checked(at)) {
        Some((interface, member)) => format!("{}{member}", written(interface)),
        None => name.to_owned(),
    }
}

/// A type as C# writes it in the name of an explicit implementation, `System.IComparable<System.Int32>`, in short.
fn written(text: &str) -> String {
    let mut short = String::new();
    let is_mark = |letter: char| matches!(letter, '<' | '>' | ',' | '[' | ']' | '*' | '&' | '?' | ' ');
    for part in text.split_inclusive(is_mark) {
        let (name, mark) = match part.char_indices().next_back() {
            Some((at, mark)) if is_mark(mark) => part.split_at(at),
            _ => (part, ""),
        };
        let after = name.rfind('.').and_then(|dot| name.get(dot + 1..));
        short.push_str(keyword(name).or(after).unwrap_or(name));
        short.push_str(if mark == "," { ", " } else { mark });
    }
    short
}
