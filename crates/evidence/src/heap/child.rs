//! The process that computes the results of a dump: `gcwatch heap-dump`, started by gcwatch and not intended for users.
//!
//! The process runs before the rest of the program is set up. The process reads the stream from standard input, and
//! writes the answer to standard output and a refusal as one line to standard error. The kernel limits the memory and
//! the time of the process (`RLIMIT_AS`, `RLIMIT_CPU`) and kills the process first if memory is scarce. The process
//! finishes when its input closes. The process opens no file of the target itself. Another process
//! ([`files`](super::files)) reads these files, so that a slow file system cannot keep this process and its memory.

use std::cell::RefCell;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
use std::rc::Rc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use clr_evidence::{flame, folded};
use clr_heap::reading::{Dump, DumpDetail, DumpReading, ReadAt, Refusal};
use clr_heap::survey::{Record, Survey, survey};
use clr_heap::{profile, snapshot};
use flate2::Compression;
use flate2::write::GzEncoder;
use rustix::thread::set_name;

use crate::bounds::bound;
use crate::heap::files::{Files, LateFiles};
use crate::heap::session::FeedOutcome;

/// First argument of this process. The argument is not a command, so the help does not show it.
const ARGUMENT: &str = "heap-dump";
/// Path of the program, which is also valid if its file was replaced.
const PROGRAM: &str = "/proc/self/exe";
/// Maximum CPU time, in seconds. 20,000,000 objects take a quarter of this time.
const MAX_CPU_SECONDS: u64 = 120;
/// Memory in addition to the graph: buffers of pipes and formats, and pages of the allocator.
const BESIDE_BYTES: u64 = 32 << 20;
/// Maximum memory of a histogram.
const HISTOGRAM_BYTES: u64 = 64 << 20;
/// Exit code of a refusal. The reason is on standard error.
const REFUSED: u8 = 3;
/// Maximum length of a reason, in bytes. The rest is ignored.
const MAX_SENTENCE_BYTES: u64 = 4 << 10;
/// Maximum size of a record, in bytes, and maximum number of records.
const MAX_RECORD_BYTES: u64 = 256 << 10;
const MAX_RECORDS: usize = 64 << 10;
/// Maximum number of pieces of the stream that are queued for the process.
const WAITING: usize = 32;
const READ_BYTES: usize = 256 << 10;
/// Timeout for naming the classes of static fields. Several hundred assemblies take 0.1 s.
const NAMING_TIMEOUT: Duration = Duration::from_secs(5);
/// Start of the line on standard error about late files. The pid of the process that waits for the files follows, or 0
/// if this process has exited.
const LATE: &str = "late files ";
/// Maximum time for which the process takes no bytes while [`WAITING`] pieces wait: the host can be busy, or the
/// process can be stopped.
const FEED_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time from the last byte of a dump to its answer: the limit of CPU time, and 30 s for a busy machine.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(MAX_CPU_SECONDS + 30);

/// The form of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Records, one per line.
    Records,
    /// The most informative records, a few megabytes at most, which a daemon can keep.
    Brief,
    /// A gzipped pprof profile.
    Pprof,
    /// A heap snapshot for browsers.
    Snapshot,
    /// Stacks of types with their bytes.
    Folded,
    /// A flame graph.
    Svg,
}

impl Form {
    const ALL: [(Self, &'static str); 6] = [
        (Self::Records, "records"),
        (Self::Brief, "brief"),
        (Self::Pprof, "pprof"),
        (Self::Snapshot, "heapsnapshot"),
        (Self::Folded, "folded"),
        (Self::Svg, "svg"),
    ];

    fn word(self) -> &'static str {
        let one = Self::ALL.iter().find(|(form, _)| *form == self);
        one.map_or("records", |(_, word)| word)
    }
}

/// Parameters of a computation.
#[derive(Debug, Clone)]
pub struct AnalysisRequest {
    /// The form of the answer.
    pub form: Form,
    /// Whether only types are counted.
    pub histogram: bool,
    /// Maximum size of the graph, in bytes.
    pub most: u64,
    /// The process whose assemblies contain the classes of static fields; `None` for a recording.
    pub pid: Option<u32>,
    /// Part of the names of the types to which paths are computed; `None` if no type is selected.
    pub only: Option<String>,
}

