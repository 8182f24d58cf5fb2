//! What each thread did last: HeapStats and histories carry no number and belong to what their own thread did before.

/// Threads remembered at once; the one that was silent longest is forgotten first.
pub const MAX_THREADS: usize = 1024;

/// The newest facts of one thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Trail {
    thread: u64,
    /// Its last event was the GCEnd of this collection: a GCHeapStats that follows is that collection's (no exception
    /// in 62,546 collections).
    pub(crate) ended: Option<u32>,
    /// Its last event was a history: per-heap histories that follow belong to this collection.
    pub(crate) history: Option<u32>,
    /// When its last stop was over.
    pub(crate) restarted: Option<i64>,
}

/// The threads, the most recent first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trails {
    trails: Vec<Trail>,
}

impl Trails {
    /// Bytes on the heap.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.trails.capacity() * size_of::<Trail>()
    }

    /// The thread's trail, empty if it was not seen before.
    pub(crate) fn of(&mut self, thread: u64) -> &mut Trail {
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

    /// Scenario: more threads than are remembered.
    /// Guarantee: the memory is bounded, the newest are kept.
    #[test]
    fn the_silent_are_forgotten_first() {
        let mut trails = Trails::default();
        for thread in 0..2 * MAX_THREADS as u64 {
            trails.of(thread).ended = Some(1);
        }
        assert_eq!(trails.trails.len(), MAX_THREADS);
        assert_eq!(trails.of(2 * MAX_THREADS as u64 - 1).ended, Some(1));
        assert_eq!(trails.of(0).ended, None);
    }
}
