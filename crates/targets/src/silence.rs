//! Determines from the files of a process why it does not respond. A signal, a debugger or a frozen control group can
//! have stopped the process. A tool can fail to read its session, or keep the runtime busy with a command. The cause
//! can also be unknown.
//!
//! A thread that writes to a session's stream waits in `sock_alloc_send_pskb` while the socket is full, because the
//! tool that requested the events does not read them. In .NET 11 and later, a session can make the runtime wait for its
//! reader (`CollectTracing6`, which dotnet-gcdump uses for its heap dump). The threads that write events then also
//! wait, even in the middle of a collection while all other threads are suspended.

use std::path::{Path, PathBuf};

use dotnet_diagnostics::discovery::Process;

use crate::others::connections;
use crate::thread_names::MAX_THREADS;

/// Kernel function in which a thread waits while its socket is full.
const WAITS_FOR_READER: &str = "sock_alloc_send_pskb";
/// Kernel functions in which the threads of a frozen control group wait, for versions 1 and 2.
const FROZEN: [&str; 2] = ["__refrigerator", "do_freezer_trap"];
/// First major version of .NET that can wait for the reader of a session.
const WAITS_SINCE: u32 = 11;

/// Reason why a process does not respond, according to its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// A signal stopped the process.
    Stopped,
    /// The debugger with this pid stopped the process.
    Traced(u32),
    Frozen,
    /// A tool does not read the events that it requested.
    Unread,
    None,
}

/// Returns the reason why a process does not respond, as an observation and a remedy, or `None` if the files of the
/// process are not readable. `own` is the number of connections of the gcwatch instance that reads the process. `major`
/// is the major version of the runtime.
///
/// Blocks the calling thread.
pub fn why_silent(process: &Process, own: usize, major: Option<u32>) -> Option<(String, String)> {
    if !process.visible {
        return None;
    }
    let folder = PathBuf::from(format!("/proc/{}", process.pid));
    let cause = cause(&folder)?;
    let address = process.socket.as_ref();
    let connections = address.and_then(|address| connections(process.pid, address.path()));
    let others = connections.map(|count| count.saturating_sub(own));
    Some(explained(cause, process.pid, others, major))
}

fn cause(folder: &Path) -> Option<Cause> {
    let status = std::fs::read_to_string(folder.join("status")).ok()?;
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    match field("State:")?.chars().next()? {
        'T' => return Some(Cause::Stopped),
        't' => {
            let tracer = field("TracerPid:").and_then(|pid| pid.parse().ok());
            return Some(Cause::Traced(tracer.unwrap_or(0)));
        }
        _ => {}
    }
    let threads = std::fs::read_dir(folder.join("task")).ok()?.take(MAX_THREADS);
    let waits = threads.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("wchan")).ok());
    let mut is_unread = false;
    for place in waits {
        if FROZEN.contains(&place.as_str()) {
            return Some(Cause::Frozen);
        }
        is_unread |= place.starts_with(WAITS_FOR_READER);
    }
    Some(if is_unread { Cause::Unread } else { Cause::None })
}

fn explained(cause: Cause, pid: u32, others: Option<usize>, major: Option<u32>) -> (String, String) {
    let waits = major.is_none_or(|major| major >= WAITS_SINCE);
    let connected = match others {
        Some(1) => "; another tool is connected to it".to_owned(),
        Some(count @ 2..) => format!("; {count} connections of other tools are open"),
        Some(0) | None => String::new(),
    };
    match cause {
        Cause::Stopped => (
            "the process is stopped by a signal (SIGSTOP)".to_owned(),
            format!("resume it: kill -CONT {pid}"),
        ),
        Cause::Traced(tracer) => (
            format!("a debugger, process {tracer}, has stopped the process"),
            "resume the process in the debugger, or detach the debugger".to_owned(),
        ),
        Cause::Frozen => (
            "the control group of the process is frozen".to_owned(),
            "thaw the group (docker unpause, systemctl thaw)".to_owned(),
        ),
        Cause::Unread if waits => (
            format!(
                "no signal or debugger has stopped the process; a tool does not read the events it requested, and a \
                 heap dump that waits for its reader stops all threads{connected}"
            ),
            "stop that tool (dotnet-gcdump, dotnet-monitor, a profiler); the runtime resumes when its connection closes"
                .to_owned(),
        ),
        Cause::Unread => (
            format!(
                "no signal or debugger has stopped the process; a tool does not read the events it requested{connected}"
            ),
            "stop that tool, and try again later".to_owned(),
        ),
        Cause::None if others.is_some_and(|count| count > 0) => (
            format!("no signal or debugger has stopped the process{connected}; its command can block the runtime"),
            "wait for the tool, or stop it; if that does not help, the process has no CPU or swaps".to_owned(),
        ),
        Cause::None => (
            "no signal or debugger has stopped the process, and no other tool is visible".to_owned(),
            "the process has no CPU, swaps or is stuck: check its CPU and memory, and try again later".to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the cause for a process with this state, tracer and wait channels of its threads, or `None` if the cause
    /// is unknown.
    fn cause_of(state: &str, tracer: &str, waits: &[&str]) -> Option<Cause> {
        let folder = tempfile::tempdir().unwrap();
        let status = format!("Name:\tx\nState:\t{state}\nTracerPid:\t{tracer}\n");
        std::fs::write(folder.path().join("status"), status).unwrap();
        for (thread, place) in (1..).zip(waits) {
            let task = folder.path().join(format!("task/{thread}"));
            std::fs::create_dir_all(&task).unwrap();
            std::fs::write(task.join("wchan"), place).unwrap();
        }
        cause(folder.path())
    }

    /// Scenario: processes are in different states, and their threads wait in different kernel functions.
    /// Guarantee: each cause is recognized by its own sign; without a folder of threads, the cause is unknown.
    #[test]
    fn causes_are_distinct() {
        let waits = ["futex_do_wait", "0"];
        assert_eq!(cause_of("T (stopped)", "0", &waits), Some(Cause::Stopped));
        assert_eq!(cause_of("t (tracing stop)", "42", &waits), Some(Cause::Traced(42)));
        assert_eq!(
            cause_of("D (disk sleep)", "0", &["__refrigerator"]),
            Some(Cause::Frozen)
        );
        let unread = ["futex_do_wait", "sock_alloc_send_pskb"];
        assert_eq!(cause_of("S (sleeping)", "0", &unread), Some(Cause::Unread));
        assert_eq!(cause_of("S (sleeping)", "0", &waits), Some(Cause::None));
        assert_eq!(cause_of("S (sleeping)", "0", &[]), None);
    }

    /// Scenario: a session is not read on .NET 11, on .NET 10 and on an unknown version; another process is stopped.
    /// Guarantee: the text names the unread session as the cause only for a runtime that can wait for its reader.
    #[test]
    fn unread_session_stops_only_waiting_runtimes() {
        let text = |cause, others, major| {
            let (detail, remedy) = explained(cause, 7, others, major);
            format!("{detail}; {remedy}")
        };
        for major in [Some(11), None] {
            assert!(text(Cause::Unread, Some(2), major).contains("stops all threads; 2 connections of other tools"));
        }
        assert!(!text(Cause::Unread, Some(1), Some(10)).contains("stops all threads"));
        assert!(text(Cause::Stopped, Some(1), Some(11)).contains("kill -CONT 7"));
        assert!(text(Cause::None, Some(1), Some(11)).contains("another tool is connected"));
        assert!(text(Cause::None, Some(0), Some(11)).contains("no other tool"));
    }
}
