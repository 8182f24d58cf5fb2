//! The process of the guard: `gcwatch guard`, which only gcwatch itself starts.
//!
//! The guard starts before any other part of the program is set up, and does not use the other parts. The guard has one
//! thread, a socket (its standard input), a timer, and a list of descriptors. The guard has its own terminal session,
//! so that Ctrl-Z does not stop it. The guard ignores the signals that a service supervisor sends to all processes at
//! once, and exits when its socket is closed.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown, sockopt};
use rustix::process::setsid;
use rustix::thread::set_name;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

use crate::descriptors::raise;
use crate::guard::channel::{ReceiveOutcome, receive, send};
use crate::guard::message::{FromGuard, MAX_IDS, ToGuard};
use crate::guard::{HEARTBEAT_INTERVAL, SILENT_SECONDS};

/// Argument that starts this program as a guard. The help does not show this argument, because only gcwatch uses it.
pub(super) const ARGUMENT: &str = "guard";

/// Returns whether this process was started as a guard.
pub fn is_asked_for() -> bool {
    let mut arguments = std::env::args_os().skip(1);
    arguments.next().is_some_and(|first| first == ARGUMENT) && arguments.next().is_none()
}

/// Runs the guard until gcwatch exits.
pub fn main() -> ExitCode {
    let stdin = std::io::stdin();
    let gcwatch = stdin.as_fd();
    if sockopt::socket_type(gcwatch) != Ok(rustix::net::SocketType::SEQPACKET) {
        let _nobody_reads = writeln!(
            std::io::stderr(),
            "gcwatch guard is started by gcwatch run; it cannot be used alone"
        );
        return ExitCode::from(2);
    }
    // A guard for which one of these calls failed is better than no guard.
    let _no_session = setsid();
    let _no_name = set_name(c"gcwatch-guard");
    let ignored = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2] {
        let _not_ignored = signal_hook::flag::register(signal, Arc::clone(&ignored));
    }
    let _as_many_as_before = raise();
    match timer() {
        Ok(timer) => {
            serve(gcwatch, timer.as_fd(), SILENT_SECONDS);
            ExitCode::SUCCESS
        }
        Err(_) => ExitCode::FAILURE,
    }
}

/// Returns a timer that is readable once per [`HEARTBEAT_INTERVAL`].
fn timer() -> Result<OwnedFd, Errno> {
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
    let every = Timespec {
        tv_sec: i64::try_from(HEARTBEAT_INTERVAL.as_secs()).unwrap_or(1),
        tv_nsec: 0,
    };
    let times = Itimerspec {
        it_interval: every,
        it_value: every,
    };
    timerfd_settime(&timer, TimerfdTimerFlags::empty(), &times)?;
    Ok(timer)
}

/// Holds the streams that `gcwatch` sends, until `gcwatch` closes its end. Closes all streams when more than
/// `silent_ticks` ticks have passed without a beat. `ticks` becomes readable at each tick, with eight bytes. A delay of
/// the guard itself counts as one tick, however long it is.
fn serve(gcwatch: BorrowedFd<'_>, ticks: BorrowedFd<'_>, silent_ticks: u32) {
    let mut held: BTreeMap<u64, OwnedFd> = BTreeMap::new();
    let mut silent = 0;
    loop {
        let mut ready = [
            PollFd::from_borrowed_fd(gcwatch, PollFlags::IN),
            PollFd::from_borrowed_fd(ticks, PollFlags::IN),
        ];
        match poll(&mut ready, None) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(_) => return,
        }
        let ticked = ready[1].revents().contains(PollFlags::IN);
        // Read the messages first: a beat can have waited while this process was stopped.
        loop {
            let (bytes, descriptor) = match receive(gcwatch) {
                ReceiveOutcome::Message(bytes, descriptor) => (bytes, descriptor),
                ReceiveOutcome::Nothing => break,
                ReceiveOutcome::End => return,
            };
            match (ToGuard::decode(&bytes), descriptor) {
                (Some(ToGuard::Beat), _) => {
                    silent = 0;
                    say(gcwatch, &FromGuard::Alive);
                }
                (Some(ToGuard::Hold(id)), Some(descriptor)) => drop(held.insert(id, descriptor)),
                // The kernel has dropped the descriptor, because it exceeds the limit of descriptors.
                (Some(ToGuard::Hold(id)), None) => say(gcwatch, &FromGuard::NotHeld(id)),
                (Some(ToGuard::Release(id)), _) => drop(held.remove(&id)),
                (None, _) => {}
            }
        }
        if !ticked {
            continue;
        }
        let _ticks_at_once = rustix::io::read(ticks, &mut [0; 8]);
        silent += 1;
        if silent > silent_ticks && !held.is_empty() {
            let ids: Vec<u64> = held.keys().copied().collect();
            // Send this before the shutdown, so that the reader of a closed stream knows the reason.
            for some in ids.chunks(MAX_IDS) {
                say(gcwatch, &FromGuard::Closed(some.to_vec()));
            }
            for stream in std::mem::take(&mut held).into_values() {
                let _is_closed_already = shutdown(stream, Shutdown::Both);
            }
        }
    }
}