/// Returns whether this process was started to compute a dump.
pub fn is_asked_for() -> bool {
    let mut arguments = std::env::args_os().skip(1);
    arguments.next().is_some_and(|first| first == ARGUMENT) && arguments.len() >= 4
}

/// Reads a dump and writes the answer.
pub fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(2);
    let mut word = || arguments.next().and_then(|word: OsString| word.into_string().ok());
    let form = word().and_then(|word| Form::ALL.into_iter().find(|(_, name)| *name == word));
    let (Some((form, _)), Some(want), Some(Ok(most))) = (form, word(), word().map(|most| most.parse())) else {
        let _nobody_reads = writeln!(
            io::stderr(),
            "gcwatch {ARGUMENT} is started by gcwatch; it cannot be used alone"
        );
        return ExitCode::from(2);
    };
    let what = AnalysisRequest {
        form,
        histogram: want == "histogram",
        most,
        pid: word().and_then(|pid| pid.parse().ok()).filter(|pid| *pid != 0),
        only: word(),
    };
    let _no_name = set_name(c"gcwatch-heap");
    limit(&what);
    let done = compute(
        &what,
        &mut io::stdin().lock(),
        &mut io::stdout().lock(),
        &mut io::stderr(),
    );
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _nobody_reads = writeln!(io::stderr(), "{error}");
            ExitCode::from(REFUSED)
        }
    }
}

/// Limits the memory and the CPU time of this process. In addition, the process limits the size of its graph
/// ([`DumpDetail::Graph`]).
fn limit(what: &AnalysisRequest) {
    let graph = if what.histogram {
        HISTOGRAM_BYTES
    } else {
        what.most.max(HISTOGRAM_BYTES)
    };
    bound(graph.saturating_add(BESIDE_BYTES), MAX_CPU_SECONDS);
}

/// Error returned if the process has no answer. The message is written to standard error.
#[derive(Debug, thiserror::Error)]
enum ComputeError {
    /// The dump cannot be read from standard input.
    #[error("cannot read the dump: {0}")]
    Read(io::Error),
    /// The stream contains no complete dump.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The requested format needs a graph, but the dump was only counted.
    #[error("only types were counted ({reason}), which this format cannot show")]
    OnlyTypes {
        /// Reason why there is no graph.
        reason: String,
    },
    /// The answer cannot be written to standard output.
    #[error("cannot write the answer: {0}")]
    Write(io::Error),
}

/// Reads a dump to its end and writes the answer. A line is written to `notes` if files were late.
fn compute(
    what: &AnalysisRequest,
    input: &mut impl Read,
    output: &mut impl Write,
    notes: &mut impl Write,
) -> Result<(), ComputeError> {
    let want = if what.histogram {
        DumpDetail::Histogram
    } else {
        DumpDetail::Graph { most: what.most }
    };
    let mut reading = DumpReading::new(want);
    let mut buffer = vec![0; READ_BYTES];
    loop {
        match input.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => match reading.push(buffer.get(..read).unwrap_or_default()) {
                Ok(()) => {}
                // The part before the error can be a complete dump.
                Err(Refusal::Stream(_)) => break,
                Err(refusal) => return Err(refusal.into()),
            },
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(ComputeError::Read(error)),
        }
    }
    drop(buffer);
    let mut dump = reading.finish()?;
    if let Some(late) = what.pid.and_then(|pid| name_classes(&mut dump, pid)) {
        let _nobody_reads = writeln!(notes, "{LATE}{}", late.process.unwrap_or(0));
    }
    let at = dump.at_unix_ns;
    let (mut survey, solved) = survey(dump, what.only.as_deref());
    survey.heap.at = at
        .and_then(|at| jiff::Timestamp::from_nanosecond(at.into()).ok())
        .map(|at| at.to_string());
    let mut output = BufWriter::new(output);
    let written = match (what.form, &solved) {
        (Form::Records, _) => records(survey, &mut output),
        (Form::Brief, _) => {
            survey.shorten();
            records(survey, &mut output)
        }
        (_, None) => {
            let reason = survey
                .heap
                .reason
                .unwrap_or_else(|| "a histogram was requested".to_owned());
            return Err(ComputeError::OnlyTypes { reason });
        }
        (Form::Pprof, Some(solved)) => {
            let mut gzip = GzEncoder::new(&mut output, Compression::default());
            gzip.write_all(&profile::pprof(solved, at))
                .and_then(|()| gzip.finish().map(drop))
        }
        (Form::Snapshot, Some(solved)) => snapshot::write(&solved.graph, &mut output),
        (Form::Folded, Some(solved)) => folded::write(&mut output, &profile::weighted(&profile::stacks(solved))),
        (Form::Svg, Some(solved)) => {
            let stacks = profile::stacks(solved);
            let weighted = profile::weighted(&stacks);
            let svg = flame::svg(
                "Live objects by holder",
                &weighted,
                flame::Unit::Bytes,
                &Default::default(),
            );
            output.write_all(svg.as_bytes())
        }
    };
    written.and_then(|()| output.flush()).map_err(ComputeError::Write)
}

