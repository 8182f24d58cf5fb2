//! The page of a recording. gcwatch starts a dedicated process for each page, `gcwatch recording-page`. This command is
//! not intended for users. The content of a recording comes from its target, which can be hostile.
//!
//! The process reads the recording from standard input, and writes the page to standard output or a refusal as one line
//! to standard error. The kernel limits the memory and CPU time of the process ([`bound`]), and the parent process
//! limits the duration ([`rendered`]).

use std::fs::File;
use std::io::{self, Read as _};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use super::super::bounds::bound;

/// First argument of this process. The argument is not a command, so the help does not show it.
const ARGUMENT: &str = "recording-page";
/// Path of the program, which is also valid if its file was replaced.
const PROGRAM: &str = "/proc/self/exe";
/// Maximum memory in addition to the program. A recording of the black box has at most a few megabytes.
const MORE_BYTES: u64 = 256 << 20;
/// Maximum CPU time, in seconds.
const CPU_SECONDS: u64 = 20;
/// Timeout for rendering.
const PAGE_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum size of a page and of a refusal, in bytes.
const MAX_PAGE: u64 = 32 << 20;
const MAX_REFUSAL: u64 = 4 << 10;

/// Returns the name of the recording if this process was started to render its page, and limits the process in this
/// case. Otherwise returns `None`.
pub fn is_asked_for() -> Option<String> {
    let mut arguments = std::env::args_os().skip(1);
    arguments.next().filter(|first| first == ARGUMENT)?;
    let name = arguments.next()?.into_string().ok()?;
    bound(MORE_BYTES, CPU_SECONDS);
    Some(name)
}

/// Renders the page of a recording in a dedicated process. Blocks the calling thread for at most [`PAGE_TIMEOUT`].
///
/// # Errors
///
/// Returns an error with a sentence if the process cannot be started, refuses the recording, or exceeds a limit.
pub fn rendered(recording: File, name: &str) -> io::Result<Vec<u8>> {
    let mut child = Command::new(PROGRAM)
        .args([ARGUMENT, name])
        // The environment can contain passwords of receivers.
        .env_clear()
        .current_dir("/")
        .stdin(recording)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let (Some(output), Some(errors)) = (child.stdout.take(), child.stderr.take()) else {
        return Err(io::Error::other("the process has no pipes"));
    };
    let (give, taken) = sync_channel(1);
    std::thread::Builder::new()
        .name("recording-page".to_owned())
        .spawn(move || {
            let mut page = Vec::new();
            let read = output.take(MAX_PAGE + 1).read_to_end(&mut page);
            let _given_up = give.send(read.map(|_| page));
        })?;
    let page = taken.recv_timeout(PAGE_TIMEOUT);
    // A process that has finished has closed its output and exits. Any other process is killed.
    let is_whole = matches!(&page, Ok(Ok(page)) if page.len() as u64 <= MAX_PAGE);
    if !is_whole {
        let _ended_already = child.kill();
    }
    let status = child.wait()?;
    match page {
        Ok(page) if is_whole && status.success() => page,
        _ if is_whole => {
            let mut refusal = Vec::new();
            let _cut = errors.take(MAX_REFUSAL).read_to_end(&mut refusal);
            let refusal = String::from_utf8_lossy(&refusal);
            Err(io::Error::other(sentence(&refusal, status)))
        }
        Ok(Err(error)) => Err(error),
        Ok(Ok(_)) => Err(io::Error::other("its page is too large")),
        Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut)),
    }
}

/// Returns the reason why there is no page: the refusal, or an exceeded limit if there is no refusal or if a signal
/// killed the process. After a signal, the text on standard error comes from the allocator.
fn sentence(refusal: &str, status: ExitStatus) -> String {
    let refusal = refusal.trim().trim_start_matches("gcwatch: ");
    if refusal.is_empty() || status.code().is_none() {
        format!("rendering exceeded a limit of memory or time ({status})")
    } else {
        refusal.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    /// Scenario: the process refuses a recording; it has no memory left, so the allocator aborts it with a hint about a
    /// backtrace; the kernel kills it without a message.
    /// Guarantee: the refusal is returned; the other two errors name the limit and omit the hint.
    #[test]
    fn error_names_exceeded_limit() {
        let refused = sentence("gcwatch: it is not a recording\n", ExitStatus::from_raw(1 << 8));
        assert_eq!(refused, "it is not a recording");
        let words = "memory allocation of 10485760 bytes failed\nnote: run with `RUST_BACKTRACE=1`";
        for words in [words, ""] {
            let bound = sentence(words, ExitStatus::from_raw(6));
            assert!(
                bound.starts_with("rendering exceeded a limit of memory or time (signal: 6"),
                "{bound}"
            );
        }
    }
}
