//! A recording as a page. It is rendered by a process of its own, `gcwatch recording-page`, started by gcwatch and of
//! use to nobody else: what is in a recording came from its target, which may be hostile.
//!
//! The recording is its standard input, the page its standard output, a refusal a line on standard error. Its memory
//! and its time are bounded by the kernel ([`bound`]), and by who started it ([`rendered`]).

use std::fs::File;
use std::io::{self, Read as _};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use super::super::bounds::bound;

/// The argument that makes a process this one. Not a command: no help shows it.
const ARGUMENT: &str = "recording-page";
/// The program itself, also when its file was replaced.
const PROGRAM: &str = "/proc/self/exe";
/// Memory that it may take beyond the program: a recording of the black box is at most some megabytes.
const MORE_BYTES: u64 = 256 << 20;
/// Seconds of CPU that it may take.
const CPU_SECONDS: u64 = 20;
/// How long it may take.
const WITHIN: Duration = Duration::from_secs(60);
/// Bytes of a page, and of a refusal, that are taken from it.
const MOST_PAGE: u64 = 32 << 20;
const MOST_REFUSAL: u64 = 4 << 10;

/// The name of the recording, if this process was started to render one. It is bounded from then on.
pub fn is_asked_for() -> Option<String> {
    let mut arguments = std::env::args_os().skip(1);
    arguments.next().filter(|first| first == ARGUMENT)?;
    let name = arguments.next()?.into_string().ok()?;
    bound(MORE_BYTES, CPU_SECONDS);
    Some(name)
}

/// The page of a recording, in a process of its own. Blocking, for [`WITHIN`] at most.
///
/// # Errors
///
/// When the process cannot be started, refuses the recording, or meets a bound: a sentence.
pub fn rendered(recording: File, name: &str) -> io::Result<Vec<u8>> {
    let mut child = Command::new(PROGRAM)
        .args([ARGUMENT, name])
        // Passwords of receivers may be in it.
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
            let read = output.take(MOST_PAGE + 1).read_to_end(&mut page);
            let _given_up = give.send(read.map(|_| page));
        })?;
    let page = taken.recv_timeout(WITHIN);
    // One that is done has closed its output, and ends; one that is not must not go on.
    let is_whole = matches!(&page, Ok(Ok(page)) if page.len() as u64 <= MOST_PAGE);
    if !is_whole {
        let _ended_already = child.kill();
    }
    let status = child.wait()?;
    match page {
        Ok(page) if is_whole && status.success() => page,
        _ if is_whole => {
            let mut refusal = Vec::new();
            let _cut = errors.take(MOST_REFUSAL).read_to_end(&mut refusal);
            let refusal = String::from_utf8_lossy(&refusal);
            Err(io::Error::other(sentence(&refusal, status)))
        }
        Ok(Err(error)) => Err(error),
        Ok(Ok(_)) => Err(io::Error::other("its page is too large")),
        Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut)),
    }
}

/// Returns why there is no page: the refusal, or a bound if a signal ended the process. Then its last words are those
/// of the allocator.
fn sentence(refusal: &str, status: ExitStatus) -> String {
    let refusal = refusal.trim().trim_start_matches("gcwatch: ");
    if refusal.is_empty() || status.code().is_none() {
        format!("rendering it met a bound of memory or time ({status})")
    } else {
        refusal.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    /// Scenario: the process refuses a recording; it has no memory left, so that the allocator aborts it with a hint about
    /// a backtrace; the kernel ends it without a word.
    /// Guarantee: the refusal is passed on; the other two met a bound, and the hint is not part of the sentence.
    #[test]
    fn a_bound_is_named_in_a_sentence() {
        let refused = sentence("gcwatch: it is no recording\n", ExitStatus::from_raw(1 << 8));
        assert_eq!(refused, "it is no recording");
        let words = "memory allocation of 10485760 bytes failed\nnote: run with `RUST_BACKTRACE=1`";
        for words in [words, ""] {
            let bound = sentence(words, ExitStatus::from_raw(6));
            assert!(
                bound.starts_with("rendering it met a bound of memory or time (signal: 6"),
                "{bound}"
            );
        }
    }
}
