//! The held streams on the side of gcwatch, and its end of the channel.

use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dotnet_diagnostics::GuardedStream;
use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown};
use tracing::warn;

use crate::guard::channel::{ReceiveOutcome, receive, send};
use crate::guard::message::{FromGuard, ToGuard};
use crate::guard::{HEARTBEAT_INTERVAL, SILENT_SECONDS};

/// Number of consecutive unanswered beats after which a guard is replaced.
const UNANSWERED: u32 = 10;

/// State shared by gcwatch's threads and the keeper.
#[derive(Debug, Default)]
pub(super) struct Shared {
    state: Mutex<HeldState>,
    pub(super) counts: Counts,
}

/// Counters of the guard.
#[derive(Debug, Default)]
pub struct Counts {
    /// Whether a guard is running and answers.
    pub running: AtomicBool,
    /// Number of sessions that the guard closed because nothing was read.
    pub closed: AtomicU64,
    /// Number of guards that have exited or were replaced.
    pub restarts: AtomicU64,
    /// Number of streams that a guard could not hold because it had no descriptors left.
    pub not_held: AtomicU64,
}

#[derive(Debug, Default)]
struct HeldState {
    /// Channel to the running guard.
    channel: Option<Arc<OwnedFd>>,
    streams: BTreeMap<u64, Entry>,
    last_id: u64,
    /// Ids that the guard still holds and must release, because the channel had no space for the message yet.
    to_release: Vec<u64>,
    /// Number of beats without an answer.
    unanswered: u32,
}

/// A stream that a guard must hold.
#[derive(Debug)]
struct Entry {
    /// Copy of the descriptor, to send it to the next guard, too.
    stream: OwnedFd,
    /// Whether the current guard holds the stream.
    handed: bool,
    /// Whether a guard closed the stream.
    closed: bool,
}

impl Shared {
    /// Locks the state. A panic of another thread is ignored, because the state is consistent at every unlock.
    fn state(&self) -> MutexGuard<'_, HeldState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn beat(&self) {
        let mut state = self.state();
        self.take_messages(&mut state);
        if let Some(channel) = &state.channel
            && send(channel.as_fd(), &ToGuard::Beat.encode(), None).is_ok()
        {
            state.unanswered += 1;
        }
    }

    /// Sets the channel of a new guard, which must receive all streams.
    pub(super) fn begin(&self, channel: Arc<OwnedFd>) {
        let mut state = self.state();
        state.channel = Some(channel);
        state.unanswered = 0;
        state.to_release.clear();
        for entry in state.streams.values_mut() {
            entry.handed = false;
        }
        drop(state);
        self.counts.running.store(true, Ordering::Relaxed);
    }

    pub(super) fn end(&self) {
        self.counts.running.store(false, Ordering::Relaxed);
        self.state().channel = None;
    }

    /// Sends pending messages to the guard and reads its messages. Returns `Err` if the guard has exited or does not
    /// answer.
    pub(super) fn exchange(&self) -> Result<Waiting, GuardError> {
        let mut state = self.state();
        self.take_messages(&mut state);
        let Some(channel) = state.channel.clone() else {
            return Err(GuardError);
        };
        if state.unanswered >= UNANSWERED {
            return Err(GuardError);
        }
        while let Some(id) = state.to_release.last() {
            match send(channel.as_fd(), &ToGuard::Release(*id).encode(), None) {
                Ok(()) => drop(state.to_release.pop()),
                Err(Errno::AGAIN) => return Ok(Waiting::ToSend),
                Err(_) => return Err(GuardError),
            }
        }
        for (id, entry) in &mut state.streams {
            if entry.handed || entry.closed {
                continue;
            }
            match send(
                channel.as_fd(),
                &ToGuard::Hold(*id).encode(),
                Some(entry.stream.as_fd()),
            ) {
                Ok(()) => entry.handed = true,
                Err(Errno::AGAIN) => return Ok(Waiting::ToSend),
                Err(_) => return Err(GuardError),
            }
        }
        Ok(Waiting::ToReceive)
    }

    /// Reads all messages of the guard. If the guard has exited, the channel is removed.
    fn take_messages(&self, state: &mut HeldState) {
        let (mut closed, mut not_held) = (0_u64, 0_u64);
        while let Some(channel) = state.channel.clone() {
            let bytes = match receive(channel.as_fd()) {
                ReceiveOutcome::Message(bytes, _) => bytes,
                ReceiveOutcome::Nothing => break,
                ReceiveOutcome::End => {
                    state.channel = None;
                    break;
                }
            };
            match FromGuard::decode(&bytes) {
                Some(FromGuard::Alive) => state.unanswered = 0,
                Some(FromGuard::NotHeld(_)) => not_held += 1,
                Some(FromGuard::Closed(ids)) => {
                    for id in ids {
                        if let Some(entry) = state.streams.get_mut(&id) {
                            entry.closed = true;
                            closed += 1;
                        }
                    }
                }
                None => {}
            }
        }
        if closed > 0 {
            self.counts.closed.fetch_add(closed, Ordering::Relaxed);
            let seconds = u64::from(SILENT_SECONDS) * HEARTBEAT_INTERVAL.as_secs();
            warn!(
                target: "gcwatch::guard",
                "gcwatch read nothing for more than {seconds} s; its guard closed {}, so that no process waits for \
                 gcwatch; collections since then are missing; re-attaching",
                match closed { 1 => "1 session".to_owned(), n => format!("{n} sessions") },
            );
        }
        if not_held > 0 && self.counts.not_held.fetch_add(not_held, Ordering::Relaxed) == 0 {
            warn!(
                target: "gcwatch::guard",
                "the guard has no file descriptors left; if gcwatch is stopped, some processes may be unable to exit; \
                 raise the limit of open files (LimitNOFILE, ulimit -n)"
            );
        }
    }
}

