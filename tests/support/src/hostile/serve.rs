//! The diagnostics protocol of a hostile runtime, with one thread per connection.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dotnet_diagnostics::discovery::{SocketName, parse_stat};
use dotnet_diagnostics::message::{
    Answer, Cookie, InfoVersion, ProcessInfo, Progress, Request, RuntimeError, decode_frame, encode_environment,
};
use flate2::Compression;
use flate2::write::GzEncoder;
use nettrace::Format;

use super::forge::{Forge, monotonic};
use super::modes::{Behaviour, MODES, Mode, methods, samples};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Timeout for a client to send a command.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(5);

/// State that all connections share.
struct Serving {
    does: Behaviour,
    /// Id of the newest session.
    last: AtomicU64,
    /// Ids of the sessions that no client has stopped.
    sessions: Mutex<Vec<u64>>,
}

/// Opens the socket that a runtime of this process would have. Returns the listener and the path.
pub fn listen() -> Result<(UnixListener, PathBuf)> {
    let stat = std::fs::read("/proc/self/stat")?;
    let name = SocketName {
        pid: std::process::id(),
        key: parse_stat(&stat).ok_or("/proc/self/stat is malformed")?.start_time,
    };
    let path = std::env::temp_dir().join(name.to_string());
    Ok((UnixListener::bind(&path)?, path))
}

/// Opens the socket, serves it on dedicated threads, and returns its path.
pub(super) fn begin(mode: &Mode) -> Result<PathBuf> {
    let (listener, path) = listen()?;
    let serving = Arc::new(Serving {
        does: mode.does,
        last: AtomicU64::new(u64::from(std::process::id()) << 20),
        sessions: Mutex::default(),
    });
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serving = Arc::clone(&serving);
            // A client that disconnects ends only its own connection.
            std::thread::spawn(move || drop(serving.answer(stream)));
        }
    });
    Ok(path)
}

impl Serving {
    /// Answers one command of a connection.
    fn answer(&self, mut stream: UnixStream) -> Result<()> {
        if matches!(self.does, Behaviour::Silent) {
            return hold(stream);
        }
        stream.set_read_timeout(Some(COMMAND_TIMEOUT))?;
        let request = read_request(&mut stream)?;
        if let Behaviour::Answers(bytes) = self.does {
            stream.write_all(bytes)?;
            return hold(stream);
        }
        let ok = |payload: &[u8]| Answer::Ok(payload).encode();
        match request {
            Request::ProcessInfo(version) => stream.write_all(&ok(&info(version, "hostile")?)?)?,
            Request::ProcessEnvironment => stream.write_all(&encode_environment(&[])?)?,
            Request::ResumeRuntime => stream.write_all(&ok(&[])?)?,
            Request::StopTracing { session_id } => {
                if matches!(self.does, Behaviour::NeverStops(_)) {
                    return hold(stream);
                }
                let known = {
                    let mut sessions = self.sessions();
                    let place = sessions.iter().position(|id| *id == session_id);
                    place.map(|place| sessions.swap_remove(place)).is_some()
                };
                stream.write_all(&if known {
                    ok(&session_id.to_le_bytes())?
                } else {
                    Answer::Error(RuntimeError::from_hresult(0x8013_1384)).encode()?
                })?;
            }
            Request::CollectTracing { config, .. } => {
                let id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
                self.sessions().push(id);
                stream.write_all(&ok(&id.to_le_bytes())?)?;
                match self.does {
                    Behaviour::Burst(_) if config.stacks => self.burst(stream, id)?,
                    Behaviour::HoldsBursts(_) if config.stacks => {
                        let mut forge = Forge::new(Format::V4)?;
                        stream.write_all(&forge.take()?)?;
                        hold(stream)?;
                    }
                    _ => self.stream(stream, id)?,
                }
            }
        }
        Ok(())
    }

