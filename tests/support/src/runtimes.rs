//! Real .NET runtimes: their location, and the programs that they can run.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::harness::{Missing, Need, unless_skipped};

/// The way in which a runtime starts programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Host {
    /// `dotnet exec workload.dll`: the shared framework of .NET Core 3.1.
    Dotnet,
    /// A third-party single-file program; the workload runs as its startup hook.
    StartupHook,
    /// `run workload.dll`: a self-contained host.
    Run,
    /// NativeAOT: a separate program with the same modes.
    NativeAot,
}

/// A runtime in the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Runtime {
    /// Name of its folder in the cache.
    pub name: &'static str,
    /// Version as shown by `ps`; .NET Core 3.1 does not report its version.
    pub version: Option<&'static str>,
    pub host: Host,
}

const fn runtime(name: &'static str, version: Option<&'static str>, host: Host) -> Runtime {
    Runtime { name, version, host }
}

/// Every machine can download this runtime from package registries.
pub const CORE_3_1: Runtime = runtime("core3.1.23", None, Host::Dotnet);
/// Every machine can download this runtime from package registries.
pub const NET_10: Runtime = runtime("net10.0.0", Some("10.0.0"), Host::StartupHook);

/// A web service on ASP.NET Core as a separate program, which is missing on some machines.
pub const SERVICE: Runtime = runtime("svc10.0.14", Some("10.0.14"), Host::Run);

/// Runtimes with ASP.NET Core, which run the assembly of a web service and are missing on some machines.
pub const ASP: [Runtime; 4] = [
    runtime("asp8.0.33", Some("8.0.33"), Host::Run),
    runtime("asp10.0.14", Some("10.0.14"), Host::Run),
    // This runtime has the assembly of the package DiagnosticSource 11.
    runtime("asp10.0.14-diagnosticsource11", Some("10.0.14"), Host::Run),
    runtime("asp11.0.0", Some("11.0.0"), Host::Run),
];

/// Programs with known results, and the assemblies that they need. This entry is not a runtime, and is missing on some
/// machines.
pub const KNOWN: Runtime = runtime("known", None, Host::Run);

/// The runtimes that `tests/runtimes/fetch` downloads on every machine.
pub const FETCHED: [Runtime; 2] = [CORE_3_1, NET_10];

/// All runtimes that run the workload, except [`MUSL`]. All except the first two come from a folder of packs and are
/// missing on some machines.
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

/// Runtimes for musl, the C library of Alpine, which run in a separate root. The first runtime is downloaded from the
/// registries if Debian's package of musl is available. The second runtime comes from a folder of packs.
pub const MUSL: [Runtime; 2] = [
    runtime("net10.0.0-musl", Some("10.0.0"), Host::StartupHook),
    runtime("musl8.0.34", Some("8.0.34"), Host::Run),
];

/// The loader and the libraries that a runtime for musl needs in `/lib`.
pub const MUSL_LIBRARIES: Runtime = runtime("musl-x64", None, Host::Run);

/// Returns the folder of the cached runtimes. The first call in a process fills the cache.
fn cache() -> &'static Path {
    static CACHE: OnceLock<PathBuf> = OnceLock::new();
    CACHE.get_or_init(|| {
        let script = crate::repository("tests/runtimes/fetch");
        let output = Command::new(&script)
            .output()
            .unwrap_or_else(|error| panic!("{}: {error}", script.display()));
        // Ignore the exit status: a missing runtime affects only the tests that need it, which fail or are ignored.
        PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
    })
}

impl Runtime {
    pub fn folder(self) -> PathBuf {
        cache().join(self.name)
    }

    /// Returns whether the runtime is in the cache and `GCWATCH_SKIP_LIVE` does not skip it.
    pub fn is_there(self) -> bool {
        !crate::is_skipped(self.name) && self.folder().join(".complete").exists()
    }

    /// Returns whether the runtime is .NET Core 3.1, whose settings have another prefix and which has no ProcessInfo
    /// command.
    pub fn is_core_3(self) -> bool {
        self.name.contains("3.1")
    }

    pub fn is_native_aot(self) -> bool {
        self.host == Host::NativeAot
    }

    /// Returns whether the runtime is built for musl, and therefore runs in a separate root.
    pub fn is_musl(self) -> bool {
        MUSL.contains(&self)
    }

    /// Returns whether every machine can download the runtime, so that its tests fail without it.
    pub fn is_always_there(self) -> bool {
        FETCHED.contains(&self)
    }

    /// Returns the requirements of a test on the runtime.
    pub fn need(self) -> Need {
        unless_skipped(self.name)?;
        if self.is_musl() {
            MUSL_LIBRARIES.need()?;
            if !rustix::process::geteuid().is_root() {
                return Err(Missing::Ignored(
                    "this runtime needs root, because it runs in a separate root".to_owned(),
                ));
            }
        }
        if self.is_there() {
            return Ok(());
        }
        Err(if self.is_always_there() {
            Missing::Failed(format!(
                "no {}: tests/runtimes/fetch reports why the download failed; GCWATCH_SKIP_LIVE={} skips its tests",
                self.name, self.name
            ))
        } else {
            Missing::Ignored(format!(
                "no {}: no folder of packs (GCWATCH_RUNTIMES) has it, and tests/runtimes/fetch does not download it",
                self.name
            ))
        })
    }
}

/// Returns the requirements of a test on all of these runtimes.
pub fn need(runtimes: &'static [Runtime]) -> impl Fn() -> Need + Copy + Send {
    || runtimes.iter().try_for_each(|runtime| runtime.need())
}