/// Sends a message. The message is lost if gcwatch does not read at the moment.
fn say(gcwatch: BorrowedFd<'_>, message: &FromGuard) {
    let _not_read = send(gcwatch, &message.encode(), None);
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;
    use std::thread::JoinHandle;

    use rustix::event::{EventfdFlags, eventfd};

    use super::*;
    use crate::guard::channel::pair;

    /// A guard on a thread, whose time the test controls.
    struct Scene {
        gcwatch: OwnedFd,
        ticks: Arc<OwnedFd>,
        guard: JoinHandle<()>,
    }

    impl Scene {
        fn new() -> Self {
            let (gcwatch, other) = pair().unwrap();
            let ticks = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).unwrap());
            let guard = std::thread::spawn({
                let ticks = Arc::clone(&ticks);
                move || serve(other.as_fd(), ticks.as_fd(), 2)
            });
            Self { gcwatch, ticks, guard }
        }

        fn send(&self, message: ToGuard, descriptor: Option<&UnixStream>) {
            let descriptor = descriptor.map(AsFd::as_fd);
            send(self.gcwatch.as_fd(), &message.encode(), descriptor).unwrap();
        }

        /// Performs one tick and waits until the guard has read the tick.
        fn tick(&self) {
            rustix::io::write(&*self.ticks, &1_u64.to_ne_bytes()).unwrap();
            // A read of an eventfd returns the sum of all ticks, so the next tick is counted separately only after this
            // tick was read.
            let mut ready = [PollFd::new(&*self.ticks, PollFlags::IN)];
            while poll(&mut ready, Some(&Timespec::default())).unwrap() > 0 {
                std::thread::yield_now();
            }
        }

        fn next(&self) -> FromGuard {
            loop {
                let mut ready = [PollFd::new(&self.gcwatch, PollFlags::IN)];
                poll(&mut ready, None).unwrap();
                if let ReceiveOutcome::Message(bytes, None) = receive(self.gcwatch.as_fd()) {
                    return FromGuard::decode(&bytes).unwrap();
                }
            }
        }

        fn end(self) {
            drop(self.gcwatch);
            self.guard.join().unwrap();
        }
    }

    /// Returns a fake runtime, and the reader of its stream.
    fn stream() -> (UnixStream, UnixStream) {
        UnixStream::pair().unwrap()
    }

    /// Scenario: the guard holds a stream and receives beats; then the guard receives no beat for three ticks; the
    /// runtime has written bytes that were not read.
    /// Guarantee: the stream stays open while the guard receives beats; then the guard reports the id of the stream and
    /// closes the stream; the reader still receives the written bytes, then the end; the next write of the runtime
    /// fails.
    #[test]
    fn silence_closes_held_streams() {
        let scene = Scene::new();
        let (mut runtime, mut reader) = stream();
        scene.send(ToGuard::Hold(5), Some(&reader));
        for _ in 0..4 {
            scene.tick();
            scene.send(ToGuard::Beat, None);
            assert_eq!(scene.next(), FromGuard::Alive);
        }
        runtime.write_all(b"events").unwrap();
        for _ in 0..3 {
            scene.tick();
        }
        assert_eq!(scene.next(), FromGuard::Closed(vec![5]));
        let mut rest = Vec::new();
        reader.read_to_end(&mut rest).unwrap();
        assert_eq!(rest, b"events");
        assert!(runtime.write_all(b"more").is_err());
        scene.end();
    }

    /// Scenario: one stream is released, and another stream is held after the beats have stopped; then the first stream
    /// is held again, and the socket of the guard is closed.
    /// Guarantee: the guard does not close the released stream; the guard closes the late stream at the next tick; the
    /// exit of the guard does not close a stream that gcwatch still has open.
    #[test]
    fn released_stream_stays_open() {
        let scene = Scene::new();
        let ((mut kept_runtime, mut kept), (_late_runtime, late)) = (stream(), stream());
        scene.send(ToGuard::Hold(1), Some(&kept));
        scene.send(ToGuard::Release(1), None);
        for _ in 0..3 {
            scene.tick();
        }
        scene.send(ToGuard::Hold(2), Some(&late));
        scene.tick();
        assert_eq!(scene.next(), FromGuard::Closed(vec![2]));
        scene.send(ToGuard::Hold(3), Some(&kept));
        scene.end();
        kept_runtime.write_all(b"on").unwrap();
        let mut read = [0; 2];
        kept.read_exact(&mut read).unwrap();
        assert_eq!(&read, b"on");
    }
}
