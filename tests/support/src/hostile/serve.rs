//! The diagnostics protocol of a hostile runtime: a thread for each connection.

use std::io::{Error, Read as _, Result, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dotnet_diagnostics::discovery::{SocketName, parse_stat};
use dotnet_diagnostics::message::{
    Answer, Cookie, InfoVersion, ProcessInfo, Progress, Request, RuntimeError, decode_frame, encode_environment,
};
use nettrace::Format;

use super::forge::{Forge, monotonic};
use super::modes::{Does, Mode, methods, samples};

/// How long a client may take to send a command.
const PATIENCE: Duration = Duration::from_secs(5);

/// What the connections share.
struct Serving {
    does: Does,
    /// The newest session's id.
    last: AtomicU64,
    /// Sessions that were not stopped.
    sessions: Mutex<Vec<u64>>,
}

/// Opens the socket and serves it, on threads of its own. Gives its path.
pub(super) fn begin(mode: &Mode) -> Result<PathBuf> {
    let stat = std::fs::read("/proc/self/stat")?;
    let key = parse_stat(&stat).ok_or_else(|| Error::other("/proc/self/stat is malformed"))?;
    let name = SocketName {
        pid: std::process::id(),
        key: key.start_time,
    };
    let path = std::env::temp_dir().join(name.to_string());
    let listener = UnixListener::bind(&path)?;
    let serving = Arc::new(Serving {
        does: mode.does,
        last: AtomicU64::new(u64::from(std::process::id()) << 20),
        sessions: Mutex::default(),
    });
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serving = Arc::clone(&serving);
            // A client that goes away ends its own connection.
            std::thread::spawn(move || drop(serving.answer(stream)));
        }
    });
    Ok(path)
}

impl Serving {
    /// One command of one connection.
    fn answer(&self, mut stream: UnixStream) -> Result<()> {
        if matches!(self.does, Does::Silent) {
            return hold(stream);
        }
        stream.set_read_timeout(Some(PATIENCE))?;
        let request = read_request(&mut stream)?;
        if let Does::Answers(bytes) = self.does {
            stream.write_all(bytes)?;
            return hold(stream);
        }
        let ok = |payload: &[u8]| Answer::Ok(payload).encode().map_err(Error::other);
        match request {
            Request::ProcessInfo(version) => stream.write_all(&ok(&info(version)?)?),
            Request::ProcessEnvironment => {
                let none = encode_environment(&[]).map_err(Error::other)?;
                stream.write_all(&none)
            }
            Request::ResumeRuntime => stream.write_all(&ok(&[])?),
            Request::StopTracing { session_id } => {
                if matches!(self.does, Does::NeverStops(_)) {
                    return hold(stream);
                }
                let known = {
                    let mut sessions = self.sessions();
                    let place = sessions.iter().position(|id| *id == session_id);
                    place.map(|place| sessions.swap_remove(place)).is_some()
                };
                let refused = || Answer::Error(RuntimeError::from_hresult(0x8013_1384)).encode();
                let answer = if known {
                    ok(&session_id.to_le_bytes())?
                } else {
                    refused().map_err(Error::other)?
                };
                stream.write_all(&answer)
            }
            Request::CollectTracing { config, .. } => {
                let id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
                self.sessions().push(id);
                stream.write_all(&ok(&id.to_le_bytes())?)?;
                match self.does {
                    Does::Burst(_) if config.stacks => self.burst(stream, id),
                    Does::HoldsBursts(_) if config.stacks => {
                        let mut forge = Forge::new(Format::V4).map_err(Error::other)?;
                        stream.write_all(&forge.take().map_err(Error::other)?)?;
                        hold(stream)
                    }
                    _ => self.stream(stream, id),
                }
            }
        }
    }

