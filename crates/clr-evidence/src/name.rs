//! Names that a person reads.
//!
//! | The runtime writes | Here |
//! |---|---|
//! | `Shop.Program+<CheckoutAsync>d__7` `MoveNext` | `Shop.Program.CheckoutAsync` (iterators too) |
//! | `Shop.Program+<>c__DisplayClass5_0` `<StartTimer>b__0` | `Shop.Program.StartTimer (lambda)` |
//! | ``Shop.Repository`1[System.Int32]`` `<Reload>g__Purge\|0_0` | `Shop.Repository<int>.Reload (local function Purge)` |
//! | `Program` `<Main>$` | `Program.Main` |
//! | `dynamicClass` `Compiled` | `Compiled (dynamic method)` |
//! | `Shop.Bag`1[System.__Canon]` `System.Collections.IEnumerable.GetEnumerator` | `Shop.Bag<T>.IEnumerable.GetEnumerator` |
//!
//! `T` is any reference type: their code is shared (`System.__Canon`). The types in `<>` are without their namespaces,
//! and those that C# has a word for are that word. What is not of these forms stays as it is. Foreign input: control
//! characters and those that turn text around become U+FFFD, and nesting is bounded.

/// How deep types may nest before the rest is left as it is.
const MAX_DEPTH: u32 = 12;

/// A frame of a stack, for people and for programs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Frame {
    /// The readable name.
    pub name: String,
    /// As the runtime writes it; the address where nothing names it.
    pub raw: String,
    /// It is of the base libraries or of ASP.NET Core, or made by the runtime: not the code of who asks.
    pub is_framework: bool,
}

impl Frame {
    /// A frame of a method.
    pub fn of(namespace: &str, name: &str) -> Self {
        let raw = if namespace.is_empty() {
            name.to_owned()
        } else {
            format!("{namespace}.{name}")
        };
        Self {
            name: method(namespace, name),
            raw: clean(&raw),
            is_framework: is_framework(namespace, name),
        }
    }

    /// A frame that nothing names.
    pub fn unknown(address: u64) -> Self {
        Self {
            name: "[unknown]".to_owned(),
            raw: format!("{address:#x}"),
            is_framework: false,
        }
    }

    /// Whether nothing names it.
    pub fn is_unknown(&self) -> bool {
        self.name == "[unknown]"
    }
}

/// Base libraries, ASP.NET Core and stubs that the runtime makes.
fn is_framework(namespace: &str, name: &str) -> bool {
    if namespace == "dynamicClass" {
        return name.starts_with("IL_STUB") || name.starts_with("InvokeStub_");
    }
    let first = namespace.split(['.', '+']).next().unwrap_or_default();
    let is_nested = namespace.len() > first.len();
    matches!(first, "System" | "Microsoft" | "Internal") && is_nested || first == "Interop"
}

/// The readable name of a method; `namespace` is the full name of its type.
pub fn method(namespace: &str, name: &str) -> String {
    let name = without_tier(name);
    if namespace == "dynamicClass" {
        return if is_framework(namespace, name) {
            clean(name)
        } else {
            clean(&format!("{name} (dynamic method)"))
        };
    }
    let mut segments = parse(namespace).map_or_else(|| vec![namespace.to_owned()], |parsed| parsed.segments());
    let mut own = Own::of(name);
    if let Some(of) = segments.last().and_then(|last| state_machine(last)) {
        segments.pop();
        let rest = std::mem::replace(&mut own, Own::of(&of));
        if rest.base != "MoveNext" {
            own.base = format!("{}.{}", own.base, rest.base);
        }
    }
    while segments.len() > 1 && segments.last().is_some_and(|last| last.starts_with("<>c")) {
        segments.pop();
    }
    segments.retain(|segment| !segment.is_empty());
    let owner = segments.join(".");
    let mut text = if owner.is_empty() {
        own.base
    } else {
        format!("{owner}.{}", own.base)
    };
    if let Some(suffix) = own.suffix {
        text = format!("{text} ({suffix})");
    }
    clean(&text)
}

