//! Which thread of a process serves tools over its diagnostics socket, by the names of its threads: the one that
//! triggers the collections of heap dumps.
//!
//! .NET names it `.NET EventPipe`, as those that write streams, which trigger nothing (seen on 8, 9, 10 and 11, and on
//! NativeAOT 10 and 11). Where no thread has such a name (.NET Core 3.1, NativeAOT 8 and 9) nothing is known from here,
//! and `clr_gc` learns it when the first session ends.
//!
//! The stream numbers threads as the process's own pid namespace does. A few small files of `/proc` are read, once for
//! each thread that asks for a collection and is not known.

use std::path::PathBuf;

use crate::thread_names::{named, own_number};

/// The name of threads of event sessions and their commands.
const NAME: &str = ".NET EventPipe";
/// Most answers that are remembered.
const MAX_KNOWN: usize = 32;

/// The threads of a process that have asked for a collection.
#[derive(Debug)]
pub(crate) struct ToolThread {
    tasks: Option<PathBuf>,
    /// By the number in the process's own namespace; the oldest first.
    known: Vec<(u64, bool)>,
}

impl ToolThread {
    /// Of the process with that pid; `None`: it is not in our `/proc`.
    pub(crate) fn new(pid: Option<u32>) -> Self {
        Self {
            tasks: pid.map(|pid| PathBuf::from(format!("/proc/{pid}/task"))),
            known: Vec::new(),
        }
    }

    /// Whether this is the thread; `None`: it cannot be seen.
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

    /// Scenario: this process, with a thread of that name and one of another; then without it; a process that is not
    /// there.
    /// Guarantee: the thread is found by its number, the other one is another; what was found stays, and without a
    /// thread of the name nothing is known.
    #[test]
    fn the_thread_is_found_by_its_name() {
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
