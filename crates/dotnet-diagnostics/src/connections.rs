//! How many connections of ours a runtime's socket has at a moment.
//!
//! `/proc/net/unix` shows all connections to a socket and not whose they are. Whoever wants to know of other tools'
//! has to take away its own, so that these are counted where they are made: from before a connection is made until
//! after it was closed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The connections of ours to one socket. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct Connections(Arc<Mutex<Ledger>>);

#[derive(Debug, Default)]
struct Ledger {
    opened: u64,
    closed: u64,
    open: Vec<u64>,
}

/// Which connections of ours were open at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenConnections {
    /// Goes up with each connection that is made and each that is closed: two moments with the same number have the
    /// same connections, and so has all time between them.
    pub generation: u64,
    /// A number for each that is open, never used again.
    pub numbers: Vec<u64>,
}

impl Connections {
    /// What is open now: sessions, and commands under way.
    pub fn now(&self) -> OpenConnections {
        let ledger = self.ledger();
        OpenConnections {
            generation: ledger.opened + ledger.closed,
            numbers: ledger.open.clone(),
        }
    }

    /// One more, until the value is dropped.
    pub(crate) fn open(&self) -> OpenConnection {
        let mut ledger = self.ledger();
        let number = ledger.opened;
        ledger.opened += 1;
        ledger.open.push(number);
        OpenConnection {
            of: self.clone(),
            number,
        }
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that counts as open.
#[derive(Debug)]
pub(crate) struct OpenConnection {
    of: Connections,
    number: u64,
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        let mut ledger = self.of.ledger();
        ledger.closed += 1;
        ledger.open.retain(|number| *number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: two connections, one of which is closed and followed by another one.
    /// Guarantee: the count is of those that are open, a number is never used again, and the generation tells apart two
    /// moments with equal counts.
    #[test]
    fn open_connections_are_counted() {
        let connections = Connections::default();
        let first = connections.open();
        let second = connections.clone().open();
        let before = connections.now();
        assert_eq!((before.generation, before.numbers.len()), (2, 2));
        drop(first);
        let _third = connections.open();
        let after = connections.now();
        assert_eq!((after.generation, after.numbers.len()), (4, 2));
        let kept: Vec<_> = after
            .numbers
            .iter()
            .filter(|number| before.numbers.contains(number))
            .collect();
        assert_eq!(kept, [&second.number]);
    }
}
