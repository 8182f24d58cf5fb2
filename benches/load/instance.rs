//! A fake runtime: a process that serves the diagnostics protocol on the socket of a runtime with its pid, and replays
//! collections at a fixed rate. The process has one thread and no executor.
//!
//! The following is as in a real runtime: the name of the socket, one command per connection, and several concurrent
//! sessions with separate streams. Events are written every 100 ms as runs of one capture thread each, of which only
//! the first event is marked as sorted. Events are dropped, along with their numbers, if the reader does not keep up
//! with the session's buffer.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Error};
use dotnet_diagnostics::message::{Answer, RUNTIME_PROVIDER, Request, RuntimeError, SessionConfig, encode_environment};
use nettrace::encode::Encoder;
use nettrace::{Format, SystemTime};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};
use test_support::hostile::serve::{info, listen, read_request};

use crate::template::{Template, TimedEvent};

/// Interval between two writes of a session's events, as in a runtime.
const FLUSH_NS: i64 = 100_000_000;

/// An event session, and the connection that carries its stream.
struct Session {
    id: u64,
    stream: UnixStream,
    encoder: Encoder,
    /// Whether GC events were requested.
    collections: bool,
    buffer_bytes: usize,
    /// Encoded bytes that the reader has not accepted yet.
    unsent: Vec<u8>,
    /// Last number of each capture thread.
    numbers: HashMap<u64, u32>,
    ended: bool,
}

/// Totals that are reported on request of the driver.
#[derive(Debug, Default)]
struct Counts {
    /// Collections that were written to a session.
    sent: u64,
    /// Collections that were dropped because the session's buffer was full.
    dropped: u64,
    sessions: u64,
}

/// Serves requests until standard input closes.
pub(crate) fn run(recording: &Path, rate: f64) -> anyhow::Result<()> {
    let template = Template::read(recording)?;
    let (listener, path) = listen().map_err(Error::from_boxed)?;
    let outcome = Instance {
        template,
        rate,
        pid: std::process::id(),
        number: 0,
        sessions: Vec::new(),
        counts: Counts::default(),
        producing: true,
    }
    .serve(&listener);
    // A runtime that exits cleanly deletes its socket, too.
    let _ = std::fs::remove_file(&path);
    outcome
}

struct Instance {
    template: Template,
    /// Collections per second.
    rate: f64,
    pid: u32,
    /// Number of the newest collection.
    number: u32,
    sessions: Vec<Session>,
    counts: Counts,
    producing: bool,
}

impl Instance {
    fn serve(mut self, listener: &UnixListener) -> anyhow::Result<()> {
        let period = (1e9 / self.rate.max(1e-9)) as i64;
        // Processes are out of step with each other.
        let mut write_at = monotonic() + i64::from(self.pid) * 7_919_003 % FLUSH_NS;
        let mut next_end = write_at + i64::from(self.pid) * 104_729_000 % period;
        let mut commands = Vec::new();
        println_flush("ready")?;
        loop {
            let now = monotonic();
            if now >= write_at {
                let mut due = Vec::new();
                while next_end <= now {
                    if self.producing {
                        due.push(next_end);
                    }
                    next_end += period;
                }
                self.write_collections(&due, period / 2)?;
                write_at = now + FLUSH_NS;
            }
            self.send();
            let (input, connection, gone) = {
                let stdin = std::io::stdin();
                let mut waiting = vec![PollFd::new(&stdin, PollFlags::IN), PollFd::new(listener, PollFlags::IN)];
                for session in &self.sessions {
                    let blocked = if session.unsent.is_empty() {
                        PollFlags::empty()
                    } else {
                        PollFlags::OUT
                    };
                    waiting.push(PollFd::new(&session.stream, blocked));
                }
                let patience = Timespec {
                    tv_sec: 0,
                    tv_nsec: (write_at - monotonic()).clamp(0, 999_999_999),
                };
                match poll(&mut waiting, Some(&patience)) {
                    Ok(_) | Err(rustix::io::Errno::INTR) => {}
                    Err(error) => return Err(error).context("cannot poll"),
                }
                let ready = |index: usize| waiting.get(index).is_some_and(|fd| !fd.revents().is_empty());
                let over = PollFlags::HUP | PollFlags::ERR;
                let gone = waiting.iter().skip(2).map(|fd| fd.revents().intersects(over));
                (ready(0), ready(1), gone.collect::<Vec<_>>())
            };
            for (session, gone) in self.sessions.iter_mut().zip(gone) {
                session.ended |= gone;
            }
            if connection {
                let (stream, _) = listener.accept().context("cannot accept")?;
                // A client that disconnects early is ignored.
                let _ = self.answer(stream);
            }
            if input {
                let mut bytes = [0; 256];
                let n = std::io::stdin().read(&mut bytes)?;
                if n == 0 {
                    return Ok(());
                }
                commands.extend_from_slice(bytes.get(..n).unwrap_or_default());
                if commands.ends_with(b"quiet\n") {
                    commands.clear();
                    self.producing = false;
                    let Counts {
                        sent,
                        dropped,
                        sessions,
                    } = self.counts;
                    println_flush(&format!("sent {sent} dropped {dropped} sessions {sessions}"))?;
                }
            }
        }
    }

