//! Modules: whose code a method is.
//!
//! The rundown at the end of a session names every module with the path of its assembly (`ModuleDCEnd`, 154). Sessions
//! that ask for the loader's events have `ModuleLoad` (152) of the runtime's provider, in the same layout:
//!
//! ```text
//! u64 ModuleID, u64 AssemblyID, u32 flags, u32 reserved, utf16z path of the assembly, ...
//! ```
//!
//! | [`Owner`] | Which modules |
//! |---|---|
//! | `Framework` | what lies in a shared framework's folder (`.../shared/Microsoft.NETCore.App/VERSION`); what has the name of an assembly of the runtime packs, wherever it lies: in programs that bring the runtime along all lie in one folder, and a newer version may come as a package |
//! | `Program` | what the command line names (`dotnet Shop.Web.dll`, `/app/Shop.Web`, `testhost Shop.Tests.dll`), and what has the same first name (`Shop.Orders`) |
//! | `Library` | the others |
//!
//! `Microsoft.ML`, `Microsoft.EntityFrameworkCore`, and `System.Reactive` are libraries. The list of names is
//! `framework.txt`: what the packs of .NET Core 3.1 to 11 have.

use std::collections::{HashMap, HashSet};

use crate::budget::Budget;
use crate::method::{NoMethod, number, text};

/// `ModuleDCEnd`, of [`RUNDOWN_PROVIDER`](crate::method::RUNDOWN_PROVIDER).
pub const MODULE_DC_END: u32 = 154;
/// `ModuleLoad`, of the runtime's provider.
pub const MODULE_LOAD: u32 = 152;
/// The provider that says how a process was started, in each session.
pub const PROCESS_INFO_PROVIDER: &str = "Microsoft-DotNETCore-EventPipe";

/// Bytes of a module beside its path.
const MODULE_BYTES: usize = 256;

/// The shared frameworks that are the runtime's own.
const SHARED: [&str; 3] = [
    "Microsoft.NETCore.App",
    "Microsoft.AspNetCore.App",
    "Microsoft.WindowsDesktop.App",
];
/// Names that many have in common, so that a first one says nothing.
const COMMON: [&str; 2] = ["System", "Microsoft"];

/// Whose code it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Owner {
    /// The base libraries, ASP.NET Core, and what the compiler and the runtime make.
    Framework,
    /// Of others, and no part of the framework.
    Library,
    /// The program itself.
    Program,
}

/// The modules of a process.
#[derive(Debug, Default)]
pub struct Modules {
    /// The path of each.
    paths: HashMap<u64, String>,
    command_line: String,
    owners: HashMap<u64, Owner>,
}

impl Modules {
    /// Takes the event of a module in. Without a place its owner is unknown.
    pub fn observe(&mut self, payload: &[u8], budget: &mut Budget) {
        let Ok((id, path)) = decode(payload) else { return };
        let before = self.paths.remove(&id);
        budget.give_back(before.map_or(0, |before| MODULE_BYTES + before.len()));
        if budget.take(MODULE_BYTES + path.len()) {
            self.paths.insert(id, path);
        }
    }

    /// Takes the payload of `ProcessInfo` in, which begins with the command line.
    pub fn observe_process(&mut self, payload: &[u8]) {
        if let Ok(command_line) = text(&mut &*payload, "CommandLine") {
            self.command_line = command_line;
        }
    }

    /// Decides whose code the modules are. What is not decided is unknown.
    pub fn decide(&mut self) {
        let listed: HashSet<&str> = include_str!("module/framework.txt")
            .lines()
            .filter(|line| !line.starts_with('#'))
            .flat_map(str::split_whitespace)
            .collect();
        let is_framework = |path: &str| is_shared(path) || listed.contains(name(path));
        let others = self.paths.values().filter(|path| !is_framework(path));
        let others: HashSet<&str> = others.map(|path| name(path)).collect();
        let own: HashSet<&str> = named(&self.command_line)
            .filter(|named| !named.is_empty() && others.contains(named))
            .collect();
        let own_firsts: HashSet<&str> = own.iter().map(|own| first(own)).collect();
        let is_own =
            |name: &str| own.contains(name) || own_firsts.contains(first(name)) && !COMMON.contains(&first(name));
        let owner = |path: &str| match name(path) {
            "" => None,
            _ if is_framework(path) => Some(Owner::Framework),
            // Who the program is, is not known.
            _ if own.is_empty() => Some(Owner::Program),
            name if is_own(name) => Some(Owner::Program),
            _ => Some(Owner::Library),
        };
        let decided = self.paths.iter().filter_map(|(id, path)| Some((*id, owner(path)?)));
        self.owners = decided.collect();
    }

