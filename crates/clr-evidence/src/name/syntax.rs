//! Parser for names of types and their members in the runtime's format. Each kind of name can contain the other kind:
//! the name of a generic method contains types, and the type of a state machine contains the name of its method.

use super::MAX_DEPTH;
use super::compiler_generated::{bracketed, lambda, parse_file_local, state_machine};

/// A parsed type name.
#[derive(Debug)]
pub(super) struct Type {
    /// Path of the nested types: `Shop.Outer`1`, `Inner`.
    path: Vec<String>,
    arguments: Vec<Type>,
    /// Suffix such as `[]` and `*`.
    tail: String,
}

pub(super) fn parse(raw: &str) -> Option<Type> {
    let mut rest = raw;
    let parsed = Type::read(&mut rest, 0)?;
    rest.is_empty().then_some(parsed)
}

impl Type {
    fn read(rest: &mut &str, depth: u32) -> Option<Self> {
        if depth > MAX_DEPTH {
            return None;
        }
        // Brackets and commas inside <> belong to a compiler-generated name.
        let mut angles = 0_u32;
        let end = rest.char_indices().find_map(|(at, character)| {
            match character {
                '<' => angles += 1,
                '>' => angles = angles.saturating_sub(1),
                '[' | ']' | ',' | '*' | '&' if angles == 0 => return Some(at),
                _ => {}
            }
            None
        });
        let (base, after) = rest.split_at_checked(end.unwrap_or(rest.len()))?;
        *rest = after;
        if base.is_empty() {
            return None;
        }
        let mut parsed = Self {
            path: base.split('+').map(str::to_owned).collect(),
            arguments: Vec::new(),
            tail: String::new(),
        };
        loop {
            if let Some(after) = rest.strip_prefix('[') {
                if after.starts_with([']', ',', '*']) {
                    let end = after.find(']')?;
                    parsed.tail.push_str(rest.get(..end + 2)?);
                    *rest = after.get(end + 1..)?;
                } else if parsed.arguments.is_empty() && parsed.tail.is_empty() {
                    *rest = after;
                    parsed.read_arguments(rest, depth)?;
                } else {
                    return None;
                }
            } else if let Some(mark) = rest.chars().next().filter(|mark| matches!(mark, '*' | '&')) {
                parsed.tail.push(mark);
                *rest = rest.get(1..)?;
            } else {
                return Some(parsed);
            }
        }
    }

    fn read_arguments(&mut self, rest: &mut &str, depth: u32) -> Option<()> {
        loop {
            if let Some(after) = rest.strip_prefix('[') {
                // An argument with its assembly: [System.Int32, System.Private.CoreLib, ...].
                *rest = after;
                self.arguments.push(Self::read(rest, depth + 1)?);
                let end = rest.find(']')?;
                *rest = rest.get(end + 1..)?;
            } else {
                self.arguments.push(Self::read(rest, depth + 1)?);
            }
            if let Some(after) = rest.strip_prefix(',') {
                *rest = after.trim_start();
            } else {
                *rest = rest.strip_prefix(']')?;
                return Some(());
            }
        }
    }

    /// Returns the names of the enclosing types and of the type, with their arguments.
    pub(super) fn segments(&self) -> Vec<String> {
        let arities = self.path.iter().map(|segment| arity(segment).1);
        // For a nested type, samples contain only the last name, with the arguments of all enclosing types.
        let mut surplus = self.arguments.len().saturating_sub(arities.sum());
        let mut arguments = self.arguments.iter().map(Self::short);
        let last = self.path.len().saturating_sub(1);
        let segments = self.path.iter().enumerate().map(|(place, segment)| {
            let (name, mut arity) = arity(segment);
            if place == last {
                arity += std::mem::take(&mut surplus);
            }
            let name = parse_file_local(name);
            if arity == 0 {
                return name;
            }
            let mut given: Vec<String> = arguments.by_ref().take(arity).collect();
            for place in given.len()..arity {
                given.push(if arity == 1 {
                    "T".to_owned()
                } else {
                    format!("T{}", place + 1)
                });
            }
            format!("{name}{}", angle(&given))
        });
        segments.collect()
    }

    /// Returns the name without namespace, or its C# keyword.
    pub(super) fn short(&self) -> String {
        let word = match self.path.as_slice() {
            [only] => keyword(only),
            _ => None,
        };
        if let Some(word) = word {
            return format!("{word}{}", self.tail);
        }
        let mut segments = self.segments();
        for segment in &mut segments {
            if let Some(name) = made(segment) {
                *segment = name;
            }
        }
        if let Some(first) = segments.first_mut() {
            let plain = first.find('<').filter(|at| *at > 0).unwrap_or(first.len());
            let dot = first.get(..plain).and_then(|head| head.rfind('.'));
            if let Some(dot) = dot {
                *first = first.get(dot + 1..).unwrap_or_default().to_owned();
            }
        }
        format!("{}{}", segments.join("."), self.tail)
    }
}

/// Returns the name in `Map`2` and the number of its type arguments, without the type arguments of outer types.
fn arity(segment: &str) -> (&str, usize) {
    let parts = segment.rsplit_once('`');
    match parts.map(|(name, arity)| (name, arity.parse::<usize>())) {
        Some((name, Ok(arity @ 1..=64))) => (name, arity),
        _ => (segment, 0),
    }
}

fn angle(arguments: &[String]) -> String {
    format!("<{}>", arguments.join(", "))
}

fn keyword(name: &str) -> Option<&'static str> {
    Some(match name {
        "System.Boolean" => "bool",
        "System.Byte" => "byte",
        "System.Char" => "char",
        "System.Decimal" => "decimal",
        "System.Double" => "double",
        "System.Int16" => "short",
        "System.Int32" => "int",
        "System.Int64" => "long",
        "System.Object" => "object",
        "System.SByte" => "sbyte",
        "System.Single" => "float",
        "System.String" => "string",
        "System.UInt16" => "ushort",
        "System.UInt32" => "uint",
        "System.UInt64" => "ulong",
        "System.Void" => "void",
        "System.__Canon" => "T",
        _ => return None,
    })
}

/// Returns the readable name of a compiler-generated type, or `None` if the type is not compiler-generated.
fn made(segment: &str) -> Option<String> {
    if let Some(number) = segment.strip_prefix("<>c__DisplayClass") {
        return Some(format!("closure {number}"));
    }
    if let Some(of) = state_machine(segment) {
        let of = MethodName::parse(&of);
        let suffix = of.suffix.map(|suffix| format!("{suffix}, ")).unwrap_or_default();
        return Some(format!("{} ({suffix}state machine)", of.base));
    }
    let name = segment
        .strip_prefix("<>f__")
        .or_else(|| segment.strip_prefix("<>z__"))?;
    Some(name.to_owned())
}

/// A parsed method name without its type: lambdas, local functions, arguments, explicit implementations.
pub(super) struct MethodName {
    pub(super) base: String,
    pub(super) suffix: Option<String>,
}

impl MethodName {
    pub(super) fn parse(name: &str) -> Self {
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
                // `<Main>$` of top-level statements, the `<Main>` that waits for an asynchronous `Main`, or `<Clone>$`.
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
        // The name can end with the arguments of a generic method.
        let plain = name.split_once('[').map(|(plain, _)| plain);
        // A bracket inside <> belongs to an array in the name of an explicit implementation.
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

/// Removes the namespaces from an explicit implementation such as `System.Collections.IEnumerable.GetEnumerator`.
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

/// Shortens a type in C# syntax from the name of an explicit implementation, such as
/// `System.IComparable<System.Int32>`.
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
