//! The last fact of each thread. HeapStats and histories carry no number, so the previous event of their thread decides
//! which collection they belong to.

/// Maximum number of threads that are remembered. The thread that has been silent for longest is dropped first.
pub const MAX_THREADS: usize = 1024;

/// The newest facts of one thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Trail {
    thread: u64,
    /// Collection whose GCEnd was the last event of the thread: a GCHeapStats that follows belongs to that collection
    /// (no exception in 62,546 collections).
    pub(crate) ended: Option<u32>,
    /// Collection whose history was the last event of the thread: per-heap histories that follow belong to that
    /// collection.
    pub(crate) history: Option<u32>,
    /// Time at which the last stop of the thread ended.
    pub(crate) restarted: Option<i64>,
}

/// The trails of threads, most recent first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trails {
    trails: Vec<Trail>,
}

impl Trails {
    /// Returns the number of bytes on the heap.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.trails.capacity() * size_of::<Trail>()
    }

    /// Returns the trail of a thread, which is empty if the thread is new.
    pub(crate) fn get_or_insert(&mut self, thread: u64) -> &mut Trail {
        let place = match self.trails.iter().position(|trail| trail.thread == thread) {
            Some(place) => place,
            None => {
                self.trails.truncate(MAX_THREADS - 1);
                self.trails.push(Trail {
                    thread,
                    ended: None,
                    history: None,
                    restarted: None,
                });
                self.trails.len() - 1
            }
        };
        self.trails[..=place].rotate_right(1);
        &mut self.trails[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: more threads appear than are remembered.
    /// Guarantee: the memory is bounded, and the newest threads are kept.
    #[test]
    fn silent_threads_are_dropped_first() {
        let mut trails = Trails::default();
        for thread in 0..2 * MAX_THREADS as u64 {
            trails.get_or_insert(thread).ended = Some(1);
        }
        assert_eq!(trails.trails.len(), MAX_THREADS);
        assert_eq!(trails.get_or_insert(2 * MAX_THREADS as u64 - 1).ended, Some(1));
        assert_eq!(trails.get_or_insert(0).ended, None);
    }
}
