//! A parser for `/proc/PID/net/unix`, the kernel's table of Unix sockets, as a pure function.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::socket_name::SocketName;

/// Listening flag (`__SO_ACCEPTCON`).
const LISTENING: u32 = 0x0001_0000;
/// State of an accepted connection (`SS_CONNECTED`). A connection that is still queued is `SS_CONNECTING`, 2.
const CONNECTED: u32 = 3;
/// Maximum length of a line, in bytes: seven short fields, and a path of at most 108 bytes.
const MAX_LINE: usize = 512;

/// The relevant fields of a line in the format of `unix_seq_show`: `Num RefCount Protocol Flags Type St Inode Path`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    flags: u32,
    state: u32,
    inode: u64,
    /// Path as passed to `bind` by the listener; `@...` is abstract. A path can contain blanks.
    pub(super) path: &'a [u8],
}

impl<'a> Line<'a> {
    /// Parses a line. Returns `None` if the socket has no path, or if the line is truncated.
    pub(super) fn parse(line: &'a [u8]) -> Option<Self> {
        let mut rest = line;
        let mut fields = [b"".as_slice(); 7];
        for field in &mut fields {
            let start = rest.iter().position(|byte| *byte != b' ')?;
            rest = rest.get(start..)?;
            let end = rest.iter().position(|byte| *byte == b' ')?;
            (*field, rest) = rest.split_at_checked(end)?;
        }
        let [_, _, _, flags, _, state, inode] = fields.map(|field| std::str::from_utf8(field).ok());
        Some(Self {
            flags: u32::from_str_radix(flags?, 16).ok()?,
            state: u32::from_str_radix(state?, 16).ok()?,
            inode: inode?.parse().ok()?,
            path: rest.strip_prefix(b" ")?,
        })
    }

    pub(super) fn listens(&self) -> bool {
        self.flags & LISTENING != 0
    }

    /// Returns the runtime in the file name of the path, or `None` if the path is abstract or its file name is not the
    /// name of a runtime's socket.
    pub(super) fn runtime(&self) -> Option<SocketName> {
        if !self.path.starts_with(b"/") {
            return None;
        }
        let name = self.path.rsplit(|&byte| byte == b'/').next()?;
        SocketName::parse(std::str::from_utf8(name).ok()?)
    }
}

/// A connection that a runtime has accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AcceptedConnection<'a> {
    /// Pid and start time in the path of the socket.
    pub name: SocketName,
    /// Path as bound by the listener, in its own mount namespace.
    pub path: &'a Path,
    /// Inode of the runtime's end of the connection. It is unique on the host while the connection is open.
    pub inode: u64,
}

/// A parser that finds accepted connections to runtimes in `/proc/PID/net/unix`. The parser accepts the table in
/// chunks, because the table of a host can be long.
///
/// The kernel lists the runtime's end of a connection in the network namespace of the process that *connected*
/// (`unix_stream_connect`). The table of a process contains the connections of tools in its own pod, and the table of
/// the host contains the connections of tools on the host.
///
/// Any process can bind any path in its own mount namespace, so an entry does not prove that a runtime listens. A
/// connection that the runtime has not accepted yet is omitted, because the runtime has not read a command from it.
#[derive(Clone, Debug, Default)]
pub struct AcceptedConnections {
    /// The start of a line whose end has not been received.
    line: Vec<u8>,
    /// Whether the current line is too long and is skipped.
    skips: bool,
}