    /// The stream of a session, until it is stopped or its reader goes away.
    fn stream(&self, mut stream: UnixStream, id: u64) -> Result<()> {
        match self.does {
            Does::Stream(pieces)
            | Does::StreamV6(pieces)
            | Does::NeverStops(pieces)
            | Does::Burst(pieces)
            | Does::HoldsBursts(pieces) => {
                let format = match self.does {
                    Does::StreamV6(_) => Format::V6 { minor: 0 },
                    _ => Format::V4,
                };
                let mut forge = Forge::new(format).map_err(Error::other)?;
                let mut piece = 0;
                while self.is_wanted(id) {
                    let pause = pieces(&mut forge, piece).map_err(Error::other)?;
                    stream.write_all(&forge.take().map_err(Error::other)?)?;
                    std::thread::sleep(pause);
                    piece += 1;
                }
                stream.write_all(&forge.encoder.finish().map_err(Error::other)?)
            }
            Does::Bytes(bytes) => {
                stream.write_all(bytes)?;
                while self.is_wanted(id) {
                    std::thread::sleep(Duration::from_millis(20));
                }
                Ok(())
            }
            Does::After(bytes) => {
                let mut forge = Forge::new(Format::V4).map_err(Error::other)?;
                stream.write_all(&forge.take().map_err(Error::other)?)?;
                let more = bytes.repeat(64);
                while self.is_wanted(id) {
                    stream.write_all(&more)?;
                }
                Ok(())
            }
            Does::EndsAtOnce | Does::Silent | Does::Answers(_) => Ok(()),
        }
    }

    /// A session with stacks: samples while it is wanted, then many more, with the time of when it was, and names.
    fn burst(&self, mut stream: UnixStream, id: u64) -> Result<()> {
        let mut forge = Forge::new(Format::V4).map_err(Error::other)?;
        // After its reader has set when the burst began.
        let at = monotonic() + 200_000_000;
        samples(&mut forge, 0, at).map_err(Error::other)?;
        stream.write_all(&forge.take().map_err(Error::other)?)?;
        while self.is_wanted(id) {
            std::thread::sleep(Duration::from_millis(20));
        }
        for number in 1..10 {
            samples(&mut forge, number, at).map_err(Error::other)?;
            stream.write_all(&forge.take().map_err(Error::other)?)?;
        }
        methods(&mut forge).map_err(Error::other)?;
        stream.write_all(&forge.encoder.finish().map_err(Error::other)?)
    }

    fn is_wanted(&self, id: u64) -> bool {
        self.sessions().contains(&id)
    }

    fn sessions(&self) -> std::sync::MutexGuard<'_, Vec<u64>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps a connection open, until the client closes it.
fn hold(mut stream: UnixStream) -> Result<()> {
    stream.set_read_timeout(None)?;
    while stream.read(&mut [0; 256])? > 0 {}
    Ok(())
}

fn info(version: InfoVersion) -> Result<Vec<u8>> {
    // The type has no constructor: it is what an empty answer says, filled in.
    let mut info = ProcessInfo::decode(InfoVersion::V1, &[0; 36]).map_err(Error::other)?;
    info.version = version;
    info.pid = std::process::id().into();
    info.cookie = Cookie([7; 16]);
    info.command_line = "hostile hostile.dll".to_owned();
    info.os = "Linux".to_owned();
    info.arch = "x64".to_owned();
    info.entry_assembly = Some("hostile".to_owned());
    info.runtime_version = Some("10.0.0".to_owned());
    info.runtime_identifier = Some("linux-x64".to_owned());
    info.encode().map_err(Error::other)
}

fn read_request(stream: &mut UnixStream) -> Result<Request> {
    let mut buffer = Vec::new();
    loop {
        let needed = match decode_frame(&buffer).map_err(Error::other)? {
            Progress::Complete { frame, .. } => return Request::decode(frame).map_err(Error::other),
            Progress::Incomplete { needed } => needed,
        };
        let mut piece = vec![0; needed - buffer.len()];
        let n = stream.read(&mut piece)?;
        if n == 0 {
            return Err(Error::other("the client went away"));
        }
        buffer.extend_from_slice(piece.get(..n).unwrap_or_default());
    }
}
