//! The files that contain the heap limit of a process and its used memory. Reads block: some files are on the process's
//! own file systems.

use std::path::{Path, PathBuf};

use dotnet_diagnostics::discovery::Process;
use serde_json::Value;

use super::{SettingSyntax, Sources, committed, is_full, sentence};
use crate::facts::Facts;
use crate::own_file::{OpenError, OwnFiles};
use crate::proc_file::{MAX_MAPS_BYTES, MAX_STATUS_BYTES, anonymous, meminfo, read_process_file, text};
use processes::container::Reader;

const MAX_CONFIG_BYTES: u64 = 256 << 10;

/// Returns the reason why the first session of a process waits, as a sentence. Returns `None` if the memory is not at a
/// limit, or if a value is unknown. Blocks the calling thread.
pub fn at_limit(process: &Process, facts: &Facts) -> Option<String> {
    if !process.visible {
        return None;
    }
    let figures = Reader::new().read(process.pid, process.start_time)?;
    let container = figures.memory_limit;
    if let (Some(used), Some(limit)) = (figures.memory.working_set, container)
        && is_full(used, limit)
    {
        return Some(sentence("the memory of its container", used, limit, "working set"));
    }
    let text = |name: &str, limit| read_process_file(process.pid, name, limit);
    let sources = Sources {
        // The version is not yet known.
        takes: SettingSyntax::for_runtime(facts.native_aot, None),
        variable: &|name| facts.variable(name),
        runtime_config: runtime_config(process.pid, facts),
    };
    let limit = sources.configured().limit(container, machine())?;
    let anonymous = anonymous(&text("status", MAX_STATUS_BYTES)?)?;
    if !is_full(anonymous, limit.bytes) {
        return None;
    }
    // Both figures are too high: one includes memory outside the collector, and the other includes unused memory of its
    // range.
    let committed = committed(&text("maps", MAX_MAPS_BYTES)?, limit.bytes);
    let used = committed.map_or(anonymous, |committed| committed.min(anonymous));
    // If more than twice the limit is in use, the limit is not in force: NativeAOT before 11 ignores `0x6000000`.
    let in_force = used <= limit.bytes.saturating_mul(2);
    (in_force && is_full(used, limit.bytes)).then(|| sentence("its heap", used, limit.bytes, &limit.source))
}

/// Returns the memory of the machine, in bytes, or `None` if it is not readable.
pub(super) fn machine() -> Option<u64> {
    meminfo("MemTotal:")
}

/// Reads the `runtimeconfig.json` of the assembly that a process runs, or of its program. Returns `None` if the file is
/// missing, not readable or invalid.
pub(super) fn runtime_config(pid: u32, facts: &Facts) -> Option<Value> {
    let path = config_path(
        facts.command_line.as_deref().unwrap_or_default(),
        facts.executable.as_deref(),
    )?;
    let path = if path.is_absolute() {
        path
    } else {
        std::fs::read_link(format!("/proc/{pid}/cwd")).ok()?.join(path)
    };
    let file = match OwnFiles::for_process(pid).and_then(|files| files.open(&path, MAX_CONFIG_BYTES)) {
        Ok(file) => file,
        // Most programs with their own host do not have this file.
        Err(OpenError::Path { .. }) => return None,
        Err(refused) => {
            log!(debug: "{refused}; the limit of its heap is unknown");
            return None;
        }
    };
    serde_json::from_str(&text(file, MAX_CONFIG_BYTES)?).ok()
}

/// Returns the path of the file, or `None` if the path is unknown. `dotnet` takes the path from its arguments, and any
/// other host has the file next to its own program.
fn config_path(command_line: &str, executable: Option<&Path>) -> Option<PathBuf> {
    let program = executable?;
    if program.file_name()? != "dotnet" {
        return Some(PathBuf::from(format!("{}.runtimeconfig.json", program.to_str()?)));
    }
    let mut arguments = command_line.split(' ').take(16);
    while let Some(argument) = arguments.next() {
        if argument == "--runtimeconfig" {
            return arguments.next().map(PathBuf::from);
        }
        if argument.ends_with(".dll") {
            return Some(Path::new(argument).with_extension("runtimeconfig.json"));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: the command line is `dotnet app.dll`, `dotnet exec`, a program with its own host, such a program with
    /// the path of an assembly as argument, or the program is unknown.
    /// Guarantee: the path of the file that the host reads is returned, or `None` for the unknown program.
    #[test]
    fn path_of_runtime_config_is_found() {
        let path = |line: &str, executable: &str| config_path(line, Some(Path::new(executable))).unwrap();
        assert_eq!(
            path("dotnet app.dll x.dll", "/usr/bin/dotnet"),
            Path::new("app.runtimeconfig.json")
        );
        let exec = "dotnet exec --runtimeconfig /etc/r.json app.dll";
        assert_eq!(path(exec, "/usr/bin/dotnet"), Path::new("/etc/r.json"));
        assert_eq!(
            path("./shop --port 1", "/srv/shop"),
            Path::new("/srv/shop.runtimeconfig.json")
        );
        assert_eq!(
            path("/srv/run plugin.dll", "/srv/run"),
            Path::new("/srv/run.runtimeconfig.json")
        );
        assert_eq!(config_path("", None), None);
    }

    /// Scenario: this process, which has no .NET heap, is examined.
    /// Guarantee: its figures are read, and no limit is reported as reached.
    #[test]
    fn process_without_limit_is_not_at_limit() {
        assert!(machine().is_some_and(|bytes| bytes > 1 << 20));
        let process = dotnet_diagnostics::discovery::Scan::host()
            .inspect(std::process::id())
            .unwrap();
        assert_eq!(at_limit(&process, &Facts::default()), None);
    }
}
