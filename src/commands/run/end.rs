//! Terminates the process in all cases: a fixed time after a signal even if other parts hang, and on request when its
//! standard input ends. Dedicated threads terminate the process and wait for no other part.

use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{getpid, kill_process};

use crate::commands::executor;
use crate::daemon::Signals;

/// Maximum time for the daemon to end after a signal, even if a part hangs. The shutdown has an earlier deadline
/// (`daemon::drain`), so only a hanging executor reaches this limit.
const END_TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum time for the daemon to end after a second signal.
const END_NOW_TIMEOUT: Duration = Duration::from_secs(1);

/// Stack size of the thread that waits for signals.
const END_STACK: usize = 128 << 10;

/// Terminates the process [`END_TIMEOUT`] after SIGTERM or SIGINT, even if the executor hangs. Runs on a dedicated
/// thread.
pub(super) fn end_at_last() -> anyhow::Result<()> {
    let runtime = executor()?;
    let context = runtime.enter();
    let mut signals = Signals::new()?;
    drop(context);
    let ending = async move {
        signals.ended().await;
        // A second signal ends the process after [`END_NOW_TIMEOUT`] at the latest.
        let _second = tokio::time::timeout(END_TIMEOUT - END_NOW_TIMEOUT, signals.ended()).await;
        tokio::time::sleep(END_NOW_TIMEOUT).await;
        std::process::exit(1);
    };
    let thread = std::thread::Builder::new().name("end".to_owned()).stack_size(END_STACK);
    thread.spawn(move || runtime.block_on(ending)).context("cannot start")?;
    Ok(())
}

/// Terminates the process as if by SIGTERM when its standard input ends.
pub(super) fn end_with_stdin() -> anyhow::Result<()> {
    let thread = std::thread::Builder::new()
        .name("stdin".to_owned())
        .stack_size(END_STACK);
    let reads = || {
        // A read error counts as the end of standard input.
        let _bytes = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        // Sending a signal to the current process cannot fail.
        let _sent = kill_process(getpid(), rustix::process::Signal::TERM);
    };
    thread.spawn(reads).context("cannot start")?;
    Ok(())
}