/// Assigns classes to static fields, read from the assemblies of the process. Returns the files that were late, or
/// `None` if no files were late or read.
fn name_classes(dump: &mut Dump, pid: u32) -> Option<LateFiles> {
    let files = Rc::new(RefCell::new(
        Files::for_process(pid, Instant::now() + NAMING_TIMEOUT).ok()?,
    ));
    dump.name_classes(&mut |path| {
        files.borrow_mut().open(path).then(|| {
            let files = Rc::clone(&files);
            Box::new(move |at, count| files.borrow_mut().read(at, count)) as ReadAt
        })
    });
    Rc::into_inner(files)?.into_inner().finish()
}

fn records(survey: Survey, output: &mut impl Write) -> io::Result<()> {
    for record in survey.records() {
        serde_json::to_writer(&mut *output, &record)?;
        output.write_all(b"\n")?;
    }
    Ok(())
}

/// The running process, and the channels that connect it to this process.
#[derive(Debug)]
pub struct AnalysisProcess {
    child: Child,
    /// Whether the answer goes to a file.
    is_to_file: bool,
    feed: Feed,
    events: Receiver<Event>,
    sender: Sender<Event>,
}

/// A queue of pieces of the stream, which a thread writes to the process.
#[derive(Debug)]
struct Feed {
    /// `None` if the process takes no more bytes.
    pieces: Option<Sender<Vec<u8>>>,
    /// One message for each piece that the process has taken.
    taken: Receiver<()>,
    waiting: usize,
    /// Whether the process took nothing for [`FEED_TIMEOUT`].
    is_stalled: bool,
}

impl Feed {
    /// Starts the thread that writes the pieces.
    fn start(mut input: impl Write + Send + 'static) -> io::Result<Self> {
        let (pieces, sent) = channel::<Vec<u8>>();
        let (takes, taken) = channel();
        let write = move || {
            for piece in sent {
                // The process has exited. Its refusal, if any, contains the reason.
                if input.write_all(&piece).is_err() || takes.send(()).is_err() {
                    return;
                }
            }
        };
        let _ends_with_its_input = std::thread::Builder::new().name("heap-feed".to_owned()).spawn(write)?;
        Ok(Self {
            pieces: Some(pieces),
            taken,
            waiting: 0,
            is_stalled: false,
        })
    }

    /// Queues a piece. Waits for free space in the queue, at most for the given time.
    fn put(&mut self, bytes: &[u8], within: Duration) -> FeedOutcome {
        let mut is_open = self.pieces.is_some();
        self.waiting -= self.taken.try_iter().count().min(self.waiting);
        if is_open && self.waiting >= WAITING {
            match self.taken.recv_timeout(within) {
                Ok(()) => self.waiting -= 1,
                Err(RecvTimeoutError::Timeout) => return FeedOutcome::Late,
                Err(RecvTimeoutError::Disconnected) => is_open = false,
            }
        }
        match self.pieces.as_ref().filter(|_| is_open) {
            Some(pieces) if pieces.send(bytes.to_vec()).is_ok() => {
                self.waiting += 1;
                FeedOutcome::Taken
            }
            _ => {
                self.pieces = None;
                FeedOutcome::Unwanted
            }
        }
    }
}

