//! Real .NET runtimes: where they are, and what can be started on them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// How programs are started on a runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Host {
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
pub(crate) struct Runtime {
    /// Its folder in the cache.
    pub(crate) name: &'static str,
    /// What `ps` says of it; 3.1 tells no version.
    pub(crate) version: Option<&'static str>,
    pub(crate) host: Host,
}

const fn runtime(name: &'static str, version: Option<&'static str>, host: Host) -> Runtime {
    Runtime { name, version, host }
}

/// Fetched from the registries: always there.
pub(crate) const CORE_3_1: Runtime = runtime("core3.1.23", None, Host::Dotnet);
/// Fetched from the registries: always there.
pub(crate) const NET_10: Runtime = runtime("net10.0.0", Some("10.0.0"), Host::StartupHook);

/// A web service on ASP.NET Core, a program of its own. It may not be there.
pub(crate) const SERVICE: Runtime = runtime("svc10.0.14", Some("10.0.14"), Host::Run);

/// All that tests know. Those after the first two come from a folder of packs and may not be there.
pub(crate) const ALL: [Runtime; 9] = [
    CORE_3_1,
    NET_10,
    runtime("net3.1.3", None, Host::Run),
    runtime("net8.0.33", Some("8.0.33"), Host::Run),
    runtime("net9.0.22", Some("9.0.22"), Host::Run),
    runtime("net10.0.14", Some("10.0.14"), Host::Run),
    runtime("aot8.0.33", Some("8.0.33"), Host::NativeAot),
    runtime("aot9.0.22", Some("9.0.22"), Host::NativeAot),
    runtime("aotserver9.0.22", Some("9.0.22"), Host::NativeAot),
];

/// The cache, filled once per test run.
fn cache() -> &'static Path {
    static CACHE: OnceLock<PathBuf> = OnceLock::new();
    CACHE.get_or_init(|| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/runtimes/fetch");
        let output = Command::new(&script)
            .output()
            .unwrap_or_else(|error| panic!("{}: {error}", script.display()));
        // What cannot be had is said; the tests of what is there run.
        print!("{}", String::from_utf8_lossy(&output.stderr));
        PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
    })
}

impl Runtime {
    /// Its folder.
    pub(crate) fn folder(self) -> PathBuf {
        cache().join(self.name)
    }

    /// Named in GCWATCH_SKIP_LIVE.
    pub(crate) fn is_skipped(self) -> bool {
        let skip = std::env::var("GCWATCH_SKIP_LIVE").unwrap_or_default();
        skip.split(',').any(|name| name == "all" || name == self.name)
    }

    /// In the cache.
    pub(crate) fn is_there(self) -> bool {
        !self.is_skipped() && self.folder().join(".complete").exists()
    }

    /// Before 5: knobs have another prefix, and there is no ProcessInfo.
    pub(crate) fn is_core_3(self) -> bool {
        self.name.contains("3.1")
    }

    pub(crate) fn is_native_aot(self) -> bool {
        self.host == Host::NativeAot
    }
}

/// `false`, and says so, when a test that needs this runtime is to be left out.
pub(crate) fn is_wanted(runtime: Runtime) -> bool {
    if runtime.is_skipped() {
        println!("{} is skipped: GCWATCH_SKIP_LIVE", runtime.name);
        return false;
    }
    let there = runtime.is_there();
    assert!(
        there,
        "{} is not in the cache: tests/runtimes/fetch says why; GCWATCH_SKIP_LIVE={} leaves its tests out",
        runtime.name, runtime.name
    );
    true
}
