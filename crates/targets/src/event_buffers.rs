//! The event buffers that a process needs because of its threads.

use std::path::Path;

use crate::thread_names::named;

/// Name of the threads of server GC (.NET 5 and later), one per heap.
const HEAP_THREAD: &str = ".NET Server GC";

/// Size of the event buffers of a thread, in kilobytes. The runtime gives a thread a buffer of 100 kB for its first
/// event, and one of 200 kB for the events that it writes while the first buffer is read.
const KB_PER_THREAD: usize = 300;

/// Limit for the buffers of hostile processes.
const MAX_MB: u32 = 1024;

/// Returns the maximum size of the event buffers, in megabytes, with which every heap of a process can write its
/// events; 0 without server GC. If the maximum is less, the runtime drops events in every collection of a process with
/// many heaps, even if gcwatch reads at once.
///
/// The runtime counts the whole buffers, but uses only the pages with events: 4 kB per thread. The heaps of NativeAOT
/// programs, and of runtimes that wait for gcwatch at their start, are unknown: their threads have no name, or do not
/// exist yet.
///
/// Blocks the calling thread.
#[must_use]
pub fn needed_mb(pid: u32) -> u32 {
    needed_mb_at(Path::new(&format!("/proc/{pid}/task")))
}

fn needed_mb_at(tasks: &Path) -> u32 {
    let kilobytes = named(tasks, |name| name == HEAP_THREAD).count() * KB_PER_THREAD;
    u32::try_from(kilobytes.div_ceil(1000)).map_or(MAX_MB, |needed| needed.min(MAX_MB))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: a process has threads of server GC and other threads; another process has no thread of server GC, and
    /// a third process has exited.
    /// Guarantee: the buffers have 0.3 MB per heap, rounded up, and nothing is needed without server GC.
    #[test]
    fn every_heap_gets_its_buffers() {
        let folder = tempfile::tempdir().unwrap();
        let tasks = folder.path();
        let thread = |id: u32, name: &str| {
            let task = tasks.join(id.to_string());
            std::fs::create_dir(&task).unwrap();
            std::fs::write(task.join("comm"), format!("{name}\n")).unwrap();
        };
        thread(1, "dotnet");
        thread(2, ".NET Finalizer");
        assert_eq!(needed_mb_at(tasks), 0);
        for heap in 0..96 {
            thread(10 + heap, ".NET Server GC");
        }
        assert_eq!(needed_mb_at(tasks), 29);
        assert_eq!(needed_mb_at(&tasks.join("missing")), 0);
    }
}
