//! The thread that keeps a guard running: starts it, sends it the streams that it does not hold yet, and replaces it.

use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use tracing::{info, warn};

use crate::guard::channel::pair;
use crate::guard::child::ARGUMENT;
use crate::guard::held::{Shared, Waiting};

/// Path of the running program, even if its file was replaced.
const PROGRAM: &str = "/proc/self/exe";

/// Delays before a guard is restarted: doubled each time up to the maximum, and reset after a guard that lived long
/// enough.
const FIRST_DELAY: Duration = Duration::from_millis(100);
const LAST_DELAY: Duration = Duration::from_secs(30);
const KEEPER_LIFE_BEFORE_RESTART: Duration = Duration::from_secs(60);

/// Maximum wait for the channel. Messages that could not be sent are then retried.
const CHANNEL_TIMEOUT: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

pub(super) fn start(shared: Arc<Shared>) -> std::io::Result<()> {
    let thread = std::thread::Builder::new().name("guard".to_owned());
    // The thread lives as long as the process. The thread holds no resource that needs a clean shutdown.
    thread.stack_size(256 << 10).spawn(move || keep(&shared)).map(drop)
}

fn keep(shared: &Shared) {
    let mut delay = FIRST_DELAY;
    let mut failed = false;
    loop {
        let since = Instant::now();
        match start_child() {
            Ok((mut child, channel)) => {
                if std::mem::take(&mut failed) {
                    info!(target: "gcwatch::guard", "the guard of sessions runs again");
                }
                let channel = Arc::new(channel);
                shared.begin(Arc::clone(&channel));
                watch(shared, &channel);
                shared.end();
                drop(channel);
                let _it_ended = child.kill();
                let how = child
                    .wait()
                    .map_or_else(|error| error.to_string(), |status| status.to_string());
                shared.counts.restarts.fetch_add(1, Ordering::Relaxed);
                warn!(target: "gcwatch::guard", "the guard of sessions ended ({how}); restarting it");
            }
            Err(error) => {
                if !std::mem::replace(&mut failed, true) {
                    warn!(
                        target: "gcwatch::guard",
                        "cannot start the guard of sessions: {error}; retrying; if gcwatch is stopped (SIGSTOP), \
                         processes cannot exit"
                    );
                }
            }
        }
        delay = if since.elapsed() >= KEEPER_LIFE_BEFORE_RESTART {
            FIRST_DELAY
        } else {
            (delay * 2).min(LAST_DELAY)
        };
        sleep(delay);
    }
}

/// Exchanges messages until the guard exits or does not answer.
fn watch(shared: &Shared, channel: &OwnedFd) {
    while let Ok(waiting) = shared.exchange() {
        let events = match waiting {
            Waiting::ToReceive => PollFlags::IN,
            Waiting::ToSend => PollFlags::IN | PollFlags::OUT,
        };
        // The result does not matter, because the next exchange checks everything.
        let _whichever = poll(
            &mut [PollFd::from_borrowed_fd(channel.as_fd(), events)],
            Some(&CHANNEL_TIMEOUT),
        );
    }
}

/// Starts the process of the guard and returns it with gcwatch's end of the channel. The process inherits only the
/// channel: no environment (which can contain secrets), no output (whose reader would wait for its end), no directory.
fn start_child() -> std::io::Result<(Child, OwnedFd)> {
    let (ours, theirs) = pair()?;
    let child = Command::new(PROGRAM)
        .arg0("gcwatch")
        .arg(ARGUMENT)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    Ok((child, ours))
}
