//! The process that computes what a dump shows: `gcwatch heap-dump`, started by gcwatch and of use to nobody else.
//!
//! It runs before anything else of the program is set up: bytes of the stream come on standard input, the answer goes
//! to standard output, a refusal is one line on standard error. Its memory and its time are bounded by the kernel
//! (`RLIMIT_AS`, `RLIMIT_CPU`), it is the first to be killed where memory is short, and it ends with its input.

use std::cell::Cell;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, Read, Seek as _, SeekFrom, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
use std::rc::Rc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use clr_evidence::{flame, folded};
use clr_heap::reading::{DumpReading, ReadAt, Refusal, Want};
use clr_heap::survey::{Record, Survey, survey};
use clr_heap::{profile, snapshot};
use flate2::Compression;
use flate2::write::GzEncoder;
use rustix::thread::set_name;

use crate::bounds::bound;
use crate::heap::session::Fed;
use targets::own_file::OwnFiles;

/// The argument that makes a process this one. Not a command: no help shows it.
const ARGUMENT: &str = "heap-dump";
/// The program itself, also when its file was replaced.
const PROGRAM: &str = "/proc/self/exe";
/// Seconds of CPU that it may take: 20,000,000 objects take a quarter of it.
const MOST_CPU_SECONDS: u64 = 120;
/// Memory beside the graph: buffers of pipes and formats, the pages of an allocator.
const BESIDE_BYTES: u64 = 32 << 20;
/// What a histogram takes at most.
const HISTOGRAM_BYTES: u64 = 64 << 20;
/// The exit code of a refusal, whose sentence is on standard error.
const REFUSED: u8 = 3;
/// Bytes of a sentence that are read.
const MAX_SENTENCE_BYTES: u64 = 4 << 10;
/// Bytes of a record, and records, that are taken from it.
const MAX_RECORD_BYTES: u64 = 256 << 10;
const MAX_RECORDS: usize = 64 << 10;
/// Pieces of the stream that wait for it.
const WAITING: usize = 32;
const READ_BYTES: usize = 256 << 10;
/// How long naming the classes of static fields may take: some hundred assemblies take a tenth of a second.
const NAMING_WITHIN: Duration = Duration::from_secs(5);
/// Maximum size of an assembly: offsets in its headers have 32 bits. Only its metadata is read.
const MAX_ASSEMBLY_BYTES: u64 = u32::MAX as u64;

/// The form of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Records, one a line.
    Records,
    /// The records that say most, a few megabytes at most: for a daemon, which keeps them.
    Brief,
    /// A gzipped pprof profile.
    Pprof,
    /// For browsers.
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

/// What must be computed.
#[derive(Debug, Clone)]
pub struct What {
    /// The form of the answer.
    pub form: Form,
    /// Types only.
    pub histogram: bool,
    /// Bytes that the graph may take.
    pub most: u64,
    /// The process, whose assemblies say the classes of static fields; `None`: a recording.
    pub pid: Option<u32>,
    /// Paths to types with this in their name.
    pub only: Option<String>,
}

/// Whether this process was started as one.
pub fn is_asked_for() -> bool {
    let mut arguments = std::env::args_os().skip(1);
    arguments.next().is_some_and(|first| first == ARGUMENT) && arguments.len() >= 4
}

/// Reads a dump and answers.
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
    let what = What {
        form,
        histogram: want == "histogram",
        most,
        pid: word().and_then(|pid| pid.parse().ok()).filter(|pid| *pid != 0),
        only: word(),
    };
    let _no_name = set_name(c"gcwatch-heap");
    limit(&what);
    let done = compute(&what, &mut io::stdin().lock(), &mut io::stdout().lock());
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(sentence) => {
            let _nobody_reads = writeln!(io::stderr(), "{sentence}");
            ExitCode::from(REFUSED)
        }
    }
}

/// Bounds this process. It bounds itself, too.
fn limit(what: &What) {
    let graph = if what.histogram {
        HISTOGRAM_BYTES
    } else {
        what.most.max(HISTOGRAM_BYTES)
    };
    bound(graph.saturating_add(BESIDE_BYTES), MOST_CPU_SECONDS);
}

