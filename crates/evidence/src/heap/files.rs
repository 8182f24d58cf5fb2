//! The process that reads files of a target: `gcwatch heap-files`, started by [`super::child`] and not intended for
//! users.
//!
//! A call into a file system that does not respond can be unkillable, and its process stays until the call returns. The
//! computing process has the graph, and therefore does not make such calls. It sends questions to this process over
//! pipes, and leaves this process behind if an answer is late. This process uses little memory, and has only its pipes
//! and one file of the target open.
//!
//! ```text
//! question  `o`, length, path: open a file in place of the previous one
//!           `r`, offset, count: read `count` bytes of it, or fewer at its end
//! answer    0: no; 1, length, bytes
//! ```

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom, Write};
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use dotnet_diagnostics::discovery::parse_stat;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, waitpid};
use rustix::thread::set_name;
use targets::own_file::OwnFiles;

/// First argument of this process. It is not a command, so the help does not show it.
const ARGUMENT: &str = "heap-files";
/// Path of the program, which is also valid if its file was replaced.
const PROGRAM: &str = "/proc/self/exe";
/// Maximum size of an assembly: offsets in its headers have 32 bits. Only its metadata is read.
const MAX_FILE_BYTES: u64 = u32::MAX as u64;
/// Maximum length of a path on Linux, in bytes. A question fits into an empty pipe, so sending it does not block.
const MAX_PATH_BYTES: usize = 4096;
/// Maximum time for the process to exit after the last question.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum number of processes that are left behind at a time. Each process takes a few megabytes.
const MAX_LEFT: usize = 8;

/// Returns whether this process was started to read files.
pub fn is_asked_for() -> bool {
    let mut arguments = std::env::args_os().skip(1);
    arguments.next().is_some_and(|first| first == ARGUMENT) && arguments.len() == 1
}

/// Answers questions until standard input ends.
pub fn main() -> ExitCode {
    let pid = std::env::args().nth(2).and_then(|pid| pid.parse().ok());
    let _no_name = set_name(c"gcwatch-files");
    let Some(Ok(files)) = pid.map(OwnFiles::for_process) else {
        return ExitCode::FAILURE;
    };
    let open = |path: &Path| files.open(path, MAX_FILE_BYTES).ok();
    match serve(&mut io::stdin().lock(), &mut io::stdout().lock(), open) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn serve(input: &mut impl Read, output: &mut impl Write, open: impl Fn(&Path) -> Option<File>) -> io::Result<()> {
    let mut file: Option<File> = None;
    while let Some(question) = Question::read(input)? {
        let answer = match question {
            Question::Open(path) => {
                file = open(Path::new(OsStr::from_bytes(&path)));
                file.is_some().then(Vec::new)
            }
            Question::Read(at, count) => file.as_ref().and_then(|file| bytes_at(file, at, count)),
        };
        match answer {
            None => output.write_all(&[0])?,
            Some(bytes) => {
                let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
                output.write_all(&[1])?;
                output.write_all(&length.to_le_bytes())?;
                output.write_all(&bytes)?;
            }
        }
        output.flush()?;
    }
    Ok(())
}

fn bytes_at(mut file: &File, at: u64, count: u32) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(at)).ok()?;
    file.take(count.into()).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// A question to the process.
#[derive(Debug, PartialEq, Eq)]
enum Question {
    /// Opens a file, in place of the previous file.
    Open(Vec<u8>),
    /// Reads a number of bytes of the file, starting at an offset.
    Read(u64, u32),
}

impl Question {
    fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Open(path) => {
                let length = u32::try_from(path.len()).unwrap_or(u32::MAX);
                [b"o".as_slice(), &length.to_le_bytes(), path].concat()
            }
            Self::Read(at, count) => [b"r".as_slice(), &at.to_le_bytes(), &count.to_le_bytes()].concat(),
        }
    }

    /// Reads the next question, or returns `None` at the end of the input.
    fn read(input: &mut impl Read) -> io::Result<Option<Self>> {
        let mut kind = [0];
        if input.read(&mut kind)? == 0 {
            return Ok(None);
        }
        let mut number = [0; 4];
        Ok(Some(match kind {
            [b'o'] => {
                input.read_exact(&mut number)?;
                let mut path = vec![0; (u32::from_le_bytes(number) as usize).min(MAX_PATH_BYTES)];
                input.read_exact(&mut path)?;
                Self::Open(path)
            }
            [b'r'] => {
                let mut at = [0; 8];
                input.read_exact(&mut at)?;
                input.read_exact(&mut number)?;
                Self::Read(u64::from_le_bytes(at), u32::from_le_bytes(number))
            }
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }))
    }
}