    /// Streams a session until it is stopped or its reader disconnects.
    fn stream(&self, mut stream: UnixStream, id: u64) -> Result<()> {
        match self.does {
            Behaviour::Stream(pieces)
            | Behaviour::StreamV6(pieces)
            | Behaviour::NeverStops(pieces)
            | Behaviour::Burst(pieces)
            | Behaviour::HoldsBursts(pieces) => {
                let format = match self.does {
                    Behaviour::StreamV6(_) => Format::V6 { minor: 0 },
                    _ => Format::V4,
                };
                let mut forge = Forge::new(format)?;
                let mut piece = 0;
                while self.is_wanted(id) {
                    let pause = pieces(&mut forge, piece)?;
                    stream.write_all(&forge.take()?)?;
                    std::thread::sleep(pause);
                    piece += 1;
                }
                stream.write_all(&forge.encoder.finish()?)?;
            }
            Behaviour::Bytes(bytes) => {
                stream.write_all(bytes)?;
                while self.is_wanted(id) {
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
            Behaviour::After(bytes) => {
                let mut forge = Forge::new(Format::V4)?;
                stream.write_all(&forge.take()?)?;
                let more = bytes.repeat(64);
                while self.is_wanted(id) {
                    stream.write_all(&more)?;
                }
            }
            Behaviour::EndsAtOnce | Behaviour::Silent | Behaviour::Answers(_) => {}
        }
        Ok(())
    }

    /// Streams a session with stacks: samples until the session is stopped, then many more samples with times during
    /// the session, and method names.
    fn burst(&self, mut stream: UnixStream, id: u64) -> Result<()> {
        let mut forge = Forge::new(Format::V4)?;
        // The samples are later than the start of the burst that the reader records.
        let at = monotonic() + 200_000_000;
        samples(&mut forge, 0, at)?;
        stream.write_all(&forge.take()?)?;
        while self.is_wanted(id) {
            std::thread::sleep(Duration::from_millis(20));
        }
        for number in 1..10 {
            samples(&mut forge, number, at)?;
            stream.write_all(&forge.take()?)?;
        }
        methods(&mut forge)?;
        stream.write_all(&forge.encoder.finish()?)?;
        Ok(())
    }

    fn is_wanted(&self, id: u64) -> bool {
        self.sessions().contains(&id)
    }

    fn sessions(&self) -> std::sync::MutexGuard<'_, Vec<u64>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Maximum number of pieces of a captured stream.
const CAPTURED_PIECES: u32 = 40;

/// Size of a captured stream, in bytes, after which no further piece is added.
const CAPTURED_BYTES: usize = 256 << 10;

/// Writes the start of each mode's stream to `FOLDER/MODE.nettrace.gz`, unless the mode has no separate stream.
///
/// # Errors
///
/// Returns an error if a stream cannot be encoded or a file cannot be written.
pub fn capture_all(folder: &Path) -> Result<()> {
    for mode in MODES {
        let Some(stream) = capture(mode)? else { continue };
        let path = folder.join(format!("{}.nettrace.gz", mode.name));
        let file = File::create(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let mut file = GzEncoder::new(file, Compression::best());
        file.write_all(&stream)?;
        file.finish()?;
    }
    Ok(())
}

/// Returns the first pieces of a mode's stream, or `None` if the mode sends no stream or the stream of another mode.
fn capture(mode: &Mode) -> Result<Option<Vec<u8>>> {
    let (format, pieces) = match mode.does {
        Behaviour::Stream(pieces) => (Format::V4, pieces),
        Behaviour::StreamV6(pieces) => (Format::V6 { minor: 0 }, pieces),
        Behaviour::Bytes(bytes) => return Ok((!bytes.is_empty()).then(|| bytes.to_vec())),
        Behaviour::After(bytes) => {
            let mut stream = Forge::new(Format::V4)?.take()?;
            stream.extend(bytes.repeat(2));
            return Ok(Some(stream));
        }
        Behaviour::NeverStops(_) | Behaviour::Burst(_) | Behaviour::HoldsBursts(_) => return Ok(None),
        Behaviour::EndsAtOnce | Behaviour::Silent | Behaviour::Answers(_) => return Ok(None),
    };
    let mut forge = Forge::new(format)?;
    let mut stream = Vec::new();
    for piece in 0..CAPTURED_PIECES {
        let pause = pieces(&mut forge, piece)?;
        stream.extend(forge.take()?);
        if stream.len() >= CAPTURED_BYTES {
            break;
        }
        // The events of a piece have the time at which the piece is written, so the pause changes the stream.
        std::thread::sleep(pause);
    }
    stream.extend(forge.encoder.finish()?);
    Ok(Some(stream))
}

/// Keeps a connection open until the client closes it.
fn hold(mut stream: UnixStream) -> Result<()> {
    stream.set_read_timeout(None)?;
    while stream.read(&mut [0; 256])? > 0 {}
    Ok(())
}

/// Returns the process information that a runtime of a process with this name would send.
pub fn info(version: InfoVersion, name: &str) -> Result<Vec<u8>> {
    // The type has no constructor, so decode an empty answer and fill it in.
    let mut info = ProcessInfo::decode(InfoVersion::V1, &[0; 36])?;
    info.version = version;
    info.pid = std::process::id().into();
    info.cookie = Cookie([7; 16]);
    info.cookie.0[..4].copy_from_slice(&std::process::id().to_le_bytes());
    info.command_line = format!("{name} {name}.dll");
    info.os = "Linux".to_owned();
    info.arch = "x64".to_owned();
    info.entry_assembly = Some(name.to_owned());
    info.runtime_version = Some("10.0.0".to_owned());
    info.runtime_identifier = Some("linux-x64".to_owned());
    Ok(info.encode()?)
}

/// Reads the command of a connection.
pub fn read_request(stream: &mut UnixStream) -> Result<Request> {
    let mut buffer = Vec::new();
    loop {
        let needed = match decode_frame(&buffer)? {
            Progress::Complete { frame, .. } => return Ok(Request::decode(frame)?),
            Progress::Incomplete { needed } => needed,
        };
        let mut piece = vec![0; needed - buffer.len()];
        let n = stream.read(&mut piece)?;
        if n == 0 {
            return Err("the client disconnected".into());
        }
        buffer.extend_from_slice(piece.get(..n).unwrap_or_default());
    }
}