/// Reads a dump to its end and writes the answer. The error is a sentence.
fn compute(what: &What, input: &mut impl Read, output: &mut impl Write) -> Result<(), String> {
    let want = if what.histogram {
        Want::Histogram
    } else {
        Want::Graph { most: what.most }
    };
    let mut reading = DumpReading::new(want);
    let mut buffer = vec![0; READ_BYTES];
    loop {
        match input.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => match reading.push(buffer.get(..read).unwrap_or_default()) {
                Ok(()) => {}
                // What came before may be whole.
                Err(Refusal::Stream(_)) => break,
                Err(refusal) => return Err(refusal.to_string()),
            },
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(format!("the dump cannot be read: {error}")),
        }
    }
    drop(buffer);
    let mut dump = reading.finish().map_err(|refusal| refusal.to_string())?;
    if let Some(assemblies) = what.pid.and_then(Assemblies::of) {
        dump.name_classes(&mut |path| assemblies.open(path));
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
                .unwrap_or_else(|| "a histogram was asked for".to_owned());
            return Err(format!(
                "only types were counted ({reason}), which this format cannot show"
            ));
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
                "What lives, by what keeps it alive",
                &weighted,
                flame::Unit::Bytes,
                &Default::default(),
            );
            output.write_all(svg.as_bytes())
        }
    };
    written
        .and_then(|()| output.flush())
        .map_err(|error| format!("the answer cannot be written: {error}"))
}

/// The files of a process, as it sees them, read by a thread that may never be answered: a file system of the process's
/// own need not.
struct Assemblies {
    asks: SyncSender<Ask>,
    answers: Receiver<Option<Vec<u8>>>,
    until: Instant,
    /// Nothing is asked after a question that was not answered in time.
    is_late: Cell<bool>,
}

/// What the thread is asked, one after the other.
enum Ask {
    /// To open a file, in place of the one before.
    Open(String),
    /// So many bytes of it, from an offset on.
    Read(u64, u32),
}

impl Assemblies {
    fn of(pid: u32) -> Option<Rc<Self>> {
        let files = OwnFiles::of(pid).ok()?;
        let (asks, asked) = sync_channel(1);
        let (give, answers) = sync_channel(1);
        let reads = move || {
            let mut open: Option<File> = None;
            for ask in asked {
                let answer = match ask {
                    Ask::Open(path) => {
                        open = files.open(Path::new(&path), MAX_ASSEMBLY_BYTES).ok();
                        open.is_some().then(Vec::new)
                    }
                    Ask::Read(at, count) => open.as_ref().and_then(|file| bytes_at(file, at, count)),
                };
                if give.send(answer).is_err() {
                    return;
                }
            }
        };
        let name = "heap-assemblies".to_owned();
        let _ends_with_the_process = std::thread::Builder::new().name(name).spawn(reads).ok()?;
        Some(Rc::new(Self {
            asks,
            answers,
            until: Instant::now() + NAMING_WITHIN,
            is_late: Cell::new(false),
        }))
    }

    fn ask(&self, ask: Ask) -> Option<Vec<u8>> {
        if self.is_late.get() {
            return None;
        }
        self.asks.send(ask).ok()?;
        let left = self.until.saturating_duration_since(Instant::now());
        let answer = self.answers.recv_timeout(left);
        self.is_late.set(answer.is_err());
        answer.ok().flatten()
    }

    /// An assembly, until the next one is opened.
    fn open(self: &Rc<Self>, path: &str) -> Option<ReadAt> {
        self.ask(Ask::Open(path.to_owned()))?;
        let assemblies = Rc::clone(self);
        Some(Box::new(move |at, count| assemblies.ask(Ask::Read(at, count))))
    }
}

fn bytes_at(mut file: &File, at: u64, count: u32) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(at)).ok()?;
    file.take(count.into()).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

fn records(survey: Survey, output: &mut impl Write) -> io::Result<()> {
    for record in survey.records() {
        serde_json::to_writer(&mut *output, &record)?;
        output.write_all(b"\n")?;
    }
    Ok(())
}

