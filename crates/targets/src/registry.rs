//! The known runs and the next action for each. Pure: the time is an argument.

use std::collections::BTreeMap;
use std::time::Duration;

use base::backoff::Backoff;
use base::run_key::RunKey;
use tokio::time::Instant;

use crate::backoff::{BACKOFF_RESET_AFTER, MEMORY_BACKOFF_RESET_AFTER, backoff, backoff_over_memory};

/// Phase of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The run is attached to as soon as a slot is free.
    Ready,
    /// The run is retried at this time.
    Waiting(Instant),
    /// The task of the run is running.
    Running,
    /// The configuration excludes the run.
    Excluded,
}

/// A run with its phase and its backoff.
#[derive(Debug)]
pub(crate) struct Entry<T> {
    pub(crate) phase: Phase,
    backoff: Backoff,
    /// Backoff for streams that used too much memory.
    over_memory: Backoff,
    /// Whether the run waits because its stream used too much memory. No event shortens this pause.
    held_off: bool,
    /// Order of discovery. Runs found earlier are attached to first.
    arrival: u64,
    pub(crate) run: T,
}

impl<T> Entry<T> {
    /// Returns whether the run waits because its stream used too much memory.
    pub(crate) fn held_off(&self) -> bool {
        self.held_off
    }

    /// Schedules a retry after a failed attempt or a session that lasted `lived`, and returns its time. `over_memory`
    /// is whether the stream used too much memory; such runs wait longer. `chance` is a random number from 0 to 1.
    pub(crate) fn again(&mut self, lived: Duration, over_memory: bool, now: Instant, chance: f64) -> Instant {
        let (backoff, good) = if over_memory {
            (&mut self.over_memory, MEMORY_BACKOFF_RESET_AFTER)
        } else {
            (&mut self.backoff, BACKOFF_RESET_AFTER)
        };
        if lived >= good {
            backoff.reset();
        }
        let until = now + backoff.next(chance);
        self.phase = Phase::Waiting(until);
        self.held_off |= over_memory;
        until
    }
}

/// The known runs.
#[derive(Debug)]
pub(crate) struct Registry<T> {
    entries: BTreeMap<RunKey, Entry<T>>,
    arrivals: u64,
}

impl<T> Default for Registry<T> {
    fn default() -> Self {
        Self {
            entries: BTreeMap::new(),
            arrivals: 0,
        }
    }
}

impl<T> Registry<T> {
    /// Adds a new run.
    pub(crate) fn insert(&mut self, key: RunKey, phase: Phase, run: T) {
        self.arrivals += 1;
        let entry = Entry {
            phase,
            backoff: backoff(),
            over_memory: backoff_over_memory(),
            held_off: false,
            arrival: self.arrivals,
            run,
        };
        self.entries.insert(key, entry);
    }

    pub(crate) fn get(&self, key: RunKey) -> Option<&Entry<T>> {
        self.entries.get(&key)
    }

    pub(crate) fn get_mut(&mut self, key: RunKey) -> Option<&mut Entry<T>> {
        self.entries.get_mut(&key)
    }

    pub(crate) fn remove(&mut self, key: RunKey) -> Option<Entry<T>> {
        self.entries.remove(&key)
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = RunKey> + '_ {
        self.entries.keys().copied()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (RunKey, &Entry<T>)> {
        self.entries.iter().map(|(key, entry)| (*key, entry))
    }

    pub(crate) fn running(&self) -> usize {
        let running = |entry: &&Entry<T>| entry.phase == Phase::Running;
        self.entries.values().filter(running).count()
    }

    /// Returns the runs to attach to now, and the runs that wait for a free slot, both in order of discovery. Marks the
    /// runs to attach to as running.
    pub(crate) fn due(&mut self, now: Instant, limit: usize) -> (Vec<RunKey>, Vec<RunKey>) {
        let mut due: Vec<(u64, RunKey)> = Vec::new();
        for (key, entry) in &mut self.entries {
            match entry.phase {
                Phase::Waiting(until) if until <= now => {
                    entry.phase = Phase::Ready;
                    entry.held_off = false;
                }
                _ => {}
            }
            if entry.phase == Phase::Ready {
                due.push((entry.arrival, *key));
            }
        }
        if due.is_empty() {
            return (Vec::new(), Vec::new());
        }
        due.sort_unstable();
        let room = limit.saturating_sub(self.running()).min(due.len());
        let over = due.split_off(room).into_iter().map(|(_, key)| key).collect();
        let start: Vec<RunKey> = due.into_iter().map(|(_, key)| key).collect();
        for key in &start {
            if let Some(entry) = self.entries.get_mut(key) {
                entry.phase = Phase::Running;
            }
        }
        (start, over)
    }

    /// Retries a waiting run immediately and resets its backoff, because an event such as a new socket can resolve the
    /// problem. A run whose stream used too much memory keeps waiting, because a process can create any number of
    /// sockets.
    pub(crate) fn hurry(&mut self, key: RunKey) {
        if let Some(entry) = self.entries.get_mut(&key)
            && matches!(entry.phase, Phase::Waiting(_))
            && !entry.held_off
        {
            entry.backoff.reset();
            entry.phase = Phase::Ready;
        }
    }

    /// Returns the time at which the next waiting run is due, or `None` if no run waits.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let until = |entry: &Entry<T>| match entry.phase {
            Phase::Waiting(until) => Some(until),
            _ => None,
        };
        self.entries.values().filter_map(until).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(pid: u32) -> RunKey {
        RunKey { pid, start_time: 7 }
    }