    /// Answers one command of one connection.
    fn answer(&mut self, mut stream: UnixStream) -> anyhow::Result<()> {
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.set_write_timeout(Some(Duration::from_secs(5)))?;
        let request = read_request(&mut stream).map_err(Error::from_boxed)?;
        match request {
            Request::ProcessInfo(version) => {
                let info = info(version, "load").map_err(Error::from_boxed)?;
                stream.write_all(&Answer::Ok(&info).encode()?)?;
            }
            Request::ProcessEnvironment => stream.write_all(&encode_environment(&[])?)?,
            Request::ResumeRuntime => stream.write_all(&Answer::Ok(&[]).encode()?)?,
            Request::StopTracing { session_id } => {
                let Some(at) = self.sessions.iter().position(|session| session.id == session_id) else {
                    stream.write_all(&Answer::Error(RuntimeError::from_hresult(0x8013_1384)).encode()?)?;
                    return Ok(());
                };
                let session = self.sessions.swap_remove(at);
                session.finish();
                stream.write_all(&Answer::Ok(&session_id.to_le_bytes()).encode()?)?;
            }
            Request::CollectTracing { config, .. } => self.begin(stream, &config)?,
        }
        Ok(())
    }

    fn begin(&mut self, mut stream: UnixStream, config: &SessionConfig) -> anyhow::Result<()> {
        let (system_time, sync_ticks) = clocks()?;
        let header = self.template.header(self.pid, sync_ticks, system_time);
        let mut encoder = Encoder::new(Format::V4, &header)?;
        for definition in self.template.definitions() {
            encoder.metadata(definition)?;
        }
        self.counts.sessions += 1;
        let id = u64::from(self.pid) << 16 | self.counts.sessions;
        stream.write_all(&Answer::Ok(&id.to_le_bytes()).encode()?)?;
        stream.set_nonblocking(true)?;
        let collections = config
            .providers
            .iter()
            .any(|provider| provider.name == RUNTIME_PROVIDER && provider.keywords & 1 != 0 && provider.level >= 4);
        self.sessions.push(Session {
            id,
            stream,
            unsent: encoder.take(),
            encoder,
            collections,
            buffer_bytes: (config.buffer_mb as usize) << 20,
            numbers: HashMap::new(),
            ended: false,
        });
        if collections {
            println_flush("attached")?;
        }
        Ok(())
    }

    /// Writes collections that ended at the given instants to every session that requested them.
    fn write_collections(&mut self, ends: &[i64], longest: i64) -> anyhow::Result<()> {
        let mut events = Vec::new();
        for end in ends {
            self.number += 1;
            events.extend(self.template.collection(self.number, *end, longest));
        }
        if events.is_empty() {
            return Ok(());
        }
        let runs = runs(events);
        for session in self.sessions.iter_mut().filter(|session| session.collections) {
            if session.unsent.len() > session.buffer_bytes {
                for part in runs.iter().flatten() {
                    *session.numbers.entry(part.capture_thread).or_default() += 1;
                }
                self.counts.dropped += ends.len() as u64;
                continue;
            }
            for run in &runs {
                for (index, part) in run.iter().enumerate() {
                    let number = session.numbers.entry(part.capture_thread).or_default();
                    *number += 1;
                    session.encoder.event(&part.record(*number, index == 0))?;
                }
            }
            session.encoder.flush()?;
            session.unsent.extend(session.encoder.take());
            self.counts.sent += ends.len() as u64;
        }
        Ok(())
    }

    /// Sends as many bytes as the readers accept.
    fn send(&mut self) {
        for session in &mut self.sessions {
            session.send();
        }
        self.sessions.retain(|session| !session.ended);
    }
}

impl Session {
    fn send(&mut self) {
        let mut from = 0;
        while let Some(rest) = self.unsent.get(from..).filter(|rest| !rest.is_empty()) {
            match self.stream.write(rest) {
                Ok(n) if n > 0 => from += n,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                // The reader disconnected: the session ends, as in a runtime.
                Ok(_) | Err(_) => {
                    self.ended = true;
                    break;
                }
            }
        }
        self.unsent.drain(..from);
    }

    /// Sends the rest of the stream with its end tag and closes the connection.
    fn finish(mut self) {
        if let Ok(rest) = self.encoder.finish() {
            self.unsent.extend(rest);
        }
        let _ = self.stream.set_nonblocking(false);
        let _ = self.stream.set_write_timeout(Some(Duration::from_secs(5)));
        let _ = self.stream.write_all(&self.unsent);
    }
}

/// Orders events as a runtime does: it repeatedly selects the thread with the oldest buffered event and writes all
/// events of that thread.
fn runs(events: Vec<TimedEvent>) -> Vec<Vec<TimedEvent>> {
    let mut threads: Vec<Vec<TimedEvent>> = Vec::new();
    for part in events {
        let of = |run: &Vec<TimedEvent>| {
            run.first()
                .is_some_and(|first| first.capture_thread == part.capture_thread)
        };
        match threads.iter_mut().find(|run| of(run)) {
            Some(run) => run.push(part),
            None => threads.push(vec![part]),
        }
    }
    for run in &mut threads {
        run.sort_by_key(|part| part.at);
    }
    threads.sort_by_key(|run| run.first().map(|first| first.at));
    threads
}

/// Returns the wall clock, truncated to a millisecond as by a runtime, and the corresponding ticks.
fn clocks() -> anyhow::Result<(SystemTime, i64)> {
    let (ticks, wall) = (monotonic(), jiff::Timestamp::now());
    let time = jiff::tz::Offset::UTC.to_datetime(wall);
    let part = |number: i16| u16::try_from(number).unwrap_or(0);
    let small = |number: i8| part(number.into());
    let system_time = SystemTime {
        year: part(time.year()),
        month: small(time.month()),
        day_of_week: small(time.weekday().to_sunday_zero_offset()),
        day: small(time.day()),
        hour: small(time.hour()),
        minute: small(time.minute()),
        second: small(time.second()),
        millisecond: part(time.millisecond()),
    };
    Ok((system_time, ticks))
}

/// Returns CLOCK_MONOTONIC in nanoseconds: the ticks of a runtime on Linux.
fn monotonic() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// Writes and flushes a line. The driver reads lines from standard output, which is a pipe.
fn println_flush(line: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}
