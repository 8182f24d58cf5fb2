//! The runs that are known, and what to do next for each: pure, with the time as an argument.

use std::collections::BTreeMap;
use std::time::Duration;

use base::backoff::Backoff;
use base::run_key::RunKey;
use tokio::time::Instant;

use crate::backoff::{GOOD_CONDUCT, GOOD_LIFE, backoff, backoff_over_memory};

/// What is done with a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It is attached to as soon as there is room.
    Ready,
    /// It is retried then.
    Waiting(Instant),
    /// Its task runs.
    Running,
    /// Excluded by the configuration.
    Excluded,
}

/// A run, with what its owner knows of it.
#[derive(Debug)]
pub(crate) struct Entry<T> {
    pub(crate) phase: Phase,
    backoff: Backoff,
    /// Of streams that took too much memory.
    over_memory: Backoff,
    /// It waits because of that: nothing shortens the pause.
    held_off: bool,
    /// Order in which runs were found: who came first is attached to first.
    arrival: u64,
    pub(crate) run: T,
}

impl<T> Entry<T> {
    /// It waits because its stream took too much memory.
    pub(crate) fn held_off(&self) -> bool {
        self.held_off
    }

    /// An attempt failed, or a session ended after it `lived` for so long: when it is retried. `over_memory`: its stream
    /// took too much, and it is retried later, slower each time. `chance`: 0 to 1.
    pub(crate) fn again(&mut self, lived: Duration, over_memory: bool, now: Instant, chance: f64) -> Instant {
        let (backoff, good) = if over_memory {
            (&mut self.over_memory, GOOD_CONDUCT)
        } else {
            (&mut self.backoff, GOOD_LIFE)
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

/// The runs that are known.
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
    /// A run that was not known.
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

    /// Those to attach to now, marked as running, and those that wait for room: both in the order in which they were
    /// found.
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

    /// Something happened that may help (a socket appeared): it is retried at once, and from the shortest pause on. Not one
    /// that is held off: a process can make sockets as often as it likes.
    pub(crate) fn hurry(&mut self, key: RunKey) {
        if let Some(entry) = self.entries.get_mut(&key)
            && matches!(entry.phase, Phase::Waiting(_))
            && !entry.held_off
        {
            entry.backoff.reset();
            entry.phase = Phase::Ready;
        }
    }

    /// When the next run is due that waits.
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

    /// Scenario: three runs, room for two; one of the two ends.
    /// Guarantee: in the order in which they were found, never more than there is room for, and the third comes in when
    /// one ends.
    #[test]
    fn the_rest_waits_for_room() {
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

    /// Scenario: a run fails again and again, then its session lives, then its socket is made anew.
    /// Guarantee: it is never given up, is not due before its time, begins at half a second after a good session, and
    /// is due at once when something helps.
    #[test]
    fn failures_are_retried_for_ever() {
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
        let until = again(&mut registry, GOOD_LIFE, false, now, 1.0);
        assert_eq!(until - now, Duration::from_millis(500));
        registry.hurry(key(1));
        assert_eq!(registry.due(now, 9).0, [key(1)]);
        registry.hurry(key(1));
        assert_eq!(
            registry.get(key(1)).unwrap().phase,
            Phase::Running,
            "a running one is left alone"
        );
    }

    /// Scenario: a run whose stream takes too much memory again and again, and makes a new socket each time; then it
    /// behaves for long.
    /// Guarantee: the pauses grow from half a minute to an hour, no new socket shortens them, and they begin anew after
    /// good conduct.
    #[test]
    fn a_run_that_takes_too_much_memory_is_held_off() {
        let mut now = Instant::now();
        let mut registry = Registry::default();
        registry.insert(key(1), Phase::Ready, ());
        let mut pauses = Vec::new();
        for _ in 0..10 {
            assert_eq!(registry.due(now, 9).0, [key(1)]);
            let until = again(&mut registry, GOOD_LIFE, true, now, 1.0);
            registry.hurry(key(1));
            assert_eq!(registry.due(until - Duration::from_millis(1), 9).0, []);
            pauses.push((until - now).as_secs());
            now = until;
        }
        assert_eq!(pauses, [30, 60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]);
        assert_eq!(registry.due(now, 9).0, [key(1)]);
        let until = again(&mut registry, GOOD_CONDUCT, true, now, 1.0);
        assert_eq!((until - now).as_secs(), 30);
        // Another failure after the pause is as any other.
        assert_eq!(registry.due(until, 9).0, [key(1)]);
        again(&mut registry, Duration::ZERO, false, until, 1.0);
        registry.hurry(key(1));
        assert_eq!(registry.due(until, 9).0, [key(1)]);
    }

    /// Scenario: a run that the configuration excludes.
    /// Guarantee: it is never due and takes no room.
    #[test]
    fn what_is_excluded_is_never_due() {
        let mut registry = Registry::default();
        registry.insert(key(1), Phase::Excluded, ());
        registry.insert(key(2), Phase::Ready, ());
        assert_eq!(registry.due(Instant::now(), 1), (vec![key(2)], vec![]));
        assert_eq!(registry.next_due(), None);
    }
}
