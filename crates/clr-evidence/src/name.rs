//! Human-readable names of types and methods.
//!
//! | Name in the runtime | Readable name |
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
//! The runtime does not report the arguments of a generic method. `T` is any reference type, because reference types
//! share their code (`System.__Canon`). Type arguments in `<>` have no namespaces. If a type has a C# keyword, the
//! keyword replaces the name of the type. Names in other formats are unchanged. The input is not trusted: control
//! characters and bidirectional controls become U+FFFD, and nesting is bounded.

mod compiler_generated;
mod syntax;

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use self::compiler_generated::{fsharp_closure, state_machine};
use self::syntax::{MethodName, parse};
use crate::budget::MAX_SHOWN;
use crate::module::Owner;

/// Type of the objects in which runtime-async (.NET 11) stores a suspended method. Samples of these objects do not
/// contain the name of this type.
pub const CONTINUATION: &str = "System.Runtime.CompilerServices.Continuation";
/// Human-readable name of [`CONTINUATION`].
pub(crate) const CONTINUATION_SHOWN: &str = "async state (runtime-async)";

/// Maximum nesting depth of types and of method names. The name of a type with deeper nesting is unchanged, and so are
/// the deeper parts of a method name.
const MAX_DEPTH: u32 = 12;

/// A name that is stored once and shared by many frames, rows and stacks.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(Arc<str>);

impl From<&str> for Name {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

impl Deref for Name {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

/// A frame of a stack, with a readable and a raw name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Frame {
    /// Readable name, [shortened].
    pub name: Name,
    /// Name in the runtime, [shortened], or the address if the frame has no name.
    pub raw: Name,
    /// Owner of the code; `None` if the frame has no name.
    pub owner: Option<Owner>,
}

impl Frame {
    /// Creates a frame of a method in an unknown module. The namespace determines the owner.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self::in_module(namespace, name, None)
    }

    /// Creates a frame of a method in a module with this owner, or with an unknown owner if `module` is `None`. Code
    /// that the compiler or the runtime generates belongs to the framework, regardless of the module.
    pub fn in_module(namespace: &str, name: &str, module: Option<Owner>) -> Self {
        let raw = if namespace.is_empty() {
            name.to_owned()
        } else {
            format!("{namespace}.{name}")
        };
        Self {
            name: Name::from(&*shortened(&method(namespace, name))),
            raw: Name::from(&*shortened(&clean(&raw))),
            owner: Some(owner(namespace, name, module)),
        }
    }

    /// Creates a frame without a name.
    pub fn unknown(address: u64) -> Self {
        Self {
            name: "[unknown]".into(),
            raw: Name::from(&*format!("{address:#x}")),
            owner: None,
        }
    }

    /// Returns whether the frame has no name.
    pub fn is_unknown(&self) -> bool {
        self.owner.is_none()
    }

    /// Returns whether the frame belongs to the program, or to a library that is not part of the framework.
    pub fn is_own(&self) -> bool {
        matches!(self.owner, Some(Owner::Library | Owner::Program))
    }
}

/// Returns the owner of a method. Stubs of the runtime and methods of top-level types that the compiler generates
/// belong to the framework, regardless of their module. Other dynamic methods belong to the program.
fn owner(namespace: &str, name: &str, module: Option<Owner>) -> Owner {
    if is_made(namespace, name) {
        return Owner::Framework;
    }
    if let Some(owner) = module.filter(|_| namespace != "dynamicClass") {
        return owner;
    }
    let first = namespace.split(['.', '+']).next().unwrap_or_default();
    let is_nested = namespace.len() > first.len();
    if matches!(first, "System" | "Microsoft" | "Internal") && is_nested || first == "Interop" {
        Owner::Framework
    } else {
        Owner::Program
    }
}

