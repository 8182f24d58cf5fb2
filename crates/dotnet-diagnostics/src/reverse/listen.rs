//! A listening socket whose file is created and deleted only by its owner.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener as StdListener;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use tokio::net::UnixListener;

use crate::discovery::MAX_SOCKET_PATH_BYTES;
use crate::error::Error;

/// Maximum number of connections that wait to be accepted, as for a runtime's own socket.
const BACKLOG: i32 = 255;

/// The file of a listening socket. On drop, the file is deleted if the path still refers to this file.
#[derive(Debug)]
pub(super) struct BoundSocket {
    path: PathBuf,
    /// Open descriptor of the file, which is not read. The descriptor prevents reuse of the inode number before the
    /// comparison.
    file: OwnedFd,
}

impl BoundSocket {
    pub(super) fn bind(path: &Path) -> Result<(Self, UnixListener), Error> {
        let port = |problem: String| Error::Port {
            path: path.to_path_buf(),
            problem,
        };
        let length = path.as_os_str().len();
        if length > MAX_SOCKET_PATH_BYTES {
            return Err(port(format!(
                "the path has {length} bytes, and a runtime can connect to at most {MAX_SOCKET_PATH_BYTES}; choose a \
                 shorter path"
            )));
        }
        let system = |errno: Errno| port(format!("{}; choose another path", std::io::Error::from(errno)));
        let address = SocketAddrUnix::new(path).map_err(system)?;
        let socket = stream_socket().map_err(system)?;
        // The file inherits the mode of the unbound socket, so other users can never connect.
        rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR).map_err(system)?;
        match rustix::net::bind(&socket, &address) {
            Err(Errno::ADDRINUSE) => {
                remove_dead(path, &address).map_err(port)?;
                rustix::net::bind(&socket, &address).map_err(system)?;
            }
            other => other.map_err(system)?,
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::empty()).map_err(system)?;
        let bound = Self {
            path: path.to_path_buf(),
            file,
        };
        rustix::net::listen(&socket, BACKLOG).map_err(system)?;
        let listener = UnixListener::from_std(StdListener::from(socket)).map_err(|error| port(error.to_string()))?;
        Ok((bound, listener))
    }
}

impl Drop for BoundSocket {
    fn drop(&mut self) {
        let ours = match (rustix::fs::lstat(&self.path), rustix::fs::fstat(&self.file)) {
            (Ok(now), Ok(made)) => (now.st_dev, now.st_ino) == (made.st_dev, made.st_ino),
            _ => false,
        };
        if ours {
            // The error is ignored: the file is now stale, and the next listener on this path replaces it.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn stream_socket() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

/// Deletes a socket file on which no process listens. Any other file is kept, and the reason is returned.
fn remove_dead(path: &Path, address: &SocketAddrUnix) -> Result<(), String> {
    let stat = rustix::fs::lstat(path).map_err(|errno| std::io::Error::from(errno).to_string())?;
    if rustix::fs::FileType::from_raw_mode(stat.st_mode) != rustix::fs::FileType::Socket {
        return Err("the file exists and is not a socket; choose another path".to_owned());
    }
    let probe = stream_socket().map_err(|errno| std::io::Error::from(errno).to_string())?;
    match rustix::net::connect(&probe, address) {
        Err(Errno::CONNREFUSED) => std::fs::remove_file(path)
            .map_err(|error| format!("no process listens on the socket, and its file cannot be deleted: {error}")),
        Ok(()) | Err(Errno::AGAIN) => {
            Err("another process listens on the path; stop that process or choose another path".to_owned())
        }
        Err(errno) => Err(format!(
            "the socket exists, and connecting to it failed: {}",
            std::io::Error::from(errno)
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn problem(path: &Path) -> String {
        match BoundSocket::bind(path) {
            Err(Error::Port { problem, .. }) => problem,
            other => panic!("not refused: {other:?}"),
        }
    }

    /// Scenario: a path is bound, bound again while the socket is live, left stale, occupied by a file, and too long.
    /// Guarantee: the file has mode 0600; a live socket and a foreign file are kept and reported; a stale socket is
    /// replaced; the listener deletes its own file.
    #[tokio::test]
    async fn stale_socket_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("port");
        let (bound, listener) = BoundSocket::bind(&path).unwrap();
        let mode = std::fs::symlink_metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(problem(&path).contains("another process listens"));
        drop(listener);
        let (second, _listener) = BoundSocket::bind(&path).expect("the stale file is replaced");
        drop(bound);
        assert!(path.exists(), "the first owner keeps the file of the second socket");
        drop(second);
        assert!(!path.exists());

        std::fs::write(&path, b"precious").unwrap();
        assert!(problem(&path).contains("not a socket"));
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
        assert!(problem(&directory.path().join("x".repeat(120))).contains("107"));
    }
}
