//! Runs a gcwatch command as a child process, and returns a limited number of its records, and its messages.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use mcp::source::{CommandOutput, Refusal};

/// Timeout of a command, including the wait for its burst lock. Afterwards the command receives SIGTERM, which closes
/// its session.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(90);
/// Maximum number of records of each kind. The first records are kept, because commands write the largest first.
const MAX_OF_A_KIND: usize = 8;
const MAX_RECORD_BYTES: u64 = 1 << 20;
/// Maximum length of the messages, in bytes.
const MAX_SAID_BYTES: u64 = 16 << 10;

/// Runs the command as the user of this process.
pub(super) fn run(words: &[String]) -> Result<CommandOutput, Refusal> {
    let failed = |error: std::io::Error| Refusal::new(format!("cannot run gcwatch: {error}"), "try again");
    let program = std::env::current_exe().map_err(failed)?;
    let mut command = Command::new(program);
    command
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    let (ended, is_running) = channel::<()>();
    let pid = Pid::from_child(&child);
    thread::spawn(move || {
        if is_running.recv_timeout(COMMAND_TIMEOUT) == Err(RecvTimeoutError::Timeout) {
            let _gone_already = kill_process(pid, Signal::TERM);
        }
    });
    let said = said(&mut child);
    let printed = child.stdout.take().map(|stdout| records(BufReader::new(stdout)));
    // The output of the child has ended, and so has its work: cancel the timeout.
    drop(ended);
    let status = child.wait().map_err(failed)?;
    let said = said.and_then(|said| said.join().ok()).unwrap_or_default();
    let (records, left_out) = printed.unwrap_or_default();
    if records.is_empty() && !status.success() {
        return Err(Refusal {
            error: if said.is_empty() {
                format!("gcwatch {}: {status}", words.join(" "))
            } else {
                said
            },
            remedy: None,
        });
    }
    Ok(CommandOutput {
        records,
        left_out,
        said,
    })
}

/// Reads the child's standard error. Bytes beyond the limit are read and dropped, so that the child does not block.
/// Returns `None` if standard error is not a pipe.
fn said(child: &mut Child) -> Option<JoinHandle<String>> {
    let mut stderr = child.stderr.take()?;
    Some(thread::spawn(move || {
        let mut bytes = Vec::new();
        let _cut_off = stderr.by_ref().take(MAX_SAID_BYTES).read_to_end(&mut bytes);
        let _rest = std::io::copy(&mut stderr, &mut std::io::sink());
        let text = String::from_utf8_lossy(&bytes);
        let lines = text.lines().map(|line| line.strip_prefix("gcwatch: ").unwrap_or(line));
        lines.collect::<Vec<_>>().join("; ")
    }))
}

/// Returns the first records of each kind, and the number of further records. A line that is not a record, or is too
/// long, counts as a further record.
fn records(mut lines: impl std::io::BufRead) -> (Vec<Value>, usize) {
    let (mut records, mut left_out) = (Vec::new(), 0);
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    let mut line = Vec::new();
    loop {
        line.clear();
        match lines.by_ref().take(MAX_RECORD_BYTES).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return (records, left_out),
            Ok(_) => {}
        }
        let record: Option<Value> = serde_json::from_slice(&line).ok();
        let kind = record.as_ref().and_then(|record| record.get("kind")?.as_str());
        let of_kind = kind.map_or(usize::MAX, |kind| {
            let count = kinds.entry(kind.to_owned()).or_default();
            *count += 1;
            *count
        });
        match record.filter(|_| of_kind <= MAX_OF_A_KIND) {
            Some(record) => records.push(record),
            None => left_out += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: the output has a first record, more records of another kind than are kept, a line that is not a
    /// record, and a line without an end.
    /// Guarantee: the first records of each kind are returned; the other lines are counted.
    #[test]
    fn records_are_bounded() {
        let mut text = "{\"kind\":\"callers\"}\n".to_owned();
        (0..MAX_OF_A_KIND + 3).for_each(|place| text.push_str(&format!("{{\"kind\":\"caller\",\"place\":{place}}}\n")));
        text.push_str("no record\n{\"kind\":\"end\"}");
        let (records, left_out) = records(text.as_bytes());
        assert_eq!((records.len(), left_out), (MAX_OF_A_KIND + 2, 4));
        assert_eq!(records[MAX_OF_A_KIND]["place"], MAX_OF_A_KIND - 1);
        assert_eq!(records[MAX_OF_A_KIND + 1]["kind"], "end");
    }
}
