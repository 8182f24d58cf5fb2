//! What to do, for one incident: a rule's remedy without what was done already, and with the pid in its commands.

use base::run_key::RunKey;

use super::Found;

/// Commands of a remedy that a burst has run already, where it found something.
fn done(found: Option<&Found>) -> impl Iterator<Item = &'static str> {
    let callers = found.and_then(|found| found.callers.as_ref());
    let allocations = found.and_then(|found| found.allocations.as_ref());
    let callers = callers.filter(|found| !found.callers.is_empty());
    let allocations = allocations.filter(|found| !found.sites.is_empty());
    let callers = callers.map(|_| "gcwatch callers ");
    callers.into_iter().chain(allocations.map(|_| "gcwatch allocations "))
}

/// A remedy for a process that lives; `run`: its pid is in the commands. Sentences with a command whose answer the
/// incident has are left out.
pub fn remedy_for_a_process(remedy: &str, found: Option<&Found>, run: Option<RunKey>) -> String {
    let mut sentences = sentences(remedy);
    for command in done(found) {
        sentences.retain(|sentence| !sentence.contains(command));
    }
    let text = sentences.join(" ");
    match run.filter(|run| run.pid != 0) {
        Some(run) => with_pid(&text, run.pid),
        None => text,
    }
}

/// A remedy for the process of a recording: the same commands read files. A heap or the stacks of threads are in none
/// that was made for something else.
pub fn remedy_for_a_file(remedy: &str) -> String {
    let remedy = remedy.replace("gcwatch callers PID", "gcwatch callers FILE");
    remedy.replace("gcwatch allocations PID", "gcwatch allocations FILE")
}

/// Sentences: each ends with a full stop before white space, or with the text. A full stop in code ends none.
fn sentences(text: &str) -> Vec<&str> {
    let mut sentences = Vec::new();
    let (mut begin, mut is_code, mut after_stop) = (0, false, false);
    for (at, letter) in text.char_indices() {
        if after_stop && letter.is_whitespace() {
            sentences.extend(text.get(begin..at).map(str::trim).filter(|one| !one.is_empty()));
            begin = at;
        }
        is_code ^= letter == '`';
        after_stop = letter == '.' && !is_code;
    }
    sentences.extend(text.get(begin..).map(str::trim).filter(|one| !one.is_empty()));
    sentences
}

/// The commands between backticks with a pid in place of `PID`.
fn with_pid(text: &str, pid: u32) -> String {
    let pid = pid.to_string();
    let parts = text.split('`').enumerate();
    let parts: Vec<String> = parts
        .map(|(place, part)| match place % 2 {
            1 => part
                .split(' ')
                .map(|word| if word == "PID" { &pid } else { word })
                .collect::<Vec<_>>()
                .join(" "),
            _ => part.to_owned(),
        })
        .collect();
    parts.join("`")
}
