//! The .NET processes of a host, as records and as a table.

use std::io::{self, Write};

use serde::Serialize;

use crate::report::table::{Column, FAINT, GAP, MARK, head, left, right, row, wrapped};
use crate::report::units::UNKNOWN;

/// `kind: "process"`: a .NET process, or a socket that one left behind.
#[derive(Debug, Clone, Serialize)]
pub struct ProcessRecord {
    /// Always `process`.
    pub kind: &'static str,
    /// Pid on this host.
    pub pid: u32,
    /// Pid in its own namespace.
    pub ns_pid: u32,
    /// Its service where its environment names one, else its entry assembly or program; `None` for a socket without a
    /// process.
    pub name: Option<String>,
    /// Version of its runtime.
    pub runtime: Option<String>,
    /// Its diagnostics socket.
    pub socket: Option<String>,
    /// Whether it responded to a query.
    pub attachable: bool,
    /// Why it is unattachable, in one word.
    pub reason: Option<&'static str>,
    /// The reason in a sentence, with the remedy.
    pub detail: Option<String>,
}

const COLUMNS: [Column; 5] = [
    right("pid", 7),
    left("name", 28),
    left("runtime", 9),
    left("attach", 16),
    left("what to do", 0),
];

/// Characters before the last column.
const BEFORE_DETAIL: usize = {
    let [pid, name, runtime, attach, _] = COLUMNS;
    pid.width + name.width + runtime.width + attach.width + 4 * GAP
};

/// Writes the headings and a line per process.
///
/// # Errors
///
/// When the output cannot be written.
pub fn write(out: &mut dyn Write, processes: &[ProcessRecord]) -> io::Result<()> {
    if processes.is_empty() {
        return writeln!(out, "no .NET process on this host that this user can see");
    }
    head(out, &COLUMNS)?;
    for process in processes {
        let or_unknown = |text: &Option<String>| text.clone().unwrap_or_else(|| UNKNOWN.to_owned());
        let attach = match process.reason {
            None => "yes".to_owned(),
            // Padded here: the column counts the style's characters too.
            Some(reason) => format!("{MARK}{reason:<16}{MARK:#}"),
        };
        let detail = process
            .detail
            .as_ref()
            .map(|detail| format!("{FAINT}{}{FAINT:#}", wrapped(detail, BEFORE_DETAIL)))
            .unwrap_or_default();
        let cells = [
            process.pid.to_string(),
            or_unknown(&process.name),
            or_unknown(&process.runtime),
            attach,
            detail,
        ];
        row(out, &COLUMNS, &cells)?;
    }
    Ok(())
}
