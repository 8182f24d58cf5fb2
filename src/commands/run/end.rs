//! The end of the process in any case: some time after a signal, whatever hangs, and with its standard input, where
//! that is asked for. Threads of their own, which wait for nothing else.

use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{getpid, kill_process};

use crate::commands::executor;
use crate::daemon::Signals;

/// How long the daemon may take to end after a signal, whatever hangs: its own deadlines sum up to less.
const END_WITHIN: Duration = Duration::from_secs(15);
/// The same after a second signal.
const END_NOW_WITHIN: Duration = Duration::from_secs(1);

/// Stack of the thread that waits for the signals.
const END_STACK: usize = 128 << 10;

/// Ends the process [`END_WITHIN`] of SIGTERM or SIGINT, also when the executor hangs. On a thread of its own, which
/// waits for nothing else.
pub(super) fn end_at_last() -> anyhow::Result<()> {
    let runtime = executor()?;
    let context = runtime.enter();
    let mut signals = Signals::new()?;
    drop(context);
    let ending = async move {
        signals.ended().await;
        // A second one ends it at once.
        let _second = tokio::time::timeout(END_WITHIN - END_NOW_WITHIN, signals.ended()).await;
        tokio::time::sleep(END_NOW_WITHIN).await;
        std::process::exit(1);
    };
    let thread = std::thread::Builder::new().name("end".to_owned()).stack_size(END_STACK);
    thread.spawn(move || runtime.block_on(ending)).context("cannot start")?;
    Ok(())
}

/// Ends the process, as SIGTERM does, when its standard input ends.
pub(super) fn end_with_stdin() -> anyhow::Result<()> {
    let thread = std::thread::Builder::new()
        .name("stdin".to_owned())
        .stack_size(END_STACK);
    let reads = || {
        // An error is an end, too.
        let _bytes = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        // It cannot fail for the process itself.
        let _sent = kill_process(getpid(), rustix::process::Signal::TERM);
    };
    thread.spawn(reads).context("cannot start")?;
    Ok(())
}