/// The files of a target, read by another process until a deadline.
#[derive(Debug)]
pub(super) struct Files {
    process: Child,
    input: ChildStdin,
    output: ChildStdout,
    until: Instant,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Answers,
    /// The process has exited, or wrote something that is not an answer.
    Ended,
    /// An answer did not arrive in time, so no further question is sent.
    Late,
}

/// Files that did not respond in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LateFiles {
    /// Pid of the process that waits for the files; `None` if the process has exited.
    pub process: Option<u32>,
}

impl Files {
    /// Starts the process that reads the files of a target.
    pub(super) fn for_process(pid: u32, until: Instant) -> io::Result<Self> {
        let mut command = Command::new(PROGRAM);
        command.arg(ARGUMENT).arg(pid.to_string());
        Self::start(command, until)
    }

    fn start(mut command: Command, until: Instant) -> io::Result<Self> {
        let command = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut process = command.spawn()?;
        let (Some(input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(io::Error::other("the process has no pipes"));
        };
        Ok(Self {
            process,
            input,
            output,
            until,
            state: State::Answers,
        })
    }

    /// Opens a file in place of the previous file. Returns whether the file was opened in time.
    pub(super) fn open(&mut self, path: &str) -> bool {
        path.len() <= MAX_PATH_BYTES && self.ask(&Question::Open(path.as_bytes().to_vec())).is_some()
    }

    /// Reads `count` bytes of the open file, or fewer at its end. Returns `None` if the bytes cannot be read, or not in
    /// time.
    pub(super) fn read(&mut self, at: u64, count: u32) -> Option<Vec<u8>> {
        self.ask(&Question::Read(at, count))
    }

    fn ask(&mut self, question: &Question) -> Option<Vec<u8>> {
        if self.state != State::Answers {
            return None;
        }
        match self.exchange(question) {
            Ok(answer) => answer,
            Err(error) => {
                self.state = match error.kind() {
                    io::ErrorKind::TimedOut => State::Late,
                    _ => State::Ended,
                };
                None
            }
        }
    }

    fn exchange(&mut self, question: &Question) -> io::Result<Option<Vec<u8>>> {
        self.input.write_all(&question.bytes())?;
        let mut found = [0];
        self.take(&mut found)?;
        if found == [0] {
            return Ok(None);
        }
        let mut length = [0; 4];
        self.take(&mut length)?;
        let length = u32::from_le_bytes(length);
        let most = match question {
            Question::Open(_) => 0,
            Question::Read(_, count) => *count,
        };
        if length > most {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut bytes = vec![0; length as usize];
        self.take(&mut bytes)?;
        Ok(Some(bytes))
    }

    /// Fills the buffer before the deadline.
    fn take(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        let mut filled = 0;
        while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            if !is_ready(&self.output, self.until)? {
                return Err(io::ErrorKind::TimedOut.into());
            }
            match self.output.read(rest)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => filled += read,
            }
        }
        Ok(())
    }

    /// Waits for the process to exit, or leaves it behind after [`EXIT_TIMEOUT`]. Returns the files that were late, or
    /// `None` if no files were late.
    pub(super) fn finish(mut self) -> Option<LateFiles> {
        drop(self.input);
        if self.state != State::Answers {
            let _ended_already = self.process.kill();
        }
        // The process's end of the pipe closes when it exits. A thread that is blocked by a file system keeps it open.
        let until = Instant::now() + EXIT_TIMEOUT;
        let has_exited = loop {
            match is_ready(&self.output, until) {
                Ok(true) => match self.output.read(&mut [0; 64]) {
                    Ok(0) | Err(_) => break true,
                    // These bytes belong to the late answer.
                    Ok(_) => {}
                },
                Ok(false) | Err(_) => break false,
            }
        };
        if has_exited {
            let _reaped = self.process.wait();
        } else {
            let _as_soon_as_it_can = self.process.kill();
        }
        let is_late = self.state == State::Late || !has_exited;
        is_late.then(|| LateFiles {
            process: (!has_exited).then(|| self.process.id()),
        })
    }
}

