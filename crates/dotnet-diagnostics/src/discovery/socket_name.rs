//! The name of a runtime's socket.

use std::fmt;

/// Maximum length of the path of a listening socket, in bytes: `sun_path` has 108 bytes including the final NUL. A
/// client can connect to longer paths through a file descriptor.
pub const MAX_SOCKET_PATH_BYTES: usize = 107;

const PREFIX: &str = "dotnet-diagnostic-";
const SUFFIX: &str = "-socket";

/// The parts of a socket file name: `dotnet-diagnostic-{pid}-{key}-socket`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SocketName {
    /// Process id in the pid namespace of the runtime.
    pub pid: u32,
    /// Start time of the process in clock ticks since boot (field 22 of `stat`); 0 if the runtime could not read it.
    pub key: u64,
}

impl SocketName {
    /// Parses a file name. Returns `None` for any other name, including the sockets of dotnet-dsrouter
    /// (`dotnet-diagnostic-dsrouter-...`), on which no runtime listens.
    pub fn parse(name: &str) -> Option<Self> {
        let (pid, key) = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?.split_once('-')?;
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(pid) || !digits(key) {
            return None;
        }
        Some(Self {
            pid: pid.parse().ok()?,
            key: key.parse().ok()?,
        })
    }
}

impl fmt::Display for SocketName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}-{}{SUFFIX}", self.pid, self.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: names are created by runtimes, dsrouter and other programs.
    /// Guarantee: only the name of a runtime's socket is parsed, and it round-trips.
    #[test]
    fn only_runtime_socket_name_is_parsed() {
        let name = "dotnet-diagnostic-1234-9876543-socket";
        assert_eq!(
            SocketName::parse(name),
            Some(SocketName {
                pid: 1234,
                key: 9_876_543
            })
        );
        assert_eq!(
            SocketName {
                pid: 1234,
                key: 9_876_543
            }
            .to_string(),
            name
        );
        for other in [
            "dotnet-diagnostic-dsrouter-1234-9876543-socket",
            "dotnet-diagnostic-1234-socket",
            "dotnet-diagnostic--1-socket",
            "dotnet-diagnostic-+1-1-socket",
            "dotnet-diagnostic-1-1-1-socket",
            "dotnet-diagnostic-99999999999-1-socket",
            "clr-debug-pipe-1234-9876543-in",
            "",
        ] {
            assert_eq!(SocketName::parse(other), None, "{other}");
        }
    }
}