/// The readable name of a type: ``System.Collections.Generic.List`1[System.Int32]`` is `List<int>`.
pub fn type_name(raw: &str) -> String {
    match parse(raw) {
        Some(parsed) => clean(&parsed.short()),
        None => clean(raw),
    }
}

/// What tools add to the name for the kind of code.
fn without_tier(name: &str) -> &str {
    const TIERS: [&str; 6] = [
        "PreJIT",
        "ReadyToRun",
        "Optimized",
        "OptimizedTier1",
        "OptimizedTier1OSR",
        "QuickJitted",
    ];
    match name.rsplit_once('[') {
        Some((before, tier)) if TIERS.contains(&tier.trim_end_matches(']')) => before.trim_end(),
        _ => name,
    }
}

/// The `X` of `<X>d__7` and `<X>d`: the method that a state machine was made of.
fn state_machine(segment: &str) -> Option<String> {
    let (inner, rest) = bracketed(segment)?;
    let rest = rest.split(['`', '<']).next().unwrap_or_default();
    let is_one = rest == "d"
        || rest
            .strip_prefix("d__")
            .is_some_and(|number| number.bytes().all(|b| b.is_ascii_digit()));
    (is_one && !inner.is_empty()).then(|| inner.to_owned())
}

/// `<X>Y` as X and Y; the brackets inside of X are counted.
fn bracketed(text: &str) -> Option<(&str, &str)> {
    let mut depth = 0_u32;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'<' => depth += 1,
            b'>' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some((text.get(1..at)?, text.get(at + 1..)?));
                }
            }
            _ if at == 0 => return None,
            _ => {}
        }
    }
    None
}

/// A method's own name, taken apart.
struct Own {
    base: String,
    suffix: Option<String>,
}

