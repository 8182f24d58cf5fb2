//! Real .NET runtimes: where they are, and what can be started on them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::harness::{Missing, Need, unless_skipped};

/// How programs are started on a runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Host {
    /// `dotnet exec workload.dll`: the shared framework of 3.1.
    Dotnet,
    /// Somebody's single-file program; the workload runs as its start-up hook.
    StartupHook,
    /// `run workload.dll`: a self-contained host.
    Run,
    /// NativeAOT: a program of its own with the same modes.
    NativeAot,
}

/// A runtime of the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Runtime {
    /// Its folder in the cache.
    pub name: &'static str,
    /// What `ps` shows; 3.1 has no version in its answer.
    pub version: Option<&'static str>,
    pub host: Host,
}

const fn runtime(name: &'static str, version: Option<&'static str>, host: Host) -> Runtime {
    Runtime { name, version, host }
}

/// Fetched from the registries: always there.
pub const CORE_3_1: Runtime = runtime("core3.1.23", None, Host::Dotnet);
/// Fetched from the registries: always there.
pub const NET_10: Runtime = runtime("net10.0.0", Some("10.0.0"), Host::StartupHook);

/// A web service on ASP.NET Core, a program of its own. It may not be there.
pub const SERVICE: Runtime = runtime("svc10.0.14", Some("10.0.14"), Host::Run);

/// ASP.NET Core, which runs a web service's assembly. They may not be there.
pub const ASP: [Runtime; 4] = [
    runtime("asp8.0.33", Some("8.0.33"), Host::Run),
    runtime("asp10.0.14", Some("10.0.14"), Host::Run),
    // With the assembly of the package DiagnosticSource 11.
    runtime("asp10.0.14-diagnosticsource11", Some("10.0.14"), Host::Run),
    runtime("asp11.0.0", Some("11.0.0"), Host::Run),
];

/// Programs that know the right answer, and the assemblies that they need: no runtime. They may not be there.
pub const KNOWN: Runtime = runtime("known", None, Host::Run);

/// The runtimes that `tests/runtimes/fetch` gets everywhere.
pub const FETCHED: [Runtime; 2] = [CORE_3_1, NET_10];

/// All that tests know. Those after the first two come from a folder of packs and may not be there.
pub const ALL: [Runtime; 13] = [
    CORE_3_1,
    NET_10,
    runtime("net3.1.3", None, Host::Run),
    runtime("net8.0.33", Some("8.0.33"), Host::Run),
    runtime("net9.0.22", Some("9.0.22"), Host::Run),
    runtime("net10.0.14", Some("10.0.14"), Host::Run),
    runtime("net11.0.0", Some("11.0.0"), Host::Run),
    runtime("aot8.0.33", Some("8.0.33"), Host::NativeAot),
    runtime("aot9.0.22", Some("9.0.22"), Host::NativeAot),
    runtime("aotserver9.0.22", Some("9.0.22"), Host::NativeAot),
    runtime("aotserver10.0.12", Some("10.0.12"), Host::NativeAot),
    runtime("aot11.0.0", Some("11.0.0"), Host::NativeAot),
    runtime("aotserver11.0.0", Some("11.0.0"), Host::NativeAot),
];

/// For musl, the C library of Alpine, in a root of its own. The first comes from the registries, where Debian's package
/// of musl can be had; the other from a folder of packs.
pub const MUSL: [Runtime; 2] = [
    runtime("net10.0.0-musl", Some("10.0.0"), Host::StartupHook),
    runtime("musl8.0.34", Some("8.0.34"), Host::Run),
];

/// The loader and the libraries that a runtime for musl needs in `/lib`.
pub const MUSL_LIBRARIES: Runtime = runtime("musl-x64", None, Host::Run);

/// The cache, filled once per test run.
fn cache() -> &'static Path {
    static CACHE: OnceLock<PathBuf> = OnceLock::new();
    CACHE.get_or_init(|| {
        let script = crate::repository("tests/runtimes/fetch");
        let output = Command::new(&script)
            .output()
            .unwrap_or_else(|error| panic!("{}: {error}", script.display()));
        // What cannot be had fails the tests that need it, or has them ignored.
        PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
    })
}

impl Runtime {
    pub fn folder(self) -> PathBuf {
        cache().join(self.name)
    }

    /// In the cache.
    pub fn is_there(self) -> bool {
        !crate::is_skipped(self.name) && self.folder().join(".complete").exists()
    }

    /// Before 5: knobs have another prefix, and there is no ProcessInfo.
    pub fn is_core_3(self) -> bool {
        self.name.contains("3.1")
    }

    pub fn is_native_aot(self) -> bool {
        self.host == Host::NativeAot
    }

    /// Built for musl: it runs in a root of its own.
    pub fn is_musl(self) -> bool {
        MUSL.contains(&self)
    }

    /// Fetched from the registries, so that its tests fail without it.
    pub fn is_always_there(self) -> bool {
        FETCHED.contains(&self)
    }

    /// What a test on it needs.
    pub fn need(self) -> Need {
        unless_skipped(self.name)?;
        if self.is_musl() {
            MUSL_LIBRARIES.need()?;
            if !rustix::process::geteuid().is_root() {
                return Err(Missing::Ignored(
                    "it needs root: it runs in a root of its own".to_owned(),
                ));
            }
        }
        if self.is_there() {
            return Ok(());
        }
        Err(if self.is_always_there() {
            Missing::Failed(format!(
                "no {}: tests/runtimes/fetch says why it did not get it; GCWATCH_SKIP_LIVE={} leaves its tests out",
                self.name, self.name
            ))
        } else {
            Missing::Ignored(format!(
                "no {}: no folder of packs (GCWATCH_RUNTIMES) has it, and tests/runtimes/fetch did not get it",
                self.name
            ))
        })
    }
}

/// What a test on all of these needs.
pub fn need(runtimes: &'static [Runtime]) -> impl Fn() -> Need + Copy + Send {
    || runtimes.iter().try_for_each(|runtime| runtime.need())
}