/// The process under way, and what it is fed by.
#[derive(Debug)]
pub struct Computing {
    child: Child,
    /// `None`: it takes nothing any more.
    feed: Option<SyncSender<Vec<u8>>>,
    writer: JoinHandle<()>,
    answer: JoinHandle<io::Result<Answer>>,
    refusal: JoinHandle<String>,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Answer {
    /// Of [`Form::Records`] and [`Form::Brief`].
    pub survey: Survey,
    /// Bytes of any other form that were written.
    pub bytes: u64,
}

impl Computing {
    /// Starts it. Answers of other forms than records go to `file`.
    ///
    /// # Errors
    /// When no process or thread can be started.
    pub fn start(what: &What, file: Option<Box<dyn Write + Send>>) -> io::Result<Self> {
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
        let mut child = command.spawn()?;
        let (Some(mut input), Some(output), Some(errors)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(io::Error::other("the process has no pipes"));
        };
        let (feed, pieces): (SyncSender<Vec<u8>>, Receiver<Vec<u8>>) = sync_channel(WAITING);
        let writer = std::thread::Builder::new()
            .name("heap-feed".to_owned())
            .spawn(move || {
                for piece in pieces {
                    // It ended: a refusal says why.
                    if input.write_all(&piece).is_err() {
                        return;
                    }
                }
            })?;
        let answer = std::thread::Builder::new()
            .name("heap-answer".to_owned())
            .spawn(move || taken(output, file))?;
        let refusal = std::thread::Builder::new()
            .name("heap-refusal".to_owned())
            .spawn(move || {
                let mut sentence = Vec::new();
                let mut errors = errors.take(MAX_SENTENCE_BYTES);
                let _cut = errors.read_to_end(&mut sentence);
                String::from_utf8_lossy(&sentence).trim().to_owned()
            })?;
        Ok(Self {
            child,
            feed: Some(feed),
            writer,
            answer,
            refusal,
        })
    }

    /// Gives it bytes; waits where too many wait already.
    pub fn feed(&mut self, bytes: &[u8]) -> Fed {
        match &self.feed {
            Some(feed) if feed.send(bytes.to_vec()).is_ok() => Fed::Taken,
            _ => {
                self.feed = None;
                Fed::Unwanted
            }
        }
    }

    /// Gives it bytes without waiting.
    pub fn feed_at_once(&mut self, bytes: &[u8]) -> Fed {
        match self.feed.as_ref().map(|feed| feed.try_send(bytes.to_vec())) {
            Some(Ok(())) => Fed::Taken,
            Some(Err(TrySendError::Full(_))) => Fed::Late,
            Some(Err(TrySendError::Disconnected(_))) | None => Fed::Unwanted,
        }
    }

    /// All bytes were given: waits for the answer. Blocking.
    ///
    /// # Errors
    /// A sentence: why there is none.
    pub fn finish(mut self) -> Result<Answer, String> {
        self.feed = None;
        let _ended = self.writer.join();
        let answer = self.answer.join();
        let refusal = self.refusal.join().unwrap_or_default();
        let status = self.child.wait().map_err(|error| error.to_string())?;
        if status.code() == Some(i32::from(REFUSED)) {
            return Err(refusal);
        }
        if !status.success() {
            return Err(format!(
                "the process that computes the graph ended ({status}): it had no memory or time left; --histogram needs \
                 a few megabytes"
            ));
        }
        match answer {
            Ok(answer) => answer.map_err(|error| format!("the answer cannot be taken: {error}")),
            Err(_) => Err("the answer cannot be taken".to_owned()),
        }
    }

    /// Ends it without an answer.
    pub fn give_up(mut self) {
        self.feed = None;
        let _ended_already = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Takes the answer: bytes for a file, else records.
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

/// Records, one a line, as far as they are bounded.
///
/// # Errors
/// When they cannot be read, or are none.
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

/// A survey that was written as records before. `None`: it is a recording.
///
/// # Errors
/// When the file cannot be read, or its records are others.
pub fn saved(path: &Path) -> io::Result<Option<Survey>> {
    let mut file = BufReader::new(File::open(path)?);
    if file.fill_buf()?.first() != Some(&b'{') {
        return Ok(None);
    }
    let mut survey = Survey::default();
    read_records(&mut file, |record| survey.add(record))?;
    Ok(Some(survey))
}
