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
//! | `Shop.<Orders>F0C4...__Helper` `Run`, of a `file class` | `Shop.Helper.Run` |
//! | `Shop.Store+VB$StateMachine_3_LoadAsync` `MoveNext` (Visual Basic) | `Shop.Store.LoadAsync` |
//! | `Shop.Store+_Closure$__3-0` `_Lambda$__0` (Visual Basic) | `Shop.Store (lambda)` |
//! | `Shop.Store+load@12-3` `Invoke` (F#) | `Shop.Store.load (lambda)` |
//!
//! The runtime does not write the arguments of a generic method. `T` is any reference type: their code is shared
//! (`System.__Canon`). The types in `<>` are without their namespaces, and those that C# has a word for are that
//! word. What is not of these forms stays as it is. Foreign input: control characters and those that turn text around
//! become U+FFFD, and nesting is bounded.

/// How deep types may nest before the rest is left as it is.
const MAX_DEPTH: u32 = 12;
/// Hexadecimal digits of SHA-256, which the C# compiler puts into the name of a type that only its file sees.
const FILE_DIGEST: usize = 64;

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

/// Base libraries, ASP.NET Core, and what the compiler and the runtime make.
fn is_framework(namespace: &str, name: &str) -> bool {
    if namespace == "dynamicClass" {
        return name.starts_with("IL_STUB") || name.starts_with("InvokeStub_");
    }
    // Collections and values that the C# compiler makes for expressions of whoever calls them.
    if namespace.starts_with("<>") || namespace.starts_with("<PrivateImplementationDetails>") {
        return true;
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
    } else if let Some(of) = segments.last().and_then(|last| fsharp_closure(last)) {
        segments.pop();
        let is_lambda = own.base == "Invoke";
        own = Own {
            base: of,
            suffix: is_lambda.then(|| "lambda".to_owned()),
        };
    }
    let is_closure = |last: &String| last.starts_with("<>c") || last.starts_with("_Closure$__");
    while segments.len() > 1 && segments.last().is_some_and(is_closure) {
        segments.pop();
    }
    segments.retain(|segment| !segment.is_empty());
    let owner = segments.join(".");
    let mut text = if owner.is_empty() {
        own.base
    } else if own.base.is_empty() {
        owner
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

/// The `X` of `<X>d__7` and `<X>d`, and of `VB$StateMachine_7_X`: the method that a state machine was made of.
fn state_machine(segment: &str) -> Option<String> {
    if let Some(rest) = segment.strip_prefix("VB$StateMachine_") {
        let (number, name) = rest.split_once('_')?;
        let name = name.split(['`', '<']).next().filter(|name| !name.is_empty())?;
        return number.parse::<u32>().ok().map(|_| name.to_owned());
    }
    let (inner, rest) = bracketed(segment)?;
    let rest = rest.split(['`', '<']).next().unwrap_or_default();
    let is_one = rest == "d"
        || rest
            .strip_prefix("d__")
            .is_some_and(|number| number.bytes().all(|b| b.is_ascii_digit()));
    // The dots of an explicit implementation.
    (is_one && !inner.is_empty()).then(|| inner.replace('-', "."))
}

/// The `X` of `X@12` and `X@12-3`, which F# has for a function within a function at line 12.
fn fsharp_closure(segment: &str) -> Option<String> {
    let (name, place) = segment.rsplit_once('@')?;
    let place = place.split(['`', '<']).next()?;
    let is_place = !place.is_empty() && place.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    (is_place && !name.is_empty()).then(|| name.to_owned())
}

/// `Shop.X` of `Shop.<File>F0123...__X`: a type that only its file sees. The digits are those of the file's path.
fn of_file(segment: &str) -> String {
    let find = || {
        let (namespace, own) = segment.split_at_checked(segment.find('<')?)?;
        let (_, rest) = bracketed(own)?;
        let (digest, name) = rest.strip_prefix('F')?.split_at_checked(FILE_DIGEST)?;
        let is_digest = digest.bytes().all(|byte| byte.is_ascii_hexdigit());
        let name = name.strip_prefix("__").filter(|name| is_digest && !name.is_empty())?;
        Some(format!("{namespace}{name}"))
    };
    find().unwrap_or_else(|| segment.to_owned())
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

/// The lambdas and local functions of a method have numbers from 0, which the compiler gives them in an order of its
/// own: `0_3` (after that of the method) and `3` are the fourth.
fn lambda(number: &str) -> String {
    let end = number.find(|letter: char| !letter.is_ascii_digit() && letter != '_');
    let own = number.get(..end.unwrap_or(number.len())).unwrap_or_default();
    match own.rsplit('_').next().and_then(|own| own.parse::<u32>().ok()) {
        Some(before @ 1..) => format!("lambda {}", u64::from(before) + 1),
        _ => "lambda".to_owned(),
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
    fn short(&self) -> String {
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

/// What the compiler made of code, for who reads of types.
fn made(segment: &str) -> Option<String> {
    if let Some(number) = segment.strip_prefix("<>c__DisplayClass") {
        return Some(format!("closure {number}"));
    }
    if let Some(of) = state_machine(segment) {
        let of = Own::of(&of);
        let suffix = of.suffix.map(|suffix| format!("{suffix}, ")).unwrap_or_default();
        return Some(format!("{} ({suffix}state machine)", of.base));
    }
    let name = segment
        .strip_prefix("<>f__")
        .or_else(|| segment.strip_prefix("<>z__"))?;
    Some(name.to_owned())
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
                "A.Bag.IEnumerable<int>.GetEnumerator",
            ),
            (
                "A.Worker",
                "A.IHandler<System.Collections.Generic.Dictionary<System.String,A.Order[]>>.Handle",
                "A.Worker.IHandler<Dictionary<string, Order[]>>.Handle",
            ),
            (
                "A.Bag+<System-Collections-Generic-IEnumerable<System-Int32>-GetEnumerator>d__1",
                "MoveNext",
                "A.Bag.IEnumerable<int>.GetEnumerator",
            ),
            ("Program", "<Main>", "Program.Main"),
            ("A.Order", "<Clone>$", "A.Order.Clone"),
            (
                "A.<Orders>FCFBE28CC404E393BAA1B5E092004F19003B99A06D732D386F88B8AF735EBEEB0__Helper`1[System.Int32]",
                "Run",
                "A.Helper<int>.Run",
            ),
            (
                "<Orders>FCFBE28CC404E393BAA1B5E092004F19003B99A06D732D386F88B8AF735EBEEB0__Helper+<RunAsync>d__1",
                "MoveNext",
                "Helper.RunAsync",
            ),
            ("A.Store+VB$StateMachine_3_LoadAsync", "MoveNext", "A.Store.LoadAsync"),
            ("A.Store+_Closure$__3-0", "_Lambda$__1", "A.Store (lambda 2)"),
            ("A.Store+_Closure$__", "_Lambda$__3-0", "A.Store (lambda)"),
            ("A.Store+load@12-3", "Invoke", "A.Store.load (lambda)"),
            ("A.Store+loadAsync@30", "MoveNext", "A.Store.loadAsync"),
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
            ("Shop.Query+<>c__DisplayClass0_0", "Query.closure 0_0"),
            // Samples have the last name of a nested type alone.
            ("Entry[System.Int32,System.String][]", "Entry<int, string>[]"),
            (
                "AsyncStateMachineBox`1[System.Int32,Shop.Query+<LoadAsync>d__3]",
                "AsyncStateMachineBox<int, Query.LoadAsync (state machine)>",
            ),
            ("<Items>d__25", "Items (state machine)"),
            ("<<Main>b__0_1>d", "Main (lambda 2, state machine)"),
            (
                "<>f__AnonymousType0`2[System.Int32,System.String]",
                "AnonymousType0<int, string>",
            ),
            ("<>z__ReadOnlyArray`1[System.Int32]", "ReadOnlyArray<int>"),
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
            ("Program+<>c", "<Main>b__0_0", false),
            ("<>z__ReadOnlyArray`1[System.Int32]", "GetEnumerator", true),
            ("<PrivateImplementationDetails>", "ComputeStringHash", true),
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