impl AcceptedConnections {
    /// Consumes the next chunk of the table, and calls `found` for each accepted connection in it. Bytes after the last
    /// line feed are retained for the next chunk.
    pub fn take(&mut self, piece: &[u8], mut found: impl FnMut(AcceptedConnection<'_>)) {
        let mut lines = piece.split(|&byte| byte == b'\n');
        let rest = lines.next_back().unwrap_or_default();
        for line in lines {
            if self.line.is_empty() && !self.skips {
                report(line, &mut found);
                continue;
            }
            self.append(line);
            if !std::mem::take(&mut self.skips) {
                report(&self.line, &mut found);
            }
            self.line.clear();
        }
        self.append(rest);
    }

    fn append(&mut self, part: &[u8]) {
        self.skips |= self.line.len() + part.len() > MAX_LINE;
        if self.skips {
            self.line.clear();
        } else {
            self.line.extend_from_slice(part);
        }
    }
}

fn report(line: &[u8], found: &mut impl FnMut(AcceptedConnection<'_>)) {
    let Some(line) = Line::parse(line) else { return };
    if line.listens() || line.state != CONNECTED {
        return;
    }
    if let Some(name) = line.runtime() {
        let path = Path::new(OsStr::from_bytes(line.path));
        let inode = line.inode;
        found(AcceptedConnection { name, path, inode });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[u8] = b"Num       RefCount Protocol Flags    Type St Inode Path\n\
        0000000085afe34c: 00000002 00000000 00010000 0001 01 477651 /tmp/dotnet-diagnostic-3-4-socket\n\
        00000000edbf5fa6: 00000003 00000000 00000000 0001 02 0 /tmp/dotnet-diagnostic-3-4-socket\n\
        00000000edbf5fa7: 00000003 00000000 00000000 0001 03 477654 /tmp/dotnet-diagnostic-3-4-socket\n\
        00000000edbf5fa8: 00000002 00000000 00000000 0001 03 477655 /tmp/a  b/dotnet-diagnostic-5-6-socket\n\
        00000000edbf5fa9: 00000003 00000000 00000000 0001 03 477656\n\
        00000000edbf5faa: 00000003 00000000 00000000 0001 03 477657 @/dotnet-diagnostic-3-4-socket\n\
        00000000edbf5fab: 00000003 00000000 00000000 0001 03 477658 /run/x.sock\n\
        00000000edbf5fac: 00000003 00000000 00000000 0001 03 4776";

    fn found_in(pieces: &[&[u8]]) -> Vec<(SocketName, String, u64)> {
        let (mut table, mut found) = (AcceptedConnections::default(), Vec::new());
        for piece in pieces {
            table.take(piece, |entry| {
                found.push((entry.name, entry.path.to_string_lossy().into_owned(), entry.inode));
            });
        }
        found
    }

    /// Scenario: a table of Linux 6.18 contains a listener, a queued connection, accepted connections, a connection
    /// without a path, a connection with an abstract name, sockets of other programs and a truncated line.
    /// Guarantee: only the accepted connections to runtime paths are found.
    #[test]
    fn accepted_connection_is_found() {
        let name = |pid, key| SocketName { pid, key };
        let expected = [
            (name(3, 4), "/tmp/dotnet-diagnostic-3-4-socket".to_owned(), 477_654),
            (name(5, 6), "/tmp/a  b/dotnet-diagnostic-5-6-socket".to_owned(), 477_655),
        ];
        assert_eq!(found_in(&[TABLE]), expected);
    }

    /// Scenario: the table arrives in two chunks, cut at every byte, and in chunks of one byte.
    /// Guarantee: the same connections are found.
    #[test]
    fn chunk_size_does_not_change_result() {
        let whole = found_in(&[TABLE]);
        for cut in 0..TABLE.len() {
            let (a, b) = TABLE.split_at(cut);
            assert_eq!(found_in(&[a, b]), whole, "cut at {cut}");
        }
        let bytes: Vec<&[u8]> = TABLE.chunks(1).collect();
        assert_eq!(found_in(&bytes), whole);
    }

    /// Scenario: a line is very long and arrives in many chunks; the table follows.
    /// Guarantee: at most one line is retained, and the lines after it are found.
    #[test]
    fn endless_line_is_bounded() {
        let (mut table, mut found) = (AcceptedConnections::default(), 0);
        for _ in 0..10_000 {
            table.take(&[b'x'; 100], |_| found += 1);
            assert!(table.line.len() <= MAX_LINE);
        }
        table.take(b"\n", |_| found += 1);
        assert_eq!(found, 0);
        table.take(TABLE, |_| found += 1);
        assert_eq!(found, 2);
    }
}
