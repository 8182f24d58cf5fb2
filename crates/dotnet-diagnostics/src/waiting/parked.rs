//! The waiting connections of runtimes, one per cookie.

use std::collections::HashMap;
use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::net::RecvFlags;
use tokio::net::UnixStream;

use super::{Advertised, MAX_RUNTIMES};
use crate::message::Cookie;

/// The waiting connections of runtimes.
#[derive(Debug, Default)]
pub(super) struct Parked {
    runtimes: HashMap<Cookie, Runtime>,
}

/// A runtime that was seen, with its connection unless a command has it.
#[derive(Debug)]
struct Runtime {
    advertised: Advertised,
    waiting: Option<UnixStream>,
}

/// What became of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inserted {
    /// Its runtime was not known.
    First,
    /// It replaces an older connection of its runtime, or the one that a command took.
    Again,
    /// There are too many runtimes; it was closed.
    Refused,
}

impl Parked {
    pub(super) fn insert(&mut self, advertised: Advertised, stream: UnixStream) -> Inserted {
        if let Some(runtime) = self.runtimes.get_mut(&advertised.cookie) {
            // The same cookie from another process would be a copy: the first one keeps it while it
            // lives.
            let same = runtime.advertised.pid == advertised.pid;
            if !same && runtime.waiting.as_ref().is_some_and(is_waiting) {
                return Inserted::Refused;
            }
            *runtime = Runtime {
                advertised,
                waiting: Some(stream),
            };
            return Inserted::Again;
        }
        if self.runtimes.len() >= MAX_RUNTIMES {
            self.runtimes
                .retain(|_, runtime| runtime.waiting.as_ref().is_some_and(is_waiting));
        }
        if self.runtimes.len() >= MAX_RUNTIMES {
            return Inserted::Refused;
        }
        self.runtimes.insert(
            advertised.cookie,
            Runtime {
                advertised,
                waiting: Some(stream),
            },
        );
        Inserted::First
    }

    /// The connection of a runtime, for one command. One that the runtime has closed meanwhile is dropped.
    pub(super) fn take(&mut self, cookie: &Cookie) -> Option<UnixStream> {
        self.runtimes.get_mut(cookie)?.waiting.take().filter(is_waiting)
    }

    /// The runtimes whose connection waits.
    pub(super) fn alive(&self) -> Vec<Advertised> {
        let waiting = |runtime: &&Runtime| runtime.waiting.as_ref().is_some_and(is_waiting);
        self.runtimes
            .values()
            .filter(waiting)
            .map(|runtime| runtime.advertised)
            .collect()
    }
}

/// A runtime that waits for a command has sent nothing and closed nothing. The socket itself is asked: what the
/// executor knows of it may be old.
fn is_waiting(stream: &UnixStream) -> bool {
    let mut byte = [0];
    let peeked = rustix::net::recv(stream.as_fd(), &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT);
    matches!(peeked, Err(Errno::AGAIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advertised(cookie: u8, pid: u32) -> Advertised {
        Advertised {
            cookie: Cookie([cookie; 16]),
            ns_pid: u64::from(pid),
            pid: Some(pid),
        }
    }

    /// Scenario: a runtime connects twice, then closes; another process uses its cookie.
    /// Guarantee: the newest connection is taken, once; a closed one never; a foreign process does not replace a live
    /// one.
    #[tokio::test]
    async fn the_newest_live_connection_is_taken() {
        let mut parked = Parked::default();
        let (old, _old_end) = UnixStream::pair().unwrap();
        let (new, new_end) = UnixStream::pair().unwrap();
        assert_eq!(parked.insert(advertised(1, 7), old), Inserted::First);
        assert_eq!(parked.insert(advertised(1, 7), new), Inserted::Again);
        let (foreign, _foreign_end) = UnixStream::pair().unwrap();
        assert_eq!(parked.insert(advertised(1, 8), foreign), Inserted::Refused);
        let cookie = Cookie([1; 16]);
        let taken = parked.take(&cookie).unwrap();
        taken.try_write(b"x").unwrap();
        let mut byte = [0];
        new_end.readable().await.unwrap();
        assert_eq!(new_end.try_read(&mut byte).unwrap(), 1, "the newer connection");
        assert!(parked.take(&cookie).is_none(), "one command per connection");

        let (closed, end) = UnixStream::pair().unwrap();
        assert_eq!(parked.insert(advertised(1, 7), closed), Inserted::Again);
        assert_eq!(parked.alive(), [advertised(1, 7)]);
        drop(end);
        assert_eq!(parked.alive(), []);
        assert!(parked.take(&cookie).is_none());
    }
}
