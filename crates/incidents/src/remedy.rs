//! Remedies for one incident: the remedy of a rule without steps that were already taken, and with the pid in its
//! commands.

use base::run_key::RunKey;

use super::Findings;

/// Returns the commands of a remedy whose answers a burst has already found.
fn done(found: Option<&Findings>) -> impl Iterator<Item = &'static str> {
    let callers = found.and_then(|found| found.callers.as_ref());
    let allocations = found.and_then(|found| found.allocations.as_ref());
    let callers = callers.filter(|found| !found.callers.is_empty());
    let allocations = allocations.filter(|found| !found.sites.is_empty());
    let callers = callers.map(|_| "gcwatch callers ");
    callers.into_iter().chain(allocations.map(|_| "gcwatch allocations "))
}

/// Returns the remedy for a running process. The pid of `run` is inserted into commands. Sentences with a command whose
/// answer is part of the incident are omitted.
pub fn remedy_for_a_process(remedy: &str, found: Option<&Findings>, run: Option<RunKey>) -> String {
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

/// Returns the remedy for the process of a recording: the commands `callers`, `allocations` and `advise` read the file.
/// Other commands still refer to a process, because a recording that was made for another purpose contains neither a
/// heap nor the stacks of threads.
pub fn remedy_for_a_file(remedy: &str) -> String {
    let remedy = remedy.replace("gcwatch callers PID", "gcwatch callers FILE");
    let remedy = remedy.replace("gcwatch allocations PID", "gcwatch allocations FILE");
    remedy.replace("gcwatch advise PID", "gcwatch advise FILE")
}

/// Splits a text into sentences. A sentence ends with a full stop before white space, or at the end of the text. A full
/// stop inside code does not end a sentence.
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

/// Replaces `PID` with the pid in commands between backticks.
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
