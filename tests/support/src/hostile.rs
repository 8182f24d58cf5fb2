//! A hostile runtime: a process that serves the diagnostics protocol on the socket that a .NET runtime with its pid
//! would have, and that misbehaves in the way that a named mode defines.
//!
//! ```text
//! cargo run -p gcwatch-test-support --features hostile --bin hostile-runtime -- --list
//! cargo run -p gcwatch-test-support --features hostile --bin hostile-runtime -- time-stands-still
//! cargo run -p gcwatch-test-support --features hostile --bin hostile-runtime -- --capture tests/recordings/hostile
//! ```
//!
//! Like any .NET process, a hostile runtime is found by its socket `dotnet-diagnostic-PID-STARTTIME-socket` in `TMPDIR`
//! or `/tmp`. The program can therefore test any agent, without gcwatch. The program runs until it is killed, or with
//! `--with-stdin` until its standard input ends. Test binaries start themselves as this program; see [`as_program`].

mod forge;
mod modes;
pub mod serve;

use std::io::{Read as _, Write as _};
use std::process::ExitCode;

pub use modes::{MODES, Mode};

/// First argument with which a test binary becomes this program.
pub const ARGUMENT: &str = "--hostile-runtime";

const USAGE: &str = "usage: hostile-runtime [--with-stdin] MODE | --list | --capture FOLDER\n\
    \n\
    A process that poses as a .NET runtime and misbehaves.\n\
    --list: list the modes.\n\
    --capture: write the start of each mode's stream to FOLDER/MODE.nettrace.gz.\n\
    --with-stdin: exit when the standard input ends.";

/// Runs the program if the arguments start with [`ARGUMENT`], because a test binary starts itself as a child. Returns
/// `None` otherwise.
pub fn as_program() -> Option<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    (arguments.next()? == ARGUMENT).then(|| program(arguments))
}

/// Runs the program with the arguments after its name.
pub fn program(mut arguments: impl Iterator<Item = String>) -> ExitCode {
    let mut out = std::io::stdout();
    let (mut with_stdin, mut mode) = (false, None);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--capture" => {
                let Some(folder) = arguments.next() else { break };
                let Err(error) = serve::capture_all(folder.as_ref()) else {
                    return ExitCode::SUCCESS;
                };
                let _closed = writeln!(std::io::stderr(), "cannot capture: {error}; pass a folder that exists");
                return ExitCode::FAILURE;
            }
            "--list" => {
                for Mode { name, about, .. } in MODES {
                    let _closed = writeln!(out, "{name:22} {about}");
                }
                return ExitCode::SUCCESS;
            }
            "--with-stdin" => with_stdin = true,
            name => mode = MODES.iter().find(|mode| mode.name == name),
        }
    }
    let Some(mode) = mode else {
        let _closed = writeln!(std::io::stderr(), "{USAGE}");
        return ExitCode::from(2);
    };
    let path = match serve::begin(mode) {
        Ok(path) => path,
        Err(error) => {
            let _closed = writeln!(std::io::stderr(), "cannot listen: {error}");
            return ExitCode::FAILURE;
        }
    };
    let _closed = writeln!(out, "ready {}", path.display()).and_then(|()| out.flush());
    if with_stdin {
        let _ended = std::io::stdin().read_to_end(&mut Vec::new());
        // A runtime that exits cleanly also removes its socket.
        let _gone = std::fs::remove_file(&path);
        return ExitCode::SUCCESS;
    }
    loop {
        std::thread::park();
    }
}