impl Own {
    fn of(name: &str) -> Self {
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
            } else if rest == "$" {
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
        // The arguments of a generic method.
        let base = match name.split_once('[') {
            Some((plain, _)) if !plain.is_empty() => match parse(name) {
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

/// The lambdas of a method have numbers from 0, outer ones before inner ones: `0_3` (after that of the method) and
/// `3` are the fourth.
fn lambda(number: &str) -> String {
    let end = number.find(|letter: char| !letter.is_ascii_digit() && letter != '_');
    let own = number.get(..end.unwrap_or(number.len())).unwrap_or_default();
    match own.rsplit('_').next().and_then(|own| own.parse::<u32>().ok()) {
        Some(before @ 1..) => format!("lambda {}", u64::from(before) + 1),
        _ => "lambda".to_owned(),
    }
}

/// `System.Collections.IEnumerable.GetEnumerator` of an explicit implementation: the namespace is left out.
fn explicit(name: &str) -> String {
    if name.starts_with('.') {
        return name.to_owned();
    }
    let mut dots = Vec::new();
    let mut depth = 0_u32;
    for (at, byte) in name.bytes().enumerate() {
        match byte {
            b'<' => depth += 1,
            b'>' => depth = depth.saturating_sub(1),
            b'.' if depth == 0 => dots.push(at),
            _ => {}
        }
    }
    match dots.as_slice() {
        [.., interface, _] => name.get(interface + 1..).unwrap_or(name).to_owned(),
        _ => name.to_owned(),
    }
}

/// A type's name, taken apart.
#[derive(Debug)]
struct Type {
    /// `Shop.Outer`1`, `Inner`.
    path: Vec<String>,
    arguments: Vec<Type>,
    /// `[]`, `*` and the like.
    tail: String,
}

fn parse(raw: &str) -> Option<Type> {
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
    fn segments(&self) -> Vec<String> {
        let mut arguments = self.arguments.iter().map(Self::short);
        let segments = self.path.iter().map(|segment| {
            let Some((name, arity)) = segment.rsplit_once('`') else {
                return segment.clone();
            };
            let Ok(arity @ 1..=64) = arity.parse::<usize>() else {
                return segment.clone();
            };
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
    fn short(&self) -> String {
        let word = match self.path.as_slice() {
            [only] => keyword(only),
            _ => None,
        };
        if let Some(word) = word {
            return format!("{word}{}", self.tail);
        }
        let mut segments = self.segments();
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

/// Without what a terminal would obey.
pub fn clean(text: &str) -> String {
    let is_harmful = |character: char| {
        character.is_control()
            || matches!(character, '\u{61C}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
    };
    text.chars()
        .map(|character| {
            if is_harmful(character) {
                char::REPLACEMENT_CHARACTER
            } else {
                character
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: names as runtimes write them.
    /// Guarantee: each is what a person calls the method.
    #[test]
    fn methods_have_readable_names() {
        let table = [
            ("Shop.Program", "NightlyTrim", "Shop.Program.NightlyTrim"),
            ("Program", "Main", "Program.Main"),
            ("", "Main", "Main"),
            ("Shop.Program", "Run[PreJIT]", "Shop.Program.Run"),
            (
                "Shop.Program+<CheckoutAsync>d__7",
                "MoveNext",
                "Shop.Program.CheckoutAsync",
            ),
            (
                "Shop.Repository`1+<LoadAsync>d__3[System.__Canon]",
                "MoveNext",
                "Shop.Repository<T>.LoadAsync",
            ),
            ("Shop.Program+<Items>d__3", "MoveNext", "Shop.Program.Items"),
            (
                "Shop.Program+<Items>d__3",
                "System.IDisposable.Dispose",
                "Shop.Program.Items.IDisposable.Dispose",
            ),
            (
                "Shop.Program+<MapAsync>d__4`1[System.Int32]",
                "MoveNext",
                "Shop.Program.MapAsync",
            ),
            ("Program+<<Main>$>d__0", "MoveNext", "Program.Main"),
            ("Program", "<Main>$", "Program.Main"),
            ("Program", "<<Main>$>g__Warm|0_1", "Program.Main (local function Warm)"),
            ("Shop.Program+<>c", "<Main>b__0_1", "Shop.Program.Main (lambda 2)"),
            (
                "Shop.Program+<>c__DisplayClass5_0",
                "<StartTimer>b__0",
                "Shop.Program.StartTimer (lambda)",
            ),
            (
                "Shop.Program+<>c__3`1[System.__Canon]",
                "<Map>b__3_0",
                "Shop.Program.Map (lambda)",
            ),
            (
                "Shop.Program+<>c+<<Main>b__0_0>d",
                "MoveNext",
                "Shop.Program.Main (lambda)",
            ),
            (
                "Shop.Program+<<Run>g__Inner|2_0>d",
                "MoveNext",
                "Shop.Program.Run (local function Inner)",
            ),
            (
                "Shop.Repository`1[System.Int32]",
                "<Reload>g__Purge|0_0",
                "Shop.Repository<int>.Reload (local function Purge)",
            ),
            (
                "ThirdParty.Imaging.Codec`1[System.__Canon]",
                "Release",
                "ThirdParty.Imaging.Codec<T>.Release",
            ),
            (
                "ThirdParty.Imaging.Codec`1",
                "Release",
                "ThirdParty.Imaging.Codec<T>.Release",
            ),
            ("A.Map`2", "Put", "A.Map<T1, T2>.Put"),
            ("A.Map`2[System.String,A.Order[]]", "Put", "A.Map<string, Order[]>.Put"),
            (
                "A.Map`2+Entry[System.Int32,System.Int64]",
                "Set",
                "A.Map<int, long>.Entry.Set",
            ),
            ("A.Out`1+In`1[System.Int32,System.Byte]", "F", "A.Out<int>.In<byte>.F"),
            (
                "A.List`1[[System.Int32, System.Private.CoreLib, Version=8.0.0.0, Culture=neutral]]",
                "Add",
                "A.List<int>.Add",
            ),
            (
                "A.List`1[A.Pair`2[System.Int32,System.Char]]",
                "Add",
                "A.List<Pair<int, char>>.Add",
            ),
            ("A.Tool", "Cast[System.Int32]", "A.Tool.Cast<int>"),
            ("A.Bitmap", ".ctor", "A.Bitmap..ctor"),
            ("A.Bitmap", ".cctor", "A.Bitmap..cctor"),
            ("Shop.Leftover", "Finalize", "Shop.Leftover.Finalize"),
            (
                "A.Bag`1[System.__Canon]",
                "System.Collections.IEnumerable.GetEnumerator",
                "A.Bag<T>.IEnumerable.GetEnumerator",
            ),
            (
                "A.Bag",
                "System.Collections.Generic.IEnumerable<System.Int32>.GetEnumerator",
                "A.Bag.IEnumerable<System.Int32>.GetEnumerator",
            ),
            ("A.Outer+Inner", "Run", "A.Outer.Inner.Run"),
            ("dynamicClass", "Compiled", "Compiled (dynamic method)"),
            ("dynamicClass", "IL_STUB_PInvoke", "IL_STUB_PInvoke"),
            (
                "<>f__AnonymousType0`2[System.Int32,System.__Canon]",
                "ToString",
                "<>f__AnonymousType0<int, T>.ToString",
            ),
            ("A.B[System.Int32", "F", "A.B[System.Int32.F"),
            ("A.B", "<X", "A.B.<X"),
            ("A.B", "<>z__1", "A.B.<>z__1"),
            ("A\u{1b}[2J", "F\u{202e}", "A\u{fffd}[2J.F\u{fffd}"),
        ];
        for (namespace, name, expected) in table {
            assert_eq!(method(namespace, name), expected, "{namespace} {name}");
        }
    }

    /// Scenario: names of types in samples.
    /// Guarantee: the words of C#, and no namespaces.
    #[test]
    fn types_have_readable_names() {
        let table = [
            ("System.String", "string"),
            ("System.Byte[]", "byte[]"),
            ("System.Int32[,]", "int[,]"),
            ("Shop.Memory.OrderLine[][]", "OrderLine[][]"),
            ("System.Collections.Generic.List`1[System.Int32]", "List<int>"),
            (
                "System.Collections.Generic.Dictionary`2+Entry[System.String,System.Object][]",
                "Dictionary<string, object>.Entry[]",
            ),
            ("Shop.Query+<>c__DisplayClass0_0", "Query.<>c__DisplayClass0_0"),
            ("", ""),
            ("[", "["),
        ];
        for (raw, expected) in table {
            assert_eq!(type_name(raw), expected, "{raw}");
        }
    }

    /// Scenario: frames of base libraries, stubs and own code.
    /// Guarantee: own code is recognised.
    #[test]
    fn own_code_is_not_the_framework() {
        let table = [
            ("System.GC", "Collect", true),
            ("Microsoft.AspNetCore.Builder.X", "Y", true),
            ("Interop+Sys", "Read", true),
            ("dynamicClass", "IL_STUB_PInvoke", true),
            ("dynamicClass", "InvokeStub_GC.Collect", true),
            ("dynamicClass", "Compiled", false),
            ("Systematic.Cache", "Trim", false),
            ("Program", "Main", false),
        ];
        for (namespace, name, expected) in table {
            assert_eq!(Frame::of(namespace, name).is_framework, expected, "{namespace}");
        }
    }

    proptest::proptest! {
        /// Scenario: any text as type and method.
        /// Guarantee: a name comes out that has no control characters.
        #[test]
        fn any_text_has_a_name(namespace in "[A-Za-z`<>+.,\\[\\]*&|_$0-9 ]{0,60}", name in "\\PC{0,40}|[<>dgb_|$\\[\\]]{0,40}") {
            let text = method(&namespace, &name);
            proptest::prop_assert!(!text.chars().any(char::is_control));
            type_name(&namespace);
        }
    }
}