/// Event for which an exchange with the guard waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waiting {
    /// The guard sends a message.
    ToReceive,
    /// The channel has space again, or the guard sends a message.
    ToSend,
}

/// Error returned if the guard has exited or does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GuardError;

/// A stream that a guard holds.
#[derive(Debug)]
pub(super) struct HeldStream {
    shared: Arc<Shared>,
    /// Id of the stream; `None` if gcwatch has no file descriptor left, so that no guard holds the stream.
    id: Option<u64>,
}

impl HeldStream {
    pub(super) fn new(shared: &Arc<Shared>, stream: BorrowedFd<'_>) -> Self {
        let shared = Arc::clone(shared);
        let Ok(stream) = stream.try_clone_to_owned() else {
            shared.counts.not_held.fetch_add(1, Ordering::Relaxed);
            return Self { shared, id: None };
        };
        let mut state = shared.state();
        state.last_id += 1;
        let id = state.last_id;
        let handed = state.channel.as_ref().is_some_and(|channel| {
            // If the guard is slow or has exited, the keeper sends the stream later.
            send(channel.as_fd(), &ToGuard::Hold(id).encode(), Some(stream.as_fd())).is_ok()
        });
        let entry = Entry {
            stream,
            handed,
            closed: false,
        };
        state.streams.insert(id, entry);
        drop(state);
        Self { shared, id: Some(id) }
    }
}

impl GuardedStream for HeldStream {
    fn was_closed(&self) -> bool {
        let Some(id) = self.id else { return false };
        let mut state = self.shared.state();
        // The guard sends this message before it closes the stream.
        self.shared.take_messages(&mut state);
        state.streams.get(&id).is_some_and(|entry| entry.closed)
    }
}

