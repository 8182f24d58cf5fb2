//! Tracks the open connections of this process to the socket of a runtime.
//!
//! `/proc/net/unix` lists all connections to a socket, but not their owners. To find the connections of other tools, a
//! caller must subtract its own connections. The count therefore includes a connection before it is opened and until it
//! is closed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The connections of this process to one socket, see [`Endpoint::connections`](crate::Endpoint::connections()). Clones
/// share their count.
///
/// `/proc/net/unix` lists all connections to a socket
/// ([`AcceptedConnections`](crate::discovery::AcceptedConnections)), but not their owners. To find the connections of
/// other tools, a caller subtracts its own connections. A connection counts from before it is opened until it is
/// closed.
#[derive(Clone, Debug, Default)]
pub struct Connections(Arc<Mutex<Ledger>>);

#[derive(Debug, Default)]
struct Ledger {
    opened: u64,
    closed: u64,
    open: Vec<u64>,
}

/// The connections that were open at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenConnections {
    /// Sum of the numbers of connections opened and closed so far. If two moments have the same sum, the open
    /// connections did not change between these moments.
    pub generation: u64,
    /// A number for each open connection. Numbers are never reused.
    pub numbers: Vec<u64>,
}

impl Connections {
    /// Returns the connections that are currently open: sessions, and commands in progress.
    pub fn now(&self) -> OpenConnections {
        let ledger = self.ledger();
        OpenConnections {
            generation: ledger.opened + ledger.closed,
            numbers: ledger.open.clone(),
        }
    }

    /// Counts another connection until the returned value is dropped.
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

/// A connection that counts as open until this value is dropped.
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

    /// Scenario: two connections are opened; one is closed, and another is opened.
    /// Guarantee: the count covers only open connections, a number is not reused, and the generation distinguishes two
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