    /// Whose code a module is; `None`: no event says it, or [`Self::decide`] was not called. Methods that are made at
    /// run time are in modules without a path.
    pub fn owner(&self, module: u64) -> Option<Owner> {
        self.owners.get(&module).copied()
    }
}

/// The path of the assembly in the payload of a module's event; empty where it has no file. `None`: it is none.
pub fn path(payload: &[u8]) -> Option<String> {
    decode(payload).ok().map(|(_, path)| path)
}

/// Id and path.
fn decode(payload: &[u8]) -> Result<(u64, String), NoMethod> {
    let mut rest = payload;
    let id = number::<8>(&mut rest, "ModuleID")?;
    let _assembly = number::<8>(&mut rest, "AssemblyID")?;
    let _flags = number::<8>(&mut rest, "ModuleFlags")?;
    Ok((id, text(&mut rest, "ModuleILPath")?))
}

/// The simple name of the assembly at a path.
fn name(path: &str) -> &str {
    let file = path.rsplit(['/', '\\']).next().unwrap_or(path);
    let end = file.len().saturating_sub(4);
    match file.split_at_checked(end) {
        Some((name, extension))
            if [".dll", ".exe"]
                .iter()
                .any(|known| extension.eq_ignore_ascii_case(known)) =>
        {
            name
        }
        _ => file,
    }
}

