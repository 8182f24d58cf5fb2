//! A type's full name as the runtime writes it, taken apart.

use super::MAX_DEPTH;
use super::compiler_generated::{made, of_file};

/// A type's name, taken apart.
#[derive(Debug)]
pub(super) struct Type {
    /// `Shop.Outer`1`, `Inner`.
    path: Vec<String>,
    pub(super) arguments: Vec<Type>,
    /// `[]`, `*` and the like.
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
        // Brackets and commas inside of <> belong to a name that the compiler made.
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
                // With its assembly: [System.Int32, System.Private.CoreLib, ...].
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

    /// The names of the type and of those that it is nested in, with their arguments.
    pub(super) fn segments(&self) -> Vec<String> {
        let arities = self.path.iter().map(|segment| arity(segment).1);
        // Of a nested type samples have the last name alone, with the arguments of all.
        let mut surplus = self.arguments.len().saturating_sub(arities.sum());
        let mut arguments = self.arguments.iter().map(Self::short);
        let last = self.path.len().saturating_sub(1);
        let segments = self.path.iter().enumerate().map(|(place, segment)| {
            let (name, mut arity) = arity(segment);
            if place == last {
                arity += std::mem::take(&mut surplus);
            }
            let name = of_file(name);
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

    /// Without namespace, and by the word that C# has for it.
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

/// The name of `Map`2` and the number of its own arguments.
fn arity(segment: &str) -> (&str, usize) {
    let parts = segment.rsplit_once('`');
    match parts.map(|(name, arity)| (name, arity.parse::<usize>())) {
        Some((name, Ok(arity @ 1..=64))) => (name, arity),
        _ => (segment, 0),
    }
}

pub(super) fn angle(arguments: &[String]) -> String {
    format!("<{}>", arguments.join(", "))
}

pub(super) fn keyword(name: &str) -> Option<&'static str> {
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
