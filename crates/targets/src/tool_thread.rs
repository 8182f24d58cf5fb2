//! Identifies the thread that serves tools over the diagnostics socket, by the names of a process's threads. This
//! thread triggers the collections of heap dumps.
//!
//! .NET names it `.NET EventPipe`, like the threads that write streams, which trigger nothing (observed on 8, 9, 10 and
//! 11, and on NativeAOT 10 and 11). If no thread has this name (.NET Core 3.1, NativeAOT 8 and 9), the result is
//! unknown, and `clr_gc` learns the thread when the first session ends.
//!
//! The stream identifies threads by ids in the process's own pid namespace. A few small files of `/proc` are read, once
//! for each unknown thread that requests a collection.

use std::path::PathBuf;

use crate::thread_names::{named, own_number};

/// Name of threads of event sessions and their commands.
const NAME: &str = ".NET EventPipe";
/// Maximum number of remembered answers.
const MAX_KNOWN: usize = 32;

/// The threads of a process that have requested a collection, and whether they serve tools.
#[derive(Debug)]
pub(crate) struct ToolThread {
    tasks: Option<PathBuf>,
    /// Answers by thread id in the process's own namespace, oldest first.
    known: Vec<(u64, bool)>,
}

impl ToolThread {
    /// Creates the state for a process. `pid` is `None` if the process is not visible in gcwatch's `/proc`.
    pub(crate) fn new(pid: Option<u32>) -> Self {
        Self {
            tasks: pid.map(|pid| PathBuf::from(format!("/proc/{pid}/task"))),
            known: Vec::new(),
        }
    }

    /// Returns whether a thread serves tools, or `None` if unknown.
    pub(crate) fn is(&mut self, thread: u64) -> Option<bool> {
        if let Some((_, is)) = self.known.iter().find(|(known, _)| *known == thread) {
            return Some(*is);
        }
        let tools = named(self.tasks.as_deref()?, |name| name == NAME);
        let tools: Vec<u64> = tools.filter_map(|task| own_number(&task)).collect();
        if tools.is_empty() {
            return None;
        }
        let is = tools.contains(&thread);
        if self.known.len() >= MAX_KNOWN {
            self.known.remove(0);
        }
        self.known.push((thread, is));
        Some(is)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: this process has a thread with the name of threads that serve tools, and another thread; then the
    /// named thread exits. Another process is not visible.
    /// Guarantee: the named thread is recognized by its id, and the other thread is not; the answer is remembered.
    /// Without a thread of this name, or for an invisible process, the result is unknown.
    #[test]
    fn tool_thread_is_recognized_by_name() {
        let (sender, numbers) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::Builder::new().name(NAME.to_owned()).spawn(move || {
            sender.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
            ended.recv().unwrap_err();
        });
        let tool = u64::try_from(numbers.recv().unwrap()).unwrap();
        let other = u64::try_from(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
        let mut threads = ToolThread::new(Some(std::process::id()));
        assert_eq!((threads.is(tool), threads.is(other)), (Some(true), Some(false)));
        drop(end);
        thread.unwrap().join().unwrap();
        assert_eq!(threads.is(tool), Some(true));
        // The kernel lists a thread for a moment after it was joined.
        while std::path::Path::new(&format!("/proc/self/task/{tool}")).exists() {
            std::thread::yield_now();
        }
        assert_eq!(ToolThread::new(Some(std::process::id())).is(other), None);
        assert_eq!(ToolThread::new(None).is(tool), None);
    }
}