/// Waits until a pipe has bytes or its other end is closed. Returns `false` at the deadline.
fn is_ready(pipe: &ChildStdout, until: Instant) -> io::Result<bool> {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        let mut pipes = [PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::IN)];
        match poll(&mut pipes, Some(&left)) {
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The processes that a daemon has left behind, each until it exits. The file system of a target is not tried again
/// while one of these processes waits for it.
#[derive(Debug, Default)]
pub struct LeftBehind(Vec<Left>);

#[derive(Debug)]
struct Left {
    /// Pid of the process whose files the left process reads.
    target: u32,
    process: u32,
    start_time: u64,
}

impl LeftBehind {
    /// Adds a process that reads the files of `target`, unless the process has exited. Returns the number of processes.
    pub fn add(&mut self, target: u32, process: u32) -> usize {
        if let Some(start_time) = start_time(process) {
            self.0.push(Left {
                target,
                process,
                start_time,
            });
        }
        self.0.len()
    }

    /// Returns the reason why the files of a process must not be read, or `None` if the files can be read.
    pub fn refusal(&mut self, target: u32) -> Option<String> {
        self.0.retain(|left| {
            // The reader is a child of this process if this process is the first process of its container.
            if let Some(pid) = i32::try_from(left.process).ok().and_then(Pid::from_raw) {
                let _not_a_child = waitpid(Some(pid), WaitOptions::NOHANG);
            }
            start_time(left.process) == Some(left.start_time)
        });
        if self.0.iter().any(|left| left.target == target) {
            return Some("its file system has not responded since an earlier heap dump".to_owned());
        }
        (self.0.len() >= MAX_LEFT).then(|| format!("{MAX_LEFT} file systems of other processes do not respond"))
    }
}

/// Returns the start time of a process, or `None` if it has exited.
fn start_time(pid: u32) -> Option<u64> {
    let stat = parse_stat(&std::fs::read(format!("/proc/{pid}/stat")).ok()?)?;
    // A zombie has no open file.
    (stat.state != 'Z').then_some(stat.start_time)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn never() -> Instant {
        Instant::now() + Duration::from_secs(3600)
    }

    /// Scenario: a file is opened and read at its start, beyond its end and with a count of 0; a missing file is opened
    /// and read; the input ends, or continues with an invalid question.
    /// Guarantee: every question is answered, the missing file is not read, and the invalid question is an error.
    #[test]
    fn questions_are_answered() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "0123456789").unwrap();
        let questions = [
            Question::Open(path.as_os_str().as_bytes().to_vec()),
            Question::Read(2, 3),
            Question::Read(8, 100),
            Question::Read(u64::from(u32::MAX), 1),
            Question::Open(b"/none".to_vec()),
            Question::Read(0, 1),
        ];
        let mut input: Vec<u8> = questions.iter().flat_map(Question::bytes).collect();
        let open = |path: &Path| File::open(path).ok();
        let mut output = Vec::new();
        serve(&mut input.as_slice(), &mut output, open).unwrap();
        let expected = b"\x01\0\0\0\0\x01\x03\0\0\x00234\x01\x02\0\0\x0089\x01\0\0\0\0\0\0";
        assert_eq!(output, expected);
        input.push(b'x');
        serve(&mut input.as_slice(), &mut output, open).unwrap_err();
    }

    /// Scenario: one process does not answer before the deadline; another process exits at once; a third process
    /// answers with more bytes than requested.
    /// Guarantee: the first process is late and killed, and the other two are not late; every question returns, and no
    /// further questions are asked.
    #[test]
    fn late_answer_prevents_questions() {
        let mut sleep = Command::new("sleep");
        sleep.arg("600");
        let mut silent = Files::start(sleep, Instant::now()).unwrap();
        assert!(!silent.open("/file") && silent.state == State::Late);
        silent.until = never();
        assert_eq!(silent.read(0, 1), None);
        assert_eq!(silent.finish(), Some(LateFiles { process: None }));

        let mut gone = Files::start(Command::new("true"), never()).unwrap();
        assert!(!gone.open("/file") && gone.state == State::Ended);
        assert_eq!(gone.finish(), None);

        let mut long = Command::new("sh");
        long.args(["-c", "printf '\\001\\377\\377\\377\\377'"]);
        let mut long = Files::start(long, never()).unwrap();
        assert_eq!(long.read(0, 1), None);
        assert_eq!((long.state, long.finish()), (State::Ended, None));
    }

    /// Scenario: processes are left behind, for one target and then up to the maximum; one of these processes exits.
    /// Guarantee: the target is refused while its process lives; every target is refused while the maximum is reached,
    /// and none afterwards.
    #[test]
    fn remaining_processes_are_limited() {
        let sleep = || Command::new("sleep").arg("600").spawn().unwrap();
        let mut left = LeftBehind::default();
        let mut sleeping: Vec<Child> = (0..MAX_LEFT).map(|_| sleep()).collect();
        assert_eq!(left.add(7, sleeping[0].id()), 1);
        assert!(left.refusal(7).is_some() && left.refusal(8).is_none());
        for (target, process) in (100..).zip(&sleeping[1..]) {
            left.add(target, process.id());
        }
        assert!(left.refusal(8).is_some());
        sleeping[0].kill().unwrap();
        sleeping[0].wait().unwrap();
        assert_eq!((left.refusal(7), left.refusal(8)), (None, None));
        for process in &mut sleeping[1..] {
            process.kill().unwrap();
            process.wait().unwrap();
        }
        assert_eq!(left.refusal(101), None);
        assert_eq!(left.add(7, u32::MAX), 0);
    }
}
