//! The waiting connections of runtimes, one per cookie.

use std::collections::HashMap;
use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::net::RecvFlags;
use tokio::net::UnixStream;

use super::{AdvertisedRuntime, MAX_RUNTIMES};
use crate::message::Cookie;

/// The waiting connections of runtimes.
#[derive(Debug, Default)]
pub(super) struct ParkedRuntimes {
    runtimes: HashMap<Cookie, Runtime>,
}

/// A known runtime with its waiting connection, or without a connection if a command has taken it.
#[derive(Debug)]
struct Runtime {
    advertised: AdvertisedRuntime,
    waiting: Option<UnixStream>,
}

/// The result of inserting a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InsertOutcome {
    /// The runtime was unknown.
    First,
    /// The connection replaces an older connection of the runtime, or a connection that a command took.
    Again,
    /// There are too many runtimes, or another process uses the cookie. The connection was closed.
    Refused,
}

impl ParkedRuntimes {
    pub(super) fn insert(&mut self, advertised: AdvertisedRuntime, stream: UnixStream) -> InsertOutcome {
        if let Some(runtime) = self.runtimes.get_mut(&advertised.cookie) {
            // The same cookie from another process is a copy. The first process keeps the cookie while its connection
            // is alive.
            let same = runtime.advertised.pid == advertised.pid;
            if !same && runtime.waiting.as_ref().is_some_and(is_waiting) {
                return InsertOutcome::Refused;
            }
            *runtime = Runtime {
                advertised,
                waiting: Some(stream),
            };
            return InsertOutcome::Again;
        }
        if self.runtimes.len() >= MAX_RUNTIMES {
            self.runtimes
                .retain(|_, runtime| runtime.waiting.as_ref().is_some_and(is_waiting));
        }
        if self.runtimes.len() >= MAX_RUNTIMES {
            return InsertOutcome::Refused;
        }
        self.runtimes.insert(
            advertised.cookie,
            Runtime {
                advertised,
                waiting: Some(stream),
            },
        );
        InsertOutcome::First
    }

    /// Takes the connection of a runtime for one command. A connection that the runtime has closed is dropped. Returns
    /// `None` if no open connection waits.
    pub(super) fn take(&mut self, cookie: &Cookie) -> Option<UnixStream> {
        self.runtimes.get_mut(cookie)?.waiting.take().filter(is_waiting)
    }

    /// Returns the runtimes whose connection is waiting.
    pub(super) fn alive(&self) -> Vec<AdvertisedRuntime> {
        let waiting = |runtime: &&Runtime| runtime.waiting.as_ref().is_some_and(is_waiting);
        self.runtimes
            .values()
            .filter(waiting)
            .map(|runtime| runtime.advertised)
            .collect()
    }
}

/// Returns whether the runtime has neither sent bytes nor closed the connection. Queries the socket itself, because the
/// executor's information can be outdated.
fn is_waiting(stream: &UnixStream) -> bool {
    let mut byte = [0];
    let peeked = rustix::net::recv(stream.as_fd(), &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT);
    matches!(peeked, Err(Errno::AGAIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advertised(cookie: u8, pid: u32) -> AdvertisedRuntime {
        AdvertisedRuntime {
            cookie: Cookie([cookie; 16]),
            ns_pid: u64::from(pid),
            pid: Some(pid),
        }
    }

    /// Scenario: a runtime connects twice and then closes its connection; another process uses its cookie.
    /// Guarantee: the newest connection is taken once, a closed connection is never taken, and a foreign process does
    /// not replace a live connection.
    #[tokio::test]
    async fn newest_live_connection_is_taken() {
        let mut parked = ParkedRuntimes::default();
        let (old, _old_end) = UnixStream::pair().unwrap();
        let (new, new_end) = UnixStream::pair().unwrap();
        assert_eq!(parked.insert(advertised(1, 7), old), InsertOutcome::First);
        assert_eq!(parked.insert(advertised(1, 7), new), InsertOutcome::Again);
        let (foreign, _foreign_end) = UnixStream::pair().unwrap();
        assert_eq!(parked.insert(advertised(1, 8), foreign), InsertOutcome::Refused);
        let cookie = Cookie([1; 16]);
        let taken = parked.take(&cookie).unwrap();
        taken.try_write(b"x").unwrap();
        let mut byte = [0];
        new_end.readable().await.unwrap();
        assert_eq!(new_end.try_read(&mut byte).unwrap(), 1, "the newer connection");
        assert!(parked.take(&cookie).is_none(), "one command per connection");

        let (closed, end) = UnixStream::pair().unwrap();
        assert_eq!(parked.insert(advertised(1, 7), closed), InsertOutcome::Again);
        assert_eq!(parked.alive(), [advertised(1, 7)]);
        drop(end);
        assert_eq!(parked.alive(), []);
        assert!(parked.take(&cookie).is_none());
    }
}
