//! A parser of `/proc/PID/net/unix`, the kernel's table of Unix sockets: a pure function of its bytes.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::socket_name::SocketName;

/// Listening flag (`__SO_ACCEPTCON`).
const LISTENING: u32 = 0x0001_0000;
/// State of a connection that was accepted (`SS_CONNECTED`). One that still waits in the queue is `SS_CONNECTING`, 2.
const CONNECTED: u32 = 3;
/// Longest line that is read: seven short fields, and a path of at most 108 bytes.
const MAX_LINE: usize = 512;

/// The fields of a line that are used, as `unix_seq_show` writes them: `Num RefCount Protocol Flags Type St Inode
/// Path`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    flags: u32,
    state: u32,
    inode: u64,
    /// As it was bound, by whom it was bound; `@...` is abstract. A path may hold blanks.
    pub(super) path: &'a [u8],
}

impl<'a> Line<'a> {
    /// `None`: the socket has no path, or the line is cut.
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

    /// The runtime that the path's file name is of.
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
    /// The name in the socket's path.
    pub name: SocketName,
    /// The path, as whoever listens bound it: in its own mount namespace.
    pub path: &'a Path,
    /// The runtime's end of the connection: no other socket of the host has this number as long as it is open.
    pub inode: u64,
}

/// Finds the accepted connections to runtimes in `/proc/PID/net/unix`, piece by piece: the table of a host may be long.
///
/// The kernel lists the runtime's end of a connection in the network namespace of whoever *connected*
/// (`unix_stream_connect`): a process's table has the connections of tools in its own pod, and those of tools on the
/// host are in the host's.
///
/// Anybody may bind any path in a mount namespace of its own, so that an entry proves nothing. A connection that the
/// runtime has not accepted yet is left out, as no command of it has been read.
#[derive(Clone, Debug, Default)]
pub struct AcceptedConnections {
    /// The beginning of a line whose end has not come.
    line: Vec<u8>,
    /// It is too long, and left out.
    skips: bool,
}

impl AcceptedConnections {
    /// Takes the next piece of the table. What follows the last line feed waits for the next piece.
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

    /// Scenario: a table as Linux 6.18 wrote it: a listener, a connection that waits to be accepted, accepted ones,
    /// one without a path, one on an abstract name, others' and a cut line.
    /// Guarantee: the accepted connections to paths of runtimes are found, and no others.
    #[test]
    fn accepted_connections_are_found() {
        let name = |pid, key| SocketName { pid, key };
        let expected = [
            (name(3, 4), "/tmp/dotnet-diagnostic-3-4-socket".to_owned(), 477_654),
            (name(5, 6), "/tmp/a  b/dotnet-diagnostic-5-6-socket".to_owned(), 477_655),
        ];
        assert_eq!(found_in(&[TABLE]), expected);
    }

    /// Scenario: the same table in two pieces, cut at every byte, and in pieces of one byte.
    /// Guarantee: the same connections.
    #[test]
    fn pieces_make_no_difference() {
        let whole = found_in(&[TABLE]);
        for cut in 0..TABLE.len() {
            let (a, b) = TABLE.split_at(cut);
            assert_eq!(found_in(&[a, b]), whole, "cut at {cut}");
        }
        let bytes: Vec<&[u8]> = TABLE.chunks(1).collect();
        assert_eq!(found_in(&bytes), whole);
    }

    /// Scenario: a line that never ends, in many pieces, and the table after it.
    /// Guarantee: at most one line's bytes are kept, and the lines after it are found.
    #[test]
    fn a_line_without_an_end_is_bounded() {
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