/// Events that [`AnalysisProcess::finish`] waits for.
#[derive(Debug)]
enum Event {
    /// The end of standard output.
    Answer(Box<io::Result<Answer>>),
    /// The end of standard error, with its text.
    Notes(String),
    /// The caller no longer wants the answer.
    Cancelled,
}

/// Handle that ends [`AnalysisProcess::finish`] from another thread.
#[derive(Debug, Clone)]
pub struct Canceller(Sender<Event>);

impl Canceller {
    /// Causes [`AnalysisProcess::finish`] to return [`AnswerError::Cancelled`], unless the answer has already arrived.
    pub fn cancel(&self) {
        let _finished_before = self.0.send(Event::Cancelled);
    }
}

/// Error returned if the process returns no answer.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    /// The process refused the dump or exited, with the reason as a sentence.
    #[error("{0}")]
    Refused(String),
    /// The process took no bytes for 10 s.
    #[error("the process that computes the graph took no bytes for {} s and was killed", FEED_TIMEOUT.as_secs())]
    Stalled,
    /// The process did not answer in time.
    #[error("the process that computes the graph did not answer within {} s and was killed", .within.as_secs())]
    Late {
        /// The timeout.
        within: Duration,
    },
    /// The caller no longer wants the answer.
    #[error("the heap dump was cancelled")]
    Cancelled,
}

/// The answer of the process.
#[derive(Debug, Default)]
pub struct Answer {
    /// The survey, for [`Form::Records`] and [`Form::Brief`].
    pub survey: Survey,
    /// Number of bytes written, for any other form.
    pub bytes: u64,
    /// Files with the classes of static fields that did not respond in time; `None` if no file was late.
    pub late: Option<LateFiles>,
}

impl AnalysisProcess {
    /// Starts the process. Answers in other forms than records are written to `file`.
    ///
    /// # Errors
    /// Returns an error if no process or thread can be started.
    pub fn start(what: &AnalysisRequest, file: Option<Box<dyn Write + Send>>) -> io::Result<Self> {
        let mut command = Command::new(PROGRAM);
        command
            .arg(ARGUMENT)
            .arg(what.form.word())
            .arg(if what.histogram { "histogram" } else { "graph" })
            .arg(what.most.to_string())
            .arg(what.pid.unwrap_or(0).to_string())
            .args(&what.only)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Self::spawn(&mut command, file)
    }

    fn spawn(command: &mut Command, file: Option<Box<dyn Write + Send>>) -> io::Result<Self> {
        let mut child = command.spawn()?;
        let (Some(input), Some(output), Some(errors)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(io::Error::other("the process has no pipes"));
        };
        let feed = Feed::start(input)?;
        let is_to_file = file.is_some();
        let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let (sender, events) = channel();
        let answers = sender.clone();
        thread("heap-answer").spawn(move || {
            let _cancelled = answers.send(Event::Answer(Box::new(taken(output, file))));
        })?;
        let notes = sender.clone();
        thread("heap-refusal").spawn(move || {
            let mut text = Vec::new();
            let _cut = errors.take(MAX_SENTENCE_BYTES).read_to_end(&mut text);
            let _cancelled = notes.send(Event::Notes(String::from_utf8_lossy(&text).into_owned()));
        })?;
        Ok(Self {
            child,
            is_to_file,
            feed,
            events,
            sender,
        })
    }

    /// Returns a handle that ends [`finish`](Self::finish).
    pub fn canceller(&self) -> Canceller {
        Canceller(self.sender.clone())
    }

    /// Sends bytes to the process. If too many pieces are queued, blocks the calling thread for at most 10 s, and then
    /// kills the process.
    pub fn feed(&mut self, bytes: &[u8]) -> FeedOutcome {
        match self.feed.put(bytes, FEED_TIMEOUT) {
            FeedOutcome::Late => {
                self.feed.is_stalled = true;
                self.feed.pieces = None;
                let _ended_already = self.child.kill();
                FeedOutcome::Unwanted
            }
            fed => fed,
        }
    }