/// Returns whether a method is generated: a stub of the runtime, or a method of a top-level type that the C# compiler
/// generates, such as an anonymous type, a read-only list or `<PrivateImplementationDetails>`.
fn is_made(namespace: &str, name: &str) -> bool {
    if namespace == "dynamicClass" {
        return name.starts_with("IL_STUB") || name.starts_with("InvokeStub_");
    }
    namespace.starts_with("<>") || namespace.starts_with("<PrivateImplementationDetails>")
}

/// Returns the readable name of a method. `namespace` is the full name of its type, and `name` is the name of the
/// method in the runtime; the [module documentation](self) has examples.
pub fn method(namespace: &str, name: &str) -> String {
    let name = without_tier(name);
    if namespace == "dynamicClass" {
        return if is_made(namespace, name) {
            clean(name)
        } else {
            clean(&format!("{name} (dynamic method)"))
        };
    }
    let mut segments = parse(namespace).map_or_else(|| vec![namespace.to_owned()], |parsed| parsed.segments());
    let mut own = MethodName::parse(name);
    if let Some(of) = segments.last().and_then(|last| state_machine(last)) {
        segments.pop();
        let rest = std::mem::replace(&mut own, MethodName::parse(&of));
        if rest.base != "MoveNext" {
            own.base = format!("{}.{}", own.base, rest.base);
        }
    } else if let Some(of) = segments.last().and_then(|last| fsharp_closure(last)) {
        segments.pop();
        let is_lambda = own.base == "Invoke";
        own = MethodName {
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

/// Returns the readable name of a type: ``System.Collections.Generic.List`1[System.Int32]`` becomes `List<int>`.
pub fn type_name(raw: &str) -> String {
    if raw == CONTINUATION {
        return CONTINUATION_SHOWN.to_owned();
    }
    match parse(raw) {
        Some(parsed) => clean(&parsed.short()),
        None => clean(raw),
    }
}

/// Removes the compilation tier that some tools append to a name, for example `[PreJIT]`.
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

/// Shortens a name to at most [`MAX_SHOWN`] characters. The middle of a longer name is omitted, because the end
/// contains the method.
pub fn shortened(name: &str) -> Cow<'_, str> {
    let Some(extra) = name.chars().count().checked_sub(MAX_SHOWN).filter(|extra| *extra > 0) else {
        return Cow::Borrowed(name);
    };
    let half = MAX_SHOWN / 2;
    let ends = name.chars().take(half - 1).chain(['…']);
    Cow::Owned(ends.chain(name.chars().skip(half + extra)).collect())
}

/// Replaces control characters and bidirectional controls with U+FFFD, because a terminal would interpret these
/// characters.
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

    /// Scenario: the names of methods are in the formats of runtimes and compilers, or in unknown formats.
    /// Guarantee: each readable name identifies the method as in source code, and names in unknown formats are
    /// unchanged.
    #[test]
    fn method_has_readable_name() {
        // The checks after the table cover the two longest names and a name with terminal control characters.
        let table = r"
Shop.Program / NightlyTrim / Shop.Program.NightlyTrim
Program / Main / Program.Main
 / Main / Main
Shop.Program / Run[PreJIT] / Shop.Program.Run
Shop.Program+<CheckoutAsync>d__7 / MoveNext / Shop.Program.CheckoutAsync
Shop.Repository`1+<LoadAsync>d__3[System.__Canon] / MoveNext / Shop.Repository<T>.LoadAsync
Shop.Program+<Items>d__3 / MoveNext / Shop.Program.Items
Shop.Program+<Items>d__3 / System.IDisposable.Dispose / Shop.Program.Items.IDisposable.Dispose
Shop.Program+<MapAsync>d__4`1[System.Int32] / MoveNext / Shop.Program.MapAsync
Program+<<Main>$>d__0 / MoveNext / Program.Main
Program / <Main>$ / Program.Main
Program / <<Main>$>g__Warm|0_1 / Program.Main (local function Warm)
Shop.Program+<>c / <Main>b__0_1 / Shop.Program.Main (lambda 2)
Shop.Program+<>c__DisplayClass5_0 / <StartTimer>b__0 / Shop.Program.StartTimer (lambda)
Shop.Program+<>c__3`1[System.__Canon] / <Map>b__3_0 / Shop.Program.Map (lambda)
Shop.Program+<>c+<<Main>b__0_0>d / MoveNext / Shop.Program.Main (lambda)
Shop.Program+<<Run>g__Inner|2_0>d / MoveNext / Shop.Program.Run (local function Inner)
Shop.Repository`1[System.Int32] / <Reload>g__Purge|0_0 / Shop.Repository<int>.Reload (local function Purge)
ThirdParty.Imaging.Codec`1[System.__Canon] / Release / ThirdParty.Imaging.Codec<T>.Release
ThirdParty.Imaging.Codec`1 / Release / ThirdParty.Imaging.Codec<T>.Release
A.Map`2 / Put / A.Map<T1, T2>.Put
A.Map`2[System.String,A.Order[]] / Put / A.Map<string, Order[]>.Put
A.Map`2+Entry[System.Int32,System.Int64] / Set / A.Map<int, long>.Entry.Set
A.Out`1+In`1[System.Int32,System.Byte] / F / A.Out<int>.In<byte>.F
A.List`1[[System.Int32, System.Private.CoreLib, Version=8.0.0.0, Culture=neutral]] / Add / A.List<int>.Add
A.List`1[A.Pair`2[System.Int32,System.Char]] / Add / A.List<Pair<int, char>>.Add
A.Tool / Cast[System.Int32] / A.Tool.Cast<int>
A.Bitmap / .ctor / A.Bitmap..ctor
A.Bitmap / .cctor / A.Bitmap..cctor
Shop.Leftover / Finalize / Shop.Leftover.Finalize
A.Bag`1[System.__Canon] / System.Collections.IEnumerable.GetEnumerator / A.Bag<T>.IEnumerable.GetEnumerator
A.Bag / System.Collections.Generic.IEnumerable<System.Int32>.GetEnumerator / A.Bag.IEnumerable<int>.GetEnumerator
A.Worker / A.IHandler<System.Collections.Generic.Dictionary<System.String,A.Order[]>>.Handle / A.Worker.IHandler<Dictionary<string, Order[]>>.Handle
A.Bag+<System-Collections-Generic-IEnumerable<System-Int32>-GetEnumerator>d__1 / MoveNext / A.Bag.IEnumerable<int>.GetEnumerator
Program / <Main> / Program.Main
A.Order / <Clone>$ / A.Order.Clone
A.Store+VB$StateMachine_3_LoadAsync / MoveNext / A.Store.LoadAsync
A.Store+_Closure$__3-0 / _Lambda$__1 / A.Store (lambda 2)
A.Store+_Closure$__ / _Lambda$__3-0 / A.Store (lambda)
A.Store+load@12-3 / Invoke / A.Store.load (lambda)
A.Store+loadAsync@30 / MoveNext / A.Store.loadAsync
A.Outer+Inner / Run / A.Outer.Inner.Run
dynamicClass / Compiled / Compiled (dynamic method)
dynamicClass / IL_STUB_PInvoke / IL_STUB_PInvoke
<>f__AnonymousType0`2[System.Int32,System.__Canon] / ToString / <>f__AnonymousType0<int, T>.ToString
A.B[System.Int32 / F / A.B[System.Int32.F
A.B / <X / A.B.<X
A.B / <>z__1 / A.B.<>z__1
";
        for row in table.trim_start_matches('\n').lines() {
            let [namespace, name, expected] = row.split(" / ").collect::<Vec<_>>()[..] else {
                panic!("{row}")
            };
            assert_eq!(method(namespace, name), expected, "{row}");
        }
        let file = "<Orders>FCFBE28CC404E393BAA1B5E092004F19003B99A06D732D386F88B8AF735EBEEB0__Helper";
        assert_eq!(method(&format!("A.{file}`1[System.Int32]"), "Run"), "A.Helper<int>.Run");
        assert_eq!(method(&format!("{file}+<RunAsync>d__1"), "MoveNext"), "Helper.RunAsync");
        assert_eq!(method("A\u{1b}[2J", "F\u{202e}"), "A\u{fffd}[2J.F\u{fffd}");
    }

    /// Scenario: names of types are in the format of samples.
    /// Guarantee: the readable names use the keywords of C# and no namespaces.
    #[test]
    fn type_has_readable_name() {
        // Some samples contain only the last name of a nested type, such as `Entry`.
        let table = r"
System.String / string
System.Byte[] / byte[]
System.Int32[,] / int[,]
Shop.Memory.OrderLine[][] / OrderLine[][]
System.Collections.Generic.List`1[System.Int32] / List<int>
System.Collections.Generic.Dictionary`2+Entry[System.String,System.Object][] / Dictionary<string, object>.Entry[]
Shop.Query+<>c__DisplayClass0_0 / Query.closure 0_0
Entry[System.Int32,System.String][] / Entry<int, string>[]
AsyncStateMachineBox`1[System.Int32,Shop.Query+<LoadAsync>d__3] / AsyncStateMachineBox<int, Query.LoadAsync (state machine)>
<Items>d__25 / Items (state machine)
<<Main>b__0_1>d / Main (lambda 2, state machine)
<>f__AnonymousType0`2[System.Int32,System.String] / AnonymousType0<int, string>
<>z__ReadOnlyArray`1[System.Int32] / ReadOnlyArray<int>
System.Runtime.CompilerServices.Continuation / async state (runtime-async)
[ / [
";
        for row in table.trim().lines() {
            let (raw, expected) = row.split_once(" / ").unwrap();
            assert_eq!(type_name(raw), expected, "{row}");
        }
        assert_eq!(type_name(""), "");
    }

    /// Scenario: the modules of frames from base libraries, stubs and the program are unknown.
    /// Guarantee: the namespace determines whether a frame is own code. Stubs of the runtime and top-level types that
    /// the compiler generates are never own code.
    #[test]
    fn own_code_is_recognized_by_namespace() {
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
            assert_eq!(!Frame::new(namespace, name).is_own(), expected, "{namespace}");
        }
    }

    /// Scenario: the modules of frames from base libraries, stubs and the program have known owners.
    /// Guarantee: the module determines the owner. Stubs of the runtime and top-level types that the compiler generates
    /// belong to the framework, and other dynamic methods belong to the program.
    #[test]
    fn module_determines_owner() {
        let (framework, library, program) = (Owner::Framework, Owner::Library, Owner::Program);
        let table = [
            ("Microsoft.ML.Trainers.Trainer", "Train", library, library),
            ("System.Reactive.Subject`1", "OnNext", library, library),
            ("Shared.Cache", "Trim", framework, framework),
            ("Microsoft.Tool.Program", "Main", program, program),
            ("dynamicClass", "IL_STUB_PInvoke", program, framework),
            ("dynamicClass", "Compiled", framework, program),
            (
                "<>z__ReadOnlyArray`1[System.Int32]",
                "GetEnumerator",
                program,
                framework,
            ),
            (
                "<PrivateImplementationDetails>",
                "ComputeStringHash",
                library,
                framework,
            ),
        ];
        for (namespace, name, module, expected) in table {
            let frame = Frame::in_module(namespace, name, Some(module));
            assert_eq!(frame.owner, Some(expected), "{namespace}");
        }
    }

    proptest::proptest! {
        /// Scenario: type and method are arbitrary texts.
        /// Guarantee: the readable name has no control characters.
        #[test]
        fn arbitrary_text_yields_name(namespace in "[A-Za-z`<>+.,\\[\\]*&|_$0-9 ]{0,60}", name in "\\PC{0,40}|[<>dgb_|$\\[\\]]{0,40}") {
            let text = method(&namespace, &name);
            proptest::prop_assert!(!text.chars().any(char::is_control));
            type_name(&namespace);
        }
    }
}