impl Drop for HeldStream {
    fn drop(&mut self) {
        let Some(id) = self.id else { return };
        let mut state = self.shared.state();
        let Some(entry) = state.streams.remove(&id) else {
            return;
        };
        let _is_closed_already = shutdown(&entry.stream, Shutdown::Both);
        if entry.handed && !entry.closed {
            let sent = match &state.channel {
                Some(channel) => send(channel.as_fd(), &ToGuard::Release(id).encode(), None).is_ok(),
                None => true,
            };
            if !sent {
                state.to_release.push(id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::guard::channel::pair;

    /// A fake guard that records the ids that it holds.
    #[derive(Default)]
    struct FakeGuard(BTreeMap<u64, OwnedFd>);

    impl FakeGuard {
        fn take(&mut self, channel: &OwnedFd) {
            while let ReceiveOutcome::Message(bytes, descriptor) = receive(channel.as_fd()) {
                match ToGuard::decode(&bytes).unwrap() {
                    ToGuard::Hold(id) => assert!(self.0.insert(id, descriptor.unwrap()).is_none()),
                    ToGuard::Release(id) => assert!(self.0.remove(&id).is_some()),
                    ToGuard::Beat => {}
                }
            }
        }

        fn ids(&self) -> Vec<u64> {
            self.0.keys().copied().collect()
        }
    }

    fn begin(shared: &Shared) -> OwnedFd {
        let (ours, theirs) = pair().unwrap();
        shared.begin(Arc::new(ours));
        theirs
    }

    fn stream() -> (UnixStream, UnixStream) {
        UnixStream::pair().unwrap()
    }

    /// Scenario: streams are held before and after a guard starts; the guard exits, one session ends, and another guard
    /// starts.
    /// Guarantee: each guard receives every open stream once.
    #[test]
    fn each_guard_gets_every_stream() {
        let shared = Arc::new(Shared::default());
        let streams: Vec<_> = (0..3).map(|_| stream()).collect();
        let hold = |of: usize| HeldStream::new(&shared, streams[of].1.as_fd());
        let first = hold(0);
        let (mut other, channel) = (FakeGuard::default(), begin(&shared));
        let second = hold(1);
        assert_eq!(shared.exchange(), Ok(Waiting::ToReceive));
        other.take(&channel);
        assert_eq!(other.ids(), [1, 2]);
        drop(channel);
        assert_eq!(shared.exchange(), Err(GuardError));
        shared.end();
        drop(first);
        let third = hold(2);
        let (mut other, channel) = (FakeGuard::default(), begin(&shared));
        assert_eq!(shared.exchange(), Ok(Waiting::ToReceive));
        other.take(&channel);
        assert_eq!(other.ids(), [2, 3]);
        drop((second, third));
        other.take(&channel);
        assert_eq!(other.ids(), [] as [u64; 0]);
    }

    /// Scenario: there are more streams than fit into the channel, and the guard reads slowly; then sessions end while
    /// the guard does not read.
    /// Guarantee: no call blocks, all streams arrive, and all are released.
    #[test]
    fn slow_guard_gets_all_streams() {
        let shared = Arc::new(Shared::default());
        let (mut other, channel) = (FakeGuard::default(), begin(&shared));
        let one = stream().1;
        let held: Vec<_> = (0..1000).map(|_| HeldStream::new(&shared, one.as_fd())).collect();
        assert_eq!(shared.exchange(), Ok(Waiting::ToSend));
        let send_all = |other: &mut FakeGuard| {
            while shared.exchange() == Ok(Waiting::ToSend) {
                other.take(&channel);
            }
            other.take(&channel);
        };
        send_all(&mut other);
        assert_eq!(other.ids().len(), 1000);
        drop(held);
        assert_eq!(shared.exchange(), Ok(Waiting::ToSend));
        send_all(&mut other);
        assert_eq!(other.ids().len(), 0);
    }

    /// Scenario: the guard reports that it closes one of two streams, and closes it.
    /// Guarantee: the reader of the closed stream knows the reason at once, the other stream stays open, and the
    /// closing is counted.
    #[test]
    fn reason_is_known_at_end_of_stream() {
        let shared = Arc::new(Shared::default());
        let channel = begin(&shared);
        let ((_one, mut closed), (mut runtime, mut open)) = (stream(), stream());
        let held = [&closed, &open].map(|stream| HeldStream::new(&shared, stream.as_fd()));
        send(channel.as_fd(), &FromGuard::Closed(vec![1]).encode(), None).unwrap();
        shutdown(&closed, Shutdown::Both).unwrap();
        assert_eq!(closed.read(&mut [0]).unwrap(), 0);
        assert!(held[0].was_closed() && !held[1].was_closed());
        assert_eq!(shared.counts.closed.load(Ordering::Relaxed), 1);
        runtime.write_all(b"x").unwrap();
        assert_eq!(open.read(&mut [0]).unwrap(), 1);
    }

    /// Scenario: a session ends, with and without a guard.
    /// Guarantee: the runtime observes the end, even if the guard holds the stream for a moment longer.
    #[test]
    fn end_of_session_closes_stream() {
        for guarded in [false, true] {
            let shared = Arc::new(Shared::default());
            let _channel = guarded.then(|| begin(&shared));
            let (mut runtime, reader) = stream();
            let held = HeldStream::new(&shared, reader.as_fd());
            drop(held);
            assert_eq!(runtime.read(&mut [0]).unwrap(), 0, "{guarded}");
        }
    }

    /// Scenario: a guard answers beats, and then stops answering.
    /// Guarantee: the guard counts as unresponsive after ten unanswered beats.
    #[test]
    fn unresponsive_guard_is_detected() {
        let shared = Shared::default();
        let channel = begin(&shared);
        for _ in 0..30 {
            shared.beat();
            send(channel.as_fd(), &FromGuard::Alive.encode(), None).unwrap();
            assert!(shared.exchange().is_ok());
        }
        for _ in 1..UNANSWERED {
            shared.beat();
        }
        assert!(shared.exchange().is_ok());
        shared.beat();
        assert_eq!(shared.exchange(), Err(GuardError));
    }
}
