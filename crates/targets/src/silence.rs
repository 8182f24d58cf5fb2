//! Why a process does not respond, as far as its files say it: stopped by a signal, a debugger or a frozen control
//! group; stopped by a session that nobody reads; busy with the command of another tool; or none of these.
//!
//! A thread that writes a session's stream waits in `sock_alloc_send_pskb` while the socket is full: whoever asked for
//! the events does not read them. From .NET 11 on a session can ask the runtime to wait for its reader
//! (`CollectTracing6`, which dotnet-gcdump uses for its heap dump): then the threads that write events wait, too,
//! in the
//! middle of a collection with all others stopped.

use std::path::{Path, PathBuf};

use dotnet_diagnostics::discovery::Process;

use crate::others::connections;
use crate::thread_names::MAX_THREADS;

/// Where a thread waits whose socket is full.
const WAITS_FOR_READER: &str = "sock_alloc_send_pskb";
/// Where the threads of a frozen control group wait: of version 1, and of 2.
const FROZEN: [&str; 2] = ["__refrigerator", "do_freezer_trap"];
/// The first version of .NET that can wait for the reader of a session.
const WAITS_SINCE: u32 = 11;

/// What keeps a process, by its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// A signal stopped it.
    Stopped,
    /// A debugger stopped it, the process with that pid.
    Traced(u32),
    Frozen,
    /// Somebody does not read the events that he asked for.
    Unread,
    None,
}

/// Why a process does not respond: what is seen, and what to do; blocking. `held`: a gcwatch reads it. `major`: of its
/// runtime's version. `None`: its files cannot be read.
pub fn why_silent(process: &Process, held: bool, major: Option<u32>) -> Option<(String, String)> {
    if !process.visible {
        return None;
    }
    let folder = PathBuf::from(format!("/proc/{}", process.pid));
    let cause = cause(&folder)?;
    let address = process.socket.as_ref();
    let connections = address.and_then(|address| connections(process.pid, address.path()));
    // A gcwatch has one, or two where it reads requests.
    let others = connections.map(|count| count.saturating_sub(usize::from(held)));
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
            "it is stopped by a signal (SIGSTOP)".to_owned(),
            format!("let it go on: kill -CONT {pid}"),
        ),
        Cause::Traced(tracer) => (
            format!("process {tracer} has stopped it: a debugger"),
            "let the debugger go on, or detach it".to_owned(),
        ),
        Cause::Frozen => (
            "its control group is frozen".to_owned(),
            "thaw the group (docker unpause, systemctl thaw)".to_owned(),
        ),
        Cause::Unread if waits => (
            format!(
                "it is not stopped by a signal or a debugger: a tool does not read the events that it asked for, and a \
                 heap dump that waits for its reader stops all threads{connected}"
            ),
            "end that tool (dotnet-gcdump, dotnet-monitor, a profiler): the runtime goes on when its connection is closed"
                .to_owned(),
        ),
        Cause::Unread => (
            format!(
                "it is not stopped by a signal or a debugger: a tool does not read the events that it asked for{connected}"
            ),
            "end that tool, and try again later".to_owned(),
        ),
        Cause::None if others.is_some_and(|count| count > 0) => (
            format!("it is not stopped by a signal or a debugger{connected}: its command may keep the runtime busy"),
            "wait for it, or end that tool; else the process has no CPU or swaps".to_owned(),
        ),
        Cause::None => (
            "it is not stopped by a signal or a debugger, and no other tool is seen".to_owned(),
            "it has no CPU, swaps or is stuck: check its CPU and memory, and try again later".to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process's files: its state, its tracer and where its threads wait.
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

    /// Scenario: a process in each state, with threads that wait anywhere.
    /// Guarantee: each cause by its own sign; without a folder of threads nothing is known.
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

    /// Scenario: a session that is not read on .NET 11, on 10 and on an unknown version; a process that is stopped.
    /// Guarantee: only a runtime that may wait for its reader is said to be stopped by it, and never by a debugger.
    #[test]
    fn only_a_runtime_that_waits_is_stopped_by_a_reader() {
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
