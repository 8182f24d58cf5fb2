//! The event buffers that a process needs because of its threads.

use std::path::Path;

use crate::thread_names::named;

/// Name of the threads of server GC (.NET 5 and later), one per heap.
const HEAP_THREAD: &str = ".NET Server GC";

/// Number of threads per heap that write events: the thread of the heap, and the thread of its background collections,
/// which the runtime starts before the first background collection.
const THREADS_PER_HEAP: usize = 2;

/// Size of the event buffers of a thread, in KiB. While one buffer of a thread is read, the runtime gives the thread
/// another of 200 KiB, so a thread has two such buffers (`buffer_manager_allocate_buffer_for_thread` in
/// `ep-buffer-manager.c`; only the first buffer of a thread has 100 KiB).
const KIB_PER_THREAD: usize = 400;

/// Limit for the buffers of hostile processes.
const MAX_MB: u32 = 1024;

/// Returns the maximum size of the event buffers, in megabytes, with which every heap of a process can write its
/// events; 0 without server GC. A megabyte has 1,048,576 bytes here, as in the runtime. If the maximum is less, the
/// runtime drops events in every collection of a process with many heaps, even if gcwatch reads at once.
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
    let kib = named(tasks, |name| name == HEAP_THREAD).count() * THREADS_PER_HEAP * KIB_PER_THREAD;
    u32::try_from(kib.div_ceil(1024)).map_or(MAX_MB, |needed| needed.min(MAX_MB))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: a process has threads of server GC and other threads; another process has no thread of server GC, and
    /// a third process has exited.
    /// Guarantee: the buffers have 800 KiB per heap, rounded up, and nothing is needed without server GC.
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
        assert_eq!(needed_mb_at(tasks), 75);
        assert_eq!(needed_mb_at(&tasks.join("missing")), 0);
    }
}
