//! The name of a runtime's socket.

use std::fmt;

/// Longest path in bytes that a runtime can listen on: `sun_path` has 108 bytes with the final NUL. (A client can reach
/// longer ones through a file descriptor.)
pub const MAX_SOCKET_PATH_BYTES: usize = 107;

const PREFIX: &str = "dotnet-diagnostic-";
const SUFFIX: &str = "-socket";

/// The parts of a socket's file name: `dotnet-diagnostic-{pid}-{key}-socket`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SocketName {
    /// Process id in the runtime's own pid namespace.
    pub pid: u32,
    /// Start time of the process in clock ticks since boot (field 22 of its `stat`); 0 when the runtime could not read
    /// it.
    pub key: u64,
}

impl SocketName {
    /// Reads a file name. `None` for anything else, the sockets of dotnet-dsrouter (`dotnet-diagnostic-dsrouter-...`)
    /// included: no runtime listens on those.
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

    /// Scenario: names as runtimes, dsrouter and others make them.
    /// Guarantee: only a runtime's is read, and it is written the same way.
    #[test]
    fn only_runtimes_names_are_read() {
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