/// `Shop` of `Shop.Orders`.
fn first(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

/// Whether a path is `.../shared/Microsoft.NETCore.App/VERSION/NAME.dll`, or that of ASP.NET Core.
fn is_shared(path: &str) -> bool {
    let mut folders = path.rsplit(['/', '\\']).skip(2);
    folders.next().is_some_and(|framework| SHARED.contains(&framework)) && folders.next() == Some("shared")
}

/// The names that a command line has of assemblies: of the executable, and of each argument that is one. The runtime
/// writes it with the assembly that the executable stands for: `/app/Shop /app/Shop.dll`. A host (`testhost`) has its
/// own before that of what it runs.
fn named(command_line: &str) -> impl Iterator<Item = &str> {
    let mut words = command_line.split([' ', '"', '\0']).filter(|word| !word.is_empty());
    let executable = words.next();
    let is_assembly = |word: &&str| name(word).len() < word.rsplit(['/', '\\']).next().unwrap_or(word).len();
    executable.into_iter().chain(words.filter(is_assembly)).map(name)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::budget::BURST_BYTES;

    fn utf16(text: &str) -> impl Iterator<Item = u8> {
        text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes)
    }

    /// The payload of a module.
    pub(crate) fn payload(id: u64, path: &str) -> Vec<u8> {
        let mut payload = id.to_le_bytes().to_vec();
        payload.extend([0; 16]);
        payload.extend(utf16(path));
        payload.extend(utf16(""));
        payload
    }

    fn owners(command_line: &str, paths: &[&str]) -> Vec<Option<Owner>> {
        let mut modules = Modules::default();
        for (id, path) in (0..).zip(paths) {
            modules.observe(&payload(id, path), &mut Budget::default());
        }
        modules.observe_process(&utf16(command_line).collect::<Vec<u8>>());
        modules.decide();
        (0..).zip(paths).map(|(id, _)| modules.owner(id)).collect()
    }

    const FRAMEWORK: Option<Owner> = Some(Owner::Framework);
    const LIBRARY: Option<Owner> = Some(Owner::Library);
    const PROGRAM: Option<Owner> = Some(Owner::Program);

    /// Scenario: a program on the shared framework, with an assembly of its own, libraries whose names begin as those
    /// of the framework, a newer version of an assembly of the framework, and a module made at run time.
    /// Guarantee: the folder and the list say what is the framework; the command line says what is the program.
    #[test]
    fn a_program_on_the_shared_framework() {
        let table = "
framework /usr/share/dotnet/shared/Microsoft.NETCore.App/10.0.14/System.Private.CoreLib.dll
framework /usr/share/dotnet/shared/Microsoft.NETCore.App/12.0.0/System.Unheard.dll
framework /usr/share/dotnet/shared/Microsoft.AspNetCore.App/10.0.14/Microsoft.AspNetCore.Http.dll
library /usr/share/dotnet/shared/Acme.App/1.0.0/Acme.Base.dll
program /app/Shop.Web.dll
program /app/Shop.Orders.dll
library /app/Shopping.dll
library /app/Microsoft.ML.Core.dll
library /app/Microsoft.EntityFrameworkCore.dll
library /app/Microsoft.CodeAnalysis.CSharp.dll
library /app/System.Reactive.dll
framework /app/System.Diagnostics.DiagnosticSource.dll
unknown ";
        let rows = table.trim_start().lines().filter_map(|row| row.split_once(' '));
        let (owned_by, paths): (Vec<&str>, Vec<&str>) = rows.unzip();
        let expected = owned_by.into_iter().map(|owner| match owner {
            "framework" => FRAMEWORK,
            "library" => LIBRARY,
            "program" => PROGRAM,
            _ => None,
        });
        let expected: Vec<Option<Owner>> = expected.collect();
        for command_line in [
            "dotnet /app/Shop.Web.dll --urls http://+:80",
            "/app/Shop.Web",
            "\"/app/Shop.Web\" x.dll",
        ] {
            assert_eq!(owners(command_line, &paths), expected, "{command_line}");
        }
    }

    /// Scenario: a program that brings the runtime along, in one folder; one of Microsoft's own; and one of which the
    /// command line says nothing.
    /// Guarantee: the list alone says what is the framework; a first name that many have makes nothing the program's;
    /// an unknown program has no libraries.
    #[test]
    fn a_program_in_one_folder() {
        let paths = [
            "/app/System.Private.CoreLib.dll",
            "/app/Shop.dll",
            "/app/Microsoft.ML.Core.dll",
        ];
        assert_eq!(owners("/app/Shop", &paths), [FRAMEWORK, PROGRAM, LIBRARY]);
        assert_eq!(owners("", &paths), [FRAMEWORK, PROGRAM, PROGRAM]);
        assert_eq!(owners("/usr/bin/mono x", &paths), [FRAMEWORK, PROGRAM, PROGRAM]);
        let paths = [
            "/sdk/System.Text.Json.dll",
            "/sdk/Microsoft.Tool.dll",
            "/sdk/Microsoft.CodeAnalysis.dll",
        ];
        assert_eq!(
            owners("dotnet exec --depsfile a.json /sdk/Microsoft.Tool.dll", &paths),
            [FRAMEWORK, PROGRAM, LIBRARY]
        );
    }

    /// Scenario: a payload that is cut at every byte, and more modules than there is room for.
    /// Guarantee: what cannot be read, and what has no place, is not kept.
    #[test]
    fn foreign_modules_are_bounded() {
        let whole = payload(1, "/a.dll");
        let needed = whole.len() - 2;
        let mut modules = Modules::default();
        for length in 0..needed {
            modules.observe(&whole[..length], &mut Budget::default());
        }
        assert!(modules.paths.is_empty());
        let mut budget = Budget::default();
        for id in 0..100_000 {
            modules.observe(&payload(id, "/a.dll"), &mut budget);
        }
        let kept = modules.paths.len();
        assert!(budget.taken() <= BURST_BYTES && kept > 50_000, "{budget:?} {kept}");
    }
}