    /// Sends bytes to the process without waiting.
    pub fn feed_at_once(&mut self, bytes: &[u8]) -> FeedOutcome {
        self.feed.put(bytes, Duration::ZERO)
    }

    /// Waits for the answer after the last byte, at most for the given time. Blocks the calling thread.
    ///
    /// # Errors
    /// Returns [`AnswerError`] if there is no answer. In this case, the process has exited or was killed.
    pub fn finish(mut self, within: Duration) -> Result<Answer, AnswerError> {
        if self.feed.is_stalled {
            self.give_up();
            return Err(AnswerError::Stalled);
        }
        self.feed.pieces = None;
        let until = Instant::now() + within;
        let (mut answer, mut notes) = (None, None);
        while answer.is_none() || notes.is_none() {
            match self
                .events
                .recv_timeout(until.saturating_duration_since(Instant::now()))
            {
                Ok(Event::Answer(taken)) => answer = Some(*taken),
                Ok(Event::Notes(text)) => notes = Some(text),
                Ok(Event::Cancelled) => {
                    self.give_up();
                    return Err(AnswerError::Cancelled);
                }
                Err(_) => {
                    self.give_up();
                    return Err(AnswerError::Late { within });
                }
            }
        }
        // The pipes of the process are closed, so the process has exited.
        let status = self
            .child
            .wait()
            .map_err(|error| AnswerError::Refused(error.to_string()))?;
        // The process reports only a broken pipe. The error of the file contains the reason.
        if let (true, Some(Err(error))) = (self.is_to_file, &answer) {
            return Err(AnswerError::Refused(format!("cannot write the answer: {error}")));
        }
        let (late, sentence) = noted(&notes.unwrap_or_default());
        if status.code() == Some(i32::from(REFUSED)) {
            return Err(AnswerError::Refused(sentence));
        }
        if !status.success() {
            return Err(AnswerError::Refused(format!(
                "the process that computes the graph failed ({status}): its memory or time was exhausted; --histogram \
                 needs a few megabytes"
            )));
        }
        match answer {
            Some(Ok(answer)) => Ok(Answer { late, ..answer }),
            Some(Err(error)) => Err(AnswerError::Refused(format!("cannot read the answer: {error}"))),
            None => Err(AnswerError::Refused("cannot read the answer".to_owned())),
        }
    }

    /// Kills the process without waiting for an answer or for its exit.
    pub fn give_up(self) {
        let Self { mut child, .. } = self;
        let _ended_already = child.kill();
        let reaps = move || drop(child.wait());
        let _a_zombie_stays = std::thread::Builder::new().name("heap-reaper".to_owned()).spawn(reaps);
    }
}

/// Splits the text of standard error: the files that were late, and the sentence of a refusal.
fn noted(text: &str) -> (Option<LateFiles>, String) {
    let late = text.lines().find_map(|line| line.strip_prefix(LATE));
    let late = late.map(|pid| LateFiles {
        process: pid.parse().ok().filter(|pid| *pid != 0),
    });
    let sentence = text.lines().filter(|line| !line.starts_with(LATE)).collect::<Vec<_>>();
    (late, sentence.join("\n").trim().to_owned())
}

/// Reads the answer: copies its bytes to `file`, or parses its records if there is no file.
fn taken(output: ChildStdout, file: Option<Box<dyn Write + Send>>) -> io::Result<Answer> {
    let mut answer = Answer::default();
    let mut output = BufReader::new(output);
    if let Some(mut file) = file {
        answer.bytes = io::copy(&mut output, &mut file)?;
        file.flush()?;
        return Ok(answer);
    }
    read_records(&mut output, |record| answer.survey.add(record))?;
    Ok(answer)
}

/// Reads a limited number of records, one per line.
///
/// # Errors
/// Returns an error if the input cannot be read, is not a list of records, or has too many records.
pub fn read_records(input: &mut impl io::BufRead, mut add: impl FnMut(Record)) -> io::Result<()> {
    let mut line = Vec::new();
    for _ in 0..MAX_RECORDS {
        line.clear();
        if input.by_ref().take(MAX_RECORD_BYTES).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        add(serde_json::from_slice(&line)?);
    }
    Err(io::Error::other("there are too many records"))
}