    fn again(registry: &mut Registry<()>, lived: Duration, over_memory: bool, now: Instant, chance: f64) -> Instant {
        let entry = registry.get_mut(key(1)).unwrap();
        entry.again(lived, over_memory, now, chance)
    }

    /// Scenario: there are three runs and two slots; one of the two attached runs ends.
    /// Guarantee: runs are attached to in order of discovery and within the limit; the third run is attached to as soon
    /// as one of the attached runs has ended.
    #[test]
    fn runs_over_limit_wait_for_free_slot() {
        let now = Instant::now();
        let mut registry = Registry::default();
        for pid in [30, 10, 20] {
            registry.insert(key(pid), Phase::Ready, ());
        }
        assert_eq!(registry.due(now, 2), (vec![key(30), key(10)], vec![key(20)]));
        assert_eq!(registry.due(now, 2), (vec![], vec![key(20)]));
        registry.remove(key(30));
        assert_eq!(registry.due(now, 2), (vec![key(20)], vec![]));
        assert_eq!(registry.due(now, 2), (vec![], vec![]));
    }

    /// Scenario: a run fails repeatedly, then has a long session, then its socket is recreated.
    /// Guarantee: the run is always retried within 60 s, but never early. The pause after the long session is 0.5 s,
    /// and the new socket ends the pause.
    #[test]
    fn failed_run_is_retried_indefinitely() {
        let mut now = Instant::now();
        let mut registry = Registry::default();
        registry.insert(key(1), Phase::Ready, ());
        for _ in 0..100 {
            assert_eq!(registry.due(now, 9).0, [key(1)]);
            let until = again(&mut registry, Duration::ZERO, false, now, 0.5);
            assert!(until - now <= Duration::from_secs(60));
            assert_eq!(registry.next_due(), Some(until));
            assert_eq!(registry.due(until - Duration::from_millis(1), 9).0, []);
            now = until;
        }
        assert_eq!(registry.due(now, 9).0, [key(1)]);
        let until = again(&mut registry, BACKOFF_RESET_AFTER, false, now, 1.0);
        assert_eq!(until - now, Duration::from_millis(500));
        registry.hurry(key(1));
        assert_eq!(registry.due(now, 9).0, [key(1)]);
        registry.hurry(key(1));
        assert_eq!(
            registry.get(key(1)).unwrap().phase,
            Phase::Running,
            "a running run is not changed"
        );
    }

    /// Scenario: the stream of a run uses too much memory repeatedly, and the process creates a new socket each time;
    /// then a session stays within the limit for a long time.
    /// Guarantee: the pauses grow from 30 s to 1 h, new sockets do not shorten them, and they start again at 30 s after
    /// the good session.
    #[test]
    fn run_over_memory_limit_backs_off() {
        let mut now = Instant::now();
        let mut registry = Registry::default();
        registry.insert(key(1), Phase::Ready, ());
        let mut pauses = Vec::new();
        for _ in 0..10 {
            assert_eq!(registry.due(now, 9).0, [key(1)]);
            let until = again(&mut registry, BACKOFF_RESET_AFTER, true, now, 1.0);
            registry.hurry(key(1));
            assert_eq!(registry.due(until - Duration::from_millis(1), 9).0, []);
            pauses.push((until - now).as_secs());
            now = until;
        }
        assert_eq!(pauses, [30, 60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]);
        assert_eq!(registry.due(now, 9).0, [key(1)]);
        let until = again(&mut registry, MEMORY_BACKOFF_RESET_AFTER, true, now, 1.0);
        assert_eq!((until - now).as_secs(), 30);
        // After the pause, an ordinary failure is retried as soon as a new socket appears.
        assert_eq!(registry.due(until, 9).0, [key(1)]);
        again(&mut registry, Duration::ZERO, false, until, 1.0);
        registry.hurry(key(1));
        assert_eq!(registry.due(until, 9).0, [key(1)]);
    }

    /// Scenario: the configuration excludes a run.
    /// Guarantee: the excluded run is never due and occupies no slot.
    #[test]
    fn excluded_run_is_never_due() {
        let mut registry = Registry::default();
        registry.insert(key(1), Phase::Excluded, ());
        registry.insert(key(2), Phase::Ready, ());
        assert_eq!(registry.due(Instant::now(), 1), (vec![key(2)], vec![]));
        assert_eq!(registry.next_due(), None);
    }
}
