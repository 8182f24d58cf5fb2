//! The .NET processes of a host, as records and as a table.

use std::io::{self, Write};

use serde::Serialize;

use crate::table::{self, Column, FAINT, GAP, MARK, head, left, right, row, wrapped};
use crate::units::known;

/// `kind: "process"`: a .NET process, or a socket that a process left behind.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(tag = "kind", rename = "process")]
pub struct ProcessRecord {
    /// Pid on this host.
    pub pid: u32,
    /// Pid in the process's own namespace.
    pub ns_pid: u32,
    /// Name of the service if the environment sets one, or of the entry assembly or program; `None` for a socket
    /// without a process.
    pub name: Option<String>,
    /// Version of the runtime.
    pub runtime: Option<String>,
    /// Path of the diagnostics socket.
    pub socket: Option<String>,
    /// Whether the process responded to a query.
    pub attachable: bool,
    /// Reason why the process cannot be attached to, as one word.
    pub reason: Option<&'static str>,
    /// Reason in a sentence, with the remedy.
    pub detail: Option<String>,
}

const COLUMNS: [Column; 5] = [
    right("pid", 7),
    left("name", 28),
    left("runtime", 9),
    left("attach", 16),
    left("what to do", 0),
];

/// Reason and verdict for a process that belongs to another user.
pub const PERMISSION: &str = "permission";

/// Indentation of the advice below a line.
const DETAIL_INDENT: usize = 9;

/// Number of characters before the last column.
const BEFORE_DETAIL: usize = {
    let [pid, name, runtime, attach, _] = COLUMNS;
    pid.width + name.width + runtime.width + attach.width + 4 * GAP
};

/// Minimum width of a terminal in which the advice fits next to the other columns.
const WIDE: usize = 140;

/// Writes the headings and one line per process. `sudo` is the command to repeat as root if gcwatch lacks the rights to
/// reach processes of other users. The command is written once, before the table.
pub fn write(out: &mut dyn Write, processes: &[ProcessRecord], sudo: Option<&str>) -> io::Result<()> {
    if processes.is_empty() {
        return writeln!(out, "no .NET process on this host that this user can see");
    }
    let refused = |process: &ProcessRecord| sudo.is_some() && process.reason == Some(PERMISSION);
    let others = processes.iter().filter(|process| refused(process)).count();
    if let Some(command) = sudo {
        permission(out, others, command)?;
    }
    let narrow = table::columns().is_some_and(|columns| columns < WIDE);
    head(out, if narrow { &COLUMNS[..4] } else { &COLUMNS })?;
    for process in processes {
        let attach = match process.reason {
            None => "yes".to_owned(),
            Some(reason) if narrow || refused(process) => format!("{MARK}{reason}{MARK:#}"),
            // The reason is padded here, because the column would also count the characters of the style.
            Some(reason) => format!("{MARK}{reason:<16}{MARK:#}"),
        };
        let detail = process.detail.as_ref().filter(|_| !refused(process));
        let indent = if narrow { DETAIL_INDENT } else { BEFORE_DETAIL };
        let detail = detail
            .map(|detail| format!("{FAINT}{}{FAINT:#}", wrapped(detail, indent)))
            .unwrap_or_default();
        let cells = [
            process.pid.to_string(),
            known(process.name.as_ref()),
            known(process.runtime.as_ref()),
            attach,
            detail,
        ];
        if !narrow {
            row(out, &COLUMNS, &cells)?;
            continue;
        }
        // The advice does not fit next to the columns, so it is written below them.
        row(out, &COLUMNS[..4], &cells[..4])?;
        if !cells[4].is_empty() {
            writeln!(out, "{:DETAIL_INDENT$}{}", "", cells[4])?;
        }
    }
    Ok(())
}

/// Writes one sentence for all processes of other users, or nothing if `others` is 0.
pub fn permission(out: &mut dyn Write, others: usize, command: &str) -> io::Result<()> {
    match others {
        0 => Ok(()),
        1 => writeln!(
            out,
            "{MARK}1 process belongs to another user.{MARK:#} Run `sudo {command}`.\n"
        ),
        others => writeln!(
            out,
            "{MARK}{others} processes belong to other users.{MARK:#} Run `sudo {command}`.\n"
        ),
    }
}