/// Reads a survey that was saved as records. Returns `None` if the file is a recording.
///
/// # Errors
/// Returns an error if the file cannot be read, or if its records are invalid.
pub fn saved(path: &Path) -> io::Result<Option<Survey>> {
    let mut file = BufReader::new(File::open(path)?);
    if file.fill_buf()?.first() != Some(&b'{') {
        return Ok(None);
    }
    let mut survey = Survey::default();
    read_records(&mut file, |record| survey.add(record))?;
    Ok(Some(survey))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An input that accepts one piece per permit, and fails without permits.
    struct Slow(Receiver<()>);

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            match self.0.recv() {
                Ok(()) => Ok(bytes.len()),
                Err(_) => Err(io::ErrorKind::BrokenPipe.into()),
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Scenario: a process accepts no bytes until its queue is full, then one piece, and then exits.
    /// Guarantee: the full queue reports a delay after the timeout, has space for one piece afterwards, and accepts no
    /// piece after the exit.
    #[test]
    fn full_queue_waits_only_until_timeout() {
        let (permits, permitted) = channel();
        let mut feed = Feed::start(Slow(permitted)).unwrap();
        for _ in 0..WAITING {
            assert_eq!(feed.put(b"piece", Duration::ZERO), FeedOutcome::Taken);
        }
        assert_eq!(feed.put(b"piece", Duration::from_millis(1)), FeedOutcome::Late);
        permits.send(()).unwrap();
        let long = Duration::from_secs(600);
        assert_eq!(feed.put(b"piece", long), FeedOutcome::Taken);
        assert_eq!(feed.put(b"piece", Duration::ZERO), FeedOutcome::Late);
        drop(permits);
        assert_eq!(feed.put(b"piece", long), FeedOutcome::Unwanted);
        assert_eq!(feed.put(b"piece", long), FeedOutcome::Unwanted);
    }

    /// Scenario: the answer is written to a full disk (`/dev/full`), and the process reports a broken pipe.
    /// Guarantee: the error names the full disk.
    #[test]
    fn error_names_full_disk() {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut command = Command::new("sh");
        let command = command.args(["-c", "echo answer; echo 'Broken pipe' >&2; exit 3"]);
        let command = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let computing = AnalysisProcess::spawn(command, Some(Box::new(full))).unwrap();
        let refused = computing.finish(Duration::from_secs(600)).unwrap_err().to_string();
        assert!(refused.contains("No space left"), "{refused}");
    }

    /// Starts a shell program in place of the computing process.
    fn computing(program: &str) -> AnalysisProcess {
        let mut command = Command::new("sh");
        let command = command.args(["-c", program]).stdin(Stdio::piped());
        AnalysisProcess::spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped()), None).unwrap()
    }

    /// Scenario: a computing process is stopped (SIGSTOP) and never answers; another process is cancelled.
    /// Guarantee: the stopped process is killed, and each error states its reason.
    #[test]
    fn stopped_process_is_killed() {
        let stopped = computing("kill -STOP $$");
        let pid = stopped.child.id();
        let late = stopped.finish(Duration::from_millis(10)).unwrap_err();
        assert!(matches!(late, AnswerError::Late { .. }), "{late}");
        let is_gone = || !Path::new(&format!("/proc/{pid}")).exists();
        while !is_gone() {
            std::thread::yield_now();
        }
        let silent = computing("exec sleep 600");
        silent.canceller().cancel();
        let cancelled = silent.finish(Duration::from_secs(600)).unwrap_err();
        assert!(matches!(cancelled, AnswerError::Cancelled), "{cancelled}");
    }

    /// Scenario: the process writes an empty text, a refusal, a line about late files, or both.
    /// Guarantee: the line is not part of the reason, and the pid of the remaining process is returned.
    #[test]
    fn refusal_excludes_late_files() {
        let late = |process| Some(LateFiles { process });
        assert_eq!(noted(""), (None, String::new()));
        assert_eq!(noted("too large\n"), (None, "too large".to_owned()));
        assert_eq!(noted("late files 0\n"), (late(None), String::new()));
        assert_eq!(
            noted("late files 77\ntoo large\n"),
            (late(Some(77)), "too large".to_owned())
        );
    }
}
